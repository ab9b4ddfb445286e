# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps of a program that knows its own times: how many, how long, and what the slow ones did."""
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import time

import test_python
from cuda_targets import go, python_program
from harness import (
    STAKEOUT,
    Daemon,
    Skip,
    Target,
    long,
    quiet,
    run,
    script,
    spawn,
    start,
    temporary_dir,
    timeout,
    uses,
    wait_until,
)
from pprof_message import Message
from trace_file import slices_of


def steps_of(target, *arguments, step="training_step"):
    """What is said of a target's steps, from before the first one to its end, and when it says that each began, ns."""
    daemon = Daemon()
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "steps", "-p", target.pid, "--step", step, "-d", "120", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def watched():
        assert client.poll() is None, client.stderr.read()
        return any(t["pid"] == target.pid and t["state"] == "sampling" for t in daemon.request("GET", "/v1/targets"))

    wait_until(watched, "the target to be watched")
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    begins = json.loads(target.finish(100).splitlines()[-1])
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    return out, begins


def program(*arguments):
    return start("steps", *arguments, stdin=subprocess.PIPE)


def durations(begins):
    return sorted(b - a for a, b in zip(begins, begins[1:]))


def check_quantiles(said, begins, within):
    true = durations(begins)
    for quantile in said["quantiles"]:
        q = quantile["q"]
        rank = -int(-len(true) * q // 1)
        # Of few steps the slowest decide the 95th and the 99th: that these lie in their intervals is what can be said.
        inside = q > 0.9 and quantile["low_ns"] <= true[rank - 1] <= quantile["high_ns"]
        assert inside or abs(quantile["ns"] / true[rank - 1] - 1) < within, (quantile, true[rank - 1])
        assert quantile["low_ns"] <= quantile["ns"] <= quantile["high_ns"], quantile


@timeout(120)
def test_counts_and_times():
    out, begins = steps_of(program(2000, 1), "--json")
    said = json.loads(out)
    # One lasts to the beginning of the next.
    assert said["steps"] == len(begins) - 1 == 1999, said["steps"]
    assert sum(said["histogram"]) == 1999
    check_quantiles(said, begins, 0.03)
    assert abs(said["span_ns"] / (begins[-1] - begins[0]) - 1) < 0.001, said["span_ns"]


@quiet
@timeout(300)
def test_ten_thousand_steps():
    out, begins = steps_of(program(10000, 2, 10), "--json")
    said = json.loads(out)
    assert said["steps"] == 9999
    check_quantiles(said, begins, 0.01)


@timeout(120)
def test_slow_steps_say_why():
    """Four kinds of them, among a thousand: each is named by its line, those that were seen."""
    causes = {20: "compute (", 40: "take_lock (", 60: "read_batch (", 80: "launch_slowly ("}
    out, _ = steps_of(program(400, 2, 80), "--json")
    said = json.loads(out)
    slowest = said["slowest"]
    assert len(slowest) == 5, slowest
    told = 0
    for slow in slowest:
        cause = causes.get(slow["step"] % 100)
        # On a busy machine a step may be slow for want of a CPU: then that is said.
        if not cause and slow["longer_by"] and slow["longer_by"][0]["what"].startswith("runnable"):
            continue
        assert cause, f"no slow step: {slow}"
        assert slow["ns"] > 80e6, slow
        # One that computes may want a CPU meanwhile for longer than it has one.
        if cause == "compute (" and slow["longer_by"][0]["what"].startswith("runnable"):
            assert any(cause in more["what"] for more in slow["longer_by"]), slow
            continue
        first = slow["longer_by"][0]["what"] if slow["longer_by"] else ""
        assert cause in first or first.startswith("runnable"), slow
        if cause not in first:
            continue
        assert sum(more["ns"] for more in slow["longer_by"] if cause in more["what"]) > 40e6, slow
        told += 1
    assert told >= 2, slowest
    # Each of the four is there once in a hundred steps; a busy machine makes others slow as well.
    assert said["slow_steps"] >= 15, said["slow_steps"]
    named = [cause["what"] for cause in said["causes"] if cause["what"]]
    for cause in causes.values():
        assert any(cause in what for what in named), (cause, said["causes"])


def test_a_file_of_steps():
    """Recorded once, read again; an ordinary profile has no steps, and says so."""
    target, where = program(600, 2), temporary_dir()
    path, plain = os.path.join(where, "steps.pb.gz"), os.path.join(where, "plain.pb.gz")
    out, _ = steps_of(target, "-o", path)
    again = run([STAKEOUT, "steps", path])
    assert again.returncode == 0 and again.stdout == out, (again.stderr, again.stdout, out)
    assert "599 steps in" in out, out
    target = program(600, 2)
    recorded = run([STAKEOUT, "record", target.pid, "-d", "1", "-o", plain, "-q", "--wall"])
    assert recorded.returncode == 0, recorded.stderr
    refused = run([STAKEOUT, "steps", plain])
    assert refused.returncode == 1 and "there are no steps in it" in refused.stderr, refused.stderr


def test_no_such_function():
    target = program(600, 2)
    for arguments, words in (
        (["--step", "no_such_function"], "no file that process"),
        ([], "which begins PyTorch's steps: name the function that begins yours"),
        (["--step", "train.py:0"], "lines count from 1"),
    ):
        said = run([STAKEOUT, "steps", "-p", target.pid, "-d", "1", *arguments])
        assert said.returncode == 1 and words in said.stderr and said.stderr.count("\n") == 1, said.stderr
    assert target.process.poll() is None


def need_watchpoints():
    if "found    hardware watchpoints" not in run([STAKEOUT, "check"]).stdout:
        raise Skip("this machine's watchpoints do not fire")


def python_steps(version, step):
    """What is said of the last steps, from when the code was first seen; how many the program made since then."""
    need_watchpoints()
    target = Target([test_python.interpreter(version), script("py_steps.py"), "700"], stdin=subprocess.PIPE)
    out, begins = steps_of(target, "--json", step=step)
    said = json.loads(out)
    first = min(range(len(begins)), key=lambda i: abs(begins[-1] - begins[i] - said["span_ns"]))
    return said, begins[first:]


def check_python_steps(version):
    line = line_of("py_steps.py", "# a step")
    for step in ("py_steps.py:training_step", f"py_steps.py:{line}"):
        said, begins = python_steps(version, step)
        # The instruction is written as well, when the interpreter makes a faster one of it: then it is soon after a read.
        # And on a busy machine it is not sure which call was the first one that was seen.
        extra = said["steps"] - (len(begins) - 1)
        assert 0 <= extra <= 5 and len(begins) > 400, (version, step, extra, len(begins))
        check_quantiles(said, begins, 0.05)


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python():
    check_python_steps("system")


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_10():
    """Before 3.11 the instructions are a bytes object of their own."""
    check_python_steps("3.10")


@long
@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_8():
    check_python_steps("3.8")


@long
@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_9():
    check_python_steps("3.9")


@long
@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_12():
    check_python_steps("3.12")


@long
@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_13():
    check_python_steps("3.13")


@long
@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_15():
    check_python_steps("3.15")


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_steps_of_python_3_14():
    check_python_steps("3.14")


def line_of(name, mark):
    with open(script(name), encoding="utf-8") as f:
        return next(i for i, text in enumerate(f, 1) if text.rstrip().endswith(mark))


@timeout(120)
def test_by_samples():
    """Without a probe, live and from a file that has no steps: each arrival at a line, to about the time between two samples."""
    target = Target([test_python.interpreter("system"), script("py_parts.py"), "50"], stdin=subprocess.PIPE)
    path = os.path.join(temporary_dir(), "parts.pb.gz")
    batch, longest = line_of("py_parts.py", "# a step"), line_of("py_parts.py", "# the longest part")
    out, begins = steps_of(target, "--json", "--by-samples", "-o", path, step=f"py_parts.py:{batch}")
    said = {f"py_parts.py:{batch}": json.loads(out)}
    for step in (f"py_parts.py:{longest}", "py_parts.py:training_loop"):
        again = run([STAKEOUT, "steps", path, "--json", "--step", step])
        assert again.returncode == 0, again.stderr
        said[step] = json.loads(again.stdout)
    # Of the function either line will do, as both are come to once a step; those of the inner loop are not.
    assert said["py_parts.py:training_loop"]["by_samples"]["where"] in list(said)[:2], said
    true = durations(begins)
    for step, steps in said.items():
        seen = steps["by_samples"]
        assert seen and seen["within_ns"] < 15e6, (step, seen)
        # A look that comes late on a busy machine may miss a wait of 50 ms, or say of one that it began too early.
        assert abs(len(begins) - 1 - steps["steps"]) <= 4, (step, steps)
        median = steps["quantiles"][0]
        assert abs(median["ns"] - true[len(true) // 2]) < max(seen["within_ns"], 0.04 * true[len(true) // 2]), (step, median, true[len(true) // 2])
        # A cause without a place is the machine's, as of a step that waited for a CPU.
        assert any("training_loop (py_parts.py" in (cause["what"] or "") for cause in steps["causes"]), (step, steps["causes"])
    text = run([STAKEOUT, "steps", path, "--step", f"py_parts.py:{longest}"]).stdout
    assert f"by samples: each arrival at py_parts.py:{longest}, within" in text, text
    for step, words in (
        ("py_parts.py:1", "no sample shows a thread that comes to 'py_parts.py:1'"),
        ("py_parts.py:0", "lines count from 1"),
        ("py_parts.py:", "is no place in Python: FILE.py:FUNCTION or FILE.py:LINE"),
    ):
        refused = run([STAKEOUT, "steps", path, "--step", step])
        assert refused.returncode == 1 and words in refused.stderr and refused.stderr.count("\n") == 1, refused


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_episodes():
    """How many steps lie between two resets: by watchpoint where it fires, and of a file the resets by samples."""
    target = Target([test_python.interpreter("system"), script("py_episodes.py"), "30"], stdin=subprocess.PIPE)
    line = line_of("py_episodes.py", "begins.append(time.monotonic_ns())")
    need_watchpoints()
    path = os.path.join(temporary_dir(), "episodes.pb.gz")
    _, begins = steps_of(target, "-o", path, step=f"py_episodes.py:{line}")
    said = json.loads(run([STAKEOUT, "steps", path, "--episode", "py_episodes.py:reset", "--json"]).stdout)["episodes"]
    # Those before the function was first seen, and the last one, are not whole; a sample between two lines may be in the step before.
    # A busy machine leaves resets of which one sample is all, or none: the answer counts the former, and the latter are of their kind.
    brief = said["brief_stays"]
    assert 20 - brief <= len(said["lengths"]) <= 29 and not said["exact"], said
    # Each end of an episode is known to within this time, which is less than a step of five milliseconds on an idle machine.
    steps = durations(begins)
    off = 2 * max(1, math.ceil(said["within_ns"] / steps[len(steps) // 2]))
    near = [min(abs(length - true) for true in (5, 12, 40)) <= off for length in said["lengths"]]
    assert sum(near) >= len(near) - max(4, brief), (said, off)
    # No step is in two of them, and those that are in none are few.
    assert 14 < said["mean"] and said["mean"] * len(said["lengths"]) <= 30 * 19, said
    text = run([STAKEOUT, "steps", path, "--episode", "py_episodes.py:reset"]).stdout
    assert re.search(r"Steps in an episode: \d+ whole, from one arrival at py_episodes.py:\d+ to the next, by samples, within", text), text
    # 60 ms a reset, 5 ms a step, of which there are 19 to a reset, all of CPU time.
    said = json.loads(run([STAKEOUT, "steps", path, "--callers", "py_episodes.py:compute", "--json"]).stdout)["callers"]
    stepping, resetting = said["callers"]
    assert stepping["caller"].startswith("env_step (py_episodes.py:") and resetting["caller"].startswith("reset (py_episodes.py:"), said
    assert abs(stepping["share"] - 95 / 155) < 0.06 and 20 - brief <= resetting["arrivals"] <= 45, said
    refused = run([STAKEOUT, "steps", path, "--episode", "py_episodes.py:main"])
    assert refused.returncode == 1 and re.search("no sample shows|come to less than twice", refused.stderr), refused.stderr


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_episodes_that_are_counted():
    """In Python, each reset by a watchpoint of its own, and how often another function is called."""
    target = Target([test_python.interpreter("system"), script("py_episodes.py"), "30"], stdin=subprocess.PIPE)
    line = line_of("py_episodes.py", "begins.append(time.monotonic_ns())")
    need_watchpoints()
    path = os.path.join(temporary_dir(), "episodes.pb.gz")
    asked = ["--episode", "py_episodes.py:reset", "--count", "py_episodes.py:compute"]
    out, _ = steps_of(target, *asked, "-o", path, "--json", step=f"py_episodes.py:{line}")
    said = json.loads(out)
    episodes, (resets, computes) = said["episodes"], said["counted"]
    # The first resets may be before the function was seen; after that no step is missed.
    assert episodes["exact"] and set(episodes["lengths"]) == {5, 12, 40} and 24 <= len(episodes["lengths"]) <= 29, episodes
    assert resets["name"] == "py_episodes.py:reset" and len(episodes["lengths"]) <= resets["calls"] <= 30, resets
    # Once a step, and once a reset, which is in the step before it.
    assert computes["p50"] == 1 and computes["max"] == 2, computes
    assert computes["calls"] - resets["calls"] <= said["steps"] <= computes["calls"] - resets["calls"] + 30, (computes, said["steps"])
    again = json.loads(run([STAKEOUT, "steps", path, "--episode", "py_episodes.py:reset", "--json"]).stdout)
    assert again["episodes"] == episodes and again["counted"] == said["counted"]


@timeout(120)
def test_calls_that_are_counted():
    """Native functions beside a step: every call, however short it is."""
    target, path = program(1500, 2, 1), os.path.join(temporary_dir(), "counted.pb.gz")
    # What is asked for twice is counted once.
    asked = ["--episode", "collect_garbage", *(w for f in ("read_batch", "collect_garbage", "launch_slowly") for w in ("--count", f))]
    out, _ = steps_of(target, *asked, "-o", path)
    said = json.loads(run([STAKEOUT, "steps", path, "--episode", "collect_garbage", "--json"]).stdout)
    assert said["steps"] == 1499 and said["episodes"]["lengths"] == [100] * 14 and said["episodes"]["exact"], said["episodes"]
    assert len(said["counted"]) == 3 and said["counted_lost"] == 0 and said["unwatched"] is False, said
    for counted, name in zip(said["counted"], ("collect_garbage", "read_batch", "launch_slowly")):
        assert counted["name"] == name and counted["calls"] == 15 and counted["max"] == 1, counted
        assert abs(counted["share"] - 1 / 3) < 1e-9 and abs(counted["a_step"] - 15 / 1499) < 1e-9, counted
    assert "Steps in an episode: 14 whole, from one call of collect_garbage to the next, each counted" in out, out
    assert re.search(r"33\.3 % +\d+\.\d +0\.010 +\+- 0\.005 +0 +1 +1  launch_slowly\n", out), out
    recorded, daemon = program(400, 2, 1), Daemon()
    asked = ["--timeline", "--step", "training_step", "--count", "read_batch", "-d", "20"]
    recorder = spawn([STAKEOUT, "--socket", daemon.socket, "record", "-p", recorded.pid, "-q", *asked, "-o", path])
    wait_until(lambda: any(t["state"] == "sampling" for t in daemon.request("GET", "/v1/targets")), "the target to be watched")
    go(recorded)
    assert recorder.wait(60) == 0
    assert json.loads(run([STAKEOUT, "steps", path, "--json"]).stdout)["counted"][0]["calls"] == 4
    for arguments, words in (
        (["-p", target.pid, *(w for f in "abcd" for w in ("--count", f))], "at most 3 functions can be counted"),
        ([path, "--count", "f"], "--count is for a process"),
    ):
        refused = run([STAKEOUT, "steps", *arguments])
        assert refused.returncode == 2 and words in refused.stderr and refused.stderr.count("\n") == 1, refused


@timeout(60)
def test_marks_are_shared():
    """Two recordings of a process that is watched: steps of one function are counted once, of another they are refused."""
    daemon, target = Daemon(), program(100000, 2)
    attach = lambda expect, **options: daemon.request("POST", "/v1/targets", {"pid": target.pid, "timed": True, **options}, expect=expect)
    attach(201, keep=True, step="training_step")
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    view = attach(201, step="training_step", counted=["compute"])["id"]
    refused = attach(409, step="compute")
    assert "steps of process %d are counted already, by 'training_step'" % target.pid in refused["error"], refused
    # Of others each has its own, which are three together; what another one asked for is no answer to this one.
    other = attach(201, counted=["read_batch", "compute"])["id"]
    attach(201, counted=["launch_slowly"])
    refused = attach(409, counted=["collect_garbage"])
    assert "3 functions of process %d are counted already" % target.pid in refused["error"], refused
    refused = attach(400, counted=["compute", "compute"])
    assert "'compute' is to be counted twice" in refused["error"], refused
    time.sleep(1.5)
    path = os.path.join(temporary_dir(), "view.pb.gz")
    with open(path, "wb") as f:
        f.write(daemon.request("GET", f"/v1/targets/{view}/profile"))
    said = json.loads(run([STAKEOUT, "steps", path, "--json"]).stdout)
    assert said["quantiles"][0]["ns"] > 1.9e6 and said["counted"][0]["max"] <= 2 and said["counted"][0]["p50"] == 1, said
    assert [c["name"] for c in said["counted"]] == ["compute"], said["counted"]
    with open(path, "wb") as f:
        f.write(daemon.request("GET", f"/v1/targets/{other}/profile"))
    said = json.loads(run([STAKEOUT, "steps", path, "--json"]).stdout)
    assert sorted(c["name"] for c in said["counted"]) == ["compute", "read_batch"], said["counted"]


@timeout(120)
def test_cycles_in_steps():
    """A file of so many steps, after so many others: it begins and ends with one, as the program itself says."""
    target, daemon, path = program(1500, 2), Daemon(), os.path.join(temporary_dir(), "run.pb.gz")
    schedule = ["--unit", "steps", "--wait", "150", "--warmup", "50", "--active", "300"]
    recorder = spawn([STAKEOUT, "--socket", daemon.socket, "record", "-p", target.pid, "--wall", "--step", "training_step", *schedule, "-o", path], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(t["state"] == "sampling" for t in daemon.request("GET", "/v1/targets")), "the target to be watched")
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    assert recorder.wait(60) == 0, recorder.stderr.read()
    begins = json.loads(target.finish(100).splitlines()[-1])
    said = json.loads(run([STAKEOUT, "steps", path, "--json"]).stdout)
    assert said["steps"] == 300, said
    true = begins[500] - begins[200]
    assert abs(said["span_ns"] - true) < 1e6, (said["span_ns"], true)
    message = Message(path)
    assert message.duration_ns == said["span_ns"], (message.duration_ns, said["span_ns"])
    wall = sum(s.wall_ns for s in message.samples if s.labels["tid"] == target.pid)
    assert abs(wall / message.duration_ns - 1) < 0.05, (wall, message.duration_ns)


@timeout(60)
def test_cycles_in_steps_that_cannot_be():
    target, where = program(600, 2), temporary_dir()
    path = os.path.join(where, "x.pb.gz")
    for words, why in (
        (["--active", "5", "--unit", "steps"], "--unit steps needs --step"),
        (["--unit", "steps", "--step", "main"], "it needs --active STEPS"),
        (["--active", "5", "--unit", "turns", "--step", "main"], "it is seconds or steps"),
        (["--active", "0.5", "--unit", "steps", "--step", "main"], "whole numbers of steps"),
        (["--active", "5", "--unit", "steps", "--step", "main", "--at-clock", "/10s"], "not both"),
        (["--active", "5", "--unit", "steps", "--step", "main", "--stats", path], "--stats is of all"),
    ):
        refused = run([STAKEOUT, "record", "-p", target.pid, "-o", path, *words])
        assert refused.returncode == 2 and why in refused.stderr and refused.stderr.count("\n") == 1, (words, refused)
    # One that ends before the first of them begins: there is nothing to write.
    recorder = spawn([STAKEOUT, "record", "-p", target.pid, "--step", "training_step", "--unit", "steps", "--wait", "100", "--active", "5", "-o", path], stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    recorder.send_signal(signal.SIGINT)
    _, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 1 and "have not begun" in err, err
    assert not os.path.exists(path)


@timeout(120)
def test_until_a_step_is_slow():
    """It waits for one, and keeps the seconds up to it."""
    target, where = program(30000, 2), temporary_dir()
    slow = os.path.join(where, "slow.pb.gz")
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    client = spawn(
        [STAKEOUT, "steps", "-p", target.pid, "--step", "training_step", "--until-slow", "100x", "--last", "3", "--json", "-o", slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(5)
    assert client.poll() is None, client.stderr.read()
    # A busy machine makes each step longer, and so a hundred times the usual one.
    for stopped_s in (1.5, 5, 15):
        os.kill(target.pid, signal.SIGSTOP)
        time.sleep(stopped_s)
        os.kill(target.pid, signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.wait(5)
            break
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    said = json.loads(out)
    # Whether it has ended goes by when the daemon looked.
    assert said["slowest"][0]["ns"] > 4e8 and "a step took" in err, (said["slowest"][0], err)
    assert "stopped in " in said["slowest"][0]["longer_by"][0]["what"], said["slowest"][0]
    message = Message(slow)
    # What led to it, what there was of it when it was seen, and a second.
    assert 4.4e9 < message.duration_ns < (4.5 + stopped_s) * 1e9, (message.duration_ns, stopped_s)
    # The three seconds are counted back from when the daemon saw it, which a busy machine delays.
    assert said["slowest"][0]["begin_ns"] > 2e9, said["slowest"][0]
    strange = [(s.labels, s.values) for s in message.samples if not 0 < s.labels["time_ns"] <= message.duration_ns]
    assert not strange, (strange, message.duration_ns)


@timeout(120)
def test_phases_of_a_step():
    """What a step spends under functions: waits as they were, what runs by samples, within the interval."""
    phases = {
        "wait": "^(read_batch|take_lock|launch_slowly)$",
        "read": "^read_batch$",
        "compute": "^compute$",
        # Its last call is a jump: it is on no stack then.
        "all": "^(training_step|collect_garbage|take_lock|read_batch|launch_slowly)$",
        "none": "^no_such",
    }
    out, begins = steps_of(program(800, 4, 40), "--json", *(w for p in phases.items() for w in ("--phase", "=".join(p))))
    said = json.loads(out)
    mean = (begins[-1] - begins[0]) / (len(begins) - 1)
    by_name = {phase["name"]: phase for phase in said["phases"]}
    assert list(by_name) == list(phases) and by_name["read"]["pattern"] == "^read_batch$", by_name
    # Of a hundred steps one reads, one waits for the lock and one sleeps, 40 ms each, or longer until it gets a CPU
    # again; and each computes for 4 ms, one of them for 40 more. Of one wait, what is before the first look may be in
    # another place: 10 ms, on a busy machine more.
    assert 0.39e6 < by_name["read"]["ns"] < by_name["wait"]["ns"] - 0.6e6, by_name
    assert 1.17e6 < by_name["wait"]["ns"] < mean - 4.1e6 and 25e6 < by_name["wait"]["p99_ns"] < 120e6, by_name["wait"]
    whole = by_name["all"]
    assert abs(whole["ns"] - mean) < 3 * whole["interval_ns"] + 0.02 * mean, (whole, mean)
    assert abs(whole["share"] / (whole["ns"] / mean) - 1) < 0.01, (whole, mean)
    rest = mean - by_name["wait"]["ns"]
    compute = by_name["compute"]
    assert abs(compute["ns"] - rest) < 3 * compute["interval_ns"] + 0.02 * mean, (compute, rest)
    assert compute["p99_ns"] is None and by_name["none"]["ns"] == 0, by_name


@timeout(120)
def test_a_step_that_does_not_end():
    """It is among the slowest, and in no count."""
    target, where = program(30000, 2), temporary_dir()
    path = os.path.join(where, "hangs.pb.gz")
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    client = spawn(
        [STAKEOUT, "record", "-p", target.pid, "--timeline", "--wall", "--step", "training_step", "-d", "6", "-o", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    os.kill(target.pid, signal.SIGSTOP)
    _, err = client.communicate(timeout=60)
    os.kill(target.pid, signal.SIGCONT)
    assert client.returncode == 0, err
    answer = run([STAKEOUT, "steps", path, "--json"])
    assert answer.returncode == 0, answer.stderr
    said = json.loads(answer.stdout)
    slow = said["slowest"][0]
    assert not slow["whole"] and slow["step"] == said["steps"] and slow["ns"] > 1e9 > said["max_ns"], slow
    assert "stopped in " in slow["longer_by"][0]["what"], slow
    text = run([STAKEOUT, "steps", path]).stdout
    assert f"slowest: step {slow['step']} was under way at the end, for " in text, text


@timeout(120)
def test_the_latest_seconds():
    """A recorder that goes on: what it has of the last two seconds, as a profile and as a time line."""
    daemon, target, where = Daemon(), program(30000, 2), temporary_dir()
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    attached = run([STAKEOUT, "--socket", daemon.socket, "attach", "-p", target.pid, "--timeline", "--wall", "--step", "training_step"])
    assert attached.returncode == 0, attached.stderr
    time.sleep(5)
    path, trace = os.path.join(where, "last.pb.gz"), os.path.join(where, "last.trace.json")
    for name in (path, trace):
        saved = run([STAKEOUT, "--socket", daemon.socket, "profile", "-p", target.pid, "--last", "2", "-o", name])
        assert saved.returncode == 0, saved.stderr
    message = Message(path)
    assert 1.9e9 < message.duration_ns < 2.1e9, message.duration_ns
    wall = sum(s.wall_ns for s in message.samples if s.labels["tid"] == target.pid)
    assert 1.6e9 < wall < 2.3e9, wall
    assert ("steps", -target.pid) in slices_of(trace)
    # One that keeps no times has no latest seconds.
    plain = start("split", 60)
    assert run([STAKEOUT, "--socket", daemon.socket, "attach", "-p", plain.pid]).returncode == 0
    refused = run([STAKEOUT, "--socket", daemon.socket, "profile", "-p", plain.pid, "--last", "2", "-o", path])
    assert refused.returncode == 1 and "keeps no times" in refused.stderr, refused.stderr


@timeout(120)
def test_what_is_no_step():
    """A function that is called all the time is told in part, and others' samples are not lost for it."""
    daemon, other = Daemon(), start("split", 60)
    recorded = daemon.request("POST", "/v1/targets", {"pid": other.pid, "rate_hz": 999, "keep": True}, expect=201)
    target = program(2000000, 0.002)
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    said = run([STAKEOUT, "--socket", daemon.socket, "steps", "-p", target.pid, "--step", "training_step", "-d", "3", "--json"])
    assert said.returncode == 0, said.stderr
    steps = json.loads(said.stdout)
    assert steps["lost"] > 10000 and steps["steps"] <= 5 * 4096, steps
    stats = daemon.request("GET", f"/v1/targets/{recorded['id']}/stats")
    assert not any(stats["lost"].values()), stats["lost"]


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_cuda_calls_a_step():
    """Of a training on the stand-in libraries: each of its steps makes the same calls."""
    need_watchpoints()
    target = python_program("py_cuda_training.py", 100000)
    go(target)
    step = "py_cuda_training.py:iteration"
    watched = run([STAKEOUT, "cuda", "-p", target.pid, "-d", "5", "--step", step, "--budget", "100"])
    assert watched.returncode == 0, watched.stderr
    said = re.search(r"^a step \(of (\d+)\): ([\d.]+) calls; ([\d.]+) launch, .*?; ([\d.]+) sync, ", watched.stdout, re.M)
    assert said and int(said.group(1)) > 50, watched.stdout[:600]
    for number, true in ((2, 26), (3, 20), (4, 1)):
        # Calls are of all the time, steps from when the first was seen: on a busy machine that had another pace.
        assert abs(float(said.group(number)) / true - 1) < 0.1, said.group(0)
    none = run([STAKEOUT, "cuda", "-p", target.pid, "-d", "1", "--step", "py_cuda_training.py:no_such"])
    assert none.returncode == 0 and "no_such was not seen to be entered twice" in none.stderr, none.stderr
