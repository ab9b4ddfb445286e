# SPDX-License-Identifier: GPL-2.0-or-later
"""Run times of the sampler's programs, which read the clock themselves; the kernel's own statistics are the referee."""
import contextlib
import ctypes
import glob
import os
import re
import time

from harness import Daemon, Skip, alone, start, wait_until

SYS_BPF = 321
BPF_ENABLE_STATS = 32  # BPF_STATS_RUN_TIME is 0; while the descriptor is open (5.8)


@contextlib.contextmanager
def kernel_statistics():
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, BPF_ENABLE_STATS, ctypes.byref(ctypes.c_uint32(0)), 4)
    if fd < 0:
        raise Skip(f"BPF_ENABLE_STATS: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        os.close(fd)


def kernel_figures(daemon):
    """(runs, ns) of all programs that the daemon holds, each once."""
    found = {}
    folder = f"/proc/{daemon.process.pid}/fdinfo"
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), encoding="ascii") as f:
            fields = dict(re.findall(r"^(prog_id|run_cnt|run_time_ns):\s+(\d+)$", f.read(), re.M))
            if "run_cnt" in fields:
                found[fields["prog_id"]] = int(fields["run_cnt"]), int(fields["run_time_ns"])
    if not found:
        raise Skip("this kernel shows no statistics of programs in /proc/PID/fdinfo")
    return [sum(figures) for figures in zip(*found.values())]


def own_figures(daemon):
    programs = daemon.request("GET", "/v1/status")["bpf"]["programs"].values()
    return sum(p["run_count"] for p in programs), sum(p["run_ns"] for p in programs)


def who_asks():
    """Whoever has the kernel measure: processes, or the switch for all."""
    with open("/proc/sys/kernel/bpf_stats_enabled", encoding="ascii") as f:
        found = ["kernel.bpf_stats_enabled"] if int(f.read()) else []
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == "anon_inode:bpf-stats":
                found.append(link)
    return found


@alone
def test_kernel_is_not_asked():
    """It would measure every run of every program of the machine, those of CUDA probes among them."""
    with kernel_statistics():
        assert len(who_asks()) >= 1
    others = who_asks()
    if others:
        raise Skip(f"the kernel measures for somebody else: {others}")
    daemon = Daemon()
    daemon.client("attach", "-p", str(start("split", 600).pid), "-r", "499")
    wait_until(lambda: own_figures(daemon)[0] > 500, "runs", step=0.1)
    assert not kernel_figures(daemon)[0] and not who_asks(), who_asks()
    assert own_figures(daemon)[1] > 0


@alone
def test_figures_are_the_kernels():
    with kernel_statistics():
        daemon = Daemon()
        daemon.client("attach", "-p", str(start("split", 600).pid), "-r", "499")
        time.sleep(3)
        runs_before, ns_before = own_figures(daemon)
        runs, ns = kernel_figures(daemon)
        runs_after, ns_after = own_figures(daemon)
    assert runs_before > 1000 and runs_before <= runs <= runs_after, (runs_before, runs, runs_after)
    # The kernel's way into a program and out of it, and its readings of the clock, are in its figure alone.
    assert ns / 2 < ns_after and ns_before < ns, (ns_before, ns, ns_after)
