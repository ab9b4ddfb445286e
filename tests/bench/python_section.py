# SPDX-License-Identifier: GPL-2.0-or-later
"""The section `python`: what Python's frames cost, and stakeout beside the profilers that see only these."""
import os

import harness
import sections
import targets
import test_python
import tools
from report import percent, spread
from tools import Absent

BENCH_DIR = os.path.dirname(os.path.abspath(__file__))
HZS = (99, 9973)
PYTHON_FRAMES, CALLS_BY_C = 30, 2
INTERPRETERS = ("system", "3.10")  # the latter for austin 1.0 (Debian 12), which does not find 3.11
# All stacks that loop.py can have, outermost first.
VALID = {("<module>", "main", *leaf) for leaf in ((), ("collatz",), ("add",), ("__init__",))} | {("<module>",)}


class Loop:
    """loop.py, which counts its portions of work, as sections.slowdowns() wants it."""

    def __init__(self, interpreter):
        self.interpreter = interpreter
        self.file = os.path.join(harness.temporary_dir(), "progress")

    def start(self):
        script = os.path.join(BENCH_DIR, "loop.py")
        return targets.running([self.interpreter, script, targets.FOREVER_S, self.file], targets.LAST_CPU)

    def progress(self, _pid):
        with open(self.file, "rb") as f:
            return int.from_bytes(f.read(8), "little")


def depth(interpreter):
    script = os.path.join(BENCH_DIR, "python_depth.py")
    return targets.running([interpreter, script, PYTHON_FRAMES, CALLS_BY_C], targets.LAST_CPU)


def sample_cost(daemon, interpreter, hz, seconds):
    """ns of a sample, how many, whole ones, and their frames."""
    tool = tools.Stakeout()
    with targets.sleeper() as pid:
        _, _, run_ns, runs = tool.record_timed(pid, hz, seconds, daemon.socket)
    other_ns = run_ns / max(1, runs)
    with depth(interpreter) as pid:
        stats, out, run_ns, runs = tool.record_timed(pid, hz, seconds, daemon.socket)
    with open(out, encoding="utf-8") as f:
        found = tools.stacks.count_python_folded(f.read(), None)
    n = found.samples
    if not n:
        raise Absent("no sample of the target")
    ns = max(0.0, run_ns - max(0, runs - n) * other_ns) / n
    python = stats["python"]
    whole = [percent(stats["complete"], n), percent(python["complete"], python["samples"])]
    return [ns, n, *whole, found.frames / n, found.native / n]


def by_stakeout(pid, hz, seconds):
    watched, _, out = tools.Stakeout().record(pid, hz, seconds)
    with open(out, encoding="utf-8") as f:
        found = tools.stacks.count_python_folded(f.read(), VALID)
    return [found.samples, percent(found.valid, found.samples), watched.cpu_s]


def by_sampler(sampler, pid, hz, seconds):
    watched = sampler.record(pid, hz, seconds)
    found = sampler.count(VALID)
    if not found.samples:
        raise Absent("no sample of the target")
    return [found.samples, percent(found.valid, found.samples), watched.cpu_s]


def begin_sampler(sampler, hz):
    def begin(pid):
        watched = sampler.start(pid, hz)
        return lambda: sampler.stop(watched)

    return begin


def cost_table(report, seconds):
    rows, daemon = [], harness.Daemon("--no-cache")
    for version in INTERPRETERS:
        for hz in HZS:
            cells = sections.try_cells(
                report,
                f"stakeout on CPython {version}",
                6,
                lambda v=version, h=hz: sample_cost(daemon, test_python.interpreter(v), h, seconds),
            )
            rows.append([f"CPython {version}, {hz} Hz", *cells])
    daemon.stop()
    head = ["sample of", "ns", "samples", "native complete", "Python complete", "Python frames", "native frames"]
    report.table(head, rows)


def sample_table(report, seconds):
    rows, samplers = [], (tools.PySpy(), tools.Austin())
    for version in INTERPRETERS:
        try:
            loop = Loop(test_python.interpreter(version))
        except harness.Skip as why:
            rows.append([f"CPython {version}", "", *report.absent(f"CPython {version}", why, 4)])
            continue
        with loop.start() as pid:
            ways = [("stakeout", lambda p=pid: by_stakeout(p, HZS[0], seconds))]
            ways += [(s.name, lambda s=s, p=pid: by_sampler(s, p, HZS[0], seconds)) for s in samplers]
            for name, measure in ways:
                cells = sections.try_cells(report, f"{name} on CPython {version}", 3, measure)
                rows.append([f"CPython {version}", name, *cells])
    report.table(["target", "tool", "samples", "stacks that can be", "tool's CPU s"], rows)


def slowdown_table(report, rounds, seconds):
    rows, watchers = [], sections.Watchers(HZS[0])
    ways = [("nothing", watchers.nothing), ("stakeout", watchers.stakeout)]
    ways += [(s.name, begin_sampler(s, HZS[0])) for s in (tools.PySpy(), tools.Austin())]
    for version in INTERPRETERS:
        try:
            found, missing = sections.slowdowns(Loop(test_python.interpreter(version)), ways, rounds, seconds)
        except harness.Skip as why:
            rows.append([f"CPython {version}", "", *report.absent(f"CPython {version}", why, 1)])
            continue
        for name, _ in ways:
            cells = [spread(found[name], 2)]
            if name in missing:
                cells = report.absent(f"{name} on CPython {version}", missing[name], 1)
            rows.append([f"CPython {version}", name, *cells])
    watchers.daemon.stop()
    report.table(["target", "tool", "slower by %"], rows)


def python(report, quick):
    seconds, rounds = (2, 2) if quick else (5, 5)
    report.section(
        "python",
        f"stacks with Python frames, {seconds} s each",
        f"First the eBPF run time of a sample of {PYTHON_FRAMES} Python frames, of which C calls {CALLS_BY_C}.",
        "native frames: the others in the same stack. The calls of the interpreter's loop were unwound as well.",
        f"Then tests/bench/loop.py at {HZS[0]} Hz. Stacks that can be: samples whose Python functions are one of the",
        "program's few call chains (a sampler that does not stop the target may read frames that come and go).",
        "stakeout counts time on the CPU, py-spy and austin look at the clock; this target is on the CPU all the time.",
        f"Then how much slower it runs, median [least..most] of {rounds} rounds of {seconds} s.",
    )
    cost_table(report, seconds)
    sample_table(report, seconds)
    slowdown_table(report, rounds, seconds)
