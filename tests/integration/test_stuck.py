# SPDX-License-Identifier: GPL-2.0-or-later
"""A process in uninterruptible sleep, whose memory nobody can read meanwhile: what is not about it goes on."""
import contextlib
import os
import subprocess

from harness import (
    Daemon,
    Skip,
    Target,
    need_bpf,
    need_namespaces,
    need_tool,
    one_clear_line,
    start,
    status_of,
    temporary_dir,
    uses,
    wait_until,
    workload,
)


JOB_S = 117 + os.getpid() / 1e6  # in a command line like no other's


@contextlib.contextmanager
def hanging():
    """A workload that can be made to hang, in a file system and a mount namespace of its own."""
    need_bpf()
    need_namespaces()
    folder = temporary_dir()
    image = os.path.join(folder, "image")
    with open(image, "wb") as f:
        f.truncate(32 << 20)
    subprocess.run([need_tool("mkfs.ext4"), "-q", "-F", image], check=True, stdin=subprocess.DEVNULL)
    place = os.path.join(folder, "mounted")
    os.mkdir(place)
    shell = f"mount -o loop {image} {place} || {{ echo no; exit; }}; exec {workload('stuck')} {place}/file"
    target = Target([need_tool("unshare"), "-m", "sh", "-c", shell], ready=False, stdin=subprocess.PIPE)
    try:
        if target.process.stdout.readline() != b"ready\n":
            raise Skip("a file system in a file cannot be mounted here")
        target.file = f"{place}/file"
        yield target
    finally:
        # Its end lets go the file system, and with the namespace it is unmounted.
        target.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            target.process.wait(10)


def tell(target, word):
    target.process.stdin.write(b"go\n")
    target.process.stdin.flush()
    assert target.process.stdout.readline() == word


def waiting(pid):
    """How many of its threads are in uninterruptible sleep."""
    return sum(status_of(f"{pid}/task/{tid}")["State"][0] == "D" for tid in os.listdir(f"/proc/{pid}/task"))


def hang(target):
    tell(target, b"stuck\n")
    wait_until(lambda: waiting(target.pid) == 2, "two threads that wait for the file system")
    reader = subprocess.Popen(["cat", f"/proc/{target.pid}/mem"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        reader.wait(1.5)
        raise Skip("this kernel lets the memory be read all the same")
    except subprocess.TimeoutExpired:
        reader.kill()
        reader.wait(10)


def limit(daemon, name):
    return {entry["name"]: entry for entry in daemon.request("GET", "/v1/status")["limits"]}[name]


def sampling(daemon, pid):
    return any(t["pid"] == pid and t["state"] == "sampling" for t in daemon.request("GET", "/v1/targets"))


@uses("a process that hangs")
def test_rules_and_recordings_go_on():
    with hanging() as target:
        hang(target)
        daemon = Daemon("--match", f"workloads/split {JOB_S}", "--match", f"workloads/stuck {target.file}")
        job = start("split", JOB_S)
        wait_until(lambda: sampling(daemon, job.pid), "the job among the targets")
        other = start("threads", 600)
        daemon.record(other.pid, duration=1).check_complete()
        refused = daemon.client("record", "-p", str(target.pid), "-d", "1", "-o", "/dev/null", expect=1)
        assert "uninterruptible sleep" in one_clear_line(refused.stderr), refused.stderr
        refused = daemon.client("dump", "-p", target.pid, expect=1)
        assert "uninterruptible sleep" in one_clear_line(refused.stderr), refused.stderr
        found = daemon.client("dump", "--match", f"^[^ ]*/workloads/(split {JOB_S}|stuck {target.file})")
        assert found.stdout.startswith(f"Process {job.pid}: ") and str(target.pid) not in found.stdout, found.stdout
        assert f"process {target.pid} (stuck) is left out" in found.stderr, found.stderr
        assert not sampling(daemon, target.pid)
        assert limit(daemon, "stuck_processes")["now"] == 1
        lines = [line for line in daemon.log().splitlines() if "holds the lock of its memory" in line]
        assert sum(f"process {target.pid} (stuck)" in line for line in lines) == 1, lines
        # It goes on: the rule gets it.
        tell(target, b"free\n")
        wait_until(lambda: sampling(daemon, target.pid), "the process that hung among the targets")
        assert "has let go" in daemon.log() and limit(daemon, "stuck_processes")["now"] == 0
        assert daemon.stop() == 0


@uses("a process that hangs")
def test_a_target_that_begins_to_hang():
    """It is sampled on; the daemon looks at others' mappings, answers, and ends."""
    with hanging() as target:
        # A sanitized build looks for leaks when it ends, and stops all threads for that: not one that waits in the kernel.
        daemon = Daemon(env={"ASAN_OPTIONS": "detect_leaks=0"})
        daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True, "rate_hz": 499}, expect=201)
        hang(target)
        # It loads a library meanwhile: its mappings are read anew, in spite of the one whose mappings cannot be.
        other = start("dlopener", workload("plugin.so"), 600, 2)
        loading = daemon.record(other.pid, duration=5).check_totals()
        assert loading.count("main", "plugin_run", "plugin_burn") > 0, loading.stats
        assert {cause for cause, n in loading.stats["truncated"].items() if n} <= {"maps-pending"}, loading.stats
        wait_until(lambda: limit(daemon, "stuck_processes")["now"] == 1, "the process that hangs")
        seen = daemon.record(target.pid, duration=2, rate=499)
        assert seen.count("stuck_burn") > 100, seen.stats
        assert daemon.stop() == 0
