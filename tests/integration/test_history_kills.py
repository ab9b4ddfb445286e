# SPDX-License-Identifier: GPL-2.0-or-later
"""kill -9 of a daemon at random moments, again and again, on one store; and a disk that fills up while it writes.

STAKEOUT_KILLS: how often (3; with the long tests 100). STAKEOUT_KILLS_SEED: of the moments; the seed is printed.
"""
import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import time

from harness import (
    LONG,
    PYTHON,
    Daemon,
    Target,
    alone,
    need_bpf,
    need_namespaces,
    start,
    temporary_dir,
    timeout,
    wait_until,
)

KILLS = int(os.environ.get("STAKEOUT_KILLS", "100" if LONG else "3"))
SEED = int(os.environ.get("STAKEOUT_KILLS_SEED", str(time.time_ns() % 1000000)))
WINDOW_S = 1
RATE_HZ = 99
# A window is written when it has ended: names are looked up and the profile is packed and synced. With more busy
# threads than CPUs the kill may come before that is done; this is what it may take. Beside other work it takes longer.
WRITING_S = 0.9 if LONG else 60
BUSY_PYTHON = "print('ready', flush=True)\nwhile True: sum(i * i for i in range(1000))"


def snapshot(store):
    """The files as the kill left them, opened by SQLite as after any crash; what is in them."""
    copy = temporary_dir()
    for name in os.listdir(store):
        if not os.path.isfile(os.path.join(store, name)):
            continue
        assert "corrupt" not in name, name
        shutil.copy(os.path.join(store, name), copy)
    with contextlib.closing(sqlite3.connect(os.path.join(copy, "history.sqlite"))) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        windows = db.execute(
            "SELECT t.pid, w.begin_ns, w.end_ns, w.samples, w.lost, length(b.profile) FROM windows w"
            " JOIN targets t ON t.id = w.target_id LEFT JOIN blobs b ON b.window_id = w.id"
            " WHERE w.level = 0 ORDER BY t.pid, w.begin_ns"
        ).fetchall()
        unended = {pid for (pid,) in db.execute("SELECT pid FROM targets WHERE ended_ns IS NULL")}
        gaps = db.execute("SELECT count(*) FROM gaps").fetchone()[0]
    shutil.rmtree(copy)
    return windows, unended, gaps


class Life:
    """One daemon from its start to its kill, and what a client was told meanwhile."""

    def __init__(self, store, targets, seconds):
        self.deadline = time.monotonic() + seconds
        self.daemon = Daemon("--store", store, "--window", str(WINDOW_S), wait=False)
        self.attached_ns = {}
        self.written = {}  # by PID: (samples and losses, end of the last window), as answered
        self.watch(targets)
        time.sleep(max(0.0, self.deadline - time.monotonic()))
        self.killed_ns = time.time_ns()
        self.daemon.process.send_signal(signal.SIGKILL)
        assert self.daemon.process.wait() == -signal.SIGKILL, self.daemon.log()

    def left(self):
        assert self.daemon.process.poll() is None, self.daemon.log()
        return self.deadline - time.monotonic()

    def watch(self, targets):
        while self.left() > 0 and not os.path.exists(self.daemon.socket):
            time.sleep(0.005)
        while self.left() > 0:
            try:
                for target in targets:
                    if self.left() > 0 and target.pid not in self.attached_ns:
                        body = {"pid": target.pid, "rate_hz": RATE_HZ, "keep": True}
                        self.daemon.request("POST", "/v1/targets", body, expect=201)
                        self.attached_ns[target.pid] = time.time_ns()
                for entry in self.daemon.request("GET", "/v1/history")["targets"]:
                    self.written[entry["pid"]] = (entry["samples"] + entry["lost"], entry["last_ns"] or 0)
            except (ConnectionRefusedError, FileNotFoundError):
                pass
            time.sleep(0.02)

    def check(self, windows, before):
        """What was there stays, byte counts and all; windows follow upon each other; only the open one is missing."""
        assert set(before) <= set(windows), f"windows vanished: {set(before) - set(windows)}"
        missing_ns = [0]
        for pid, (samples, last_ns) in self.written.items():
            mine = [w for w in windows if w[0] == pid]
            assert sum(w[3] + w[4] for w in mine) >= samples, f"samples that were told are gone: {pid}"
            assert max([w[2] for w in mine], default=0) >= last_ns, f"a window that was told is gone: {pid}"
        for pid, attached_ns in self.attached_ns.items():
            mine = [w for w in windows if w[0] == pid and w not in before]
            assert all(a[2] == b[1] for a, b in zip(mine, mine[1:])), f"windows do not follow upon each other: {mine}"
            assert not mine or mine[0][1] <= attached_ns, (mine, attached_ns)
            assert all(w[5] for w in mine), "a window without its profile"
            missing_ns.append(self.killed_ns - (mine[-1][2] if mine else attached_ns))
        assert max(missing_ns) <= (WINDOW_S + WRITING_S) * 1e9, f"more than the open window is gone: {missing_ns}"
        return max(missing_ns) / 1e9


@timeout(120 + 20 * KILLS)
@(alone if LONG else lambda test: test)  # WRITING_S
def test_kills_at_random_moments():
    need_bpf()
    store = os.path.join(temporary_dir(), "store")
    targets = [start("split", 3600), start("threads", 3600, 2), Target([PYTHON, "-c", BUSY_PYTHON])]
    moments = random.Random(SEED)
    print(f"{KILLS} kills, seed {SEED}")
    windows, gaps, unended, most_missing_s, watched = [], 0, set(), 0.0, 0
    for number in range(KILLS):
        life = Life(store, targets, moments.uniform(0.0, 5.0))
        if not os.path.exists(os.path.join(store, "history.sqlite")):
            assert not life.attached_ns
            continue
        before, untold = windows, unended
        windows, unended, told = snapshot(store)
        most_missing_s = max(most_missing_s, life.check(windows, before))
        # A daemon tells the gaps of the life before when it opens the store; it may have been killed before that.
        assert told == gaps + len(untold) or (told == gaps and unended == untold), (number, told, gaps, untold)
        assert told == gaps + len(untold) or not life.attached_ns, (number, life.attached_ns)
        assert set(life.attached_ns) <= unended, f"an attached target is not marked as watched: {life.attached_ns}"
        assert "corrupt" not in life.daemon.log() and "history is off" not in life.daemon.log(), life.daemon.log()
        gaps = told
        watched += bool(life.attached_ns)
    last = Daemon("--store", store, "--window", str(WINDOW_S))
    gaps += len(unended)
    listed = last.request("GET", "/v1/history")
    assert len(listed["gaps"]) == gaps, (listed["gaps"], gaps)
    assert {g["cause"] for g in listed["gaps"]} <= {"open-window"} and {g["windows"] for g in listed["gaps"]} <= {1}
    ends = {w[2] for w in windows} | {t["began_ns"] for t in listed["targets"]}
    assert all(g["begin_ns"] in ends for g in listed["gaps"]), "a gap that does not begin where a window ended"
    text = last.client("history").stdout
    assert text.count("the daemon was killed; up to 1 window lost") == gaps, text
    for entry in listed["targets"]:
        mine = [w for w in windows if w[0] == entry["pid"]]
        assert (entry["samples"], entry["lost"]) == (sum(w[3] for w in mine), sum(w[4] for w in mine)), entry
        if mine:
            last.request("GET", f"/v1/history/{entry['key']}/profile?from_ns=0")
    assert last.stop() == 0
    print(f"{watched} with targets attached, {len(windows)} windows, {gaps} gaps, at most {most_missing_s:.2f} s lost")


def test_a_disk_that_fills_up():
    """A small file system: history stops with a word, sampling goes on; with room again so does history, with a gap."""
    need_bpf()
    need_namespaces()
    where = temporary_dir()
    script = 'mount -t tmpfs -o size=8M,mode=0700 none "$0" && exec "$@"'
    daemon = Daemon(
        "--store", where, "--window", str(WINDOW_S), prefix=["unshare", "--mount", "sh", "-c", script, where]
    )
    inside = f"/proc/{daemon.process.pid}/root{where}"  # of the daemon's mount namespace
    target = start("split", 600)
    daemon.client("attach", "-p", str(target.pid), "-r", str(RATE_HZ))

    def history():
        return daemon.request("GET", "/v1/status")["history"]

    wait_until(lambda: history()["windows_written"] >= 2, "windows", step=0.1)
    filler = os.open(os.path.join(inside, "filler"), os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(filler, bytes(4096))
    os.close(filler)
    written = history()["windows_written"]
    wait_until(lambda: history()["windows_lost"] >= 2, "windows that find no room", step=0.1)
    assert re.search("full", history()["problem"]), history()
    assert daemon.log().count("history is off") == 1, daemon.log()
    before = daemon.request("GET", "/v1/targets")[0]["samples"]
    wait_until(lambda: daemon.request("GET", "/v1/targets")[0]["samples"] > before, "samples all the same", step=0.1)
    daemon.request("GET", "/v1/history/1/profile?from_ns=0")  # what is there can be read
    os.remove(os.path.join(inside, "filler"))
    wait_until(lambda: history()["problem"] is None, "room to be noticed", step=0.2)
    wait_until(lambda: history()["windows_written"] >= written + 2, "windows again", step=0.1)
    listed = wait_until(lambda: (h := daemon.request("GET", "/v1/history"))["gaps"] and h, "the gap", step=0.1)
    assert sum(g["windows"] for g in listed["gaps"]) == history()["windows_lost"], listed
    assert {g["cause"] for g in listed["gaps"]} == {"not-written"}, listed
    said = daemon.client("history").stdout
    assert re.search(r"^gap from .*: \d+ windows could not be written$", said, re.MULTILINE), said
    for name in ("history.sqlite", "history.sqlite-wal"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(os.path.join(inside, name), daemon.dir)
    with contextlib.closing(sqlite3.connect(os.path.join(daemon.dir, "history.sqlite"))) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert daemon.stop() == 0, daemon.log()
