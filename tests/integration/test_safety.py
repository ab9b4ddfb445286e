# SPDX-License-Identifier: GPL-2.0-or-later
"""The target does not notice, and nothing stays behind, however a recording ends."""
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

from harness import (
    SANITIZED,
    Daemon,
    Recorder,
    Skip,
    children_of,
    comm_of,
    long,
    need_bpf,
    need_tool,
    one_clear_line,
    record,
    start,
    status_of,
    wait_until,
)

ARRAY_OF_MAPS = 12  # BPF_MAP_TYPE_ARRAY_OF_MAPS


def bpf_objects(kind):
    """Ids of the kernel's BPF programs, maps or links. bpftool fails where one goes away while it lists them."""

    def listed():
        run = subprocess.run([need_tool("bpftool"), "-j", kind, "list"], capture_output=True)
        return run if run.returncode == 0 else None

    return {entry["id"] for entry in json.loads(wait_until(listed, f"bpftool {kind} list").stdout or "[]")}


def held_by(pid):
    """Ids of the BPF objects that a process has open, and of the maps in its arrays of maps."""
    found = {"prog": set(), "link": set(), "map": set()}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as f:
            text = f.read()
            for kind, number in re.findall(r"^(prog|link|map)_id:\s+(\d+)$", text, re.MULTILINE):
                found[kind].add(int(number))
            if re.search(rf"^map_type:\s+{ARRAY_OF_MAPS}$", text, re.MULTILINE):
                found["map"] |= maps_in(re.search(r"^map_id:\s+(\d+)$", text, re.MULTILINE)[1])
    return found


def maps_in(number):
    dump = subprocess.run([need_tool("bpftool"), "-j", "map", "dump", "id", number], capture_output=True)
    entries = json.loads(dump.stdout) if dump.returncode == 0 else []
    values = [bytes(int(byte, 16) for byte in entry["value"]) for entry in entries if isinstance(entry.get("value"), list)]
    return {int.from_bytes(value, sys.byteorder) for value in values}


class Leftovers:
    """What a daemon has in the kernel, to see that it goes with it; other tests' daemons have theirs meanwhile."""

    def __init__(self):
        need_bpf()
        need_tool("bpftool")
        self.brought = None

    def look(self, pid):
        """Waits for programs and maps, and for links, which come last where there are any."""

        def brought():
            self.brought = held_by(pid)
            return self.brought["prog"] and self.brought["map"]

        wait_until(brought, "programs and maps of the recording")
        time.sleep(0.5)
        assert brought()

    def check_gone(self):
        def left():
            return {kind: ids for kind, brought in self.brought.items() if (ids := brought & bpf_objects(kind))}

        wait_until(lambda: not left(), "the kernel's BPF objects to go", step=0.2)


def private_daemon(client_pid):
    return wait_until(
        lambda: next((p for p in children_of(client_pid) if comm_of(p) == "stakeoutd"), 0), "the private daemon"
    )


def private_socket(daemon_pid):
    with open(f"/proc/{daemon_pid}/cmdline", "rb") as f:
        words = f.read().split(b"\0")
    return words[words.index(b"--socket") + 1].decode()


def test_kill_9_of_the_private_daemon():
    leftovers = Leftovers()
    target = start("split", 600)
    recorder = Recorder(target.pid)
    daemon = private_daemon(recorder.process.pid)
    leftovers.look(daemon)
    os.kill(daemon, signal.SIGKILL)
    recording = recorder.wait(expect=None)
    assert recording.rc == 1, recording.rc
    one_clear_line("\n".join(line for line in recording.stderr.splitlines() if line.startswith("stakeout")))
    leftovers.check_gone()
    assert target.end() == start("split", 0.2).finish()


def test_kill_9_of_the_client():
    leftovers = Leftovers()
    target = start("split", 600)
    recorder = Recorder(target.pid)
    daemon = private_daemon(recorder.process.pid)
    leftovers.look(daemon)
    recorder.process.kill()
    wait_until(lambda: comm_of(daemon) != "stakeoutd" or "zombie" in status_of(daemon)["State"], "its daemon's end")
    leftovers.check_gone()
    assert target.end() == start("split", 0.2).finish()


def test_kill_9_of_the_daemon():
    leftovers = Leftovers()
    target = start("split", 600)
    daemon = Daemon()
    daemon.client("attach", "-p", str(target.pid))
    leftovers.look(daemon.process.pid)
    daemon.process.kill()
    leftovers.check_gone()
    assert target.end() == start("split", 0.2).finish()


def test_normal_end_leaves_nothing():
    leftovers = Leftovers()
    target = start("split", 600)
    recorder = Recorder(target.pid, duration=3)
    daemon = private_daemon(recorder.process.pid)
    folder = os.path.dirname(private_socket(daemon))
    assert re.fullmatch("/(tmp|run)/stakeout-.{6}", folder) and os.path.isdir(folder), folder
    leftovers.look(daemon)
    recorder.wait()
    leftovers.check_gone()
    assert not os.path.exists(folder)


def snapshot(pid):
    """What a process could notice: its tracer, its signals, its memory map, its files, its threads."""
    status = status_of(pid)
    # Not SigQ, which counts for all of the user's processes together.
    kept = ("TracerPid", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Seccomp", "VmSize", "CapEff")
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        maps = [line.split()[:5] + line.split()[5:] for line in f]
    files = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    return {**{k: status.get(k) for k in kept}, "maps": maps, "files": files}


def test_target_notices_nothing():
    target = start("split", 600)
    before = snapshot(target.pid)
    recorder = Recorder(target.pid, duration=2)
    states = set()
    while recorder.process.poll() is None:
        status = status_of(target.pid)
        states.add(status["State"][0])
        assert status["TracerPid"] == "0"
        assert snapshot(target.pid) == before
        time.sleep(0.01)
    recorder.wait().check_complete()
    assert snapshot(target.pid) == before
    assert states <= {"R", "S"}, f"states seen: {states}"
    assert target.end() == start("split", 0.2).finish()


def test_output_is_the_same():
    """Programs that check their own results give the same ones when watched."""
    daemon, watched = Daemon(), {}
    for name in ("cpp_sim", "signals", "realign", "forker", "unmapper", "switcher"):
        kind = ("normal",) if name == "signals" else ()
        target = start(name, *kind, 4)
        body = {"pid": target.pid, "rate_hz": 4999, "keep": True}
        path = f"/v1/targets/{daemon.request('POST', '/v1/targets', body, expect=201)['id']}"
        watched[name] = kind, target, path
    for name, (kind, target, path) in watched.items():
        said, expected = target.finish(), start(name, *kind, 0.3).finish()
        assert said == expected, (name, said, expected)
        wait_until(lambda at=path: daemon.request("GET", at)["state"] == "ended", f"the end of {name}")
        stats = daemon.request("GET", path + "/stats")
        cut, lost = (sum(stats[kind].values()) for kind in ("truncated", "lost"))
        assert stats["taken"] == stats["samples"] == stats["complete"] + cut + lost > 100, (name, stats)


def test_context_switches_carry_nothing():
    """A target that switches contexts as often as it can: the programs run for the clock's ticks, and for its few forks
    and ends, never for a switch. (What it is slowed by is for `make bench`.)"""
    target = start("switcher", 600)

    def switches():
        total = 0
        for task in os.listdir(f"/proc/{target.pid}/task"):
            with open(f"/proc/{target.pid}/task/{task}/status", encoding="ascii") as f:
                total += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
        return total

    before = switches()
    recording = record(target.pid, duration=3, rate=99).check_totals()
    switched = switches() - before
    programs = recording.stats["bpf"]["programs"]
    ticks = 99 * recording.stats["duration_s"] * os.cpu_count()
    assert switched > 10 * ticks, f"{switched} context switches are too few to tell"
    assert sum(p["run_count"] for n, p in programs.items() if n.startswith("sample")) < 1.2 * ticks + 50, programs


@long
def test_rounds_leak_nothing():
    """100 rounds of attaching and detaching under valgrind, which sees every byte that nobody owns any more."""
    valgrind = need_tool("valgrind")
    if SANITIZED:
        raise Skip("a sanitized build does not run under valgrind; its own leak check is on")
    # Valgrind does not know what the bpf system call writes, so it cannot judge uninitialised values.
    checks = ("--leak-check=full", "--errors-for-leak-kinds=definite", "--undef-value-errors=no", "--error-exitcode=99")
    daemon = Daemon("--no-cache", prefix=(valgrind, *checks))
    target = start("sleeper", 280)
    for _ in range(100):
        made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": 99}, expect=201)
        daemon.request("GET", f"/v1/targets/{made['id']}/profile")
        daemon.request("DELETE", f"/v1/targets/{made['id']}")
    status = daemon.stop(60)
    assert status == 0, f"exit status {status}: {daemon.log()[-4000:]}"


@long
def test_rounds_keep_files_and_memory():
    """100 rounds in a plain daemon: no descriptor stays open, memory does not grow with the rounds."""
    daemon = Daemon()
    target = start("split", 600)

    def rounds(n):
        for _ in range(n):
            made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": 999}, expect=201)
            daemon.request("GET", f"/v1/targets/{made['id']}/profile")
            daemon.request("DELETE", f"/v1/targets/{made['id']}")
        pid = daemon.process.pid
        return len(os.listdir(f"/proc/{pid}/fd")), int(status_of(pid)["VmRSS"].split()[0])

    files, rss_kb = rounds(20)
    files_after, rss_after_kb = rounds(80)
    assert files_after <= files + 2, f"{files} descriptors, later {files_after}"
    # A sanitizer keeps what is freed for a while, and looks for leaks itself.
    assert SANITIZED or rss_after_kb < rss_kb + 8192, f"{rss_kb} kB resident, later {rss_after_kb}"
