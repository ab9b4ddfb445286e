# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory in the daemon's history: of a program that says itself what it keeps, of children, of what is gone, and for whom."""
import json
import os
import re
import sqlite3
import time

from harness import PYTHON, STAKEOUT, Daemon, Target, need_bpf, one_clear_line, run, start, wait_until
from strangers import NOBODY, ask_as
from test_history import Historian
from test_memory import Grower

RATE = 4  # MB a second
LEAK_S = 10


def memory_of(daemon, pid, *arguments):
    return json.loads(daemon.client("memory", "-p", str(pid), "--json", *arguments).stdout)


def resident(pid):
    """Bytes by kind, as /proc/PID/status has them."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        text = f.read()
    return {name: 1024 * int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) for name in ("RssAnon", "RssFile", "RssShmem", "VmSwap")}


def check_gone(daemon, pid, before):
    """It is there after its process, with what was known of its windows."""
    wait_until(lambda: daemon.of(pid)["end"] == "ended", "the end in the history")
    after = memory_of(daemon, pid, "--since", "10m")
    known = [w for w in after["windows"] if w["most_bytes"] is not None]
    assert after["verdict"] == "growing" and len(known) >= len([w for w in before["windows"] if w["most_bytes"]])
    assert known[-1]["begin_ns"] >= before["windows"][-1]["begin_ns"], (known[-1], before["windows"][-1])


def test_a_leak():
    """Attached without --memory: what the history says is what the program keeps, while it lives and afterwards."""
    need_bpf()
    grower, daemon = Grower(start, "mem_grow", "leak", RATE), Historian()
    daemon.watch(grower.target)
    daemon.windows(grower.pid, 1)
    begun, had = time.monotonic(), grower.anonymous()
    daemon.windows(grower.pid, LEAK_S)
    rate = (grower.anonymous() - had) / (time.monotonic() - begun)
    asked = time.time_ns()
    answer = memory_of(daemon, grower.pid, "--since", "10m")
    assert answer["verdict"] == "growing", answer
    assert abs(answer["growth_bytes_per_s"] - rate) <= 0.1 * rate, (answer["growth_bytes_per_s"], rate)
    assert answer["growth_bytes_per_s_low"] <= answer["growth_bytes_per_s"] <= answer["growth_bytes_per_s_high"]
    windows = answer["windows"]
    known = [w for w in windows if w["most_bytes"] is not None]
    assert len(known) >= 0.8 * len(windows) >= 8, windows
    for w in known:
        assert w["most_bytes"] + 4 >= sum(w[f"{kind}_bytes"] for kind in ("anonymous", "file", "shared", "swapped")), w
    # The latest reading is one of the time between the last window's begin and now, all of which had less than there is now.
    late_s = (time.time_ns() - known[-1]["begin_ns"]) / 1e9
    now = grower.anonymous()
    assert now - 1.2 * rate * (late_s + 1) - 1e6 <= known[-1]["anonymous_bytes"] <= now, (known[-1], now, late_s)
    assert answer["most_bytes"] == max(w["most_bytes"] for w in known) and windows[-1]["end_ns"] <= asked + 10e9
    text = daemon.client("memory", "-p", str(grower.pid), "--since", "10m").stdout
    assert re.search(r"^growing: \+\d+\.\d MB a minute \[\+\d+\.\d, \+\d+\.\d\]$", text, re.M), text
    assert re.search(r"^  ▁.*█\n  \(▁ \d+\.\d MB, █ \d+\.\d MB of its own\)$", text, re.M) and "\nmost: " in text, text
    grower.end()
    check_gone(daemon, grower.pid, answer)
    # None of a range before that.
    failed = daemon.client("memory", "-p", str(grower.pid), "--since", "20m", "--until", "15m", expect=1)
    assert "no history of process" in one_clear_line(failed.stderr) and not failed.stdout


FAMILY = r"""
import mmap, os, sys, time
if not os.fork():
    own = bytearray(b"x" * 60000000)
    shared = mmap.mmap(-1, 30000000)
    shared.write(b"y" * 30000000)
    os.write(1, b"ready\n")
    time.sleep(600)
time.sleep(600)
"""


def test_children_are_counted():
    """Of a parent and a child that have what they have: the sum, by kind."""
    need_bpf()
    target, daemon = Target([PYTHON, "-c", FAMILY]), Historian()
    daemon.watch(target)
    with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as f:
        child = int(f.read().split()[0])
    daemon.windows(target.pid, 2)
    both = [resident(pid) for pid in (target.pid, child)]
    answer = memory_of(daemon, target.pid, "--since", "10m")
    last = [w for w in answer["windows"] if w["most_bytes"] is not None][-1]
    for kind, name in (("anonymous", "RssAnon"), ("file", "RssFile"), ("shared", "RssShmem"), ("swapped", "VmSwap")):
        truth = sum(values[name] for values in both)
        # Some pages may go and come meanwhile.
        assert abs(last[f"{kind}_bytes"] - truth) <= 0.02 * truth + 1e6, (kind, last, both)
    assert last["anonymous_bytes"] > 60e6 and last["shared_bytes"] >= 29e6, last


def test_rights_and_arguments():
    need_bpf()
    target, own = start("split", 600), start("split", 600, user=NOBODY, group=NOBODY, extra_groups=[])
    daemon = Historian(None, "--socket-mode", "0666")
    daemon.watch(target).watch(own)
    key, own_key = daemon.windows(target.pid, 1)["key"], daemon.windows(own.pid, 1)["key"]
    answers = ask_as(daemon, [("GET", f"/v1/history/{k}/memory", None) for k in (key, own_key, 999)])
    assert [status for status, _ in answers] == [403, 200, 404], answers
    answer = json.loads(answers[1][1])
    assert answer["windows"] == len(answer["rows"]) and answer["memory_windows"] >= 1, answer
    first, last = answer["begin_ns"], answer["end_ns"]
    for words, code in (
        (f"from_ns={first}&to_ns={last}", 200),
        ("since=600", 200),
        ("since=600&until=0", 200),
        ("since=x", 400),
        (f"from_ns={last}&to_ns={first}", 400),
        ("from_ns=1&to_ns=2", 409),
    ):
        daemon.request("GET", f"/v1/history/{own_key}/memory?{words}", expect=code)
    # A part of it has the windows that touch it alone.
    some = daemon.request("GET", f"/v1/history/{own_key}/memory?from_ns={first}&to_ns={first + 1}")
    assert some["rows"] == answer["rows"][:1], (some, answer["rows"][0])


def test_clear_words():
    need_bpf()
    target, daemon = start("split", 600), Daemon()
    daemon.client("attach", "-p", str(target.pid))
    failed = daemon.client("memory", "-p", str(target.pid), "--since", "5m", expect=1)
    assert "--store" in one_clear_line(failed.stderr)
    for arguments in (["--since", "5m"], ["-p", "1", "--since", "5m", "-d", "3"], ["-p", "1", "--at", "5m", "--gpu"], ["-p", "1", "--until", "x"]):
        wrong = run([STAKEOUT, "--socket", daemon.socket, "memory", *arguments])
        assert wrong.returncode == 2 and one_clear_line(wrong.stderr), wrong


def test_a_store_of_before():
    """Windows of an earlier version stay, without memory; later ones have it."""
    need_bpf()
    target, first = start("split", 600), Historian()
    first.watch(target).windows(target.pid, 1)
    first.stop()
    with sqlite3.connect(os.path.join(first.store, "history.sqlite")) as db:
        for column in ("anonymous", "file", "shared", "swapped", "most"):
            db.execute(f"ALTER TABLE windows DROP COLUMN {column}")
        db.execute("PRAGMA user_version = 3")
        old = db.execute("SELECT count(*) FROM windows").fetchone()[0]
    db.close()
    second = Historian(first.store)
    failed = second.client("memory", "-p", str(target.pid), "--since", "10m", expect=1)
    assert "does not say how much memory" in one_clear_line(failed.stderr)
    second.watch(target)
    wait_until(lambda: second.of(target.pid)["target"] is not None, "the target to be watched again")
    wait_until(lambda: known_of(second, target.pid)["memory_windows"] >= 2, "windows with memory", step=0.3)
    answer = known_of(second, target.pid)
    assert answer["memory_windows"] < answer["windows"] and all(row["most_bytes"] is None for row in answer["rows"][:old]), (old, answer)
    text = second.client("memory", "-p", str(target.pid), "--since", "10m").stdout
    assert re.search(r"^of \d+ of \d+ windows the memory is not known$", text, re.M), text


def known_of(daemon, pid):
    return daemon.request("GET", f"/v1/history/{daemon.of(pid)['key']}/memory")
