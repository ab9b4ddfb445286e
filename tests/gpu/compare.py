# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares what stakeout counted with what torch.profiler recorded of the same steps.

The profiler (Kineto, over CUPTI) records every runtime call of those that stakeout knows, and of the driver's the launches
and, in newer versions, some for memory that is mapped, which are not compared: Kineto's list of callbacks, libkineto/src/CuptiCbidRegistry.cpp. Its trace is Chrome's JSON: runtime calls have the
category cuda_runtime, driver calls cuda_driver, what ran on the GPU kernel; a kernel has its launch's correlation.
"""
import collections
import json
import os
import re

SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARK = "stakeout_steps"
TRACED_DRIVER_CALLS = ("cuLaunchKernel", "cuLaunchKernelEx")
MAPPING_CALLS = (
    "cuMemCreate", "cuMemRelease", "cuMemRetainAllocationHandle", "cuMemAddressReserve", "cuMemAddressFree", "cuMemMap",
    "cuMemUnmap", "cuMemSetAccess",
)


class Api:
    """The calls that stakeout times, from include/stakeout/cuda_api.h: name -> (RUNTIME or DRIVER, kind)."""

    def __init__(self, path=os.path.join(SOURCE_DIR, "include", "stakeout", "cuda_api.h")):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        found = re.findall(r"\bX\((\w+), (RUNTIME|DRIVER), (\w+), \w+\)", text)
        if not found:
            raise ValueError(f"no calls in {path}")
        words = dict(re.findall(r'\bX\((\w+), "([^"]+)", \w+, "[^"]+"\)', text))
        self.words = {name: words[kind] for name, _, kind in found}  # of its kind, by which stacks are taken
        # A blocking copy may be an asynchronous one of the driver.
        self.calls = {name: (library, kind.removeprefix("BLOCKING_")) for name, library, kind in found}

    def is_driver(self, name):
        return self.calls[name][0] == "DRIVER"

    def kind(self, name):
        return self.calls[name][1]

    def is_traced(self, name):
        return not self.is_driver(name) or name in TRACED_DRIVER_CALLS


def base_api(name):
    """Without the suffixes of versions and of the per-thread default stream."""
    return re.sub(r"_v\d+$", "", re.sub(r"_(ptsz|ptds)$", "", name))


def mangled_base(name):
    """The qualified name in an Itanium mangled name, which may be cut; None if it is not one of the plain kinds."""
    match = re.match(r"_ZN?", name)
    at, parts = match.end(), []
    while True:
        length = re.match(r"\d+", name[at:])
        if not length:
            break
        at += length.end()
        parts.append(name[at : at + int(length.group())])
        at += int(length.group())
    return "::".join("{anonymous}" if part.startswith("_GLOBAL__N_") else part for part in parts) or None


def kernel_base(name):
    """A kernel's name without result, template arguments and parameters, which demanglers write in different ways."""
    if name.startswith("_Z"):
        return mangled_base(name) or name
    name = name.replace("(anonymous namespace)", "{anonymous}")
    kept, depth = [], 0
    for c in name:
        if c in "<(":
            depth += 1
        elif c in ">)":
            depth -= 1
        elif depth == 0:
            kept.append(c)
    words = re.sub(r" \[clone .*|const$", "", "".join(kept)).split()
    return words[-1] if words else name


class Trace:
    """The profiler's trace of the marked steps: `calls` by API, `kernels` by base name, of launches by the host."""

    def __init__(self, path, api):
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
        events = content["traceEvents"] if isinstance(content, dict) else content
        begin, end = self._window(events)
        self.calls = collections.Counter()
        self.kernels = collections.Counter()
        launches = set()
        marked = [
            e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and begin <= float(e["ts"]) <= end
            and base_api(e["name"]) in api.calls
        ]
        for event in self._outermost(marked):
            name = base_api(event["name"])
            self.calls[name] += 1
            if api.kind(name) == "LAUNCH" and "GraphLaunch" not in name:
                launches.add(event.get("args", {}).get("correlation"))
        launches.discard(None)
        for event in events:
            if event.get("cat") == "kernel" and event.get("args", {}).get("correlation") in launches:
                self.kernels[kernel_base(event["name"])] += 1

    @staticmethod
    def _outermost(calls):
        """Without the driver calls inside a runtime call of the same thread, which stakeout does not count either."""
        ends = {}  # of the last runtime call, by thread
        for event in sorted(calls, key=lambda e: (float(e["ts"]), e["cat"] == "cuda_driver")):
            thread, end = (event["pid"], event["tid"]), float(event["ts"]) + float(event["dur"])
            if event["cat"] == "cuda_runtime":
                ends[thread] = max(end, ends.get(thread, end))
            elif end <= ends.get(thread, end - 1):
                continue
            yield event

    @staticmethod
    def _window(events):
        """The mark's begin and end; the GPU has one of the same name."""
        marks = [
            e for e in events if e.get("name") == MARK and e.get("ph") == "X" and not str(e.get("cat", "")).startswith("gpu")
        ]
        if len(marks) != 1:
            raise ValueError(f"{len(marks)} ranges named {MARK} in the trace")
        begin = float(marks[0]["ts"])
        return begin, begin + float(marks[0]["dur"])


class Counted:
    """What `stakeout cuda --json` wrote."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.report = json.load(f)
        self.calls = collections.Counter()
        self.kernels = collections.Counter()
        self.unnamed_launches = 0
        for row in self.report["calls"]:
            self.calls[row["api"]] += row["calls"]
            if row["kind"] != "launch" or "GraphLaunch" in row["api"]:
                continue
            if row["kernel"]:
                self.kernels[kernel_base(row["kernel"])] += row["calls"]
            else:
                self.unnamed_launches += row["calls"]

    def waits(self):
        """[(line, nanoseconds, calls)] of calls in which the host waits for the GPU, the longest first. An asynchronous copy
        is none: what it takes is the host's own time."""
        total = {}
        for row in self.report["lines"]:
            if row["event"] in ("sync", "blocking-copy"):
                ns, calls = total.get(row["line"], (0, 0))
                total[row["line"]] = (ns + row["total_ns"], calls + row["calls"])
        return sorted(((line, ns, calls) for line, (ns, calls) in total.items()), key=lambda row: -row[1])


class Comparison:
    """failures: what must not be. notes: what a reader should know."""

    def __init__(self, api, trace, counted, wait=None):
        self.api, self.trace, self.counted = api, trace, counted
        self.failures, self.notes = [], []
        self._check_totals()
        for kind in sorted({kind for _, kind in api.calls.values()}):
            self._check_kind(kind)
        self._check_kernels()
        if wait:
            self._check_wait(wait)

    def _check_totals(self):
        report = self.counted.report
        if report["estimated"]:
            self.failures.append("stakeout's counts are estimates (duty cycle)")
        for cause, n in report["lost"].items():
            if n:
                self.failures.append(f"stakeout lost {n}: {cause}")
        if not sum(self.trace.calls.values()):
            self.failures.append("the profiler recorded no CUDA call in the steps")
        if not sum(self.counted.calls.values()):
            self.failures.append("stakeout counted no CUDA call")
        for kind, period in report["probes"]["stack_period"].items():
            if period == 1:
                self._check_lines(kind)
        self.notes += [f"stakeout: {problem}" for problem in report["problems"]]

    def _check_lines(self, kind):
        """Where every call has a stack, the lines' calls are the calls."""
        report, words = self.counted.report, self.api.words
        calls = sum(row["calls"] for row in report["calls"] if words[row["api"]] == kind)
        at_lines = sum(row["calls"] for row in report["lines"] if words[row["api"]] == kind)
        if calls != at_lines:
            self.failures.append(f"{kind}: {calls} calls, but {at_lines} at source lines")

    def _check_kind(self, kind):
        """A library that brings a runtime of its own, linked statically and without symbols, has no runtime calls that a
        probe could be put on; its driver calls are counted instead. So a runtime call may be missing if a driver call of
        the same kind is there in its place. Nothing may be counted that the profiler did not see."""
        missing, in_place, untraced = 0, 0, 0
        for name in (n for n in self.api.calls if self.api.kind(n) == kind):
            more = self.counted.calls[name] - self.trace.calls[name]
            if not self.api.is_traced(name):
                # What only maps memory is in no runtime call's place.
                untraced += 0 if name in MAPPING_CALLS else self.counted.calls[name]
            elif more > 0 and self.api.is_driver(name):
                in_place += more
            elif more > 0:
                self.failures.append(f"{name}: stakeout counted {more} more than the profiler recorded")
            else:
                missing -= more
        if in_place > missing:
            self.failures.append(f"{kind}: {in_place - missing} driver launches that the profiler did not record")
        if missing > in_place + untraced:
            self.failures.append(f"{kind}: {missing - in_place - untraced} calls that stakeout did not count")
        elif missing:
            self.notes.append(f"{kind}: {missing} runtime calls were seen as calls of the driver (runtime linked statically)")
        left = untraced - max(0, missing - in_place)
        if left > 0:
            self.notes.append(f"{kind}: {left} driver calls of a sort that the profiler does not record")

    def _check_kernels(self):
        missing = 0
        for name in sorted(set(self.trace.kernels) | set(self.counted.kernels)):
            traced, counted = self.trace.kernels[name], self.counted.kernels[name]
            if counted > traced:
                self.failures.append(f"kernel {name}: {counted} launches counted, {traced} recorded")
            missing += max(0, traced - counted)
        if missing > self.counted.unnamed_launches:
            self.failures.append(f"{missing} kernels recorded whose launches have another name with stakeout")
        elif missing:
            self.notes.append(f"{missing} of {sum(self.trace.kernels.values())} launches have no kernel name with stakeout")

    def _check_wait(self, wait):
        waits = self.counted.waits()
        if not waits:
            self.failures.append("stakeout shows no line that waits")
        elif not waits[0][0].endswith((f"({wait})", f"/{wait})")):
            self.failures.append(f"the first of the lines that wait is {waits[0][0]}, not {wait}")

    def rows(self):
        """(API, recorded, counted) of every API that either saw."""
        names = sorted(n for n in self.api.calls if self.trace.calls[n] or self.counted.calls[n])
        return [(n, self.trace.calls[n] if self.api.is_traced(n) else None, self.counted.calls[n]) for n in names]
