# SPDX-License-Identifier: GPL-2.0-or-later
"""CUDA calls on other kernels: what the machine of run.py carries for them, and the checks of what it sends."""
import json
import os

import harness
from cuda_targets import RUNTIME, check_against, counted, histogram_of, outermost, quantile

# How the probes are attached; None: they cannot be.
KINDS = {"5.10": None, "6.1": "perf", "6.12": "multi"}
# What guest_cuda sets: errors by code, one in so many calls; times of calls in ns, which emulation only makes longer.
ERRORS = {("cudaMalloc", 2): 10, ("cudaMemcpy", 1): 4}
TIMES_NS = {"cudaStreamSynchronize": 2e6, "cudaDeviceSynchronize": 500e3}
RATE = 200


def files():
    """{path in the machine: path here}, programs first of all"""
    folder = os.path.join(harness.WORKLOAD_DIR, "cuda")
    names = ("cuda_calls", os.path.join("plain", "libcuda.so.1"), os.path.join("plain", RUNTIME))
    return {"/cuda/" + name: os.path.join(folder, name) for name in names}


class Checks:
    def __init__(self, pieces, kind):
        self.pieces, self.kind = pieces, kind

    def piece(self, name, what):
        return self.pieces.get(("cuda", name, what), "").strip("\n")

    def answer(self, name):
        assert self.piece(name, "status"), "the machine did not get so far"
        log = self.piece(name, "log") + "\n" + self.piece("end", "daemon")
        assert self.piece(name, "status") == "0" and self.piece(name, "json"), f"{name}: {log}"
        answer = json.loads(self.piece(name, "json"))
        probes = answer["probes"]
        assert probes["kind"] == self.kind, f"kind {probes['kind']}, expected {self.kind}"
        lost = {cause: n for cause, n in answer["lost"].items() if n}
        assert not lost and not answer["problems"], (lost, answer["problems"])
        # Each entry is either that of a call that counts or nested in one, and has one return.
        assert probes["hits"] > probes["nested"] > 0, probes
        return answer

    def places(self, name, what):
        """{(library, place in the file)} where the code in memory is not the file's."""
        lines = self.piece(name, what).splitlines()
        return {(library, int(place)) for library, place in (line.split() for line in lines)}

    def probes(self, answer, apis=None):
        """The places of all probes, or of those on the functions that are these calls themselves, not their variants."""
        return {
            (os.path.basename(library["path"]), int(probe["address"], 16))
            for library in answer["libraries"]
            for probe in library["probes"]
            if apis is None or (os.path.basename(library["path"]), probe["symbol"]) in apis
        }

    def refused(self):
        """One clear line, where there are no cookies, and nothing else is changed by it."""
        log = self.piece("watched", "log")
        assert self.piece("watched", "status") == "1", f"status {self.piece('watched', 'status')}: {log}"
        assert len(log.splitlines()) == 1 and "no BPF cookies" in log and "5.15" in log, log
        assert not self.places("watched", "probes")
        return log

    def whole(self):
        """All calls of a process, against what the stand-in counted."""
        answer = self.answer("watched")
        truth = json.loads(self.piece("watched", "truth").splitlines()[-1])
        check_against(answer, truth)
        seen = {(entry["api"], entry["code"]): entry["count"] for entry in answer["errors"]}
        true = truth["images"][RUNTIME]
        assert seen == {(api, code): true[api]["calls"] // n for (api, code), n in ERRORS.items()}, seen
        assert true["cudaStreamQuery"]["not_ready"] > 50, true["cudaStreamQuery"]
        for api, least in TIMES_NS.items():
            # The time of the probes is taken off: here it is a twentieth of the shorter ones, and not the same twice.
            median = quantile(histogram_of(answer, api), 0.5)
            assert median > least * 0.97, (api, median)
            shortest = min(row["min_ns"] for row in answer["calls"] if row["api"] == api)
            cost = answer["probes"]["cost_ns_per_call"]
            assert shortest > least * 0.97 - 2 * cost, (api, shortest, cost)
        nested = sum(api["nested"] for images in truth["images"].values() for api in images.values())
        assert answer["probes"]["nested"] == nested, (answer["probes"], nested)
        calls = sum(entry["calls"] for entry in outermost(truth).values())
        assert answer["probes"]["returns"] == calls == answer["probes"]["hits"] - nested, (answer["probes"], calls)
        return f"{calls} calls, {nested} nested, {answer['probes']['cost_ns_per_call']:.0f} ns each"

    def other(self):
        """Of two processes with the same libraries the one that is not watched has no probe in its code."""
        probes, there = self.probes(self.answer("watched")), self.places("watched", "probes")
        assert there == probes, f"{len(there)} places, {len(probes)} probes, {sorted(there ^ probes)[:5]}"
        assert not self.places("watched", "other"), sorted(self.places("watched", "other"))[:5]
        return f"{len(there)} probes, none in the other process"

    def running(self, name):
        """A process that makes its calls all the while: counted once each."""
        answer = self.answer(name)
        calls = {api: entry for (_, api), entry in counted(answer).items()}
        rounds = sum(calls[api]["calls"] for api in calls if api != "cudaFree")
        most = RATE * answer["duration_s"] + 2
        # The emulated process may not keep up with its rate.
        assert most / 10 < rounds <= most * 1.05, f"{rounds} rounds in {answer['duration_s']} s"
        for (api, code), n in ERRORS.items():
            [count] = [e["count"] for e in answer["errors"] if (e["api"], e["code"]) == (api, code)]
            assert abs(count - calls[api]["calls"] / n) <= 1, (api, count, calls[api])
        return f"{rounds} rounds in {answer['duration_s']:.1f} s"

    def end(self):
        """Probes go, those that are hit first; the processes go on to their ends."""
        # The first ended by itself, the second by SIGTERM, which it had lived to see.
        assert self.piece("end", "targets").split() == ["0", "143"], self.piece("end", "targets")
        assert self.piece("end", "status") == "0", f"{self.piece('end', 'status')}: {self.piece('end', 'daemon')}"
        left = self.places("end", "second")
        answer = self.answer("again")
        if self.kind != "perf":
            assert not left and not self.places("end", "first"), sorted(left)[:5]
            return "no probe left"
        called = self.probes(answer, set(counted(answer)))
        assert len(called) == len(counted(answer)), (called, counted(answer))
        assert not left & called, f"probes on calls that are made: {sorted(left & called)}"
        return f"none left where calls are made, {len(left)} elsewhere"


def check(pieces, name):
    """[(what, function that checks it)]"""
    checks = Checks(pieces, KINDS.get(name, "session"))
    if not checks.kind:
        return [("cuda, refused", checks.refused)]
    return [
        ("cuda, all calls of a process", checks.whole),
        ("cuda, one of two processes", checks.other),
        ("cuda, a running process", lambda: checks.running("once")),
        ("cuda, a running process again", lambda: checks.running("again")),
        ("cuda, probes go", checks.end),
    ]
