# SPDX-License-Identifier: GPL-2.0-or-later
"""A user's memory and files that never answer: they cost that user's targets, and nobody else."""
import os
import subprocess
import time

from harness import (
    PATIENCE_S,
    Daemon,
    Skip,
    Target,
    need_bpf,
    need_namespaces,
    need_tool,
    temporary_dir,
    wait_until,
    workload,
)
from users import ALICE, MALLORY, program, start_as

def hanging(what):
    """A target of Mallory's, in a mount namespace of its own."""
    need_bpf()
    need_namespaces()
    if not os.path.exists("/dev/fuse"):
        raise Skip("there is no /dev/fuse")
    folder = "/tmp" if what == "map" else temporary_dir()
    argv = [need_tool("unshare"), "-m", workload("fuse_hang"), folder, str(MALLORY), what]
    target = Target(argv, ready=False, stdin=subprocess.PIPE)
    if target.process.stdout.readline() != b"ready\n":
        raise Skip("FUSE cannot be mounted here")
    target.pid = int(subprocess.run(["pgrep", "-P", str(target.pid)], check=True, capture_output=True).stdout)
    return target


def let_go(target):
    target.process.stdin.write(b"go\n")
    target.process.stdin.flush()


def attach(daemon, target):
    daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True, "rate_hz": 499}, expect=201, seconds=10)


def check_others(daemon):
    """Other users' targets are served, and the daemon answers and ends."""
    other = start_as(ALICE, [program("dlopener"), workload("plugin.so"), "600", "2"])
    began = time.monotonic()
    daemon.request("GET", "/v1/status", seconds=10)
    recording = daemon.record(other.pid, duration=2).check_totals()
    assert recording.count("main", "plugin_run", "plugin_burn") > 0, recording.stats
    assert recording.samples > 20 and not recording.stats["truncated"].get("maps-pending"), recording.stats
    daemon.request("GET", "/v1/status", seconds=10)
    assert time.monotonic() - began < PATIENCE_S / 2


def test_memory_beside_code():
    """The memory behind code that runs is learned from: by the thread that collects, for everybody."""
    daemon, target = Daemon(), hanging("memory")
    attach(daemon, target)
    time.sleep(1)
    check_others(daemon)
    assert daemon.stop() == 0


def test_memory_and_a_kill():
    daemon, target = Daemon(), hanging("memory")
    attach(daemon, target)
    time.sleep(1)
    daemon.process.kill()
    daemon.process.wait(timeout=10)


def test_file():
    """A file that everybody may open, and that nobody can read. Whoever reads it cannot be killed: the daemon says that
    it ends, and has ended when the file system has."""
    daemon, target = Daemon(), hanging("file")
    attach(daemon, target)
    check_others(daemon)
    daemon.process.terminate()
    wait_until(lambda: not os.path.exists(daemon.socket), "the end of what the daemon does", seconds=20)
    let_go(target)
    assert daemon.process.wait(timeout=20) == 0


def test_perf_map():
    """A folder that never says whether it has a perf map: that target's code has no names, and others do not wait."""
    daemon, target = Daemon(), hanging("map")
    attach(daemon, target)
    time.sleep(1)
    began = time.monotonic()
    folded = daemon.client("folded", "-p", str(target.pid)).stdout
    assert "[jit]" in folded, folded
    assert time.monotonic() - began < PATIENCE_S / 2
    check_others(daemon)
    let_go(target)
    assert daemon.stop() == 0
