# SPDX-License-Identifier: GPL-2.0-or-later
"""The sections of `make bench` that measure a program's CPU time for a unit of work: under `stakeout memory`, under memray, and
under a recording of a program that changes its mappings all the time."""
import contextlib
import os
import statistics

import harness
import paired_cpu
import targets
from tools import Absent

HZ = 19  # as the command samples beside it
RECORD_HZ = 99
HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = {"memory": "stakeout memory", "allocations": "stakeout memory --allocations", "kernel": "stakeout record"}
HEAD = ["program", "tool", "costs more, %", "pairs", "load", "units a CPU second"]


@contextlib.contextmanager
def looked_at(daemon, pid, what):
    """What `stakeout memory` asks the daemon for, once it samples. what: "memory" or "allocations"; "kernel": a recording."""
    path = "/v1/targets"
    asked = {"pid": pid, "rate_hz": RECORD_HZ if what == "kernel" else HZ, "duration_s": 3600, what: True}
    look = daemon.request("POST", path, asked, expect=201)["id"]
    path += f"/{look}"
    try:
        harness.wait_until(lambda: daemon.request("GET", path)["state"] != "attaching", "sampling")
        yield
        state = daemon.request("GET", path)["state"]
        if state != "sampling":
            raise Absent(f"the recording is {state}")
    finally:
        daemon.request("DELETE", path, expect=None)


def row(name, tool, pairs, without, watched):
    """How much a unit costs more, beside the machine's load before and after."""
    plain, load = [], [os.getloadavg()[0]]

    def measured():
        plain.append(without())
        return plain[-1]

    found = paired_cpu.losses(pairs, measured, watched)
    load.append(os.getloadavg()[0])
    units = f"{1e9 / statistics.median(plain):.3g}"
    return [name, tool, paired_cpu.cell(found), len(found), f"{min(load):.0f}..{max(load):.0f}", units]


def under_stakeout(name, argv, pairs, daemon, what="memory", part_s=paired_cpu.PART_S):
    with paired_cpu.started(argv) as program:

        def watched():
            with looked_at(daemon, program.pid, what):
                return program.ns_per_unit(part_s)

        return row(name, TOOLS[what], pairs, lambda: program.ns_per_unit(part_s), watched)


def growth(report, quick):
    pairs = 10 if quick else 120
    report.section(
        "memory-growth",
        "how much more CPU time a unit of work costs under `stakeout memory`, %: median [95 % interval]",
        f"Pairs of {paired_cpu.PART_S} s of the program's CPU time, with and without, in random order.",
        "Each recording begins anew, so its first second counts for more than in a long one. 'nothing': the noise.",
    )
    programs = [
        ("C++, new and delete", [targets.built("mallocs")]),
        ("new pages all the time", [targets.built("new_pages")]),
    ]
    if targets.has_module("torch"):
        programs.insert(1, ("PyTorch training", [harness.PYTHON, os.path.join(HERE, "torch_loop.py")]))
    else:
        report.note(f"absent: PyTorch training: {harness.PYTHON} has no module torch")
    daemon = harness.Daemon("--no-cache")
    with paired_cpu.started(programs[0][1]) as program:
        rows = [row(programs[0][0], "nothing", pairs, program.ns_per_unit, program.ns_per_unit)]
    # Steps of a training are few and unlike: it takes more pairs.
    rows += [
        under_stakeout(name, argv, pairs * (4 if "torch" in argv[-1] else 1), daemon) for name, argv in programs
    ]
    daemon.stop()
    report.table(HEAD, rows)


def allocations(report, quick):
    report.section(
        "allocations",
        "how much more CPU time a unit of work costs under `stakeout memory --allocations`, %: median [95 % interval]",
        "Pairs of 6 s of the program's CPU time, with and without, in random order, from the recording's begin on.",
        "Windows come some once in 1.6 s where a program does little else than allocate. 'nothing': the noise.",
    )
    pairs = 5 if quick else 40
    name, argv = "C++, new and delete", [targets.built("mallocs")]
    with paired_cpu.started(argv) as program:

        def part():
            return program.ns_per_unit(6)

        rows = [row(name, "nothing", pairs // 2, part, part)]
    daemon = harness.Daemon("--no-cache")
    rows.append(under_stakeout(name, argv, pairs, daemon, "allocations", 6))
    daemon.stop()
    report.table(HEAD, rows)


def mappings(report, quick):
    pairs = 10 if quick else 60
    report.section(
        "mappings",
        f"how much more CPU time 50 us of work cost in a recording at {RECORD_HZ} Hz, %: median [95 % interval]",
        f"Pairs of {paired_cpu.PART_S} s of the program's CPU time, with and without, in random order. The program maps and unmaps",
        "a page 20,000 times a second of its CPU time; 'none': it computes alone.",
    )
    daemon = harness.Daemon("--no-cache")
    rows = [
        under_stakeout(name, [targets.built("mappings"), kind], pairs, daemon, "kernel")
        for name, kind in (("none", "none"), ("anonymous memory", "data"), ("executable pages of a file", "code"))
    ]
    daemon.stop()
    report.table(HEAD, rows)


def under_memray(name, tool, python, script, options, pairs):
    """memray cannot be taken away again: each half of a pair is a process of its own."""

    def cost(argv):
        with paired_cpu.started(argv) as program:
            return program.ns_per_unit()

    out = os.path.join(harness.temporary_dir(), "memray.bin")
    argv = [python, "-m", "memray", "run", "--quiet", "--force", "--output", out, *options, script]
    return row(name, tool, pairs, lambda: cost([python, script]), lambda: cost(argv))


def memray(report, quick):
    report.section(
        "memray",
        "how much more CPU time a unit of work costs, %: median [95 % interval]",
        "A Python program of small objects, on the Python that memray is for. Pairs as in memory-growth; of memray",
        "each half of a pair is a process of its own.",
    )
    python, script = os.path.join(targets.BENCH_DIR, "memray/python3"), os.path.join(HERE, "small_objects.py")
    if not os.path.exists(python):
        raise Absent("memray is not there: run make memray")
    name, pairs = "Python, small objects", 5 if quick else 20
    rows = [
        under_memray(name, "memray", python, script, [], pairs),
        under_memray(name, "memray --native", python, script, ["--native"], pairs),
    ]
    daemon = harness.Daemon("--no-cache")
    rows.append(under_stakeout(name, [python, script], 6 * pairs, daemon))
    daemon.stop()
    report.table(HEAD, rows)


SECTIONS = {"mappings": mappings, "memory-growth": growth, "allocations": allocations, "memray": memray}
