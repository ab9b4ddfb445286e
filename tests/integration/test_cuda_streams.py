# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits for nothing, waits of streams and graphs made anew, by source line, of programs that know how many they make."""
from cuda_targets import ALL, check_against, finish, go, program, summary_of, watch_all
from harness import Daemon, quiet, timeout

ROUNDS = 400


def rounds(mix, rules=None, more=()):
    """The answer about so many rounds of the mix, of one thread."""
    daemon = Daemon()
    calls = sum(int(word.partition("*")[2] or 1) for word in mix.split(","))
    target = program("cuda_calls", "-n", ROUNDS * calls, "-m", mix, *more, rules=rules)
    watch = watch_all(daemon, target)
    go(target)
    truth = finish(target)
    answer = watch.at_end()
    check_against(answer, truth)
    return daemon.request("GET", watch.path + "/cuda?summary=1")


def line_of(answer, event, function):
    """What the lines of the function make of these calls; there is one."""
    rows = [row for row in answer["lines"] if row["event"] == event and row["line"].startswith(function)]
    assert len({row["line"] for row in rows}) == 1 and len({row["api"] for row in rows}) == 1, answer["lines"]
    return {member: sum(row[member] for row in rows) for member in ("calls", "total_ns", "needless", "needless_ns")}


@timeout(90)
def test_waits_for_nothing():
    """Three of four synchronisations find nothing to wait for, and the fourth waits."""
    answer = rounds("launch,stream_sync*4", "cudaStreamSynchronize=0*3/2ms")
    row = line_of(answer, "sync", "stream_sync")
    assert row["calls"] == 4 * ROUNDS, row
    # One whose thread lost its CPU took longer.
    assert 2.9 * ROUNDS <= row["needless"] <= 3 * ROUNDS, row
    assert row["needless_ns"] < row["needless"] * 8192 and row["total_ns"] > 2e6 * ROUNDS, row
    found = [finding for finding in answer["summary"]["findings"] if finding["finding"] == "idle-sync"]
    assert len(found) == 1 and found[0]["line"].startswith("stream_sync"), answer["summary"]["findings"]
    assert found[0]["count"] == row["needless"] and "8.19 µs" in found[0]["measured"], found


@timeout(90)
def test_waits_that_wait():
    answer = rounds("launch,stream_sync", "cudaStreamSynchronize=1ms")
    assert line_of(answer, "sync", "stream_sync")["needless"] == 0, answer["lines"]
    assert not any(finding["finding"] == "idle-sync" for finding in answer["summary"]["findings"])


@timeout(90)
def test_streams_that_wait_again():
    """Of three waits behind a record the first is for something."""
    answer = rounds("launch,event_record,stream_wait*3", more=("-r", 5000))
    row = line_of(answer, "stream-wait", "stream_wait")
    assert (row["calls"], row["needless"]) == (3 * ROUNDS, 2 * ROUNDS), row
    assert 0 < row["needless_ns"] < row["total_ns"], row
    found = [finding for finding in answer["summary"]["findings"] if finding["finding"] == "repeated-waits"]
    assert [finding["count"] for finding in found] == [2 * ROUNDS], answer["summary"]["findings"]
    assert found[0]["line"].startswith("stream_wait"), found
    assert [wait["needless"] for wait in answer["summary"]["stream_waits"]] == [2 * ROUNDS], answer["summary"]


@timeout(90)
def test_each_stream_waits_for_itself():
    """A wait of one thread's stream for its event says nothing of another's."""
    answer = rounds("event_record,stream_wait,launch", more=("-t", 3, "-r", 5000))
    row = line_of(answer, "stream-wait", "stream_wait")
    assert (row["calls"], row["needless"]) == (3 * ROUNDS, 0), row


@timeout(90)
def test_an_event_that_is_never_recorded():
    answer = rounds("stream_wait,launch", more=("-r", 5000))
    row = line_of(answer, "stream-wait", "stream_wait")
    assert (row["calls"], row["needless"]) == (ROUNDS, ROUNDS - 1), row


@timeout(90)
def test_graphs_made_again_and_again():
    answer = rounds("graph_capture,graph_launch*2")
    graphs = answer["summary"]["graphs"]
    assert graphs.pop("line").startswith("graph_capture") and graphs.pop("making_ns") > 0, answer["summary"]["graphs"]
    assert graphs == {
        "captures": ROUNDS, "instantiations": ROUNDS, "updates": 0, "replays": 2 * ROUNDS, "kernel_launches": ROUNDS,
        "estimated": False,
    }, graphs
    found = [finding for finding in answer["summary"]["findings"] if finding["finding"] == "graphs-anew"]
    assert len(found) == 1 and found[0]["line"].startswith("graph_capture") and found[0]["count"] == ROUNDS, found


@timeout(90)
def test_a_graph_that_is_replayed():
    answer = rounds("graph_capture,graph_launch*40")
    assert answer["summary"]["graphs"]["replays"] == 40 * ROUNDS, answer["summary"]["graphs"]
    assert not any(finding["finding"] == "graphs-anew" for finding in answer["summary"]["findings"])


@timeout(90)
def test_the_tables():
    """In words, and in a recording of its own, which begins in the midst of the calls."""
    daemon = Daemon()
    mix = "graph_capture,graph_launch,event_record,stream_wait*2,stream_sync"
    target = program("cuda_calls", "-d", 30, "-r", 600, "-m", mix)
    go(target)
    text = daemon.client("cuda", "-p", str(target.pid), "-d", "2", "-q", "--budget", str(ALL)).stdout
    for words in ("Needless", "Waits of streams by source line", "CUDA graphs: ", " for each capture; ",
                  "synchronisation that waits for nothing: stream_sync", "stream waits again for the same: stream_wait",
                  "graphs made again and again: graph_capture"):
        assert words in text, text
    answer = summary_of(daemon, target, 2, ("--budget", str(ALL)))
    row = line_of(answer, "stream-wait", "stream_wait")
    assert abs(row["needless"] - row["calls"] / 2) <= 1, row


@quiet
@timeout(90)
def test_a_part_of_the_stacks_has_the_share():
    """Within a budget that leaves few stacks. On a busy machine a few of them stand for most calls."""
    daemon = Daemon()
    mix = "launch,stream_sync*4,event_record,stream_wait*4"
    target = program("cuda_calls", "-d", 30, "-r", 12000, "-m", mix, rules="cudaStreamSynchronize=0*3/40us")
    go(target)
    answer = summary_of(daemon, target, 8, ("--budget", "0.5"))
    for event, function in (("sync", "stream_sync"), ("stream-wait", "stream_wait")):
        row = line_of(answer, event, function)
        stacks = sum(line["stacks"] for line in answer["lines"] if line["event"] == event)
        # Four standard deviations; stacks stand for more calls or fewer, so half of them count here.
        error = 4 * (0.75 * 0.25 / (stacks / 2)) ** 0.5
        assert stacks > 50 and abs(row["needless"] / row["calls"] - 0.75) < error, (row, stacks)
