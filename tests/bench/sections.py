# SPDX-License-Identifier: GPL-2.0-or-later
"""The sections of `make bench`. Each measures one thing with every tool that is there; .design/cost.md says how."""
import json
import os
import subprocess
import time

import cuda_cost
import harness
import kernel_figures
import targets
import tools
from report import percent, spread
from tools import Absent

HOT_HZ, USUAL_HZ = 9973, 99
DEPTHS = (8, 16, 32, 64, 128)
SMALL_AND_LARGE = (("small process", targets.small), ("PyTorch training", targets.torch))


def try_cells(report, tool, n, function):
    """A row's cells; where a tool is absent or fails, the reason follows the table."""
    try:
        return function()
    except (Absent, harness.Skip, AssertionError) as why:
        return report.absent(tool, why, n)


# BPF run time of a sample.


class Runs:
    """What one tool's program took: all runs, those that were samples of the target, and what these saw."""

    def __init__(self, run_ns, runs, found):
        self.run_ns, self.runs, self.found = run_ns, runs, found

    def cells(self, other_ns):
        """other_ns: what a run takes that hits another process or an idle CPU; there are some in every measurement."""
        n = self.found.samples
        if not n:
            raise Absent("no sample of the target")
        others = max(0, self.runs - n)
        ns = max(0.0, self.run_ns - others * other_ns) / n
        return [ns, n, others, percent(self.found.complete, n), self.found.frames / n]


class CostOfStakeout:
    name = "stakeout"

    def __init__(self):
        self.daemon, self.tool = harness.Daemon("--no-cache"), tools.Stakeout()

    def run(self, pid, hz, seconds):
        stats, out, run_ns, runs = self.tool.record_timed(pid, hz, seconds, self.daemon.socket)
        with open(out, encoding="utf-8") as f:
            found = tools.stacks.count_folded(f.read())
        found.complete = stats["complete"]
        return Runs(run_ns, runs, found)


class CostOfPeer:
    """A tool whose output `count` reads."""

    def __init__(self, name, tool, count):
        self.name, self.tool, self.count = name, tool, count

    def run(self, pid, hz, seconds):
        files = tools.stacks.executable_files(pid)
        watched, run_ns, runs = self.tool.run(pid, hz, seconds)
        return Runs(run_ns, runs, self.count(watched.output, files))


def other_run_ns(tool, hz, seconds):
    """What a run takes that is none of the target's: of one that sleeps."""
    with targets.sleeper() as pid:
        runs = tool.run(pid, hz, seconds)
    return runs.run_ns / max(1, runs.runs)


def cost(report, quick):
    report.section(
        "cost",
        "eBPF run time of one sample, ns, by stack depth",
        "ns = (the program's run time - runs that were none of the target's x what such a run takes) / samples.",
        "The target has a CPU to itself as far as it can be had; stakeout fires on that one, the peers' on all.",
        "Frame-pointer walkers see whole stacks only in the build with frame pointers; on the other, ns is what a",
        "failed walk costs. frames: user frames in a mean stack, as seen by the tool.",
        f"PyTorch: the training loop, a large program whose caches are cold at {USUAL_HZ} Hz; behind it what one of",
        "its samples touches, by kind of data: cache lines of 64 bytes and pages of 4096, counted by a walk of its",
        "stacks in user space.",
    )
    ways = [
        CostOfStakeout(),
        CostOfPeer("bpftrace ustack", tools.Bpftrace(), tools.stacks.count_bpftrace),
        CostOfPeer("bcc profile", tools.Bcc(), lambda text, _files: tools.stacks.count_folded(text)),
    ]
    for hz, seconds in ((USUAL_HZ, 2 if quick else 6), (HOT_HZ, 1 if quick else 3)):
        rows, other_ns = [], {}
        for way in ways:
            cells = try_cells(report, way.name, 1, lambda w=way: [other_run_ns(w, hz, seconds)])
            other_ns[way.name] = cells[0] if isinstance(cells[0], float) else None
            rows.append([f"{hz} Hz, another process", way.name, "", *cells, "", "", "", ""])
        for depth in DEPTHS:
            for frame_pointers in (False, True):
                for way in ways:
                    if other_ns[way.name] is not None:
                        rows.append(cost_row(report, way, hz, seconds, depth, frame_pointers, other_ns[way.name]))
        touched = []
        if hz == USUAL_HZ and other_ns[ways[0].name] is not None:
            rows.append(torch_row(report, ways[0], seconds, other_ns[ways[0].name], touched))
        report.table(["sample of", "tool", "frame pointers", "ns", "samples", "other runs", "complete", "frames"], rows)
        if touched:
            report.table(["a sample of PyTorch touches", "lines", "pages"], touched)


def torch_row(report, way, seconds, other_ns, touched):
    """The row of the training loop; what a sample of it touches is added to `touched`."""

    def measure():
        with targets.torch(targets.LAST_CPU) as pid:
            cells = way.run(pid, USUAL_HZ, 2 * seconds).cells(other_ns)
            touched.extend(lines_touched(pid))
            return cells

    cells = try_cells(report, way.name, 5, measure)
    return [f"{USUAL_HZ} Hz, PyTorch", way.name, "no", *cells]


def lines_touched(pid):
    argv = [targets.built("lines"), str(pid), "300", str(USUAL_HZ)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent(tools.last_line(done.stderr))
    found = json.loads(done.stdout)
    rows = [[name, kind["lines"], kind["pages"]] for name, kind in found["kinds"].items()]
    title = f"all, {found['frames']:.1f} frames, {found['python_frames']:.1f} of Python"
    return [*rows, [title, found["lines"], found["pages"]]]


def cost_row(report, way, hz, seconds, depth, frame_pointers, other_ns):
    def measure():
        with targets.depth(depth, frame_pointers) as pid:
            return way.run(pid, hz, seconds).cells(other_ns)

    cells = try_cells(report, way.name, 5, measure)
    return [f"{hz} Hz, {depth} frames", way.name, "yes" if frame_pointers else "no", *cells]


# Complete stacks.


def complete(report, quick):
    seconds, hz = (2 if quick else 5), 199
    report.section(
        "complete",
        f"stacks that reach their thread's outermost frame, {hz} Hz for {seconds} s",
        "stakeout: the unwind information marks the frame as outermost. Peers mark nothing: theirs count when they end",
        "in _start, __libc_start_*, clone, clone3, start_thread, or at a nameless address of the C library or loader.",
    )

    cuts = []

    def by_stakeout(pid):
        _, stats, _ = tools.Stakeout().record(pid, hz, seconds)
        cut = [f"{n} {cause}" for cause, n in sorted(stats["truncated"].items()) if n]
        if cut:
            cuts.append(", ".join(cut))
        return f"{percent(stats['complete'], stats['taken'])} of {stats['taken']}"

    def by_perf(pid, call_graph):
        perf = tools.Perf(call_graph)
        perf.record(pid, hz, seconds)
        found = perf.count()
        return f"{percent(found.complete, found.samples)} of {found.samples}"

    def by_bpftrace(pid):
        files = tools.stacks.executable_files(pid)
        watched, _, _ = tools.Bpftrace().run(pid, hz, seconds)
        found = tools.stacks.count_bpftrace(watched.output, files)
        return f"{percent(found.complete, found.samples)} of {found.samples}"

    ways = [
        ("stakeout", by_stakeout),
        ("perf dwarf", lambda p: by_perf(p, "dwarf")),
        ("perf fp", lambda p: by_perf(p, "fp")),
        ("bpftrace ustack", by_bpftrace),
    ]
    rows, notes = [], []
    for name, start in targets.varied():
        row = [name]
        try:
            with start() as pid:
                for tool, measure in ways:
                    row += try_cells(report, f"{tool} on {name}", 1, lambda m=measure, p=pid: [m(p)])
        except (Absent, harness.Skip) as why:
            row += report.absent(name, why, len(ways))
        rows.append(row)
        notes += [f"cut by stakeout, {name}: {cuts.pop()}" for _ in cuts[:]]
    report.table(["target", *[tool for tool, _ in ways]], rows)
    for note in notes:
        report.note(note)


# Bytes from the kernel to user space.


COUNT_BYTES = 48  # key and value of the map of counts (include/stakeout/sampler_abi.h)


def ring_positions(ids):
    return {i: kernel_figures.ring_bytes(i) for i in ids}


def bytes_by_stakeout(pid, hz, seconds):
    before = set(kernel_figures.bpf_objects("map"))
    daemon = harness.Daemon("--no-cache")
    rings = [i for i, m in kernel_figures.bpf_objects("map").items() if i not in before and m["type"] == "ringbuf"]
    start = ring_positions(rings)
    _, stats, _ = tools.Stakeout().record(pid, hz, seconds, daemon.socket)
    end = ring_positions(rings)
    daemon.stop()
    if not rings or None in end.values() or None in start.values():
        raise Absent("the rings' positions cannot be read")
    moved = sum(end[i] - start[i] for i in rings)
    most = 2 * COUNT_BYTES * stats["taken"]
    return [moved / seconds, most / seconds, stats["taken"]]


def moved(report, quick):
    seconds = 3 if quick else 10
    report.section(
        "moved",
        f"bytes a second from the kernel to user space, {seconds} s",
        "stakeout: what was written to its ring buffers (read from the kernel), and the most that the counts can add:",
        f"an entry of {COUNT_BYTES} bytes for each sample and stack, if no two samples were alike. perf: its file.",
    )
    ways = [
        ("stakeout", lambda p, hz: bytes_by_stakeout(p, hz, seconds)),
        ("perf dwarf", lambda p, hz: bytes_by_perf(p, hz, "dwarf", seconds)),
        ("perf fp", lambda p, hz: bytes_by_perf(p, hz, "fp", seconds)),
    ]
    rows = []
    for name, start in SMALL_AND_LARGE:
        try:
            with start() as pid:
                for hz in (USUAL_HZ, 999):
                    for tool, measure in ways:
                        cells = try_cells(report, tool, 3, lambda m=measure, p=pid, h=hz: m(p, h))
                        rows.append([name, hz, tool, *cells])
        except (Absent, harness.Skip) as why:
            rows.append([name, "", "", *report.absent(name, why, 3)])
    report.table(["target", "Hz", "tool", "bytes/s", "counts, at most", "samples"], rows)
    report.note("bpftrace and bcc aggregate in the kernel and read their maps at the end: not measured")


def bytes_by_perf(pid, hz, call_graph, seconds):
    perf = tools.Perf(call_graph)
    perf.record(pid, hz, seconds)
    return [os.path.getsize(perf.data) / seconds, "", ""]


# Time to attach.


def stakeout_start_ms(tool, pid, socket=None, cache=None):
    """(from the command to the start of sampling, attach_ms), in ms."""
    watched, stats, out = tool.record(pid, USUAL_HZ, 0.3, socket, "pb.gz", cache)
    return (tools.pprof_begin_ns(out) - watched.began_wall_ns) / 1e6, stats["attach_ms"]


def attach_rows(report, name, pid, rounds):
    stakeout = tools.Stakeout()

    def one_shot(cached):
        figures = []
        if cached:
            stakeout_start_ms(stakeout, pid, cache=stakeout.cache)
        for _ in range(rounds):
            cache = stakeout.cache if cached else harness.temporary_dir()
            figures.append(stakeout_start_ms(stakeout, pid, cache=cache))
        return [spread([f[i] for f in figures]) for i in (0, 1)]

    def by_daemon(cached):
        figures = []
        for _ in range(rounds):
            daemon = harness.Daemon("--cache-dir", harness.temporary_dir())
            figures.append(stakeout_start_ms(stakeout, pid, daemon.socket))
            if cached:  # with no target left the daemon forgets its tables, the cache on disk stays
                figures[-1] = stakeout_start_ms(stakeout, pid, daemon.socket)
            daemon.stop()
        return [spread([f[i] for f in figures]) for i in (0, 1)]

    def by_perf():
        perf, figures = tools.Perf("dwarf"), []
        for _ in range(rounds):
            watched = perf.record(pid, USUAL_HZ, 1)
            figures.append(1000 * (perf.first_sample_s() - watched.began_s))
        return [spread(figures), ""]

    def by_bpftrace():
        figures = [tools.Bpftrace().first_sample_s(pid, USUAL_HZ) for _ in range(rounds)]
        if None in figures:
            raise Absent("no sample")
        return [spread([1000 * f for f in figures]), ""]

    ways = [
        ("stakeout one-shot, nothing cached", lambda: one_shot(False)),
        ("stakeout one-shot, tables cached", lambda: one_shot(True)),
        ("stakeout, daemon runs, nothing cached", lambda: by_daemon(False)),
        ("stakeout, daemon runs, tables cached", lambda: by_daemon(True)),
        ("perf dwarf", by_perf),
        ("bpftrace ustack", by_bpftrace),
    ]
    return [[name, tool, *try_cells(report, f"{tool} on {name}", 2, measure)] for tool, measure in ways]


def attach(report, quick):
    rounds = 2 if quick else 5
    report.section(
        "attach",
        f"from the command to sampling, ms: median [least..most] of {rounds}",
        "stakeout: until the profile's start time (the first sample follows within one period); attach_ms is the",
        "daemon's part. perf, bpftrace: until the time of the first sample. Files are in the page cache throughout.",
    )
    rows = []
    for name, start in SMALL_AND_LARGE:
        try:
            with start() as pid:
                rows += attach_rows(report, name, pid, rounds)
        except (Absent, harness.Skip) as why:
            rows.append([name, "", *report.absent(name, why, 2)])
    report.table(["target", "tool", "ms", "attach_ms"], rows)


# Memory and CPU time of the tool.


def resources_of(watched):
    return [watched.cpu_s, watched.peak_bytes / 1e6]


def daemon_in_rest(pid, seconds):
    """A daemon with this one target, once it is attached and settled: CPU time and memory in the window."""
    daemon = harness.Daemon("--cache-dir", harness.temporary_dir())
    daemon.client("attach", "-p", str(pid), "-r", str(USUAL_HZ))
    time.sleep(2)
    before = kernel_figures.cpu_s(daemon.process.pid)
    time.sleep(seconds)
    cells = [kernel_figures.cpu_s(daemon.process.pid) - before, kernel_figures.rss_bytes(daemon.process.pid) / 1e6]
    daemon.stop()
    return cells


def resource_rows(report, name, pid, seconds):
    def perf(call_graph):
        return resources_of(tools.Perf(call_graph).record(pid, USUAL_HZ, seconds))

    def bpftrace():
        return resources_of(tools.Bpftrace().run(pid, USUAL_HZ, seconds)[0])

    ways = [
        ("stakeout one-shot, all of it", lambda: resources_of(tools.Stakeout().record(pid, USUAL_HZ, seconds)[0])),
        ("stakeoutd, attached, at rest", lambda: daemon_in_rest(pid, seconds)),
        ("perf dwarf (recording only)", lambda: perf("dwarf")),
        ("perf fp (recording only)", lambda: perf("fp")),
        ("bpftrace ustack", bpftrace),
    ]
    if name.startswith("PyTorch"):  # these two see Python's frames only
        for tool in (tools.PySpy(), tools.Austin()):
            ways.append((tool.name, lambda t=tool: resources_of(t.record(pid, USUAL_HZ, seconds))))
    return [[name, tool, *try_cells(report, f"{tool} on {name}", 2, measure)] for tool, measure in ways]


def resources(report, quick):
    seconds = 3 if quick else 10
    report.section(
        "resources",
        f"what the tool itself takes, {USUAL_HZ} Hz for {seconds} s",
        "CPU s: of all its processes from start to end (stakeoutd: in the window). MB: sum of its processes' peaks.",
    )
    rows = []
    for name, start in SMALL_AND_LARGE:
        try:
            with start() as pid:
                rows += resource_rows(report, name, pid, seconds)
        except (Absent, harness.Skip) as why:
            rows.append([name, "", *report.absent(name, why, 2)])
    report.table(["target", "tool", "CPU s", "MB"], rows)


# What the target loses.


class Switcher:
    """Two threads of one CPU that pass a byte to and fro: progress is context switches."""

    name = "context switches (pipe ping-pong)"

    def start(self):
        return targets.running([harness.workload("switcher"), targets.FOREVER_S, targets.LAST_CPU])

    def progress(self, pid):
        return kernel_figures.voluntary_switches(pid)


class Work:
    """A busy loop: progress is portions of work done."""

    name = "busy loop"

    def __init__(self):
        self.file = os.path.join(harness.temporary_dir(), "progress")

    def start(self):
        return targets.running([targets.built("progress"), self.file], targets.LAST_CPU)

    def progress(self, _pid):
        with open(self.file, "rb") as f:
            return int.from_bytes(f.read(8), "little")


def rate(target, pid, seconds):
    began, done = time.monotonic(), target.progress(pid)
    time.sleep(seconds)
    return (target.progress(pid) - done) / (time.monotonic() - began)


class Watchers:
    """Ways to watch a process while its speed is measured."""

    def __init__(self, hz):
        self.hz, self.daemon = hz, harness.Daemon("--no-cache")

    def nothing(self, _pid):
        return lambda: None

    def stakeout(self, pid):
        self.daemon.client("attach", "-p", str(pid), "-r", str(self.hz))
        return lambda: self.daemon.client("detach", "-p", str(pid))

    def perf(self, pid):
        watched = tools.Perf("dwarf").start(pid, self.hz, 3600)
        time.sleep(1)

        def stop():
            watched.interrupt()
            watched.wait()

        return stop

    def bpftrace(self, pid):
        watched, _ = tools.Bpftrace().start_and_find(tools.Bpftrace().command(pid, self.hz))
        time.sleep(0.3)

        def stop():
            watched.interrupt()
            watched.wait()

        return stop


def slowdowns(target, ways, rounds, seconds):
    """Per way the slow-down in percent of each round, against the same round without a tool."""
    found, missing = {name: [] for name, _ in ways}, {}
    with target.start() as pid:
        for _ in range(rounds):
            plain = rate(target, pid, seconds)
            for name, begin in ways:
                if name in missing:
                    continue
                try:
                    stop = begin(pid)
                    under = rate(target, pid, seconds)
                    stop()
                except Absent as why:
                    missing[name] = str(why)
                    continue
                # Speed wanders for minutes at a time: what it was before and after is the yardstick.
                after = rate(target, pid, seconds)
                found[name].append(100 * ((plain + after) / 2 / under - 1))
                plain = after
    return found, missing


def slowdown(report, quick):
    rounds, seconds = (3, 0.5) if quick else (7, 2)
    report.section(
        "slowdown",
        f"how much slower the target runs at {USUAL_HZ} Hz, %: median [least..most] of {rounds} rounds of {seconds} s",
        "Each window with a tool is compared with the mean of the windows without before and after it. The row",
        "'nothing' is the same with no tool: the noise of this machine, below which nothing can be said.",
    )
    rows, watchers = [], Watchers(USUAL_HZ)
    ways = [
        ("nothing", watchers.nothing),
        ("stakeout", watchers.stakeout),
        ("perf dwarf", watchers.perf),
        ("bpftrace ustack", watchers.bpftrace),
    ]
    for target in (Switcher(), Work()):
        found, missing = slowdowns(target, ways, rounds, seconds)
        for name, _ in ways:
            cells = report.absent(name, missing[name], 1) if name in missing else [spread(found[name], 2)]
            rows.append([target.name, name, *cells])
    watchers.daemon.stop()
    report.table(["target", "tool", "slower by %"], rows)


# Unwind tables.


def torch_libraries(pid):
    """The ten largest files of a process's executable mappings."""
    paths = {p for _, _, p in tools.stacks.executable_files(pid) if p.startswith("/") and os.path.exists(p)}
    return sorted(paths, key=os.path.getsize, reverse=True)[:10]


def tables(report, quick):
    report.section(
        "tables",
        "unwind tables: size, compiled anew, loaded from the cache",
        "bytes a row: rows, page index and rules of the file, all told, in memory.",
    )
    rows = []
    try:
        with targets.torch() as pid:
            files = torch_libraries(pid)[: 3 if quick else 10]
            command = [targets.built("table_time"), harness.temporary_dir(), *files]
            out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            for line in out.splitlines():
                f = json.loads(line)
                times = [f["compile_ms"], f["load_ms"], f["cached_bytes"] / 1e6]
                rows.append([os.path.basename(f["file"]), f["rows"], f["bytes"] / max(1, f["rows"]), *times])
            rows.append(whole_process(pid))
    except (Absent, harness.Skip) as why:
        report.note(f"absent: PyTorch training: {why}")
    report.table(["file", "rows", "bytes/row", "compiled ms", "from cache ms", "cached MB"], rows)


def whole_process(pid):
    """The attached process: everything that attach does, with nothing cached and with all tables cached."""
    daemon = harness.Daemon("--cache-dir", harness.temporary_dir())
    tool = tools.Stakeout()
    first = tool.record(pid, USUAL_HZ, 0.3, daemon.socket)[1]
    again = tool.record(pid, USUAL_HZ, 0.3, daemon.socket)[1]
    daemon.stop()
    unwind = first["unwind"]
    name = f"the PyTorch process, {unwind['files']} files (attach_ms)"
    return [name, unwind["rows"], unwind["bytes"] / unwind["rows"], first["attach_ms"], again["attach_ms"], ""]


SECTIONS = {
    "cost": cost,
    "complete": complete,
    "moved": moved,
    "attach": attach,
    "resources": resources,
    "slowdown": slowdown,
    "tables": tables,
    "cuda": cuda_cost.cuda,
}
