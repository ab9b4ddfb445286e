# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon for months: programs come and go, each time with files of their own, beside one that stays."""
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from harness import (
    Daemon,
    Target,
    SANITIZED,
    long,
    parse_folded,
    quiet,
    start,
    start_script,
    temporary_dir,
    wait_until,
    workload,
)
from test_python import interpreter

ROUNDS = 60
IDLE_MS = 1000
RATE_HZ = 499


def libraries(path):
    """The files that ldd lists, but for the dynamic linker, which is found by its own path."""
    out = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"=> (/\S+) ", out)


def libcrypto():
    """A library with a large unwind table."""
    for path in ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib64/libcrypto.so.3"):
        if os.path.exists(path):
            return [path]
    return []


class Container:
    """A program and its libraries, copied to where nothing was mapped from before."""

    def __init__(self, name):
        self.dir = temporary_dir()
        self.program = shutil.copy(workload(name), self.dir)
        self.extra = [shutil.copy(path, self.dir) for path in libcrypto()]
        for path in libraries(workload(name)):
            shutil.copy(path, self.dir)

    def start(self):
        env = {**os.environ, "LD_LIBRARY_PATH": self.dir, "LD_PRELOAD": " ".join(self.extra)}
        return Target([self.program, "60"], env=env)

    def remove(self):
        shutil.rmtree(self.dir)


def open_files(pid):
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return links


class Figures:
    """What the daemon holds."""

    def __init__(self, daemon):
        status = daemon.request("GET", "/v1/status")
        limits = {entry["name"]: entry for entry in status["limits"]}
        links = open_files(daemon.process.pid)
        self.descriptors = len(links)
        self.deleted = sum(link.endswith(" (deleted)") for link in links)
        self.rss = status["daemon"]["rss_bytes"]
        self.unwind = status["unwind"]
        self.bytes = self.unwind["bytes"]
        self.files = limits["files"]["now"]
        assert limits["table_bytes"]["now"] <= self.bytes, (limits, self.unwind)
        assert limits["files"]["hit"] == limits["table_bytes"]["hit"] == 0, limits

    def __repr__(self):
        return f"{self.descriptors} fds, {self.deleted} of deleted files, {self.files} files, {self.bytes} B, {self.rss} B rss, {self.unwind}"


def attach(daemon, pid):
    return daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": RATE_HZ, "keep": True}, expect=201)["id"]


def has_samples(daemon, target, n):
    return lambda: daemon.request("GET", f"/v1/targets/{target}")["samples"] >= n


def stay_once(daemon, container, n):
    """One life: started, sampled, ended. Its number, and its profile."""
    target = container.start()
    number = attach(daemon, target.pid)
    wait_until(has_samples(daemon, number, n), "samples")
    target.process.kill()
    target.process.wait()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{number}")["state"] == "ended", "its end")
    return number, target.pid


def folded(daemon, pid):
    return parse_folded(daemon.client("folded", "-p", str(pid)).stdout)


def check_complete(daemon, number, least=100):
    """But for samples that fall into its end, when its memory is gone already: some ms, which are two samples on a slow machine."""
    stats = daemon.request("GET", f"/v1/targets/{number}/stats")
    taken = stats["samples"] - sum(stats["lost"].values())
    at_end = stats["truncated"].get("no-user-stack", 0)
    assert taken >= least and at_end <= 3 and stats["complete"] + at_end >= 0.999 * taken, stats


class Readers:
    """Profiles asked for again and again, which are made without the engine's lock while files come and go."""

    def __init__(self, daemon, numbers):
        self.daemon, self.numbers = daemon, numbers
        self.count, self.error, self.over = 0, None, False
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            while not self.over:
                for number in self.numbers:
                    assert self.daemon.request("GET", f"/v1/targets/{number}/profile")
                    self.count += 1
                time.sleep(0.05)
        except BaseException as error:  # pylint: disable=W0718
            self.error = error

    def stop(self):
        self.over = True
        self.thread.join()
        assert self.error is None, self.error
        return self.count


def most(figures, name):
    return max(getattr(f, name) for f in figures)


@quiet
def test_files_that_come_and_go():
    """Descriptors, tables and memory stay as they were; so do the stacks of who stays, and the names of who went."""
    daemon = Daemon("--cache-dir", temporary_dir(), "--files-idle-ms", str(IDLE_MS))
    steady = attach(daemon, start("split", 280).pid)
    wait_until(has_samples(daemon, steady, 100), "samples")
    alone = Figures(daemon)
    ended = Container("cpp_sim")
    kept, kept_pid = stay_once(daemon, ended, 200)
    before = folded(daemon, kept_pid)
    assert sum(n for s, n in before.items() if any("sim::" in f for f in s)) > 100, before
    ended.remove()  # what its names are read from from here on is nowhere but in the daemon
    one = Figures(daemon)
    assert one.bytes > alone.bytes + 100000 and one.files >= alone.files + 5, (alone, one)
    figures = []
    readers = Readers(daemon, [kept, steady])
    try:
        for _ in range(ROUNDS):
            container = Container("plt_heavy")
            number, _ = stay_once(daemon, container, 50)
            check_complete(daemon, number, 40)
            assert daemon.request("GET", f"/v1/targets/{number}/profile")
            daemon.request("DELETE", f"/v1/targets/{number}")
            container.remove()
            figures.append(Figures(daemon))
    finally:
        n_read = readers.stop()
    assert n_read >= ROUNDS, n_read
    early, late = figures[10:30], figures[-20:]
    print(f"alone {alone}\none {one}\nearly {early[-1]}\nlate {late[-1]}")
    # 30 lives lie between the two, each with 5 files or more and 190 KB of tables. How many lives the idle time spans varies.
    assert most(late, "descriptors") <= most(early, "descriptors") + 30, (early, late)
    assert most(late, "bytes") <= most(early, "bytes") + 1500000, (early, late)
    assert most(late, "rss") <= 1.1 * most(early, "rss") + (100 << 20 if SANITIZED else 4 << 20), (early, late)
    # Only what the profile that is kept names stays, without its tables.
    per_life = one.files - alone.files
    last = wait_until(
        lambda: (lambda f: f if f.files <= alone.files + per_life and f.bytes < one.bytes else None)(Figures(daemon)),
        "the files to be closed",
    )
    print(f"last {last}")
    assert 0 < last.deleted <= 2 * per_life, (alone, last)  # one each, and one for its symbols
    assert last.unwind["freed"] >= ROUNDS * 4 and last.unwind["released_bytes"] > ROUNDS * 100000, last
    assert folded(daemon, kept_pid) == before, "the profile of a target that ended is another"
    check_complete(daemon, steady, ROUNDS * RATE_HZ // 10)
    daemon.request("DELETE", f"/v1/targets/{kept}")
    last = wait_until(lambda: not (f := Figures(daemon)).unwind["retired"] and f, "the last files to be closed")
    assert last.deleted == 0 and last.files == alone.files, (alone, last)
    assert daemon.stop() == 0


@long
def test_interpreters_that_come_and_go():
    """Up to CPython 3.11 each process has its lock somewhere else: however many there are, all are told by one entry."""
    python, n = interpreter("3.11"), 280
    daemon = Daemon()
    target = start_script("py_spawner.py", python, n, 0.15, stdin=subprocess.PIPE)
    made = attach(daemon, target.pid)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    target.finish()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made}")["state"] == "ended", "its end")
    names = {f.split(" ")[0] for s in folded(daemon, target.pid) for f in s if f.startswith("busy_")}
    stats = daemon.request("GET", f"/v1/targets/{made}/stats")
    assert len(names) >= 0.97 * n, (len(names), stats["python"])
    assert "problem" not in stats["python"], stats["python"]
    assert stats["python"]["gil"] > 0.5 * stats["python"]["samples"], stats["python"]


@quiet
def test_children_of_whom_nobody_told():
    """More children than there is room for the news of, while the daemon stands still: those that stay are sampled all the same."""
    daemon = Daemon()
    target = start("burst", 8, 10000, stdin=subprocess.PIPE)
    made = attach(daemon, target.pid)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        target.process.stdin.write(b"\n")
        target.process.stdin.flush()
        assert target.process.stdout.readline() == b"made\n"
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    wait_until(lambda: daemon.request("GET", "/v1/status")["processes"] == 3, "only the parent and two children")
    target.finish()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made}")["state"] == "ended", "its end")
    stacks = folded(daemon, target.pid)
    for name in ("late_child", "late_program"):
        n = sum(n for s, n in stacks.items() if any(name in f for f in s))
        assert n > 5 * RATE_HZ / 2, (name, n, collections.Counter(stacks).most_common(5))


def test_a_file_is_mapped_again():
    """A program whose files were let go starts again: it gets its tables from the cache, and its stacks are complete."""
    daemon = Daemon("--cache-dir", temporary_dir(), "--files-idle-ms", "200")
    attach(daemon, start("split", 600).pid)
    container, seen = Container("plt_heavy"), []
    for life in range(3):
        number, pid = stay_once(daemon, container, 200)
        check_complete(daemon, number)
        seen.append({f for s in folded(daemon, pid) for f in s if f in ("plt_calls", "tiny_add", "tiny_rotate")})
        wait_until(lambda n=life: Figures(daemon).unwind["retired"] >= 3 * (n + 1), "its files to be let go")
        # The stacks of each life name the files by numbers of their own.
        time.sleep(2)
        assert Figures(daemon).unwind["retired"] >= 3 * (life + 1)
    assert seen == 3 * [{"plt_calls", "tiny_add", "tiny_rotate"}], seen
    compiled = Figures(daemon).unwind
    assert compiled["from_cache"] >= 8, compiled
