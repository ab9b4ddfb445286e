# SPDX-License-Identifier: GPL-2.0-or-later
"""The section of `make bench` for looks at waiting threads: what they take from a target that switches, and from the machine."""
import os
import statistics
import subprocess
import threading
import time

import harness
import targets

IDLE = """
import _thread, sys
_thread.stack_size(256 << 10)
locks = [_thread.allocate_lock() for _ in range(2)]
for lock in locks:
    lock.acquire()
for _ in range(int(sys.argv[1])):
    _thread.start_new_thread(locks[0].acquire, ())
print("ready", flush=True)
locks[1].acquire()
"""


class Rounds:
    """What the target of switches prints, as it comes."""

    def __init__(self):
        argv = ["taskset", "-c", str(targets.LAST_CPU), targets.built("switches")]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.counts = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.counts.append(int(line))

    def of(self, seconds):
        before = len(self.counts)
        time.sleep(seconds)
        return statistics.median(self.counts[before + 1:])

    def end(self):
        self.process.kill()
        self.process.wait()


def waits(report, quick):
    report.section(
        "waits",
        "what looks at threads cost (record --wall, attach --wall)",
        "loss: of a program that switches all the time, on one CPU, by turns with and without --wall at 1 Hz of samples;",
        "median of pairs, and the range of their middle half. daemon: CPU time of stakeoutd by ps, looks included.",
    )
    switching(report, 3 if quick else 10)
    idle(report, quick)


def switching(report, pairs):
    rounds, losses = Rounds(), []
    daemon = harness.Daemon()
    try:
        for _ in range(pairs):
            target = {"pid": rounds.process.pid, "rate_hz": 1, "keep": True}
            without = with_id(daemon, target, rounds)
            looked_at = with_id(daemon, {**target, "wall": True}, rounds)
            losses.append(100 * (1 - looked_at / without))
    finally:
        daemon.stop()
        rounds.end()
    low, middle, high = statistics.quantiles(losses, n=4)
    report.table(["switches a second", "loss %", "from", "to", "pairs"],
                 [[f"{2 * 10 * without:.0f}", float(middle), float(low), float(high), pairs]])


def with_id(daemon, target, rounds):
    made = daemon.request("POST", "/v1/targets", target, expect=201)
    time.sleep(0.5)
    count = rounds.of(2)
    daemon.request("DELETE", f"/v1/targets/{made['id']}")
    return count


def idle(report, quick):
    rows = []
    for threads in (100, 1000):
        path = os.path.join(harness.temporary_dir(), "idle.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(IDLE)
        with targets.running([harness.PYTHON, path, threads]) as pid:
            for wall in (False, True):
                daemon = harness.Daemon()
                try:
                    daemon.request("POST", "/v1/targets", {"pid": pid, "keep": True, "wall": wall}, expect=201)
                    time.sleep(5)
                    before = cpu_s(daemon.process.pid)
                    time.sleep(5 if quick else 20)
                    share = 100 * (cpu_s(daemon.process.pid) - before) / (5 if quick else 20)
                    rows.append([f"{threads} sleeping threads", "with" if wall else "without", float(share)])
                finally:
                    daemon.stop()
    report.table(["target", "looks", "daemon % of a CPU"], rows)


def cpu_s(pid):
    """Of all its threads that live, helpers' processes not counted."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as f:
            total += int(f.read().split()[0])
    return total / 1e9
