# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples taken = samples in the profile + samples lost by cause, for targets that change while they are watched,
and as many samples as the target used CPU time."""
import os
import re
import signal

from harness import (
    PYTHON,
    Daemon,
    Recorder,
    Target,
    cpu_seconds,
    descendant,
    quiet,
    record,
    start,
    status_of,
    wait_until,
    workload,
)

RATE_HZ = 999


def check_lost(recording, share=0.001):
    assert recording.lost <= share * recording.stats["samples"], recording.stats["lost"]


def check_rate(rate_hz, least, tolerance=0.05):
    """
    One sample is one period of CPU time. How much the target had is not known to the moment, so it is asked for before
    and after each of the two moments between which it was sampled: that is the least and the most it took meanwhile.
    """
    daemon, target = Daemon(), start("split", 600)
    before = cpu_seconds(target.pid)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": rate_hz, "keep": True}, expect=201)
    path, begun = f"/v1/targets/{made['id']}", cpu_seconds(target.pid)
    wait_until(lambda: daemon.request("GET", path)["samples"] >= least, f"{least} samples")
    last = cpu_seconds(target.pid)
    daemon.request("POST", f"{path}/stop")
    after = cpu_seconds(target.pid)
    stats = daemon.request("GET", f"{path}/stats")
    least_due, most_due = (last - begun) * rate_hz, (after - before) * rate_hz
    # Several clocks, each at its own times: 4 standard deviations of independent samples.
    slack = [tolerance * due + 4 * due**0.5 + 2 for due in (least_due, most_due)]
    bounds = least_due - slack[0], most_due + slack[1]
    assert bounds[0] <= stats["samples"] <= bounds[1], (rate_hz, stats["samples"], bounds)
    assert stats["taken"] == stats["samples"] and sum(stats["lost"].values()) <= 0.001 * stats["samples"], stats
    return stats


def test_rate_follows_cpu_time():
    check_rate(RATE_HZ, 2000)


def test_rate_of_10000_hz():
    check_rate(10000, 20000)


def test_rate_of_1_hz():
    check_rate(1, 3)


def test_duration_and_rate_are_told():
    recording = record(start("split", 600).pid, duration=2).check_totals()
    assert 1.9 < recording.stats["duration_s"] < recording.wall_s, (recording.stats["duration_s"], recording.wall_s)
    assert recording.stats["sample_hz"] == RATE_HZ


def test_1000_threads():
    """Together they use some two thirds of a CPU, so that the recorder is not just one of 1000 that want to run."""
    target = start("threads", 600, 1000, 90000)
    recording = record(target.pid, duration=6, extra=["-t"]).check_complete()
    check_lost(recording)
    tids = {stack[0] for stack in recording.stacks}
    assert all(re.fullmatch(r"threads-%d/\d+" % target.pid, tid) for tid in tids), sorted(tids)[:5]
    assert len(tids) > 700, f"{len(tids)} threads were seen"


def test_threads_that_come_later():
    """Threads made while the target is watched belong to it from their first moment on."""
    python = (
        "import threading,time\n"
        "def burn():\n"
        " end=time.monotonic()+0.05\n"
        " while time.monotonic()<end: sum(range(1000))\n"
        "print('ready',flush=True)\n"
        "end=time.monotonic()+20\n"
        "while time.monotonic()<end:\n"
        " threads=[threading.Thread(target=burn) for _ in range(4)]\n"
        " [t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    recording = record(Target([PYTHON, "-c", python]).pid, duration=3, extra=["-t"]).check_totals()
    assert len({stack[0] for stack in recording.stacks}) > 20


def test_200_children_a_second():
    target = start("forker", 600)
    recording = record(target.pid, duration=4).check_totals()
    check_lost(recording)
    assert recording.count("fork_child", "child_work") > 100, recording.stats
    return recording


@quiet
def test_work_of_200_children_a_second():
    """2 ms of work in each of 200 children a second are 0.4 s of CPU time a second."""
    recording = test_200_children_a_second()
    # A process that ends has no user stack any more while the kernel takes it down: that part is cut, and says so.
    cut = {cause: n for cause, n in recording.stats["truncated"].items() if cause != "no-user-stack"}
    assert sum(cut.values()) <= 0.01 * recording.samples, recording.stats["truncated"]
    in_children, expected = recording.count("fork_child", "child_work"), 0.4 * RATE_HZ * 4
    assert expected / 2 < in_children < expected * 2, f"{in_children} samples in children, {expected} expected"


def test_no_children():
    target = start("forker", 600)
    recording = record(target.pid, duration=3, extra=["--no-children"]).check_totals()
    assert recording.count("child_work") == 0, recording.examples("child_work")


def test_children_that_exist_at_attach():
    """The processes below the target when it is attached, grandchildren too."""
    burn = f"{workload('split')} 30"
    target = Target(["sh", "-c", f"sh -c '{burn} & wait' & wait"], ready=False)
    descendant(target.pid, "split")
    recording = record(target.pid, duration=2).check_complete()
    assert recording.comms().get("split", 0) > 100, recording.comms()


def test_exec():
    """The target becomes another program: the names before and after are those of their own files."""
    daemon, target = Daemon(), start("execer", 600, workload("split-nopie"), 600)
    recorder = Recorder(target.pid, duration=600, global_options=("--socket", daemon.socket))

    def sampled(more):
        watched = daemon.request("GET", "/v1/targets")
        return watched and watched[0]["samples"] > more and watched[0]["samples"]

    samples = wait_until(lambda: sampled(100), "samples of the first program")
    target.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: sampled(samples + 500), "samples of the second program")
    recorder.process.send_signal(signal.SIGINT)
    recording = recorder.wait().check_totals()
    check_lost(recording)
    before, after = recording.count("before_exec", comm="execer"), recording.count("split_bag", "split_kernel")
    assert before > 10 and after > 10, recording.comms()
    assert recording.count("before_exec", "split_kernel") == 0
    assert recording.comms().get("split-nopie", 0) > 10, recording.comms()
    return recording


@quiet
def test_exec_cuts_few_stacks():
    """At 1000 Hz each millisecond before the new program's mappings are read is a stack that may be cut."""
    test_exec().check_complete(0.998)


def test_dlopen_after_attach():
    """A library loaded a second after the start: what is sampled before its table is there may be cut, and says so."""
    target = start("dlopener", workload("plugin.so"), 600, 4)
    recording = record(target.pid, duration=7).check_totals()
    check_lost(recording)
    inside = recording.count("main", "plugin_run", "plugin_burn")
    assert inside > recording.samples / 8, recording.examples("")
    assert set(c for c, n in recording.stats["truncated"].items() if n) <= {"maps-pending"}, recording.stats
    return recording


@quiet
def test_dlopen_cuts_few_stacks():
    test_dlopen_after_attach().check_complete(0.99)


def test_target_ends_mid_way():
    target = start("split", 8)
    recording = record(target.pid, duration=30).check_complete(least=10)
    assert recording.count("split_kernel") > 0.2 * recording.samples
    assert recording.stats["duration_s"] < 25, recording.stats["duration_s"]
    said = [line for line in recording.stderr.splitlines() if "end" in line or "exit" in line]
    assert said, f"nothing says that the target ended: {recording.stderr}"
    assert "checksum" in target.finish()


def test_target_killed_mid_way():
    daemon, target = Daemon(), start("threads", 600, 8)
    recorder = Recorder(target.pid, duration=600, global_options=("--socket", daemon.socket))
    wait_until(lambda: any(t["samples"] > 200 for t in daemon.request("GET", "/v1/targets")), "samples")
    target.process.kill()
    # Its threads have no memory any more while they end, which takes longer where others want the CPUs.
    recording = recorder.wait().check_complete(0.95)
    ended = recording.stats["truncated"].get("no-user-stack", 0)
    assert recording.stats["complete"] + ended >= 0.999 * recording.samples, recording.stats
    assert recording.count("thread_burn") > 100


def test_main_thread_ends_first():
    """The main thread ends while the process is watched, the others work on."""
    python = (
        "import ctypes,threading,time\n"
        "def burn():\n"
        " end=time.monotonic()+20\n"
        " while time.monotonic()<end: sum(range(1000))\n"
        "threading.Thread(target=burn).start()\n"
        "print('ready',flush=True)\n"
        "time.sleep(2)\n"
        "ctypes.CDLL(None).syscall(60,0)\n"
    )
    target = Target([PYTHON, "-c", python])
    recorder = Recorder(target.pid, duration=6)
    wait_until(lambda: "zombie" in status_of(target.pid)["State"], "the main thread's end")
    recording = recorder.wait().check_complete()
    assert recording.stats["duration_s"] > 5.5, recording.stats["duration_s"]
    assert recording.samples > 500, recording.samples


def test_no_kernel():
    with_kernel = record(start("switcher", 600).pid, duration=2).check_totals()
    target = start("switcher", 600)
    before = cpu_seconds(target.pid)
    without = record(target.pid, duration=2, extra=["--no-kernel"]).check_totals()
    ran = cpu_seconds(target.pid) - before
    assert with_kernel.count() == with_kernel.samples
    kernel = [f for stack in with_kernel.stacks for f in stack if f.endswith("_[k]")]
    assert kernel and any("pipe" in f for f in kernel), kernel[:10]
    assert not [f for stack in without.stacks for f in stack if f.endswith("_[k]")]
    # It switches all the time, where no clock looks, and on a busy machine it does not run much.
    assert without.samples > min(100, 0.2 * 999 * ran) > 0, (without.samples, ran)


def test_kernel_frames_are_innermost():
    recording = record(start("switcher", 600).pid, duration=2).check_totals()
    for stack in recording.stacks:
        kinds = [f.endswith("_[k]") for f in stack[1:]]
        assert kinds == sorted(kinds), stack


def test_only_the_target():
    """A neighbour on the same CPUs does not come into the profile."""
    neighbour = start("threads", 600, 4)
    recording = record(start("split", 600).pid, duration=2).check_totals()
    assert set(recording.comms()) == {"split"}, recording.comms()
    assert neighbour.process.poll() is None


def test_small_counts_map_loses_by_name():
    """A map of counts that is too small: what does not fit is counted, and the totals add up all the same."""
    daemon = Daemon("--counts-entries", "16")
    target = start("threads", 600, 200, 10000)
    recording = daemon.record(target.pid, duration=4, rate=9999).check_totals()
    assert recording.lost > 0, recording.stats
    assert recording.stats["lost"].get("counts-map-full", 0) > 0, recording.stats["lost"]


def test_without_bpf_loop():
    """The unwinder for kernels that have no bpf_loop gives the same stacks."""
    daemon, recorders = Daemon("--force-tail-calls"), []
    for name, arguments, frame in (
        ("split", (600,), "split_kernel"),
        ("deep", (600, 600), "deep_leaf"),
        ("signals", ("alt", 600), "handler_leaf"),
        ("realign", (600,), "realign_leaf"),
        ("threads", (600, 2), "thread_burn"),
    ):
        pid = start(name, *arguments).pid
        recorders.append((name, frame, Recorder(pid, duration=90, global_options=("--socket", daemon.socket))))

    def sampled():
        samples = [target["samples"] for target in daemon.request("GET", "/v1/targets")]
        return len(samples) == len(recorders) and min(samples) > 100

    wait_until(sampled, "samples of each")
    for _, _, recorder in recorders:
        recorder.process.send_signal(signal.SIGINT)
    for name, frame, recorder in recorders:
        recording = recorder.wait().check_complete()
        assert recording.count(frame) > 20, f"{name}: {recording.examples('')}"


def test_affinity_bounds_the_events():
    """CPUs that no target may run on have no clock event."""
    if (os.cpu_count() or 1) < 2:
        return
    daemon = Daemon()
    target = start("split", 600, before_exec=lambda: os.sched_setaffinity(0, {1}))
    daemon.client("attach", "-p", str(target.pid))
    status = wait_until(lambda: daemon.request("GET", "/v1/status").get("cpus"), "the list of CPUs in /v1/status")
    assert status == [1], status
    os.sched_setaffinity(target.pid, {0, 1})
    both = wait_until(lambda: len(daemon.request("GET", "/v1/status")["cpus"]) == 2, "the second CPU")
    assert both
