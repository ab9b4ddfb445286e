# SPDX-License-Identifier: GPL-2.0-or-later
"""One user at every limit for a long time, with programs that come and go and clients that behave badly: root's recordings
stay whole, the daemon answers, and its resident memory stays within what .design/limits.md says.

STAKEOUT_LOAD_SECONDS says for how long (two hours, `make check-long LOAD_SECONDS=600`). Prints a line a minute.
"""
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

from harness import Daemon, UnixConnection, at_exit, long, script, spawn, start, temporary_dir, timeout
from strangers import become
from test_shares import MANY_MAPPINGS, MAP_AND_WAIT, library
from users import MALLORY, as_user, program

SECONDS = int(os.environ.get("STAKEOUT_LOAD_SECONDS", "7200"))
RESIDENT_MAX_BYTES = 1 << 30  # limits.md, "Resident memory"
ACTORS = 3
WAIT_MAX_S = 60
GROWTH_MAX = 1.25
STATUS_MAX_S = 10  # a request that waits for someone else's hang would wait for ever


class Actor:
    """A client of Mallory's that does one bad or good thing after another. It runs in a process of its own."""

    def __init__(self, daemon, seed, programs):
        self.daemon, self.random, self.programs = daemon, random.Random(seed), programs
        self.targets, self.running = [], []

    def ask(self, method, path, body=None):
        """(status, text), or (0, "") where the connection was refused or cut."""
        with contextlib.closing(UnixConnection(self.daemon.socket, WAIT_MAX_S)) as connection:
            try:
                connection.request(method, path, body=json.dumps(body) if body is not None else None)
                answer = connection.getresponse()
                return answer.status, answer.read().decode("latin-1")
            except OSError:
                return 0, ""

    def new_program(self):
        if len(self.running) >= 2:
            self.end(self.running.pop(self.random.randrange(len(self.running))))
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        argv = ["chrt", "--idle", "0", *self.random.choice(self.programs)]  # the CPUs are not what this is about
        self.running.append(subprocess.Popen(argv, cwd="/", process_group=0, **quiet))  # pylint: disable=R1732

    @staticmethod
    def end(process):
        """With its children, which are this process's then."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-process.pid, 0)
        process.wait()

    def attach(self):
        self.new_program()
        body = {"pid": self.random.choice(self.running).pid, "rate_hz": self.random.choice([49, 99, 499])}
        body |= {"keep": self.random.random() < 0.7, "wall": self.random.random() < 0.5}
        if not body["keep"]:
            body["duration_s"] = self.random.choice([1, 3])
        status, text = self.ask("POST", "/v1/targets", body)
        if status == 201:
            self.targets.append(json.loads(text)["id"])

    def detach(self):
        if self.targets:
            self.ask("DELETE", f"/v1/targets/{self.targets.pop(self.random.randrange(len(self.targets)))}")

    def look(self):
        if self.targets:
            what = self.random.choice(["profile", "threads", "stats", "cuda", "profile?since=30s"])
            self.ask("GET", f"/v1/targets/{self.random.choice(self.targets)}/{what}")
        self.ask("GET", self.random.choice(["/v1/history", "/metrics", "/v1/targets", "/v1/rules"]))

    def history(self):
        status, text = self.ask("GET", "/v1/history")
        kept = json.loads(text).get("targets", []) if status == 200 else []
        for entry in self.random.sample(kept, min(2, len(kept))):
            self.ask("GET", f"/v1/history/{entry['key']}/{self.random.choice(['profile', 'cuda'])}")

    def rule(self):
        pattern = self.random.choice(["(a|b|ab)*c{1,50}", "(x{1,100}){1,100}", "(", ".*" * 50, "nothing_has_this_name"])
        status, text = self.ask("POST", "/v1/rules", {"match": {"exe": pattern}, "rate_hz": 49})
        if status == 201:
            self.ask("DELETE", f"/v1/rules/{json.loads(text)['id']}")

    def garbage(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(self.daemon.socket)
            connection.sendall(self.random.randbytes(self.random.choice([1, 100, 40000])))

    def hang_up(self):
        """Asks for much, and goes before it is there."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(self.daemon.socket)
            path = f"/v1/targets/{self.random.choice(self.targets)}/profile" if self.targets else "/metrics"
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 10)
            connection.recv(10)

    def pull(self):
        if self.running:
            self.ask("GET", f"/debug/pprof/profile?pid={self.random.choice(self.running).pid}&seconds=1")

    def run(self, deadline):
        deeds = [self.attach, self.attach, self.detach, self.look, self.look, self.history, self.rule, self.garbage]
        deeds += [self.hang_up, self.pull]
        try:
            while time.monotonic() < deadline:
                self.random.choice(deeds)()
                time.sleep(self.random.uniform(0, 1))
        finally:
            for process in self.running:
                self.end(process)


def start_actor(daemon, seed, programs, deadline):
    """The process that is one actor; its programs end with it."""
    pid = os.fork()
    if pid:
        at_exit(end_actor, pid)
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        become(MALLORY, MALLORY, [])
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        Actor(daemon, seed, programs).run(deadline)
        status = 0
    finally:
        os._exit(status)


def end_actor(pid):
    """However the test ended, the actor ends its programs."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS:"))


class Watch:
    """What root sees meanwhile."""

    def __init__(self, daemon):
        self.daemon, self.mine = daemon, start("deep", SECONDS + 600)
        self.resident, self.waits_s, self.samples, self.complete = [], [], 0, 0

    def once(self):
        recording = self.daemon.record(self.mine.pid, duration=3, rate=199)
        recording.check_totals()
        self.samples += recording.samples
        self.complete += recording.stats["complete"]
        for _ in range(5):
            begin = time.monotonic()
            self.daemon.request("GET", "/v1/status", seconds=STATUS_MAX_S)
            self.waits_s.append(time.monotonic() - begin)
        self.resident.append(resident_bytes(self.daemon.process.pid))

    def line(self, seconds):
        print(
            f"{seconds:.0f} s: resident {self.resident[-1] >> 20} MiB, most {max(self.resident) >> 20}; {self.samples} samples,"
            f" {100 * self.complete / self.samples:.3f} % complete; status after {1e3 * statistics.median(self.waits_s):.1f} ms"
            f" in the median, {1e3 * max(self.waits_s):.0f} at most",
            file=sys.stderr,
            flush=True,
        )


def kept_targets(daemon):
    """Mallory's, at the limits that a target reaches by itself: unwind rules, mappings."""
    files = [library(f"lib{i}.so", 14000, i * 14000) for i in range(10)]
    commands = [[MAP_AND_WAIT, library("large.so", 140000), *files], *[[MANY_MAPPINGS]] * 3]
    for command in commands:
        process = spawn(["/usr/bin/python3", "-c", *command], before_exec=as_user(MALLORY), cwd="/", stdout=subprocess.DEVNULL)
        time.sleep(1)
        daemon.request("POST", "/v1/targets", {"pid": process.pid, "keep": True, "rate_hz": 49}, expect=201)


def programs_of_mallory():
    python = ["/usr/bin/python3"]
    names = ("py_churn.py", "py_starter.py", "py_threads.py", "py_workers.py")
    found = [[*python, shutil.copy(script(name), temporary_dir()), "600"] for name in names]
    return found + [[program(name), "600"] for name in ("threads", "forker", "jitter", "unmapper", "sleeper")]


@long
@timeout(SECONDS + 600)
def test_one_user_at_every_limit():
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    kept_targets(daemon)
    watch = Watch(daemon)
    begin = time.monotonic()
    actors = [start_actor(daemon, seed, programs_of_mallory(), begin + SECONDS) for seed in range(ACTORS)]
    next_line = begin
    while time.monotonic() < begin + SECONDS:
        watch.once()
        if time.monotonic() >= next_line:
            watch.line(time.monotonic() - begin)
            next_line += 60
        time.sleep(2)
    for pid in actors:
        assert os.waitpid(pid, 0)[1] == 0, "an actor failed"
    watch.once()
    watch.line(time.monotonic() - begin)
    assert watch.complete >= 0.999 * watch.samples > 0, (watch.complete, watch.samples)
    assert max(watch.resident) <= RESIDENT_MAX_BYTES, [n >> 20 for n in watch.resident]
    quarter = len(watch.resident) // 4
    second, last = (statistics.median(watch.resident[i * quarter : (i + 1) * quarter or None]) for i in (1, 3))
    assert last <= GROWTH_MAX * second, [n >> 20 for n in watch.resident]
    assert daemon.stop() == 0, daemon.log()[-2000:]
