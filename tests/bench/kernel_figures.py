# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts: run times of eBPF programs, bytes through ring buffers, context switches, CPU time."""
import contextlib
import ctypes
import glob
import json
import os
import subprocess

import harness

BPF_STATS_SWITCH = "/proc/sys/kernel/bpf_stats_enabled"
BPF_MAP_GET_FD_BY_ID = 14
SYS_BPF = 321

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@contextlib.contextmanager
def bpf_run_times(measured=True):
    """The kernel measures the run times of all eBPF programs meanwhile, or does not; afterwards as before."""
    with open(BPF_STATS_SWITCH, encoding="ascii") as f:
        before = f.read()
    with open(BPF_STATS_SWITCH, "w", encoding="ascii") as f:
        f.write("1" if measured else "0")
    try:
        yield
    finally:
        with open(BPF_STATS_SWITCH, "w", encoding="ascii") as f:
            f.write(before)


def bpf_objects(kind):
    """The kernel's programs or maps by id."""
    out = subprocess.run([harness.need_tool("bpftool"), "-j", kind, "show"], capture_output=True, check=True).stdout
    return {entry["id"]: entry for entry in json.loads(out or "[]")}


def clock_event_runs(name):
    """(run time in ns, runs) so far of the programs of this name on clock events."""
    found = [e for e in bpf_objects("prog").values() if e["type"] == "perf_event" and e.get("name") == name]
    return sum(e.get("run_time_ns", 0) for e in found), sum(e.get("run_cnt", 0) for e in found)


def ring_bytes(map_id):
    """Bytes ever written to a ring buffer map: the producer's position, which only grows and can be mapped to read."""
    attr = (ctypes.c_uint32 * 4)(map_id)
    fd = _libc.syscall(SYS_BPF, BPF_MAP_GET_FD_BY_ID, ctypes.byref(attr), ctypes.sizeof(attr))
    if fd < 0:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        # The first page is the consumer's position, the second the producer's.
        at = _libc.mmap(None, page, 1, 1, fd, page)  # PROT_READ, MAP_SHARED
        if at in (None, ctypes.c_void_p(-1).value):
            return None
        value = ctypes.c_uint64.from_address(at).value
        _libc.munmap(at, page)
        return value
    finally:
        os.close(fd)


def tree(pid):
    """A process and all below it."""
    pids = [pid]
    for p in pids:
        pids += harness.children_of(p)
    return pids


def peak_rss_bytes(pid):
    with contextlib.suppress(OSError, KeyError):
        return int(harness.status_of(pid)["VmHWM"].split()[0]) * 1024
    return 0


def rss_bytes(pid):
    return int(harness.status_of(pid)["VmRSS"].split()[0]) * 1024


def cpu_s(pid):
    """CPU time of a process's threads, those that ended not counted; to the nanosecond, unlike /proc/PID/stat."""
    total_ns = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as f:
            total_ns += int(f.read().split()[0])
    return total_ns / 1e9


def voluntary_switches(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))
    return total
