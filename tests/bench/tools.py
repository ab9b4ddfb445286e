# SPDX-License-Identifier: GPL-2.0-or-later
"""The profilers, each run on a process that runs already, for a given time and rate."""
import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import harness
import kernel_figures
import stacks

START_TIMEOUT_S = 60
SCRIPT_TIMEOUT_S = 300
SAMPLER_START_S = 0.5  # until one that has no interpreter to read has given up


class Absent(Exception):
    """The tool is not installed or does not work here; the text says why."""


class Watched:
    """A tool that runs, and what it takes: CPU time, and the sum of its processes' peaks of memory."""

    def __init__(self, argv, env=None, stdout=subprocess.PIPE):
        self.began_s, self.began_wall_ns = time.monotonic(), time.time_ns()
        self.process = harness.spawn(
            [str(a) for a in argv], stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, **(env or {})},
        )
        self.own_comm = harness.comm_of(os.getpid())
        self.peaks, self.cpu_s, self.over = {}, 0.0, threading.Event()
        self.output = self.error = ""
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        while not self.over.wait(0.05):
            for pid in kernel_figures.tree(self.process.pid):
                peak = kernel_figures.peak_rss_bytes(pid)
                # A process that is about to become the tool still has this one's memory.
                if peak and harness.comm_of(pid) != self.own_comm:
                    self.peaks[pid] = max(peak, self.peaks.get(pid, 0))

    @property
    def peak_bytes(self):
        return sum(self.peaks.values())

    def interrupt(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)

    def wait(self, seconds=START_TIMEOUT_S):
        """Its end: exit status, with its output and the CPU time of it and all below it."""
        before = os.times()
        try:
            self.output, self.error = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.output, self.error = self.process.communicate()
            raise Absent("did not end in time") from None
        finally:
            self.over.set()
            self.thread.join()
        after = os.times()
        self.cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        return self.process.returncode


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:150] if lines else "no message"


def find(*names):
    for name in names:
        path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if path:
            return path
    return None


def pprof_begin_ns(path):
    """Field 9 of the message, time_nanos: when the sampling began."""
    with gzip.open(path) as f:
        data = f.read()
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        value = varint() if key & 7 in (0, 2) else 0
        if key >> 3 == 9:
            return value
        at += value if key & 7 == 2 else {0: 0, 1: 8, 5: 4}[key & 7]
    return None


class Stakeout:
    name = "stakeout"

    def __init__(self):
        self.cache = harness.temporary_dir()
        self.where = harness.temporary_dir()

    def command(self, pid, hz, seconds, ending, socket=None, extra=()):
        out, stats = os.path.join(self.where, "out." + ending), os.path.join(self.where, "stats.json")
        for path in (out, stats):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        options = ["--socket", socket] if socket else []
        argv = [harness.STAKEOUT, *options, "record", "-p", pid, "-d", seconds, "-r", hz, "-o", out, "--stats", stats]
        return [*argv, *extra], out, stats

    def record(self, pid, hz, seconds, socket=None, ending="folded", cache=None, extra=()):
        """(how it ran, its statistics, its output file)."""
        argv, out, stats = self.command(pid, hz, seconds, ending, socket, extra)
        watched = Watched(argv, {"STAKEOUT_CACHE_DIR": cache or self.cache})
        if watched.wait(seconds + 60):
            raise Absent(last_line(watched.error))
        with open(stats, encoding="utf-8") as f:
            return watched, json.load(f), out


    def record_timed(self, pid, hz, seconds, socket):
        """(its statistics, its output file, run time in ns and runs of the daemon's program by the kernel, as of other tools)."""
        before = kernel_figures.clock_event_runs("sample")
        _, stats, out = self.record(pid, hz, seconds, socket)
        after = kernel_figures.clock_event_runs("sample")
        return stats, out, after[0] - before[0], after[1] - before[1]


class Perf:
    """perf with the CPU clock, since a virtual machine may have no cycle counter."""

    def __init__(self, call_graph):
        self.name = "perf " + call_graph
        self.call_graph = call_graph
        self.path = find("perf")
        self.data = os.path.join(harness.temporary_dir(), "perf.data")

    def start(self, pid, hz, seconds):
        if not self.path:
            raise Absent("not installed (Debian package linux-perf)")
        argv = [self.path, "record", "-q", "-e", "cpu-clock", "-F", hz, "-k", "CLOCK_MONOTONIC"]
        return Watched([*argv, "--call-graph", self.call_graph, "-p", pid, "-o", self.data, "--", "sleep", seconds])

    def record(self, pid, hz, seconds):
        watched = self.start(pid, hz, seconds)
        if watched.wait(seconds + 60):
            raise Absent(last_line(watched.error))
        return watched

    def script(self, *options):
        argv = [self.path, "script", "-i", self.data, *options]
        try:
            result = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", check=False, timeout=SCRIPT_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise Absent(f"perf script took more than {SCRIPT_TIMEOUT_S} s") from None
        return result.stdout.splitlines()

    def count(self):
        return stacks.count_perf_script(self.script("--no-inline", "-F", "comm,tid,ip,sym,dso"))

    def first_sample_s(self):
        """On the monotonic clock."""
        times = [re.match(r"\s*([\d.]+):", line) for line in self.script("-F", "time")]
        return min((float(match[1]) for match in times if match), default=None)


class BpfTool:
    """A tool whose program is found by what is new in the kernel. Its run times must be measured meanwhile."""

    def start_and_find(self, argv):
        """The tool once it samples, and which programs were there before it."""
        before = set(kernel_figures.bpf_objects("prog"))
        watched = Watched(argv)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and watched.process.poll() is None:
            # A tool may load programs only to see whether they load: those never run.
            if self.program(before).get("run_cnt"):
                return watched, before
            time.sleep(0.02)
        watched.interrupt()
        watched.wait()
        raise Absent(last_line(watched.error or watched.output))

    def program(self, before):
        """The busiest program on clock events that was not there before."""
        now = kernel_figures.bpf_objects("prog")
        new = [entry for i, entry in now.items() if i not in before and entry["type"] == "perf_event"]
        return max(new, key=lambda e: e.get("run_cnt", 0), default={})

    def run(self, pid, hz, seconds):
        """(how it ran, run time of its program in ns, runs)."""
        watched, before = self.start_and_find(self.command(pid, hz))
        time.sleep(seconds)
        entry = self.program(before)
        watched.interrupt()
        watched.wait()
        return watched, entry.get("run_time_ns", 0), entry.get("run_cnt", 0)


class Bpftrace(BpfTool):
    name = "bpftrace ustack"

    def __init__(self):
        self.path = find("bpftrace")

    def command(self, pid, hz):
        if not self.path:
            raise Absent("not installed (Debian package bpftrace)")
        return [self.path, "-e", f"profile:hz:{hz} /pid == {pid}/ {{ @[ustack] = count(); }}"]

    def first_sample_s(self, pid, hz):
        """Seconds from the command to its first sample."""
        self.command(pid, hz)
        program = f'profile:hz:{hz} /pid == {pid}/ {{ printf("first %lld\\n", nsecs); exit(); }}'
        watched = Watched([self.path, "-e", program])
        watched.wait()
        match = re.search(r"first (\d+)", watched.output)
        return int(match[1]) / 1e9 - watched.began_s if match else None


class Bcc(BpfTool):
    name = "bcc profile"

    def __init__(self):
        self.path = find("profile-bpfcc", "/usr/share/bcc/tools/profile")

    def command(self, pid, hz):
        if not self.path:
            raise Absent("not installed (Debian package bpfcc-tools)")
        return [self.path, "-F", hz, "-p", pid, "-U", "-f", "--stack-storage-size", "16384", "600"]


class PythonSampler:
    """A profiler of Python's frames alone. It ends by SIGINT, and its output lies in self.out."""

    def __init__(self):
        self.path = find(self.name)
        self.out = os.path.join(harness.temporary_dir(), self.name + ".txt")

    def start(self, pid, hz):
        if not self.path:
            raise Absent("not installed")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.out)
        watched = Watched([self.path, *self.options(pid, hz)])
        time.sleep(SAMPLER_START_S)
        if watched.process.poll() is not None:
            watched.wait()
            raise Absent(last_line(watched.error or watched.output))
        return watched

    def stop(self, watched):
        watched.interrupt()
        watched.wait()
        if not os.path.exists(self.out) or not os.path.getsize(self.out):
            raise Absent(last_line(watched.error or watched.output))

    def record(self, pid, hz, seconds):
        watched = self.start(pid, hz)
        time.sleep(max(0, seconds - SAMPLER_START_S))
        self.stop(watched)
        return watched


class PySpy(PythonSampler):
    name = "py-spy"

    def options(self, pid, hz):
        return ["record", "-p", pid, "-r", hz, "-d", "3600", "-f", "raw", "-o", self.out]

    def count(self, valid):
        with open(self.out, encoding="utf-8") as f:
            return stacks.count_python_folded(f.read(), valid)


class Austin(PythonSampler):
    """Version 1 (Debian 12) has no option for a time; it is stopped instead."""

    name = "austin"

    def options(self, pid, hz):
        return ["-i", 1000000 // hz, "-o", self.out, "-p", pid]

    def count(self, valid):
        with open(self.out, encoding="utf-8") as f:
            return stacks.count_austin(f.read(), valid)


def versions():
    """One line a tool."""

    def version(path, *options):
        result = subprocess.run([path, *options], capture_output=True, text=True, check=False)
        return (result.stdout or result.stderr).strip().splitlines()[0] if (result.stdout or result.stderr) else "?"

    lines = {"stakeout": version(harness.STAKEOUT, "--version")}
    for name, tool, option in (
        ("perf", Perf("fp"), "--version"),
        ("bpftrace", Bpftrace(), "--version"),
        ("bcc profile", Bcc(), None),
        ("py-spy", PySpy(), "--version"),
        ("austin", Austin(), "--version"),
    ):
        lines[name] = "absent" if not tool.path else version(tool.path, option) if option else tool.path
    return lines

