# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's history: windows that lose nothing, restarts, stores that cannot be used, whose past is shown to whom."""
import os
import re
import signal
import sqlite3
import time

from harness import (
    PYTHON,
    STAKEOUT,
    Daemon,
    Target,
    has_number,
    need_namespaces,
    one_clear_line,
    parse_folded,
    run,
    start,
    temporary_dir,
    wait_until,
)

NOBODY = 65534
RATE_HZ = 199
NO_STORE = "--store DIR"


class Historian(Daemon):
    """A daemon with a store, whose windows last a second."""

    def __init__(self, store=None, *arguments, **options):
        self.store = store or os.path.join(temporary_dir(), "store")
        super().__init__("--store", self.store, "--window", "1", *arguments, **options)

    def watch(self, target):
        self.client("attach", "-p", str(target.pid), "-r", str(RATE_HZ))
        return self

    def history(self):
        return self.request("GET", "/v1/history")

    def of(self, pid):
        """The newest entry of a process, or None."""
        found = [t for t in self.history()["targets"] if t["pid"] == pid]
        return found[-1] if found else None

    def windows(self, pid, least):
        """Waits until so much is written: seconds from the first window to the last."""

        def enough():
            entry = self.of(pid)
            return entry if entry and entry["last_ns"] and entry["last_ns"] - entry["first_ns"] >= least * 1e9 else None

        return wait_until(enough, f"{least} s of history", step=0.1)

    def folded(self, pid, *options, **more):
        return self.client("folded", "-p", str(pid), *options, **more)

    def stacks(self, pid, *options):
        return parse_folded(self.folded(pid, *options).stdout)

    def entry_of(self, pid):
        return [t for t in self.request("GET", "/v1/targets") if t["pid"] == pid][-1]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def test_windows_add_up_to_the_target():
    """Stack by stack: what all windows hold together is what the engine has counted since attach."""
    target = start("threads", 600, 4)
    daemon = Historian().watch(target)
    daemon.windows(target.pid, 2)
    assert daemon.entry_of(target.pid)["samples"] > 0
    target.process.kill()
    entry = wait_until(lambda: (e := daemon.of(target.pid)) and e["end"] == "ended" and e, "the end of its history")
    whole = daemon.entry_of(target.pid)
    assert entry["samples"] > 20, entry
    assert (entry["samples"] + entry["lost"], entry["lost"]) == (whole["samples"], whole["lost"]), (entry, whole)
    assert daemon.stacks(target.pid, "--since", "1h") == daemon.stacks(target.pid)
    with sqlite3.connect(f"file:{daemon.store}/history.sqlite?mode=ro", uri=True) as db:
        rows = db.execute("SELECT begin_ns, end_ns FROM windows WHERE level = 0 ORDER BY begin_ns").fetchall()
    assert len(rows) >= 3, rows
    assert all(a[1] == b[0] for a, b in zip(rows, rows[1:])), f"windows do not follow upon each other: {rows}"
    assert daemon.history()["gaps"] == []


def test_figures_of_python_add_up():
    """What a profile says of itself beside its stacks."""
    target = Target([PYTHON, "-c", "print('ready', flush=True)\nwhile True: sum(i * i for i in range(1000))"])
    daemon = Historian(None, "--no-source-lines").watch(target)  # of which a busy machine may lack some at one time or other
    daemon.windows(target.pid, 2)
    target.process.kill()
    wait_until(lambda: daemon.of(target.pid)["end"] == "ended", "the end of its history")
    said, where = [], temporary_dir()
    for i, options in enumerate(([], ["--since", "1h"])):
        path = os.path.join(where, f"{i}.pb.gz")
        daemon.client("profile", "-p", str(target.pid), "-o", path, *options)
        said.append(run([STAKEOUT, "summary", path]).stdout)
    assert "Python 3" in said[0] and said[0] == said[1], said


def test_a_detached_target_has_its_last_window():
    target = start("split", 600)
    daemon = Historian().watch(target)
    time.sleep(1.5)
    stacks = daemon.stacks(target.pid)
    daemon.client("detach", "-p", str(target.pid))
    assert daemon.client("list").stdout.count("\n") == 1, "a detached target is listed"
    entry = wait_until(lambda: (e := daemon.of(target.pid)) and e["end"] == "detached" and e, "the end of its history")
    assert entry["samples"] >= sum(stacks.values()) > 0, (entry, stacks)
    # Watched anew, it goes on with the same history.
    daemon.watch(target)
    daemon.client("detach", "-p", str(target.pid))
    daemon.watch(target)
    later = wait_until(lambda: (e := daemon.of(target.pid)) and e["samples"] > entry["samples"] and e, "more of it")
    assert later["key"] == entry["key"] and later["end"] == "open", later
    assert len(daemon.history()["targets"]) == 1


def test_many_short_targets_do_not_fill_the_slots():
    target = start("split", 600)
    daemon = Historian()
    for _ in range(20):
        daemon.watch(target)
        daemon.client("detach", "-p", str(target.pid))
    assert daemon.request("GET", "/v1/status")["targets"] == 0
    assert daemon.request("GET", "/v1/status")["history"]["windows_lost"] == 0


def test_since_on_a_live_target():
    target = start("split", 600)
    daemon = Historian().watch(target)
    daemon.windows(target.pid, 3)
    before = sum(daemon.stacks(target.pid).values())
    whole = sum(daemon.stacks(target.pid, "--since", "1h").values())
    # The window that is open is at most a second old when it is not written for a question.
    assert before - 1.2 * RATE_HZ <= whole <= sum(daemon.stacks(target.pid).values()), (before, whole)
    part = daemon.stacks(target.pid, "--since", "1s")
    assert 0 < sum(part.values()) < whole, (part, whole)
    assert any("split_kernel" in stack for stack in part), part
    text = daemon.client("summary", "-p", str(target.pid), "--since", "2s").stdout
    assert "split_kernel" in text, text
    out = os.path.join(temporary_dir(), "past.pb.gz")
    daemon.client("profile", "-p", str(target.pid), "--since", "2s", "-o", out)
    assert "split_kernel" in run([STAKEOUT, "render", out, "-f", "folded"]).stdout
    number = daemon.entry_of(target.pid)["id"]
    assert daemon.request("GET", f"/v1/targets/{number}/profile?since=2")[:2] == b"\x1f\x8b"
    daemon.request("GET", f"/v1/targets/{number}/profile?since=x", expect=400)
    daemon.request("GET", "/v1/history/1/profile?from_ns=5&to_ns=5", expect=400)
    daemon.request("GET", "/v1/history/77/profile", expect=404)
    daemon.request("GET", "/v1/history/0/profile", expect=404)
    assert str(target.pid) in daemon.client("history").stdout
    late = daemon.folded(target.pid, "--since", "2h", "--until", "1h", expect=1)
    assert "from" in one_clear_line(late.stderr), late.stderr


def test_clear_words_without_a_store():
    target = start("split", 600)
    daemon = Daemon()
    daemon.client("attach", "-p", str(target.pid))
    for arguments in (["folded", "-p", str(target.pid), "--since", "5m"], ["history"]):
        assert NO_STORE in one_clear_line(daemon.client(*arguments, expect=1).stderr)
    number = daemon.request("GET", "/v1/targets")[0]["id"]
    assert NO_STORE in daemon.request("GET", f"/v1/targets/{number}/profile?since=5", expect=409)["error"]
    assert "history" not in daemon.request("GET", "/v1/status")


def test_a_killed_daemon_loses_one_window_at_most():
    target = start("split", 600)
    first = Historian().watch(target)
    first.windows(target.pid, 2)
    before, written = first.entry_of(target.pid), first.of(target.pid)
    first.kill()
    daemon = Historian(first.store)
    entry = daemon.of(target.pid)
    assert entry["key"] == written["key"] and entry["end"] == "unknown" and entry["target"] is None, entry
    assert entry["samples"] >= written["samples"], (entry, written)
    assert before["samples"] - entry["samples"] <= 1.2 * RATE_HZ, (before, entry)
    (gap,) = daemon.history()["gaps"]
    assert (gap["key"], gap["cause"], gap["windows"]) == (entry["key"], "open-window", 1), gap
    assert gap["begin_ns"] == entry["last_ns"], (gap, entry)
    # A process that is not watched now.
    answer = daemon.folded(target.pid, "--since", "1h")
    assert sum(parse_folded(answer.stdout).values()) == entry["samples"]
    assert "lacks up to 1 window" in answer.stderr, answer.stderr
    assert "daemon was killed" in daemon.client("history").stdout
    daemon.watch(target)
    daemon.windows(target.pid, 3)
    assert daemon.of(target.pid)["key"] == entry["key"]
    assert daemon.stop() == 0
    again = Historian(first.store)
    assert again.of(target.pid)["end"] == "closed" and len(again.history()["gaps"]) == 1


def test_the_last_windows_of_a_daemon_that_ends():
    target = start("split", 600)
    first = Historian().watch(target)
    time.sleep(1.3)
    taken = sum(first.stacks(target.pid).values())
    assert first.stop() == 0
    entry = Historian(first.store).of(target.pid)
    assert entry["end"] == "closed" and entry["samples"] >= taken > 0, (entry, taken)


def serves_without_history(daemon, target, words):
    """It samples as ever, and says what is the matter with its history."""
    daemon.watch(target)
    wait_until(lambda: sum(daemon.stacks(target.pid).values()) > 20, "samples")
    status = daemon.request("GET", "/v1/status")["history"]
    assert re.search(words, status["problem"]), status
    assert daemon.log().count("history is off") == 1, daemon.log()
    assert re.search(words, daemon.client("status").stdout)
    wait_until(lambda: daemon.request("GET", "/v1/status")["history"]["windows_lost"] > 0, "a window to be missed")


def test_a_read_only_store():
    need_namespaces()
    where = temporary_dir()
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    daemon = Historian(where, prefix=["unshare", "--mount", "sh", "-c", script, where])
    serves_without_history(daemon, start("split", 600), "[Rr]ead-only")
    assert daemon.history()["targets"] == []
    assert re.search("[Rr]ead-only", daemon.client("history").stderr)
    refused = one_clear_line(daemon.client("folded", "-p", "1", "--since", "5m", expect=1).stderr)
    assert re.search("[Rr]ead-only", refused), refused


def test_a_corrupt_store_is_put_aside():
    where = temporary_dir()
    with open(os.path.join(where, "history.sqlite"), "wb") as f:
        f.write(b"SQLite format 3\0" + os.urandom(60000))
    target = start("split", 600)
    daemon = Historian(where)
    assert "corrupt" in daemon.log(), daemon.log()
    daemon.watch(target).windows(target.pid, 1)
    assert daemon.request("GET", "/v1/status")["history"]["problem"] is None
    assert [name for name in os.listdir(where) if ".corrupt-" in name], os.listdir(where)


def test_two_daemons_do_not_share_a_store():
    first = Historian()
    second = Historian(first.store, wait=False)
    assert second.process.wait(timeout=20) == 1
    assert "another daemon" in second.log(), second.log()


def test_other_users_see_their_own_history():
    """The paths lead there for everybody, so that it is the daemon that refuses."""
    target, own = start("split", 600), start("split", 600, user=NOBODY)
    daemon = Historian(None, "--socket-mode", "0666")
    daemon.watch(target).watch(own)
    key, own_key = daemon.windows(target.pid, 1)["key"], daemon.windows(own.pid, 1)["key"]
    stranger = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", daemon.socket]
    listed = run(["curl", "-s", "--unix-socket", daemon.socket, "http://localhost/v1/history"], user=NOBODY).stdout
    assert has_number(listed, own.pid) and not has_number(listed, target.pid), listed
    for path, code in ((f"/v1/history/{key}/profile", "403"), (f"/v1/history/{own_key}/profile", "200")):
        assert run([*stranger, f"http://localhost{path}"], user=NOBODY).stdout == code, path
    assert daemon.request("GET", f"/v1/history/{key}/profile")[:2] == b"\x1f\x8b"


def test_bad_options():
    for arguments, words in (
        (["--retain-size", "1M"], "16M"),
        (["--retain-size", "1X"], "retain-size"),
        (["--retain-age", "7"], "retain-age"),
        (["--window", "0"], "window"),
    ):
        daemon = Historian(None, *arguments, wait=False)
        assert daemon.process.wait(timeout=20) == 2 and words in daemon.log(), daemon.log()
    daemon = Daemon("--window", "5", wait=False)
    assert daemon.process.wait(timeout=20) == 2 and NO_STORE in daemon.log(), daemon.log()
