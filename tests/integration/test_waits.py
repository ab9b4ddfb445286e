# SPDX-License-Identifier: GPL-2.0-or-later
"""Where threads wait, against what the programs measure of themselves (tests/workloads/py_waits.py).

A measured call contains what its thread did besides: it ran, it was runnable, it waited for the interpreter's lock
before it could go on. So what a program measured is the most that the state may have, and the least is that without
these. Nothing is compared with what was intended: a machine under load may do anything late.
"""
import json
import math
import os
import signal
import subprocess
import time

import cuda_targets
from harness import (
    PYTHON,
    STAKEOUT,
    Daemon,
    Skip,
    Target,
    need_bpf,
    run,
    script,
    spawn,
    start,
    start_script,
    status_of,
    temporary_dir,
    wait_until,
    workload,
)
from pprof_message import Message

RECORD_S = 3
SLACK_NS = 50e6
# Distances between looks are uniform from a half to three halves of their mean, so that N looks are worth N / (1 + 1/12).
WORTH = 12 / 13
# One comparison in 16,000 fails by chance.
Z = 4


def wilson(share, n):
    """Wilson's score interval of a share of n looks."""
    z2 = Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(max(share * (1 - share), 0) / n + z2 / (4 * n * n))
    return middle - half, middle + half


class Waits:
    """A profile in wall time, its summary, and what the program says of the same time."""

    def __init__(self, path, logs=None):
        self.path, self.message = path, Message(path)
        self.duration_ns = self.message.duration_ns
        self.begin_ns = self.message.time_ns - (time.time_ns() - time.monotonic_ns())
        self.end_ns = self.begin_ns + self.duration_ns
        self.logs = {int(tid): log for tid, log in (logs or {}).items()}
        self.summary = json.loads(run([STAKEOUT, "summary", "--json", path]).stdout)
        assert self.message.types[2] == ("wall", "nanoseconds"), self.message.types

    @property
    def looks(self):
        return max(float(self.message.comments["wall_hz"]) * self.duration_ns / 1e9 * WORTH, 1)

    @property
    def distance_ns(self):
        """The longest that two looks may be apart, with what a busy machine adds; no look says what happened in between."""
        return 1.5e9 / float(self.message.comments["wall_hz"]) + SLACK_NS

    def of(self, tid):
        return [s for s in self.message.samples if s.labels["tid"] == tid]

    def states(self, tid=None):
        """Wall time in ns by state, of a thread or of all."""
        found = {}
        for sample in self.message.samples if tid is None else self.of(tid):
            found[sample.state] = found.get(sample.state, 0) + sample.wall_ns
        return found

    def tids(self, name):
        return [tid for tid, log in self.logs.items() if log["name"] == name]

    def tids_of(self, pid):
        return {s.labels["tid"] for s in self.message.samples if s.labels["pid"] == pid}

    def check_whole(self, *tids, slack_ns=SLACK_NS):
        """These threads lived all the time: so long is the time of each."""
        for tid in tids:
            total = sum(self.states(tid).values())
            assert abs(total - self.duration_ns) < max(slack_ns, 0.01 * self.duration_ns), (
                f"thread {tid} has {total / 1e9:.3f} s of {self.duration_ns / 1e9:.3f}: {self.states(tid)}"
            )
            shown = [t for t in self.summary["wall"]["threads"] if t["tid"] == tid]
            parts = [sum(t[part] for t in shown) for part in ("running_s", "runnable_s", "waiting_s")]
            assert abs(sum(parts) * 1e9 - total) < 1e6, (parts, total)
        return self

    def measured(self, tid, *what):
        """How much of its time the thread spent in these calls, as it measured."""
        spent = 0
        for name, begin, end, _, _ in self.logs[tid]["log"]:
            if name in what:
                spent += max(0, min(end or self.end_ns, self.end_ns) - max(begin, self.begin_ns))
        return spent / self.duration_ns

    def check_state(self, tid, *what):
        """The states' share is what the thread measured of calls of these names."""
        states, measured = self.states(tid), self.measured(tid, *what)
        found = sum(states.get(w, 0) for w in what) / self.duration_ns
        besides = sum(states.get(s, 0) for s in ("running", "runnable", "gil")) / self.duration_ns
        low, high = wilson(min(found, 1), self.looks)
        margin = SLACK_NS / self.duration_ns
        assert low - margin <= measured and high + margin >= measured - besides, (
            f"{what} of {self.logs[tid]['name']}: measured {measured:.3f}, found {found:.3f} [{low:.3f}, {high:.3f}] "
            f"of {self.looks:.0f} looks, {states}"
        )
        return self

    def _ran(self, tid, at_ns):
        """The least and the most that the thread can have run until then."""
        least, most = 0, math.inf
        for _, begin, end, ran, ran_at_end in self.logs[tid]["log"]:
            for then, so_far in ((begin, ran), (end, ran_at_end)):
                if then is not None and then <= at_ns:
                    least, most = max(least, so_far), min(most, so_far + at_ns - then)
                elif then is not None:
                    least, most = max(least, so_far - (then - at_ns)), min(most, so_far)
        return least, most

    def check_running(self, tid):
        """As the thread's own clock of CPU time has it."""
        began, ended = self._ran(tid, self.begin_ns), self._ran(tid, self.end_ns)
        least, most = ended[0] - began[1], ended[1] - began[0]
        found = self.states(tid).get("running", 0)
        # Before its first look and after its last one it may have done something else than what it did then.
        slack = 2 * self.distance_ns
        assert least - slack <= found <= most + slack, (
            f"{self.logs[tid]['name']} ran {least / 1e9:.3f} to {most / 1e9:.3f} s, found {found / 1e9:.3f}"
        )
        return self

    def check_complete(self):
        """Stacks of waiting threads reach the outermost frame."""
        waiting = [s for s in self.message.samples if s.state not in ("running", "runnable")]
        cut = [s for s in waiting if any(f.startswith("[truncated:") for f in s.names())]
        all_ns, cut_ns = (sum(s.wall_ns for s in some) for some in (waiting, cut))
        assert cut_ns <= 0.005 * all_ns, f"{cut_ns} of {all_ns} ns are cut: {[s.names() for s in cut[:3]]}"
        return self

    def waits_for(self, tid):
        """State and line, as the summary names them."""
        (wait,) = [t["waits_for"] for t in self.summary["wall"]["threads"] if t["tid"] == tid]
        return wait


def record_wall(pid, duration=RECORD_S, options=(), daemon=None):
    need_bpf()
    path = os.path.join(temporary_dir(), "wall.pb.gz")
    argv = ["record", "--wall", "-p", str(pid), "-d", str(duration), "-o", path, *options]
    if daemon:
        daemon.client(*argv)
    else:
        result = run([STAKEOUT, *argv], seconds=duration + 60)
        assert result.returncode == 0, result.stderr
    return path


def program(kind, *arguments):
    need_bpf()
    return start_script("py_waits.py", kind, *arguments, stdin=subprocess.PIPE)


def logs_of(target):
    return json.loads(target.finish().splitlines()[-1])


def watch(kind, duration=RECORD_S, options=()):
    """A recording of a program, checked for what holds for each: threads that live on have all of their time."""
    target = program(kind)
    path = record_wall(target.pid, duration, options)
    found = Waits(path, logs_of(target))
    threads = [tid for tid, log in found.logs.items() if log["pid"] == target.pid]
    return found.check_whole(target.pid, *threads).check_complete()


def test_sleeper():
    found = watch("sleeper")
    (busy,), (asleep,) = found.tids("sleeps_and_runs"), found.tids("sleeps_on")
    found.check_state(busy, "sleep").check_running(busy)
    # Blocked since before the recording began, and never on a CPU in it.
    assert found.states(asleep).keys() == {"sleep"}, found.states(asleep)
    assert found.waits_for(asleep)["line"].startswith("sleeper.<locals>.sleeps_on (py_waits.py:"), found.waits_for(asleep)


def test_lock_convoy():
    found = watch("convoy", 6)
    for tid in found.tids("queues_up"):
        found.check_state(tid, "sleep").check_state(tid, "lock").check_running(tid)
        assert found.waits_for(tid)["line"].startswith("convoy.<locals>.queues_up (py_waits.py:"), found.waits_for(tid)


def test_first_thread_has_ended():
    """The others are seen as ever, with what they load later; the one that has ended waits for nothing."""
    need_bpf()
    target = start("leader_exits", workload("plugin.so"), 600)
    wait_until(lambda: status_of(target.pid)["State"].startswith("Z"), "the first thread to end")
    shown = json.loads(run([STAKEOUT, "dump", "--json", "-p", target.pid]).stdout)
    stacks = {thread["tid"]: {frame["function"] for frame in thread["frames"]} for thread in shown}
    (asleep,) = [tid for tid, names in stacks.items() if {"sleeper", "start_thread"} <= names]
    (busy,) = [tid for tid, names in stacks.items() if {"works", "worker", "start_thread"} <= names]
    assert len(stacks) == 2 and target.pid not in stacks, stacks
    path = os.path.join(temporary_dir(), "wall.pb.gz")
    recorder = spawn([STAKEOUT, "record", "--wall", "-p", target.pid, "-d", 3, "-o", path], stdout=subprocess.DEVNULL)
    time.sleep(1)
    os.kill(target.pid, signal.SIGUSR1)
    assert recorder.wait(60) == 0
    found = Waits(path).check_whole(asleep, busy).check_complete()
    assert found.tids_of(target.pid) == {asleep, busy}, found.tids_of(target.pid)
    assert found.states(asleep)["sleep"] > 0.98 * found.duration_ns, found.states(asleep)
    loaded = [s.names() for s in found.of(busy) if "plugin_burn" in s.names()]
    assert loaded and all({"plugin_run", "worker", "start_thread"} <= set(names) for names in loaded), loaded
    # Links of many probes are placed by the first thread's memory.
    refused = run([STAKEOUT, "steps", "-p", target.pid, "--step", "plugin_burn", "-d", 1])
    assert refused.returncode == 0 or "first thread has ended" in refused.stderr, refused


def test_queue_consumer():
    found = watch("consumer")
    (producer,), (consumer,) = found.tids("produces"), found.tids("consumes")
    found.check_state(producer, "sleep").check_running(producer)
    found.check_state(consumer, "lock").check_running(consumer)


def test_gil_fight():
    found = watch("fight")
    fighters = found.tids("fights")
    assert len(fighters) == 8
    for tid in fighters:
        found.check_running(tid)
    states = [found.states(tid) for tid in fighters]
    total = sum(sum(s.values()) for s in states)
    fought = sum(s.get(name, 0) for s in states for name in ("running", "runnable", "gil"))
    assert fought > 0.97 * total, states
    # One of them runs at a time, the others wait for the lock.
    ran = sum(s.get("running", 0) + s.get("runnable", 0) for s in states)
    gil = sum(s.get("gil", 0) for s in states)
    assert abs(ran + gil - total) < 0.03 * total, states


def test_loader():
    """The processes that feed a training loop are there as well."""
    found = watch("loader")
    (trains,) = found.tids("trains")
    found.check_state(trains, "pipe", "lock").check_running(trains)
    workers = [tid for tid, log in found.logs.items() if log["name"].startswith("loads-")]
    assert len(workers) == 4, found.logs
    found.check_whole(*workers)
    for tid in workers:
        assert {s.labels["pid"] for s in found.of(tid)} == {tid}
        # Its last piece may not have arrived.
        last = max(end for _, _, end, _, _ in found.logs[tid]["log"])
        if last > found.end_ns:
            found.check_state(tid, "sleep").check_running(tid)


def test_idle_threads():
    found = watch("idle")
    waiting = found.tids("waits_for_nothing")
    assert len(waiting) == 200
    for tid in waiting:
        assert found.states(tid).keys() == {"lock"}, found.states(tid)
    pool = [t for t in found.summary["wall"]["threads"] if t["idle_s"] > 0]
    assert len(pool) == 8, pool
    for thread in pool:
        found.check_whole(thread["tid"])
    text = run([STAKEOUT, "summary", found.path]).stdout
    assert "and 8 idle threads of pools\n" in text, text


def test_gil_holder():
    found = watch("holder")
    (holder,) = found.tids("keeps_the_lock")
    for tid in found.tids("wants_the_lock"):
        found.check_running(tid)
        assert found.states(tid)["gil"] > 0.3 * found.duration_ns, found.states(tid)
    rows = found.summary["wall"]["gil_holders"]
    assert rows == sorted(rows, key=lambda row: -row["wall_s"]), rows
    held = sum(row["wall_s"] for row in rows if row["line"].startswith("holder.<locals>.keeps_the_lock (py_waits.py:"))
    # The most is what it measured of its calls, the least the 50 ms that it asked for in each. Who is first is not said: a busy
    # machine takes the CPU from those that want the lock while they have it.
    measured = found.measured(holder, "hold") * found.duration_ns / 1e9
    calls = [c for c in found.logs[holder]["log"] if c[0] == "hold" and c[1] >= found.begin_ns and c[2] and c[2] <= found.end_ns]
    least, _ = wilson(0.05e9 * len(calls) / found.duration_ns, found.looks)
    assert calls and least * found.duration_ns / 1e9 - 0.05 < held < measured + 0.05, (held, measured, len(calls), rows)
    text = run([STAKEOUT, "summary", found.path]).stdout
    assert "for the GIL, which these lines held" in text, text


def test_gil_by_turns():
    """With times it is known for which line the others waited, here for the one that has the lock for a third of the time."""
    target = start_script("py_gil_by_turns.py")
    path = os.path.join(temporary_dir(), "turns.pb.gz")

    def recorded(*options):
        done = run([STAKEOUT, "record", "-q", "--wall", "-p", target.pid, "-d", "6", "-o", path, *options])
        assert done.returncode == 0, done.stderr
        wall = json.loads(run([STAKEOUT, "summary", path, "--json"]).stdout)["wall"]
        return wall, run([STAKEOUT, "summary", path]).stdout

    wall, text = recorded("--timeline")
    rows = wall["gil_holders"]
    held, waited = ({name: sum(r[key] for r in rows if r["line"].startswith(name)) for name in ("alone", "crowd")}
                    for key in ("wall_s", "others_waited_s"))
    [gil] = [s["wall_s"] for s in wall["states"] if s["state"] == "gil"]
    assert rows[0]["line"].startswith("crowd ") and held["crowd"] < held["alone"], rows
    assert waited["crowd"] > 0.9 * (waited["crowd"] + waited["alone"]), waited
    # Each second that was waited is attributed once: the truth is the time in state gil, less waits without a sample of a holder.
    # A busy machine has such: somebody has the lock all the time, and this is the part of it that the rows account for.
    total, seen = sum(r["others_waited_s"] for r in rows), min(1, sum(held.values()) / 6)
    assert gil > 3 and 0.9 * gil * seen**2 < total <= gil + 0.01, (total, waited, gil, held)
    assert "others waited s meanwhile" in text, text
    wall, text = recorded()
    assert wall["gil_holders"][0]["line"].startswith("alone ") and wall["gil_holders"][0]["others_waited_s"] is None, wall
    assert "needs times: record --wall --timeline" in text, text


def test_places():
    """Each of them with its line."""
    found = watch("places")
    expected = {
        "reads_a_pipe": "pipe",
        "reads_a_socket": "io-net",
        "reads_a_unix_socket": "io-net",
        "waits_for_a_child": "child",
        "sleeps": "sleep",
        "polls": "poll",
        "waits_for_a_signal": "signal",
    }
    seen = {name: found.states(found.tids(name)[0]) for name in expected}
    assert {name: set(states) for name, states in seen.items()} == {n: {s} for n, s in expected.items()}, seen
    for name, state in expected.items():
        wait = found.waits_for(found.tids(name)[0])
        assert wait["state"] == state and wait["line"].startswith(f"places.<locals>.{name} (py_waits.py:"), wait


def test_gpu():
    """By line and call, as `stakeout cuda` names it."""
    need_bpf()
    target = cuda_targets.python_program("py_cuda_training.py", 2000, rules="cudaStreamSynchronize=20ms")
    cuda_targets.go(target)
    path = os.path.join(temporary_dir(), "gpu.pb.gz")
    done = run([STAKEOUT, "record", "-q", "--wall", "-p", target.pid, "-d", str(RECORD_S), "-o", path])
    assert done.returncode == 0, done.stderr
    first = json.loads(run([STAKEOUT, "summary", "--json", path]).stdout)["wall"]["waits"][0]
    assert first["state"] == "gpu" and first["line"].startswith("item (py_cuda_training.py:"), first
    assert first["line"].endswith("), cudaStreamSynchronize"), first


def test_stopped():
    target = program("sleeper")
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: open(f"/proc/{target.pid}/stat", encoding="ascii").read().split()[2] == "T", "its stop")
    path = record_wall(target.pid, 2)
    os.kill(target.pid, signal.SIGCONT)
    found = Waits(path, logs_of(target))
    found.check_whole(target.pid, *found.logs).check_complete()
    # That which is stopped in the midst of a call stands in that call.
    assert found.states().keys() == {"stopped"}, found.states()


def faulting(pid):
    """Whether one of its threads waits in a page fault."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stack", encoding="ascii") as f:
            if "page_fault" in f.read():
                return True
    return False


def test_page_fault():
    need_bpf()
    target = Target([PYTHON, script("py_waits.py"), "fault"], ready=False, stdin=subprocess.PIPE)
    said = target.process.stdout.readline().decode()
    if said != "ready\n":
        raise Skip(said.strip())
    wait_until(lambda: faulting(target.pid), "the page fault")
    found = Waits(record_wall(target.pid, 2)).check_complete()
    (tid,) = found.tids_of(target.pid) - {target.pid}
    found.check_whole(tid)
    assert found.states(tid).keys() == {"page-fault"}, (found.states(tid), found.of(tid)[0].names())
    assert found.waits_for(tid)["line"].startswith("fault.<locals>.reads_memory (py_waits.py:"), found.waits_for(tid)


FIRST_ENDS = """
import ctypes, sys, threading, time
def sleeps():
    time.sleep(600)
def computes():
    while True:
        sum(range(1000))
for function in (sleeps, computes):
    threading.Thread(target=function).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall(60, 0)
"""


def test_a_first_thread_that_has_ended():
    """It waits for nothing; what the others have is read through them."""
    need_bpf()
    target = Target([PYTHON, "-c", FIRST_ENDS])
    wait_until(lambda: "zombie" in status_of(target.pid)["State"], "the first thread's end")
    found = Waits(record_wall(target.pid, 2)).check_complete()
    others = found.tids_of(target.pid)
    assert len(others) == 2 and target.pid not in others, others
    names = {name for tid in others for sample in found.of(tid) for name in sample.names()}
    assert {"sleeps", "computes"} <= names, names
    (sleeps,) = [tid for tid in others if found.states(tid).get("sleep", 0) > 0.9 * found.duration_ns]
    assert found.waits_for(sleeps)["line"].startswith("sleeps (<string>:"), found.waits_for(sleeps)
    threads = json.loads(run([STAKEOUT, "dump", "-p", target.pid, "--json"]).stdout)
    assert {thread["tid"] for thread in threads} == others, threads
    memory = json.loads(run([STAKEOUT, "memory", "-p", target.pid, "-d", "2", "--json"]).stdout)
    assert memory["anonymous_bytes"] > 1 << 20, memory


def test_without_kernel_frames():
    """What a thread waits for is known by them all the same."""
    found = watch("places", 1, ["--no-kernel"])
    assert {"pipe", "io-net", "child", "sleep", "poll", "signal"} <= set(found.states()), found.states()
    folded = run([STAKEOUT, "render", found.path, "-f", "folded", "-o", "-"]).stdout
    assert "sleeps" in folded and "_[k]" not in folded and "unknown" not in folded, folded


def test_part_of_a_stack_that_nobody_serves():
    """That thread's stack is cut where its memory ends; nothing waits for it, and all others are whole."""
    need_bpf()
    target = Target([workload("lazy_stack")], ready=False, stdin=subprocess.PIPE)
    said = target.process.stdout.readline().decode()
    if said != "ready\n":
        raise Skip(said.strip())
    anonymous = status_of(target.pid)["RssAnon"]
    found = Waits(record_wall(target.pid, 2))
    assert status_of(target.pid)["RssAnon"] == anonymous
    stacks = {s.labels["comm"]: s.names() for s in found.message.samples if s.state != "running"}
    assert set(stacks) == {"lazy_stack", "lazy", "plain"}, stacks
    assert "main" in stacks["lazy_stack"] and "plain" in stacks["plain"], stacks
    assert "lazy_wait" in stacks["lazy"] and "[truncated:stack-unreadable]" in stacks["lazy"], stacks
    for tid in found.tids_of(target.pid):
        found.check_whole(tid)
    cut = [s for s in found.message.samples if any(f.startswith("[") and "seen" in f for f in s.names())]
    assert not cut, [s.names() for s in cut]


OPENS = """
import os, sys, threading
os.chdir(sys.argv[1])
for path in (os.path.join(sys.argv[1], "whole"), "part\\x1b[31m"):
    os.mkfifo(path)
    threading.Thread(target=os.open, args=(path, os.O_RDONLY), daemon=True).start()
os.write(1, b"ready\\n")
os.read(0, 1)
"""


def test_file_that_is_opened():
    """A path as the program gave it, absolute or not, without what a terminal would obey."""
    folder = temporary_dir()
    target = Target([PYTHON, "-c", OPENS, folder], stdin=subprocess.PIPE)
    path, wanted = os.path.join(temporary_dir(), "wall.pb.gz"), {f"[file {folder}/whole]", "[file part?[31m]"}
    daemon = Daemon()
    daemon.client("attach", "--wall", "-p", str(target.pid))

    def files():
        daemon.client("profile", "-p", str(target.pid), "-o", path)
        names = {sample.frames[0][0] for sample in Message(path).samples if sample.frames}
        return {name for name in names if name.startswith("[file ")}

    wait_until(lambda: files() >= wanted, "both files")


def test_threads_and_processes_that_come_and_go():
    target = program("churn")
    path = record_wall(target.pid)
    found = Waits(path, logs_of(target)).check_complete()
    found.check_whole(target.pid, *found.tids("begins_threads"), *found.tids("begins_processes"))
    found.check_state(found.tids("begins_processes")[0], "child")
    seen = 0
    for tid in found.tids("lives"):
        log = found.logs[tid]["log"]
        total = sum(found.states(tid).values())
        lived = found.measured(tid, "sleep") * found.duration_ns
        # It may begin long before what it measures, and end long after. Of one that lived between two looks nothing is
        # known, nor of what it did after the last that met it; looks are at random distances, and further apart where
        # they cost more.
        assert total <= found.duration_ns + SLACK_NS, (tid, total, log)
        assert total >= lived - 4 * found.distance_ns, (tid, total, lived, log)
        seen += total > 0
    assert seen > 5, found.states()
    executed = {s.labels["pid"] for s in found.message.samples if s.labels["comm"] == "sleep"}
    assert len(executed) >= 3, executed
    for pid in executed:
        states = found.states(pid)
        assert states.get("sleep", 0) >= 0.5 * sum(states.values()), states


def test_a_process_that_executes_another():
    """Its thread goes on: what it ran before and what it waits for afterwards are its whole time."""
    target = Target([workload("execer"), 2, "/bin/sleep", 600])
    found = Waits(record_wall(target.pid, 4))
    found.check_whole(target.pid, slack_ns=2 * found.distance_ns)
    comms = {s.labels["comm"]: s.state for s in found.of(target.pid)}
    assert "sleep" in comms, comms
    # From the execution on, once its mappings are read.
    states = found.states(target.pid)
    assert states.get("sleep", 0) > 0.1e9, states


class Historian(Daemon):
    """A daemon with a store, whose windows last a second."""

    def __init__(self):
        super().__init__("--store", os.path.join(temporary_dir(), "store"), "--window", "1")

    def profile(self, pid, *options):
        path = os.path.join(temporary_dir(), "kept.pb.gz")
        self.client("profile", "-p", str(pid), "-o", path, *options)
        return Waits(path)


def test_attached_and_kept():
    """attach --wall, windows of the history, detach."""
    target = program("sleeper")
    daemon = Historian()
    daemon.client("attach", "--wall", "-p", str(target.pid))
    time.sleep(3.5)
    now = daemon.profile(target.pid)
    now.check_whole(target.pid, slack_ns=2 * now.distance_ns).check_complete()
    daemon.client("detach", "-p", str(target.pid))
    kept = daemon.profile(target.pid, "--since", "1h")
    tids = kept.tids_of(target.pid)
    assert len(tids) == 3, tids
    kept.check_whole(*tids, slack_ns=2 * kept.distance_ns).check_complete()
    assert "wall.without_ns" not in kept.message.comments, kept.message.comments
    shown = json.loads(daemon.client("summary", "-p", str(target.pid), "--since", "1h", "--json").stdout)
    assert len(shown["wall"]["threads"]) == 3, shown["wall"]
    assert any(w["state"] == "sleep" for w in shown["wall"]["waits"]), shown["wall"]
    logs = logs_of(target)
    kept.logs = {int(tid): log for tid, log in logs.items()}
    kept.check_running(kept.tids("sleeps_and_runs")[0])


def test_a_view_in_wall_time():
    """A recording of a process that the daemon watches without: it has all, the target has none."""
    target = program("sleeper")
    daemon = Historian()
    daemon.client("attach", "-p", str(target.pid))
    time.sleep(1)
    path = record_wall(target.pid, 3, daemon=daemon)
    before = json.loads(daemon.client("summary", "-p", str(target.pid), "--json").stdout)
    found = Waits(path, logs_of(target))
    found.check_whole(target.pid, *found.logs, slack_ns=2 * found.distance_ns).check_complete()
    (busy,) = found.tids("sleeps_and_runs")
    found.check_state(busy, "sleep").check_running(busy)
    assert before["wall"] is None, before["wall"]


def test_two_views_and_a_target():
    """Recordings that begin and end at other times have each its own time."""
    target = program("sleeper")
    daemon = Historian()
    daemon.client("attach", "--wall", "-p", str(target.pid))
    path = os.path.join(temporary_dir(), "first.pb.gz")
    first = spawn([STAKEOUT, "--socket", daemon.socket, "record", "--wall", "-p", target.pid, "-d", "3", "-o", path],
                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    time.sleep(1)
    second = Waits(record_wall(target.pid, 1, daemon=daemon))
    assert first.wait(60) == 0
    logs = logs_of(target)
    for found in (Waits(path, logs), second):
        # Waiting whose place is not seen yet when a recording begins is counted in it, and of the end it lacks the like.
        found.check_whole(target.pid, *map(int, logs), slack_ns=2 * found.distance_ns)


def test_by_a_rule():
    daemon = Daemon("--match", 'cmd="py_waits.py convoy" wall')
    target = program("convoy")

    def sampled():
        targets = daemon.request("GET", "/v1/targets")
        # Also while it attaches.
        assert all(t["wall"] is True for t in targets), targets
        return [t for t in targets if t["pid"] == target.pid and t["state"] == "sampling"]

    listed = wait_until(sampled, "the target")
    assert listed[0]["wall"] is True, listed
    assert daemon.request("GET", "/v1/rules")[0]["wall"] is True
    time.sleep(1.5)
    shown = json.loads(daemon.client("summary", "-p", str(target.pid), "--json").stdout)
    assert {w["state"] for w in shown["wall"]["waits"]} >= {"lock", "sleep"}, shown["wall"]["waits"]
    limit = {entry["name"]: entry for entry in daemon.request("GET", "/v1/status")["limits"]}["looked_threads"]
    assert limit["limit"] == 65536 and limit["now"] >= 5 and limit["hit"] == 0, limit
