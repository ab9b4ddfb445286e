# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong, goes wrong in one clear line and with its exit status: 1 failed, 2 wrong usage."""
import os
import random
import shutil
import signal
import struct
import subprocess
import time

from harness import (
    LONG,
    STAKEOUT,
    STAKEOUTD,
    Daemon,
    Skip,
    Target,
    at_exit,
    need_bpf,
    need_namespaces,
    need_tool,
    one_clear_line,
    record,
    run,
    spawn,
    start,
    temporary_dir,
    wait_until,
    workload,
)
from strangers import readable_client


def refused(arguments, status, *words, **options):
    """The client refuses at once, with one line that holds the words."""
    result = run([STAKEOUT, *arguments], **options)
    said = f"{arguments}: status {result.returncode}, {result.stdout!r}, {result.stderr!r}"
    assert result.returncode == status, said
    assert result.stdout == "", said
    line = one_clear_line(result.stderr)
    assert all(word.lower() in line.lower() for word in words), f"{words} not in: {line}"
    return line


def gone_pid():
    process = spawn(["true"])
    process.wait()
    return process.pid


def test_no_such_pid():
    need_bpf()
    pid = gone_pid()
    refused(["record", "-p", pid, "-d", "600", "-o", "-"], 1, str(pid))


def test_largest_pid():
    need_bpf()
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as f:
        pid = f.read().strip()
    refused(["record", "-p", pid, "-d", "600", "-o", "-", "-f", "folded"], 1, pid)


def test_kernel_thread():
    need_bpf()
    if os.path.exists("/proc/2/exe") and os.access("/proc/2/exe", os.R_OK):
        raise Skip("PID 2 is no kernel thread here")
    refused(["record", "-p", "2", "-d", "600", "-o", "-"], 1, "kernel thread")


def test_zombie():
    need_bpf()
    process = subprocess.Popen(["true"])  # pylint: disable=R1732
    at_exit(process.wait)
    wait_until(lambda: open(f"/proc/{process.pid}/stat", encoding="ascii").read().split()[2] == "Z", "a zombie")
    refused(["record", "-p", process.pid, "-d", "600", "-o", "-"], 1, "zombie")


def test_wrong_usage():
    """Each is found before anything starts."""
    pid = str(os.getpid())
    cases = [
        (["record", "-p", pid, "-r", "0"], "rate"),
        (["record", "-p", pid, "-r", "1000000000"], "rate"),
        (["record", "-p", pid, "-r", "-5"], "rate"),
        (["record", "-p", pid, "-r", "ten"], "rate"),
        (["record", "-p", pid, "-r", "99999999999999999999"], "rate"),
        (["record", "-p", pid, "-d", "-1"], "duration"),
        (["record", "-p", pid, "-d", "soon"], "duration"),
        (["record", "-p", pid, "-d", "nan"], "duration"),
        (["record", "-p", pid, "-f", "gif"], "gif"),
        (["record", "-p", "0"], "process"),
        (["record", "-p", "-7"], "process"),
        (["record", "-p", "init"], "process"),
        (["record", "-p", "99999999999999999999"], "process"),
        (["record"], "-p"),
        (["record", "-p"], "-p"),
        (["record", "-p", pid, "extra"], "extra"),
        (["record", "-p", pid, "--frobnicate"], "frobnicate"),
        (["frobnicate"], "frobnicate"),
        (["--frobnicate"], "frobnicate"),
    ]
    for arguments, word in cases:
        refused(arguments, 2, word)


def test_daemon_wrong_usage():
    for arguments in (["--frobnicate"], ["extra"], ["--socket"], ["--socket-mode", "9"], ["--counts-entries", "x"]):
        result = run([STAKEOUTD, *arguments])
        assert result.returncode == 2, f"{arguments}: {result.returncode} {result.stderr}"
        one_clear_line(result.stderr)


def test_help_and_version():
    for arguments in (["--help"], ["record", "--help"], ["--version"]):
        result = run([STAKEOUT, *arguments])
        assert result.returncode == 0 and result.stdout and not result.stderr, f"{arguments}: {result}"


def test_unwritable_output():
    """Found before the recording, not after it."""
    need_bpf()
    target = start("split", 600)
    refused(["record", "-p", target.pid, "-d", "600", "-o", "/nonexistent/out.folded"], 1, "/nonexistent/out.folded")
    refused(["record", "-p", target.pid, "-d", "600", "-o", temporary_dir()], 1)
    refused(
        ["record", "-p", target.pid, "-d", "600", "-o", os.devnull, "-f", "folded", "--stats", "/nonexistent/stats"],
        1,
        "/nonexistent/stats",
    )


def full_disk():
    where = temporary_dir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", where], capture_output=True, check=False)
    if mounted.returncode:
        raise Skip("tmpfs cannot be mounted here")
    at_exit(subprocess.run, ["umount", "-l", where])
    try:
        with open(os.path.join(where, "filler"), "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
    except OSError:
        pass
    return where


def test_full_disk():
    need_bpf()
    target = start("split", 600)
    where = full_disk()
    for ending in ("folded", "html", "pb.gz"):
        result = run([STAKEOUT, "record", "-p", target.pid, "-d", "1", "-o", f"{where}/out.{ending}"])
        assert result.returncode == 1, f"{result.returncode}: {result.stderr}"
        lines = [line for line in result.stderr.splitlines() if "space" in line.lower()]
        assert len(lines) == 1 and f"out.{ending}" in lines[0], result.stderr


def test_full_device():
    need_bpf()
    target = start("split", 600)
    for option in (["-o", "/dev/full", "-f", "folded"], ["-o", os.devnull, "-f", "folded", "--stats", "/dev/full"]):
        result = run([STAKEOUT, "record", "-p", target.pid, "-d", "1", *option])
        assert result.returncode == 1, f"{option}: {result.returncode}: {result.stderr}"
        assert len([line for line in result.stderr.splitlines() if "/dev/full" in line]) == 1, result.stderr


def test_closed_standard_output():
    """A reader that goes away is no reason to die by a signal."""
    need_bpf()
    target = start("split", 600)
    shell = f"{STAKEOUT} record -p {target.pid} -d 1 -o - ; echo status $? >&2"
    reader, writer = os.pipe()
    os.close(reader)
    process = spawn(["sh", "-c", shell], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert "status 1" in err, err


# Rights.


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


def as_nobody(argv, **options):
    need_tool("setpriv")
    return run([*NOBODY, *argv], **options)


def test_no_capability():
    """One line that says what is missing."""
    need_bpf()
    target = start("split", 600)
    result = as_nobody([readable_client(), "record", "-p", target.pid, "-d", "600", "-o", "-"], cwd="/")
    assert result.returncode == 1 and not result.stdout, f"{result.returncode}: {result.stderr}"
    line = one_clear_line(result.stderr)
    assert "CAP_" in line or "root" in line, line


def test_process_of_another_user():
    """A daemon with all rights lends them to nobody for a process that is not theirs."""
    need_bpf()
    daemon = Daemon("--socket-mode", "0666")
    client = readable_client()
    mine = start("split", 600)
    theirs = Target([*NOBODY, shutil.copy(workload("split"), temporary_dir()), 60], cwd="/")
    out = ["-d", "1", "-o", "-"]
    result = as_nobody([client, "--socket", daemon.socket, "record", "-p", mine.pid, *out], cwd="/")
    assert result.returncode == 1 and not result.stdout, f"{result.returncode}: {result.stderr}"
    assert "user" in one_clear_line(result.stderr)
    result = as_nobody([client, "--socket", daemon.socket, "record", "-p", theirs.pid, *out], cwd="/")
    assert result.returncode == 0 and "split_kernel" in result.stdout, f"{result.returncode}: {result.stderr}"


def test_targets_of_others_are_hidden():
    need_bpf()
    daemon = Daemon("--socket-mode", "0666")
    target = start("split", 600)
    daemon.client("attach", "-p", str(target.pid))
    client = readable_client()
    listed = as_nobody([client, "--socket", daemon.socket, "list"], cwd="/")
    assert listed.returncode == 0 and "split" not in listed.stdout, listed
    for command in ("detach", "folded"):
        result = as_nobody([client, "--socket", daemon.socket, command, "-p", target.pid], cwd="/")
        assert result.returncode == 1 and not result.stdout, f"{command}: {result}"
    assert "split" in daemon.client("list").stdout


def test_socket_is_private():
    need_bpf()
    daemon = Daemon()
    assert os.stat(daemon.socket).st_mode & 0o777 == 0o600
    result = as_nobody([readable_client(), "--socket", daemon.socket, "status"], cwd="/")
    assert result.returncode == 1, result
    one_clear_line(result.stderr)


def test_no_daemon_there():
    for command in (["status"], ["list"], ["attach", "-p", "1"], ["detach", "-p", "1"], ["folded", "-p", "1"]):
        refused(["--socket", "/nonexistent/socket", *command], 1, "/nonexistent/socket")


def test_no_btf():
    need_bpf()
    need_namespaces()
    target = start("split", 600)
    shell = f"mount -t tmpfs none /sys/kernel/btf && exec {STAKEOUT} record -p {target.pid} -d 5 -o -"
    result = run(["unshare", "--mount", "sh", "-c", shell])
    if result.returncode == 0 and any(f.startswith("vmlinux") for f in os.listdir("/boot")):
        raise Skip("the kernel's BTF was found in /boot")
    assert result.returncode == 1 and not result.stdout, f"{result.returncode}: {result.stderr}"
    assert "BTF" in one_clear_line(result.stderr)


# Broken files.


def section(elf, wanted):
    """(header offset, file offset, size) of a section of a 64-bit ELF file."""
    (shoff,) = struct.unpack_from("<Q", elf, 40)
    entry, count, names = struct.unpack_from("<HHH", elf, 58)
    strings = struct.unpack_from("<Q", elf, shoff + names * entry + 24)[0]
    for i in range(count):
        at = shoff + i * entry
        name = struct.unpack_from("<I", elf, at)[0]
        end = elf.index(b"\0", strings + name)
        if elf[strings + name : end] == wanted.encode():
            return (at, *struct.unpack_from("<QQ", elf, at + 24))
    raise AssertionError(f"no section {wanted}")


def write_program(content, name="broken"):
    """As a file with a build-id of its own, so that no table is known for it."""
    _, at, size = section(workload_bytes("split"), ".note.gnu.build-id")
    where = content.find(b"GNU\0", 0, at + size + 4096)
    if where >= 0:
        content[where + 4 : where + 24] = os.urandom(20)
    path = os.path.join(temporary_dir(), name)
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, 0o755)
    return path


def workload_bytes(name):
    with open(workload(name), "rb") as f:
        return bytearray(f.read())


SEEDS = range(4 if LONG else 1)


def check_survives(elf):
    """The target runs (it does not need what was broken); the recording keeps every sample."""
    recording = record(Target([write_program(elf), 600]).pid, duration=1).check_totals()
    assert recording.samples > 20, recording.samples
    return recording


def test_garbage_eh_frame():
    cut = 0
    for seed in SEEDS:
        elf = workload_bytes("split-static")
        noise = random.Random(seed)
        _, at, size = section(elf, ".eh_frame")
        elf[at : at + size] = noise.randbytes(size)
        recording = check_survives(elf)
        cut += recording.samples - recording.stats["complete"]
    assert cut > 0


def test_flipped_bits_in_eh_frame():
    for seed in SEEDS:
        elf = workload_bytes("split")
        noise = random.Random(seed)
        _, at, size = section(elf, ".eh_frame")
        for _ in range(1 + size // 50):
            elf[at + noise.randrange(size)] ^= 1 << noise.randrange(8)
        check_survives(elf)


def test_zeroed_eh_frame():
    elf = workload_bytes("split")
    _, at, size = section(elf, ".eh_frame")
    elf[at : at + size] = bytes(size)
    recording = check_survives(elf)
    # Not a rule is left in the file; those that show are learned from its code, or the stack is cut for want of one.
    assert set(recording.stats["truncated"]) <= {"no-rules", "frame-pointer-root"}, recording.stats


def test_eh_frame_with_absurd_lengths():
    elf = workload_bytes("split")
    _, at, size = section(elf, ".eh_frame")
    for offset in range(0, size - 16, 16):
        struct.pack_into("<I", elf, at + offset, 0xFFFFFFF0)
    check_survives(elf)


def test_section_headers_out_of_the_file():
    for wanted in (".eh_frame", ".symtab", ".strtab", ".dynsym", ".eh_frame_hdr", ".shstrtab")[:: 1 if LONG else 3]:
        elf = workload_bytes("split")
        header, _, _ = section(elf, wanted)
        struct.pack_into("<QQ", elf, header + 24, len(elf) - 3, 1 << 40)
        check_survives(elf)


def test_garbage_symbols():
    elf = workload_bytes("split")
    noise = random.Random(1)
    for wanted in (".symtab", ".strtab"):
        _, at, size = section(elf, wanted)
        elf[at : at + size] = noise.randbytes(size)
    check_survives(elf).check_complete()


def test_hostile_perf_map():
    """Foreign text where names of compiled code are looked for: wrong lines are passed over."""
    target = start("jitter", "fp", 600, "map")
    path = f"/tmp/perf-{target.pid}.map"
    with open(path, encoding="ascii") as f:
        good = f.read()
    noise = random.Random(1)
    with open(path, "wb") as f:
        f.write(b"ffffffffffffffff ffffffffffffffff wraps\n0 0 empty\nzz 10 no_number\n\n10\n" + b"a" * 100000 + b"\n")
        f.write(noise.randbytes(20000) + b"\n" + good.encode() + b"no end")
    recording = record(target.pid, duration=1).check_totals()
    assert recording.count("jit_hot_loop") > recording.samples / 2, recording.examples("")


def test_perf_map_that_is_a_pipe():
    """Reading it would wait for ever."""
    target = start("jitter", "fp", 600)
    path = f"/tmp/perf-{target.pid}.map"
    os.mkfifo(path)
    at_exit(os.unlink, path)
    recording = record(target.pid, duration=1).check_totals()
    assert recording.count("[jit]") > recording.samples / 2, recording.examples("")


def test_hostile_names():
    """A comm with the characters that mean something in folded lines, and a file name with a newline."""
    path = os.path.join(temporary_dir(), "a b;c\n1")
    shutil.copy(workload("split-stripped"), path)
    recording = record(Target([path, 600]).pid, duration=1).check_complete()
    assert all(" " not in comm and ";" not in comm for comm in recording.comms()), recording.comms()


def test_target_ends_while_attaching():
    """A process that ends at any moment of the attachment: a status of 0 or 1, never a crash, never a hang."""
    need_bpf()
    for delay_s in (0, 0.02, 0.05, 0.1, 0.2, 0.3)[:: 1 if LONG else 2]:
        target = start("threads", 600, 20)
        out = os.path.join(temporary_dir(), "out.folded")
        process = spawn(
            [STAKEOUT, "record", "-p", target.pid, "-d", "20", "-o", out], stderr=subprocess.PIPE, text=True
        )
        time.sleep(delay_s)
        target.process.send_signal(signal.SIGKILL)
        target.process.wait()
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 1), f"{process.returncode}: {err}"
