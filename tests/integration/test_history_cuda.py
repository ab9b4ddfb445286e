# SPDX-License-Identifier: GPL-2.0-or-later
"""CUDA calls in the daemon's history: windows that add up, parts of the past, restarts, processes that are gone, whose
they are."""
import json
import os

from cuda_targets import (
    ALL,
    check_against,
    counted,
    finish,
    go,
    program,
    python_program,
)
from harness import (
    Daemon,
    long,
    one_clear_line,
    run,
    start,
    temporary_dir,
    wait_until,
)

NOBODY = 65534


class Historian(Daemon):
    """A daemon with a store, whose windows last a second."""

    def __init__(self, store=None, *arguments):
        self.store = store or os.path.join(temporary_dir(), "store")
        super().__init__("--store", self.store, "--window", "1", *arguments)

    def watch(self, target, libraries=2, **options):
        body = {"pid": target.pid, "rate_hz": 99, "cuda": True, "keep": True, "cuda_budget_percent": ALL, **options}
        self.path = f"/v1/targets/{self.request('POST', '/v1/targets', body, expect=201)['id']}"
        if libraries:
            wait_until(lambda: len(self.answer()["libraries"]) >= libraries, "the probes on the libraries")
        return self

    def answer(self):
        return self.request("GET", self.path + "/cuda")

    def of(self, pid):
        found = [t for t in self.request("GET", "/v1/history")["targets"] if t["pid"] == pid]
        return found[-1] if found else None

    def past(self, pid, expect=200, **range_ns):
        arguments = "&".join(f"{name}={value}" for name, value in range_ns.items())
        return self.request("GET", f"/v1/history/{self.of(pid)['key']}/cuda?{arguments}", expect=expect)

    def ended(self, pid):
        return wait_until(lambda: (e := self.of(pid)) and e["end"] in ("ended", "detached") and e, "the end of its history")

    def cuda(self, pid, *options, **more):
        return self.client("cuda", "-p", str(pid), *options, **more)


def calls_by_thread(answer):
    """Everything of the rows of calls that adds up exactly."""
    files = {library["id"]: library["path"] for library in answer["libraries"]}
    names = ("calls", "errors", "total_ns", "bytes", "blocks", "threads")
    found = {}
    for row in answer["calls"]:
        key = (row["pid"], row["tid"], row["api"], files.get(row["library"]), row["kernel"], row["direction"])
        sums = found.setdefault(key, {name: 0 for name in names})
        for name in names:
            sums[name] += row[name]
        histogram = sums.setdefault("histogram", {})
        for lower, width, n in row["histogram"]:
            histogram[lower, width] = histogram.get((lower, width), 0) + n
    return found


def extremes(answer):
    return {
        (row["pid"], row["tid"], row["api"], row["kernel"], row["direction"]): (row["min_ns"], row["max_ns"])
        for row in answer["calls"]
    }


def errors(answer):
    found = {}
    for row in answer["errors"]:
        key = (row["pid"], row["api"], row["code"])
        found[key] = found.get(key, 0) + row["count"]
    return found


def lines(answer):
    found = {}
    for row in answer["lines"]:
        key = (row["event"], row["api"], row["pid"], row["tid"], row["line"], tuple(row["stack"]))
        before = found.get(key, (0, 0, 0))
        found[key] = tuple(a + row[name] for a, name in zip(before, ("calls", "total_ns", "bytes")))
    return found


def sites(answer):
    found = {}
    for row in answer["allocations"]:
        key = (row["pid"], row["line"], tuple(row["stack"]), row["host"])
        names = ("allocations", "frees", "bytes", "current_bytes")
        before = found.get(key, (0,) * len(names))
        found[key] = tuple(a + row[name] for a, name in zip(before, names))
    return found


def total(answer):
    return sum(row["calls"] for row in answer["calls"])


def check_extremes(past, live):
    """Within a bucket of the truth, and never more extreme than the truth by more: latency.h's are 1/32 wide."""
    for key, (least, greatest) in extremes(live).items():
        seen = extremes(past)[key]
        assert least * 31 / 32 - 1 <= seen[0] <= least, (key, seen, least)
        assert greatest <= seen[1] <= greatest * 33 / 32 + 1, (key, seen, greatest)


def test_windows_add_up_to_the_answer():
    """Calls, errors, histograms, bytes, lines and memory: all windows together are what the daemon answers of the whole."""
    daemon = Historian()
    rules = "cudaMalloc=20us,cudaMalloc!2@7,cudaMemcpyAsync=15us*9/90us,cudaStreamSynchronize=200us"
    mix = "launch*3,launch_ex,malloc,htod,dtoh,memset,event_query,stream_sync"
    target = program("cuda_calls", "-t", 2, "-n", 4000, "-r", 800, "-m", mix, rules=rules)
    daemon.watch(target)
    go(target)
    truth = finish(target)
    wait_until(lambda: daemon.request("GET", daemon.path)["state"] == "ended", "the target's end")
    live = daemon.answer()
    check_against(live, truth)
    daemon.ended(target.pid)
    past = daemon.past(target.pid)
    assert past["history"]["cuda_windows"] == past["history"]["windows"] >= 4, past["history"]
    check_against(past, truth)
    assert calls_by_thread(past) == calls_by_thread(live)
    assert errors(past) == errors(live) and len(errors(live)) >= 1
    assert lines(past) == lines(live) and lines(live)
    assert sites(past) == sites(live) and sites(live)
    check_extremes(past, live)
    assert abs(past["duration_s"] - live["duration_s"]) < 0.1, (past["duration_s"], live["duration_s"])
    assert abs(past["cpu_s"] - live["cpu_s"]) < 0.001, (past["cpu_s"], live["cpu_s"])
    for name in ("hits", "returns", "nested", "stacks"):
        assert past["probes"][name] == live["probes"][name], name
    # Not in the history: the same in each window.
    assert all(library["probes"] == [] for library in past["libraries"])


def test_parts_of_the_past():
    """An interval in the middle has a part of the calls; intervals that meet add up to the whole."""
    daemon = Historian()
    target = program("cuda_calls", "-t", 1, "-n", 100000, "-r", 1000, "-m", "launch*3,stream_sync")
    daemon.watch(target)
    go(target)
    wait_until(lambda: (e := daemon.of(target.pid))["last_ns"] and e["last_ns"] - e["first_ns"] >= 8e9, "windows")
    entry = daemon.of(target.pid)
    first, last = entry["first_ns"], entry["last_ns"]
    head = daemon.past(target.pid, from_ns=first, to_ns=first + 2 * 10**9)
    end = head["history"]["end_ns"]
    middle = daemon.past(target.pid, from_ns=end, to_ns=end + 10**9)
    tail = daemon.past(target.pid, from_ns=middle["history"]["end_ns"], to_ns=last)
    whole = daemon.past(target.pid, from_ns=first, to_ns=last)
    assert middle["history"]["begin_ns"] == end and tail["history"]["begin_ns"] == middle["history"]["end_ns"]
    assert 0 < total(middle) < total(whole) / 2, (total(middle), total(whole))
    assert total(head) + total(middle) + total(tail) == total(whole)
    # At its rate, in the second or two of its windows.
    assert 0.5 < total(middle) / middle["duration_s"] / 1000 < 1.5, (total(middle), middle["duration_s"])
    # The same through the target, by seconds ago.
    ago = daemon.request("GET", daemon.path + "/cuda?since=3&until=1")
    assert 0 < total(ago) < total(whole), total(ago)
    daemon.request("GET", daemon.path + "/cuda?since=x", expect=400)
    daemon.past(target.pid, from_ns=1, to_ns=2, expect=409)
    later = daemon.cuda(target.pid, "--since", "1h", "--until", "50m", expect=1)
    assert "no history of process" in one_clear_line(later.stderr), later.stderr


def test_a_hidden_wait_in_the_past():
    """The process is gone, and the daemon another one."""
    daemon = Historian()
    target = python_program("py_cuda_training.py", 600)
    daemon.watch(target, libraries=1)
    go(target)
    truth = finish(target)
    daemon.ended(target.pid)
    before = daemon.past(target.pid)
    assert daemon.stop() == 0
    daemon = Historian(daemon.store)
    after = daemon.past(target.pid)
    assert calls_by_thread(after) == calls_by_thread(before) and after["lines"] == before["lines"]
    made = truth["images"]["libcudart.so.12"]["cudaLaunchKernel"]["calls"]
    launched = sum(row["calls"] for row in after["calls"] if row["kind"] == "launch")
    assert not after["estimated"] and launched == made, (launched, made)
    shown = daemon.cuda(target.pid, "--since", "1h")
    for words in ("the host waits for the GPU: item (py_cuda_training.py:", "cudaStreamSynchronize"):
        assert words in shown.stdout, (words, shown.stdout)
    assert "from the history: 20" in shown.stderr, shown.stderr
    found = json.loads(daemon.cuda(target.pid, "--at", "now", "--json").stdout)
    assert found["summary"]["calls"] == total(after) and found["history"]["cuda_windows"] > 1
    assert "item (py_cuda_training.py" in json.dumps(found["summary"]["findings"])


def test_a_process_watched_by_two_daemons():
    """One after the other: libraries have other numbers, and the calls of both are there."""
    daemon = Historian()
    target = program("cuda_calls", "-t", 1, "-n", 100000, "-r", 1000, "-m", "launch,stream_sync")
    daemon.watch(target)
    go(target)
    wait_until(lambda: total(daemon.answer()) >= 1000, "calls")
    assert daemon.stop() == 0
    second = Historian(daemon.store)
    first_part = second.past(target.pid)
    second.watch(target)
    wait_until(lambda: total(second.answer()) >= 1000, "calls")
    second.request("DELETE", second.path)
    second.ended(target.pid)
    both = second.past(target.pid)
    assert total(first_part) >= 1000 and total(both) >= total(first_part) + 1000, (total(first_part), total(both))
    assert len(both["libraries"]) == 2 and set(counted(both)) == set(counted(first_part)), both["libraries"]


@long
def test_estimates_add_up():
    """The windows of the history have what is settled, and at the end they are what the daemon answers."""
    daemon = Historian()
    target = program("cuda_calls", "-t", 1, "-d", 8, "-m", "launch*9,stream_sync", rules="cudaLaunchKernel=8us")
    daemon.watch(target, cuda_budget_percent=1)
    go(target)
    finish(target)
    wait_until(lambda: daemon.request("GET", daemon.path)["state"] == "ended", "the target's end")
    live = daemon.answer()
    daemon.ended(target.pid)
    past = daemon.past(target.pid)
    assert live["estimated"] and past["estimated"]
    assert past["probes"]["state"] == "windowed" and past["probes"]["rungs"]["launch"] == "windowed", past["probes"]
    assert calls_by_thread(past) == calls_by_thread(live)
    assert lines(past) == lines(live)
    apis, of_live = past["estimate"]["by_api"], live["estimate"]["by_api"]
    assert "cudaLaunchKernel" in apis and set(apis) == set(of_live), (apis, of_live)
    for api, sums in of_live.items():
        assert all(abs(apis[api][member] - value) <= 1e-6 * abs(value) for member, value in sums.items()), (apis, of_live)
    half = daemon.past(target.pid, to_ns=daemon.of(target.pid)["first_ns"] + 4 * 10**9)
    assert 0.1 * total(past) < total(half) < 0.9 * total(past), (total(half), total(past))


def test_no_calls_of_that_time():
    daemon = Historian()
    target, own = start("split", 600), start("split", 600, user=NOBODY)
    daemon.client("attach", "-p", str(target.pid))
    wait_until(lambda: (e := daemon.of(target.pid)) and e["last_ns"], "a window")
    refused = daemon.cuda(target.pid, "--since", "1h", expect=1)
    assert "attached without --cuda" in one_clear_line(refused.stderr), refused.stderr
    daemon.past(target.pid, expect=409)
    assert "no history of a process" in one_clear_line(daemon.cuda(own.pid, "--since", "1h", expect=1).stderr)
    for options, words in (
        (("-d", "5"), "-d"),
        (("--budget", "2"), "--budget"),
        (("--probes",), "--probes"),
        (("--no-children",), "--no-children"),
        (("--at", "1m"), "--at"),
        (("--until", "x"), "--until"),
    ):
        refused = daemon.cuda(target.pid, "--since", "1h", *options, expect=2)
        assert words in one_clear_line(refused.stderr), (options, refused.stderr)
    plain = Daemon()
    refused = plain.client("cuda", "-p", str(target.pid), "--since", "5m", expect=1)
    assert "--store DIR" in one_clear_line(refused.stderr), refused.stderr


def test_a_process_without_cuda_that_may_have_it():
    """Watched for calls that did not come: an answer, and not an error."""
    daemon = Historian()
    target = start("split", 600)
    daemon.client("attach", "--cuda", "-p", str(target.pid))
    wait_until(lambda: (e := daemon.of(target.pid)) and e["last_ns"], "a window")
    past = daemon.past(target.pid)
    assert not past["available"] and past["calls"] == [] and past["duration_s"] > 0
    assert "CUDA is not loaded" in daemon.cuda(target.pid, "--since", "1h").stdout


def test_whose_calls_they_are():
    daemon = Historian(None, "--socket-mode", "0666")
    target, own = start("split", 600), start("split", 600, user=NOBODY)
    for process in (target, own):
        daemon.watch(process, libraries=0)
    keys = [wait_until(lambda: (e := daemon.of(p.pid)) and e["last_ns"] and e["key"], "windows") for p in (target, own)]
    stranger = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", daemon.socket]
    for key, code in zip(keys, ("403", "200")):
        assert run([*stranger, f"http://localhost/v1/history/{key}/cuda"], user=NOBODY).stdout == code, key
    daemon.request("GET", "/v1/history/99/cuda", expect=404)
