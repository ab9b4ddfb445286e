# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths that a user's target chooses: root opens nothing by them but files that the user could read."""
import os
import re
import stat
import subprocess
import time
import zlib

from harness import Daemon, Skip, at_exit, need_tool, spawn, temporary_dir
from users import ALICE, MALLORY, as_user, file_of, folder_of, program, start_as

# What opens by itself: the daemon's own, and directories.
UNFINISHED = " <unfinished ...>"
OPENED = re.compile(r"\bopen(?:at2?)?\((.*)\) = \d+<([^>]*)>$")


class Trace:
    """The files that the daemon opens, one after the other."""

    def __init__(self, daemon):
        self.path = os.path.join(temporary_dir(), "trace")
        calls = "trace=open,openat,openat2"
        argv = [need_tool("strace"), "-f", "-y", "-e", calls, "-o", self.path, "-p", daemon.process.pid]
        self.process = spawn(argv, stderr=subprocess.PIPE)
        if b"attached" not in self.process.stderr.readline():
            raise Skip("the daemon cannot be traced")

    def opened(self):
        self.process.terminate()
        self.process.wait()
        with open(self.path, encoding="utf-8", errors="replace") as f:
            found = [OPENED.search(line) for line in whole_calls(f)]
        return [(m.group(2), m.group(1)) for m in found if m]


def whole_calls(lines):
    """A call during which another thread was traced stands in two halves."""
    begun = {}
    for line in lines:
        thread, call = line.rstrip().split(maxsplit=1)
        if call.endswith(UNFINISHED):
            begun[thread] = call.removesuffix(UNFINISHED)
        elif call.startswith("<... "):
            yield begun.pop(thread, "") + call.partition("resumed>")[2]
        else:
            yield call


def is_harmless(path, arguments):
    if "O_PATH" in arguments or path.startswith(("/proc", "/sys")):
        return True
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def with_sections(folder, **sections):
    """A program of Mallory's with these sections, which the linker's are not."""
    path = os.path.join(folder, "program")
    argv = [need_tool("objcopy")]
    for name, content in sections.items():
        source = file_of(0, os.path.join(temporary_dir(), name), content)
        argv += ["--add-section", f".{name}={source}"]
    subprocess.run([*argv, program("split-stripped"), path], check=True)
    os.chmod(path, 0o755)
    return path


def look_at(target_path):
    """What a profile of it makes the daemon open."""
    daemon = Daemon("--no-cache")
    trace = Trace(daemon)
    target = start_as(MALLORY, [target_path, "600"])
    daemon.request("GET", f"/debug/pprof/profile?pid={target.pid}&seconds=1")
    time.sleep(1)
    opened = trace.opened()
    assert any(path == target_path for path, _ in opened), opened
    wrong = [(path, arguments) for path, arguments in opened if not is_harmless(path, arguments)]
    assert not wrong, wrong
    assert daemon.stop() == 0
    return [path for path, arguments in opened if "O_PATH" not in arguments]


def test_debug_link():
    folder = folder_of(MALLORY)
    os.mkfifo(os.path.join(folder, "link.debug"))
    os.mkdir(os.path.join(folder, ".debug"))
    os.symlink("/dev/zero", os.path.join(folder, ".debug", "link.debug"))
    look_at(with_sections(folder, gnu_debuglink=b"link.debug\0\0" + b"crc!"))


def test_alternative_link():
    sections = {"debug_info": b"x" * 64, "debug_line": b"x" * 64, "gnu_debugaltlink": b"/dev/zero\0" + b"i" * 20}
    look_at(with_sections(folder_of(MALLORY), **sections))


def test_roots_debug_file():
    folder = folder_of(MALLORY)
    secret = file_of(0, os.path.join(folder, "link.debug"), b"\x7fELF, and what nobody is to know", mode=0o600)
    assert secret not in look_at(with_sections(folder, gnu_debuglink=b"link.debug\0\0" + b"crc!"))


def names_with_debug_file_of(uid):
    """A stripped program of Mallory's, and whether its functions have the names that a debug file of `uid` has."""
    folder = folder_of(MALLORY)
    debug = os.path.join(folder, "link.debug")
    subprocess.run([need_tool("objcopy"), "--only-keep-debug", program("split"), debug], check=True)
    with open(debug, "rb") as f:
        link = b"link.debug\0\0" + zlib.crc32(f.read()).to_bytes(4, "little")
    os.chown(debug, uid, uid)
    os.chmod(debug, 0o644)
    path = with_sections(folder, gnu_debuglink=link)
    os.chown(path, MALLORY, MALLORY)
    recording = Daemon("--no-cache").record(start_as(MALLORY, [path, "600"]).pid, duration=1).check_totals()
    assert recording.samples > 20, recording.stats
    return recording.count("main") > 0


def test_another_users_debug_file():
    """Nobody but the program's owner and root says what its functions are called: a checksum is easily made."""
    assert names_with_debug_file_of(MALLORY) and names_with_debug_file_of(0)
    assert not names_with_debug_file_of(ALICE)


def anonymous_code(pid):
    """Where the target has code in no file."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        found = [line.split() for line in f]
    return next(int(words[0].split("-")[0], 16) for words in found if words[1] == "r-xp" and len(words) == 5)


def with_map(mode):
    """Records code made at run time, with root's file of this mode mounted where the names of such code are."""
    names = file_of(0, os.path.join(temporary_dir(), "names"), mode=mode)
    script = f"touch /tmp/perf-$$.map && mount --bind {names} /tmp/perf-$$.map && exec {program('jitter')} fp 600"
    unshare = [need_tool("unshare"), "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], preexec_fn=as_user(MALLORY), capture_output=True, check=False).returncode:
        raise Skip("users cannot make namespaces here")
    target = start_as(MALLORY, [*unshare, "sh", "-c", script])
    at_exit(os.unlink, f"/tmp/perf-{target.pid}.map")
    with open(names, "w", encoding="ascii") as f:
        f.write(f"{anonymous_code(target.pid):x} 1000 what_root_knows\n")
    return Daemon().record(target.pid).check_totals()


def test_mounted_map():
    assert with_map(0o644).count("what_root_knows") > 0
    assert with_map(0o600).count("what_root_knows") == 0
