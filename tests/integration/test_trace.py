# SPDX-License-Identifier: GPL-2.0-or-later
"""Time lines: what they show is what was recorded."""
import os
import re
import statistics
import subprocess
import time

from cuda_targets import Watch, go, python_program
from harness import STAKEOUT, Daemon, run, spawn, start_script, temporary_dir, timeout, uses, workload
from pprof_message import Message
from test_steps import need_watchpoints, program, steps_of
from trace_file import cuda_flows, slices_of, trace_events


@timeout(120)
def test_a_trace_has_the_times_of_the_profile():
    """A time line of slices: they nest, fill the thread's time, and come to what the profile says of each function."""
    target, where = program(1500, 2, 40), temporary_dir()
    path, trace = os.path.join(where, "steps.pb.gz"), os.path.join(where, "steps.trace.json")
    steps_of(target, "-o", path)
    rendered = run([STAKEOUT, "render", path, "-o", trace])
    assert rendered.returncode == 0, rendered.stderr
    message, tracks = Message(path), slices_of(trace)
    track = tracks[("steps", target.pid)]
    assert len(tracks[("steps", -target.pid)]) == 1499
    whole = sum(s.wall_ns for s in message.samples if s.labels["tid"] == target.pid)
    runnable = sum(s.wall_ns for s in message.samples if s.labels["tid"] == target.pid and s.state == "runnable") / whole
    for function in ("training_step", "compute", "launch_slowly", "read_batch", "main"):
        profile = sum(s.wall_ns for s in message.samples if s.labels["tid"] == target.pid and function in s.names())
        here = sum(end - begin for begin, end, name in track if name == function) * 1e3
        # Where it ran without a sample, between two waits, the time line names only what is around: less, never more. So it does
        # where it was ready to run on a busy machine, and did not.
        unsampled = runnable + (0.1 if function in ("training_step", "compute") else 0.03)
        assert profile > 0 and -unsampled < (here - profile) / whole < 0.03, (function, here / whole, profile / whole)
    outermost = min(begin for begin, _, _ in track), max(end for _, end, _ in track)
    assert abs((outermost[1] - outermost[0]) * 1e3 / whole - 1) < 0.03, (outermost, whole)
    # What has no times makes none.
    plain = os.path.join(where, "plain.pb.gz")
    recorded = run([STAKEOUT, "record", os.getpid(), "-d", "0.3", "-o", plain, "-q", "--wall"])
    assert recorded.returncode == 0, recorded.stderr
    refused = run([STAKEOUT, "render", plain, "-f", "trace"])
    assert refused.returncode == 1 and "there are no times in it" in refused.stderr, refused.stderr


@timeout(120)
def test_a_trace_of_ranks():
    """Two recordings on one time line: each process by its rank, what ran when, and who held the GIL."""
    where = temporary_dir()
    paths = [os.path.join(where, f"{rank}.pb.gz") for rank in range(2)]
    trace = os.path.join(where, "all.trace.json")
    targets = [start_script("py_gil_by_turns.py", env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
    recordings = []
    for target, path in zip(targets, paths):
        recordings.append(spawn([STAKEOUT, "record", "-q", "--wall", "--timeline", "-r", "199", "-p", target.pid, "-d", "6", "-o", path], stderr=subprocess.PIPE))
        time.sleep(2)
    for recording in recordings:
        assert recording.wait(60) == 0, recording.stderr.read()
    rendered = run([STAKEOUT, "render", *paths, "-o", trace])
    assert rendered.returncode == 0, rendered.stderr
    events, messages = trace_events(trace), [Message(path) for path in paths]
    pids = [target.pid + k * 10_000_000 for k, target in enumerate(targets)]
    named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [named[pid] for pid in pids] == [f"rank {r}: python3 (PID {t.pid})" for r, t in enumerate(targets)], named
    assert {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"} == dict(zip(pids, range(2)))
    # Each at the time of its own clock.
    begins = [min(e["ts"] for e in events if e["pid"] == pid and e["ph"] == "X") for pid in pids]
    apart = (messages[1].time_ns - messages[0].time_ns) / 1e3
    assert apart > 1.5e6 and abs(begins[1] - begins[0] - apart) < 5e4, (begins, apart)
    for pid, message in zip(pids, messages):
        counter = [(e["ts"], e["args"]["threads"]) for e in events if e["pid"] == pid and e["name"] == "running"]
        end = begins[pids.index(pid)] + message.duration_ns / 1e3
        ran = sum((b[0] - a[0]) * a[1] for a, b in zip(counter, [*counter[1:], (end, 0)])) / 1e6
        true = sum(s.wall_ns for s in message.samples if s.labels["state"] == "running") / 1e9
        assert abs(ran / true - 1) < 0.05, (ran, true)
        assert any(e["pid"] == pid and e["name"] == "waiting for the GIL" and e["args"]["threads"] > 1 for e in events)
        # One thread has it for a second, six for half a second.
        held = [e for e in events if e["pid"] == pid and e["ph"] == "X" and e["tid"] == 1 << 24]
        alone = sum(e["dur"] for e in held if e["name"].endswith(f"({pid % 10_000_000})"))
        assert 0.4 < alone / sum(e["dur"] for e in held) < 0.85, (alone, held[:5])
    refused = run([STAKEOUT, "render", *paths, "-o", os.path.join(where, "x.folded")])
    assert refused.returncode == 2 and "several files make a trace only" in refused.stderr, refused.stderr


@timeout(120)
def test_gpus_in_the_time_line():
    """How busy they are, as NVML has it twice a second, on a counter of their own."""
    folder = os.path.join(workload("cuda"), "ibt")
    library = os.path.join(workload("cuda"), "plain", "libnvidia-ml.so.1")
    daemon = Daemon(env={"LD_LIBRARY_PATH": folder, "STAKEOUT_NVML": library, "STANDIN_NVML": "gpu=37,mem=12"})
    target = start_script("py_cuda_launches.py", folder, 500, 30, 1, "stdin", stdin=subprocess.PIPE)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    trace = os.path.join(temporary_dir(), "gpus.trace.json")
    daemon.client("record", "-p", str(target.pid), "-d", "4", "--cuda", "-o", trace, "-q")
    events = trace_events(trace)
    busy = [e for e in events if e["ph"] == "C" and "GPU" in e["name"]]
    assert 4 <= len(busy) <= 10 and {e["args"]["percent"] for e in busy} == {37}, busy
    assert all(0 <= e["ts"] <= 4.2e6 for e in busy) and len({e["pid"] for e in busy}) == 1, busy
    assert any(e["name"] == "process_name" and e["args"]["name"] == "GPUs, how busy" for e in events)


@timeout(120)
@uses("watchpoints")  # of which a CPU has four
def test_cuda_calls_in_the_time_line():
    """Each wait for the device, once a step, with its own time; and what a daemon's recorder has of them."""
    need_watchpoints()
    target = python_program("py_cuda_training.py", 100000)
    go(target)
    trace = os.path.join(temporary_dir(), "calls.trace.json")
    step = "py_cuda_training.py:iteration"
    asked = ["--cuda", "--budget", "100", "--step", step]
    recorded = run([STAKEOUT, "record", "-p", target.pid, "-d", "4", "-o", trace, *asked])
    assert recorded.returncode == 0, recorded.stderr
    events = trace_events(trace)
    slices = [e for e in events if e["ph"] == "X"]
    calls = [e for e in slices if 1 << 23 < e["tid"] < 1 << 24]
    steps = [e for e in slices if e["tid"] == -target.pid]
    waits = sorted((e["ts"], e["dur"]) for e in calls if e["name"] == "cudaStreamSynchronize")
    assert len(steps) > 100 and waits, recorded.stderr
    # Between the first step that was seen and the last one.
    inside = [w for w in waits if steps[0]["ts"] <= w[0] < steps[-1]["ts"] + steps[-1]["dur"]]
    assert abs(len(inside) - len(steps)) <= 1, (len(inside), len(steps))
    assert all(ts + dur <= following for (ts, dur), (following, _) in zip(waits, waits[1:]))
    assert 2900 < statistics.median(dur for _, dur in waits) < 4500
    # Shorter ones are launches that a wait waited for: the last one before it, which is the last of a backward pass.
    short = {id(e): e for e in calls if e["dur"] < 50}
    flows = cuda_flows(events)
    assert len(flows) >= len(waits) - 1 and all(wait["name"] == "cudaStreamSynchronize" for _, wait in flows)
    # Its name was said before anybody looked.
    assert all(re.fullmatch("0x[0-9a-f]+", launch["args"]["kernel"]) for launch, _ in flows)
    assert set(short) <= {id(launch) for launch, _ in flows}
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name" and 1 << 23 < e["tid"] < 1 << 24}
    assert names == {"CUDA calls of %d" % target.pid}
    refused = run([STAKEOUT, "record", "-p", target.pid, "--cuda", "-f", "folded"])
    assert refused.returncode == 2 and "--cuda needs --timeline" in refused.stderr, refused.stderr


@timeout(120)
def test_each_wait_for_its_launch():
    """An arrow from the launch that a wait waited for: by stream, event, thread and default stream; with the kernel's name."""
    target, daemon = python_program("py_cuda_flows.py", 100000), Daemon()
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    worker, b = target.process.stdout.readline().split()
    trace = os.path.join(temporary_dir(), "flows.trace.json")
    watch = Watch(daemon, target, libraries=1, timed=True, wall=True, cuda_budget_percent=100)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    time.sleep(4)
    daemon.client("profile", "-p", str(target.pid), "-o", trace)
    flows = cuda_flows(trace_events(trace))
    stream = "0x%x" % int(b)
    seen = {}
    for launch, wait in flows:
        # A launch of the other thread is at most a round before its wait.
        assert 0 < wait["ts"] - launch["ts"] < 5e4, (launch, wait)
        key = wait["name"], wait["args"].get("stream") if wait["name"] == "cudaStreamSynchronize" else None
        seen.setdefault(key, set()).add((launch["args"]["kernel"].split("(")[0], launch["tid"] - (1 << 23)))
    main, worker = target.pid, int(worker)
    assert seen == {
        ("cudaEventSynchronize", None): {("first", main)},
        ("cudaStreamSynchronize", stream): {("other", main)},
        ("cudaStreamSynchronize", "default"): {("backward", worker)},
        ("cudaMemcpy", None): {("backward", worker)},
        ("cudaDeviceSynchronize", None): {("own", worker)},
    }, seen
    assert len(flows) > 5 * 100, len(flows)
