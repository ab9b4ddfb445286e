# SPDX-License-Identifier: GPL-2.0-or-later
"""CUDA calls of a job that makes threads all the time: those that ended long ago are added up, and nothing is lost by that."""
from cuda_targets import (
    RUNTIME,
    Watch,
    check_against,
    finish,
    go,
    program,
    watch_all,
)
from harness import long, timeout, wait_until
from test_history_cuda import Historian, calls_by_thread

ENTRIES = 65536  # of the kernel's map of calls
MIX = (
    "launch,launch_ex,malloc,malloc_async,host_alloc,htod,dtoh,dtod,default,memset,stream_sync,device_sync,event_sync,"
    "event_record,event_query,stream_query,stream_wait"
)


def by_api(answer):
    """All that adds up, without threads."""
    sums = {}
    for (_, _, *key), row in calls_by_thread(answer).items():
        to = sums.setdefault(tuple(key), {"histogram": {}})
        for name, value in row.items():
            if name != "histogram":
                to[name] = to.get(name, 0) + value
        for bucket, n in row["histogram"].items():
            to["histogram"][bucket] = to["histogram"].get(bucket, 0) + n
    return sums


def difference(answer, before):
    """What came since, in the same form."""
    since, before = by_api(answer), by_api(before)
    for key, row in since.items():
        base = before.get(key, {"histogram": {}})
        for name in row:
            if name != "histogram":
                row[name] -= base.get(name, 0)
        row["histogram"] = {
            bucket: n - base["histogram"].get(bucket, 0)
            for bucket, n in row["histogram"].items()
            if n > base["histogram"].get(bucket, 0)
        }
    return {key: row for key, row in since.items() if row["calls"]}


def entries(answer):
    """Of the kernel's map, at least: an octave of a row."""
    return sum(len({lower.bit_length() for lower, _, _ in row["histogram"]}) for row in answer["calls"] if row["tid"])


@long
@timeout(200)
def test_threads_that_end_make_room():
    """5,000 threads of 20 calls are more than the map holds. A recording from the middle on, the windows and a second program
    have all that is theirs."""
    daemon = Historian()
    rules = "cudaMalloc!2@7,cudaStreamSynchronize=30us"
    target = program("cuda_calls", "-t", 10, "-g", 500, "-p", 250, "-n", 17, "-r", 500, "-m", MIX, rules=rules)
    daemon.watch(target)
    go(target)
    wait_until(lambda: target.process.stdout.readline() == b"paused\n", "the middle")
    first = daemon.answer()
    recording = watch_all(daemon, target)
    go(target)
    other = program("cuda_calls", "-t", 1, "-n", 2000, "-r", 100, "-m", MIX)
    watch = watch_all(daemon, other)
    go(other)
    truth = finish(target, 90)
    wait_until(lambda: daemon.request("GET", daemon.path)["state"] == "ended", "the target's end")
    live, since = daemon.answer(), recording.at_end()
    check_against(live, truth)
    assert by_api(since) == difference(live, first)
    ended = [row for row in live["calls"] if not row["tid"]]
    assert ended and {(row["pid"], row["comm"]) for row in ended} == {(target.pid, "ended threads")}, ended[:1]
    assert entries(first) < ENTRIES * 0.75 and entries(live) < ENTRIES * 0.75, (entries(first), entries(live))
    daemon.ended(target.pid)
    assert by_api(daemon.past(target.pid)) == by_api(live)
    check_against(watch.at_end(), finish(other, 90))


def test_few_threads_keep_their_figures():
    """As long as there is room, a thread that has ended is told apart."""
    daemon = Historian()
    target = program("cuda_calls", "-t", 4, "-g", 20, "-p", 10, "-n", 17, "-m", MIX)
    daemon.watch(target)
    go(target)
    wait_until(lambda: target.process.stdout.readline() == b"paused\n", "the middle")
    answer = daemon.answer()
    assert len({row["tid"] for row in answer["calls"]}) == 40 and all(row["tid"] for row in answer["calls"])
    go(target)
    finish(target)


def calls_of(answer, api):
    return sum(row["calls"] for row in answer["calls"] if row["api"] == api)


@long
@timeout(120)
def test_threads_that_end_while_others_are_estimated():
    """
    While some calls are counted in windows alone, the others are added up exactly, also from the middle on. One of each to a
    thread: so few that their probes may stay.
    """
    daemon = Historian()
    mix, rules = MIX.replace("launch,", "launch*584,", 1), "cudaLaunchKernel=8us"
    target = program("cuda_calls", "-t", 4, "-g", 1600, "-p", 800, "-n", 600, "-m", mix, rules=rules)
    daemon.watch(target, cuda_budget_percent=8)
    go(target)
    wait_until(lambda: target.process.stdout.readline() == b"paused\n", "the middle")
    recording = Watch(daemon, target, cuda_budget_percent=8)
    first = daemon.answer()
    go(target)
    true = finish(target, 90)["images"][RUNTIME]
    wait_until(lambda: daemon.request("GET", daemon.path)["state"] == "ended", "the target's end")
    live, since = daemon.answer(), recording.at_end()
    assert live["estimated"] and not live["lost"]["calls-map-full"], (live["probes"], live["lost"])
    assert 0 in {row["tid"] for row in live["calls"]} and entries(live) < ENTRIES * 0.75, entries(live)
    # Calls of this kind are few, so each is counted. Of launches, which are estimated by thread, see .design/cuda.md.
    counts = [calls_of(answer, "cudaEventRecord") for answer in (first, since, live)]
    assert abs(counts[2] / true["cudaEventRecord"]["calls"] - 1) < 0.02, (counts, true["cudaEventRecord"])
    assert abs((counts[0] + counts[1]) / counts[2] - 1) < 0.02, counts
