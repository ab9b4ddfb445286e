# SPDX-License-Identifier: GPL-2.0-or-later
"""What timing one CUDA launch costs the caller: by stakeout, and by a pair of probes at the function's entry and return, which
is where the names of functions lead."""
import contextlib
import json
import os
import re
import statistics
import subprocess
import time

import harness
import kernel_figures
import tools
from report import spread
from tools import Absent


class Launch:
    """Of kernels, by one call of one build of the stand-ins."""

    def __init__(self, variant, api):
        self.variant, self.api = variant, api
        self.is_driver = not api.startswith("cuda")
        self.folder = harness.workload(os.path.join("cuda", variant))
        self.library = os.path.join(self.folder, "libcuda.so.1" if self.is_driver else "libcudart.so.12")


@contextlib.contextmanager
def launcher(launch, launches):
    """A program that launches so many kernels, one after another, once it is told to."""
    # One that takes no time would have less than its probes cost: stakeout would switch them off for a part of the time.
    environment = {**os.environ, "LD_LIBRARY_PATH": launch.folder, "STANDIN_CUDA": f"{launch.api}=3us"}
    mix = "driver_launch" if launch.is_driver else "launch"
    argv = [harness.workload("cuda/cuda_calls"), "-n", launches, "-m", mix]
    target = harness.Target(argv, stdin=subprocess.PIPE, env=environment)
    try:
        yield target
    finally:
        target.process.kill()
        target.process.communicate()


def ns_a_launch(target):
    out, _ = target.process.communicate(b"x", timeout=120)
    match = re.search(rb"rounds (\d+) seconds ([\d.]+)", out)
    if target.process.returncode or not match:
        raise Absent(f"the target ended with {target.process.returncode}")
    return 1e9 * float(match[2]) / int(match[1])


def program_times(kinds):
    """{id: (run time in ns, runs)} of the programs of these types."""
    programs = kernel_figures.bpf_objects("prog")
    return {i: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for i, p in programs.items() if p["type"] in kinds}


def run_ns_since(before, launches):
    """Run time of all programs since, for each launch."""
    now = program_times(("kprobe", "tracing"))
    return sum(ns - before.get(i, (0, 0))[0] for i, (ns, _) in now.items()) / launches


class Nothing:
    name = "nothing"

    def measure(self, launch, launches):
        with launcher(launch, launches) as target:
            return ns_a_launch(target), None


class Stakeout:
    name = "stakeout"

    def __init__(self):
        self.daemon = harness.Daemon()

    def measure(self, launch, launches):
        with launcher(launch, launches) as target:
            body = {"pid": target.pid, "rate_hz": 1, "cuda": True, "cuda_budget_percent": 100}
            path = f"/v1/targets/{self.daemon.request('POST', '/v1/targets', body, expect=201)['id']}"
            look = lambda: self.daemon.request("GET", path + "/cuda")  # noqa: E731
            harness.wait_until(lambda: len(look()["libraries"]) == 2, "the probes")
            before = program_times(("kprobe",))
            # The target stays until it is told: its end takes the probes away, and with them their programs' times.
            ns = ns_a_launch(target)
            run_ns = run_ns_since(before, launches)
            harness.wait_until(lambda: self.daemon.request("GET", path)["state"] == "ended", "the target's end")
            answer = look()
            self.daemon.request("DELETE", path)
        counted = sum(row["calls"] for row in answer["calls"] if row["api"] == launch.api)
        if answer["estimated"] or counted != launches:
            raise Absent(f"counted {counted} of {launches} launches: {json.dumps(answer['lost'])}")
        return ns, run_ns


class EntryAndReturn:
    """bpftrace: a uprobe on the function's first instruction, a uretprobe, and a histogram."""

    name = "bpftrace, entry + return"

    def __init__(self):
        self.path = tools.find("bpftrace")

    def measure(self, launch, launches):
        if not self.path:
            raise Absent("not installed (Debian package bpftrace)")
        with launcher(launch, launches) as target:
            at = f"probe:{launch.library}:{launch.api}"
            program = (
                f"u{at} /pid == {target.pid}/ {{ @begin[tid] = nsecs; }} "
                f"uret{at} /@begin[tid]/ {{ @ns = hist(nsecs - @begin[tid]); delete(@begin[tid]); @n = count(); }}"
            )
            before = program_times(("kprobe",))
            watched = tools.Watched([self.path, "-e", program])
            try:
                harness.wait_until(lambda: len(program_times(("kprobe",))) >= len(before) + 2, "bpftrace", 30)
                time.sleep(0.5)
                ns = ns_a_launch(target)
                run_ns = run_ns_since(before, launches)
            finally:
                watched.interrupt()
                watched.wait()
        match = re.search(r"@n: (\d+)", watched.output)
        if not match or int(match[1]) != launches:
            raise Absent(f"saw {match[1] if match else 'none'} of {launches} launches")
        return ns, run_ns


def ratios(found, of, to):
    """What one costs of the other, in each round."""
    return [(ours - plain) / (others - plain) for plain, ours, others in zip(found["nothing"], found[of], found[to])]


def measure(way, launch, launches, ns, bpf):
    """Adds one round. What is timed is not measured by the kernel meanwhile, which would take time itself."""
    with kernel_figures.bpf_run_times(False):
        ns.append(way.measure(launch, launches)[0])
    if way.name != "nothing":
        bpf.append(way.measure(launch, launches // 4)[1])


def cuda(report, quick):
    rounds, launches = (3, 50000) if quick else (9, 200000)
    report.section(
        "cuda",
        f"what timing one launch costs the caller, ns: median [least..most] of {rounds} rounds of {launches} launches",
        "A loop of launches of the stand-in runtime or driver, 3 us each, is timed from inside; in each round once without a",
        "tool and once with each. ns more: against the same round without. of these, BPF: the programs' run time, which the",
        "kernel measures in a run of its own (so its readings of the clock are in it); the rest is traps. of bpftrace's: ns",
        "more, of what entry and return cost where names lead. In a launch of the runtime stakeout also has a probe at the",
        "driver's launch inside, by which it is known that this one is not counted. ibt: functions begin with endbr64. thunk: as",
        "NVIDIA's driver exports its calls.",
    )
    ways = [Nothing(), Stakeout(), EntryAndReturn()]
    rows = []
    for variant, api in (("plain", "cudaLaunchKernel"), ("ibt", "cudaLaunchKernel"), ("thunk", "cuLaunchKernel")):
        launch = Launch(variant, api)
        found, run_ns, missing = {way.name: [] for way in ways}, {way.name: [] for way in ways}, {}
        for _ in range(rounds):
            for way in ways:
                if way.name in missing:
                    continue
                try:
                    measure(way, launch, launches, found[way.name], run_ns[way.name])
                except (Absent, harness.Skip, AssertionError) as why:
                    missing[way.name] = str(why)
        for way in ways:
            label = [f"{variant} {api}, {way.name}"]
            if way.name in missing:
                rows.append(label + report.absent(way.name, missing[way.name], 5))
                continue
            ns, bpf = found[way.name], run_ns[way.name]
            more = [n - plain for n, plain in zip(ns, found["nothing"])]
            part = ""
            if way is ways[1] and ways[2].name not in missing:
                part = f"{statistics.median(ratios(found, way.name, ways[2].name)):.2f}"
            each = [spread(ns), *(["", ""] if way.name == "nothing" else [spread(more), spread(bpf)])]
            rows.append(label + each + [part, 1e9 / statistics.median(ns)])
    ways[1].daemon.stop()
    report.table(["build, call, tool", "ns a launch", "ns more", "of these, BPF", "of bpftrace's", "launches/s"], rows)
