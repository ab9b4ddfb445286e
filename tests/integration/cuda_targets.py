# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that call the stand-in CUDA libraries, and what was counted of them beside what these counted inside
(tests/workloads/cuda/standin.h)."""
import json
import os
import subprocess

from harness import (
    PYTHON,
    Target,
    script,
    wait_until,
    workload,
)

RELEASES = ("Free", "Unregister", "Destroy", "Release")
# Every call is to be counted, whatever it costs.
ALL = 100
RUNTIME, DRIVER = "libcudart.so.12", "libcuda.so.1"
FOLDER = os.path.join("cuda", "plain")


def program(name, *arguments, rules=None, variant="plain", **options):
    """A program of tests/workloads/cuda that waits on its standard input."""
    environment = {**os.environ, "LD_LIBRARY_PATH": workload(os.path.join("cuda", variant))}
    if rules:
        environment["STANDIN_CUDA"] = rules
    argv = [workload(os.path.join("cuda", name)), *arguments]
    return Target(argv, stdin=subprocess.PIPE, env={**environment, **options.pop("env", {})}, **options)


def python_program(name, *arguments, rules=None):
    environment = {**os.environ, **({"STANDIN_CUDA": rules} if rules else {})}
    argv = [PYTHON, script(name), workload(FOLDER), *arguments]
    return Target(argv, stdin=subprocess.PIPE, env=environment)


def go(target):
    target.process.stdin.write(b"x")
    target.process.stdin.flush()


def finish(target, seconds=60):
    """The truth that the target prints as its last line."""
    return json.loads(target.finish(seconds).splitlines()[-1])


class Watch:
    """A target of a daemon whose CUDA calls are timed."""

    def __init__(self, daemon, target, libraries=2, **options):
        self.daemon = daemon
        body = {"pid": target.pid, "rate_hz": 99, "cuda": True, **options}
        self.path = f"/v1/targets/{daemon.request('POST', '/v1/targets', body, expect=201)['id']}"
        if libraries:
            wait_until(lambda: len(self.answer()["libraries"]) >= libraries, "the probes on the libraries")
            assert self.answer()["probes"]["installed"] > 0

    def answer(self):
        return self.daemon.request("GET", self.path + "/cuda")

    def at_end(self):
        """What was counted until the target ended."""
        wait_until(lambda: self.daemon.request("GET", self.path)["state"] == "ended", "the target's end")
        return self.answer()


def watch_all(daemon, target, **options):
    return Watch(daemon, target, cuda_budget_percent=ALL, **options)


def counted(answer):
    """{(file of the library, API): {calls, errors, bytes, directions}}"""
    files = {library["id"]: os.path.basename(library["path"]) for library in answer["libraries"]}
    found = {}
    for row in answer["calls"]:
        sums = found.setdefault(
            (files[row["library"]], row["api"]), {"calls": 0, "errors": 0, "bytes": 0, "directions": {}}
        )
        for name in ("calls", "errors", "bytes"):
            sums[name] += row[name]
        assert sum(count for _, _, count in row["histogram"]) == row["calls"], row
        if row["direction"]:
            sums["directions"][row["direction"]] = sums["directions"].get(row["direction"], 0) + row["bytes"]
    return found


def outermost(truth, static=None):
    """The truth in the same form: without the calls that the runtime made, and "not ready" is no error. static: the file
    that has the static runtime."""
    found = {}
    for image, apis in truth["images"].items():
        for api, true in apis.items():
            if true["calls"] == true["nested"]:
                continue
            assert not (true["nested"] and true["bytes"]), f"{api} is called both ways: whose are the bytes?"
            found[(static if image == "static" else image, api)] = {
                "calls": true["calls"] - true["nested"],
                "errors": true["errors"] - true["not_ready"],
                # What is released is in the figures of memory alone.
                "bytes": 0 if any(word in api for word in RELEASES) else true["bytes"],
                # The stand-in counts a failed copy's, too.
                "directions": None if true["bytes_failed"] else true["directions"],
            }
    return found


# What a source line lacks; the counts by API are whole all the same.
STACK_LOSSES = ("stack-busy", "stack-full", "lines-lost")


def check_against(answer, truth, static=None):
    """Counts and bytes, API by API and library by library, are the truth; nothing is lost."""
    seen, true = counted(answer), outermost(truth, static)
    assert not answer["estimated"] and not answer["problems"], (answer["probes"], answer["problems"])
    for key in sorted(set(seen) | set(true)):
        if key in seen and key in true and true[key]["directions"] is None:
            copied = seen[key]["directions"].values()
            assert not copied or sum(copied) == true[key]["bytes"], (seen[key], true[key])
            seen[key]["directions"] = None
        assert seen.get(key) == true.get(key), f"{key}: counted {seen.get(key)}, true {true.get(key)}"
    lost = {cause: n for cause, n in answer["lost"].items() if n and cause not in STACK_LOSSES}
    assert not lost, lost


def histogram_of(answer, api):
    """[(middle of the bucket, calls)], by rising time."""
    sums = {}
    for row in answer["calls"]:
        if row["api"] == api:
            for low, width, count in row["histogram"]:
                sums[low + width / 2] = sums.get(low + width / 2, 0) + count
    return sorted(sums.items())


def quantile(histogram, share):
    rest = share * sum(count for _, count in histogram)
    for middle, count in histogram:
        rest -= count
        if rest <= 0:
            return middle
    raise AssertionError("an empty histogram")


def summary_of(daemon, target, duration=2, extra=()):
    out = daemon.client("cuda", "-p", str(target.pid), "-d", str(duration), "--json", "-q", *extra).stdout
    return json.loads(out)


def launches(answer):
    sums = {}
    for row in answer["calls"]:
        if row["kind"] == "launch":
            sums[row["kernel"]] = sums.get(row["kernel"], 0) + row["calls"]
    return sums
