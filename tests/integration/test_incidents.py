# SPDX-License-Identifier: GPL-2.0-or-later
"""Incidents: the daemon keeps what led to a slow step, or to a standstill, and says so the next morning."""
import json
import os
import re
import signal
import subprocess
import time

from harness import STAKEOUT, Daemon, one_clear_line, run, start, temporary_dir, timeout, wait_until
from pprof_message import Message

NOBODY = 65534


class Keeper(Daemon):
    """A daemon with a store, which may outlive it."""

    def __init__(self, store=None):
        self.store = store or os.path.join(temporary_dir(), "store")
        super().__init__("--store", self.store)

    def attach(self, target, *options, expect=0):
        return self.client("attach", "-p", str(target.pid), "--timeline", "--wall", "-r", "199", *options, expect=expect)

    def incidents(self):
        return json.loads(self.client("incidents", "--json").stdout)

    def wait_for(self, n):
        return wait_until(lambda: len(found := self.incidents()) >= n and found, f"{n} incidents", seconds=30)


def program(*arguments):
    """Of steps, which have begun."""
    target = start("steps", *arguments, stdin=subprocess.PIPE)
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    return target


def stop_for(target, seconds):
    os.kill(target.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(target.pid, signal.SIGCONT)


@timeout(120)
def test_a_slow_step():
    """It is kept whole, with the four seconds before it; what comes too soon after it is counted; all outlives the daemon."""
    target, daemon, where = program(60000, 2), Keeper(), temporary_dir()
    slow, trace = os.path.join(where, "slow.pb.gz"), os.path.join(where, "slow.trace.json")
    daemon.attach(target, "--step", "training_step", "--save-on", "step>700ms", "--save-last", "4", "--save-pause", "5")
    time.sleep(6)
    assert daemon.incidents() == []
    stop_for(target, 1.5)
    (first,) = daemon.wait_for(1)
    assert first["pid"] == target.pid and first["comm"] == "steps" and first["left_out"] == 0, first
    assert re.fullmatch(r"a step took 1\d\d\d\.\d ms, where 95 in 100 took no more than \d+\.\d ms", first["why"]), first
    # A second one, within the pause: it is counted, and the third one says so.
    stop_for(target, 1)
    time.sleep(6)
    assert len(daemon.incidents()) == 1
    stop_for(target, 1)
    second = daemon.wait_for(2)[1]
    assert second["left_out"] == 1, second
    text = daemon.client("incidents").stdout
    assert "1 more before it came too soon and was not kept" in text and first["why"] in text, text
    text = daemon.client("history").stdout
    assert f"incident {first['id']} at " in text and f" of {target.pid} (steps): {first['why']}\n" in text, text

    daemon.client("incidents", str(first["id"]), "-o", slow)
    message = Message(slow)
    assert 5.9e9 < message.duration_ns < 8e9, message.duration_ns
    said = json.loads(run([STAKEOUT, "steps", slow, "--json"]).stdout)
    worst = said["slowest"][0]
    assert worst["whole"] and worst["ns"] > 1.4e9 and worst["begin_ns"] > 3.8e9, worst
    assert "stopped in " in worst["longer_by"][0]["what"], worst
    daemon.client("incidents", str(first["id"]), "-o", trace)
    with open(trace, encoding="utf-8") as f:
        assert json.load(f)["traceEvents"]

    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait(20)
    again = Keeper(daemon.store)
    assert again.incidents() == [first, second]
    again.client("incidents", str(first["id"]), "--remove")
    assert again.incidents() == [second]
    assert sorted(os.listdir(os.path.join(daemon.store, "incidents"))) == ["2.json", "2.pb.gz"]


@timeout(60)
def test_a_slow_step_at_the_end():
    """A job that dies of what made it slow: what it did is there."""
    target, daemon = program(60000, 2), Keeper()
    daemon.attach(target, "--step", "training_step", "--save-on", "step>50x", "--save-last", "3")
    time.sleep(4)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: daemon.request("GET", "/v1/targets")[0]["slow_step"], "the slow step")
    os.kill(target.pid, signal.SIGKILL)
    (kept,) = daemon.wait_for(1)
    assert "a step " in kept["why"] and kept["pid"] == target.pid, kept


@timeout(60)
def test_what_cannot_be_written():
    """It is tried again; then the log says what is lost, and whoever asks gets the reason."""
    target, daemon = program(60000, 2), Keeper()
    daemon.attach(target, "--step", "training_step", "--save-on", "step>700ms", "--save-last", "3")
    time.sleep(3)
    os.rmdir(os.path.join(daemon.store, "incidents"))
    stop_for(target, 1)
    wait_until(lambda: "is not kept (a step " in daemon.log(), "the loss in the log", seconds=30)
    assert daemon.log().count("is not kept") == 1 and "No such file" in daemon.log(), daemon.log()
    refused = daemon.client("save", "-p", str(target.pid), expect=1)
    assert "cannot write an incident: No such file" in one_clear_line(refused.stderr), refused.stderr
    assert daemon.incidents() == []


@timeout(120)
def test_a_standstill():
    """A program that falls below a bound of CPU time, and stays there: once for each fall. On a busy machine it has a tenth."""
    target, daemon = program(60000, 2), Keeper()
    daemon.attach(target, "--save-on", "cpu<2%/2s,step>10s", "--save-last", "3", "--save-pause", "1", "--step", "training_step")
    time.sleep(4)
    assert daemon.incidents() == []
    os.kill(target.pid, signal.SIGSTOP)
    (first,) = daemon.wait_for(1)
    assert first["why"].startswith("it used less than 2 % of a CPU for "), first
    assert first["last_s"] == 5, first
    time.sleep(3)
    assert len(daemon.incidents()) == 1
    os.kill(target.pid, signal.SIGCONT)
    time.sleep(3)
    stop_for(target, 4)
    daemon.wait_for(2)


@timeout(60)
def test_save():
    """By hand, without a signal to the program."""
    target, daemon, where = program(60000, 2), Keeper(), temporary_dir()
    daemon.attach(target)
    time.sleep(3)
    said = daemon.client("save", "-p", str(target.pid), "--last", "2").stdout
    assert said.startswith("incident 1: the latest 2 s of "), said
    (kept,) = daemon.incidents()
    assert kept["why"] == "asked for" and kept["last_s"] == 2, kept
    path = os.path.join(where, "now.pb.gz")
    daemon.client("incidents", "1", "-o", path)
    assert 1.8e9 < Message(path).duration_ns < 2.1e9
    assert target.process.poll() is None


@timeout(60)
def test_whose_they_are():
    """What a user asked for is that user's, and root's; nobody else learns that it is there."""
    target, daemon = program(60000, 2), Keeper()
    daemon.attach(target)
    daemon.client("save", "-p", str(target.pid))
    os.chmod(daemon.dir, 0o755)
    os.chmod(daemon.socket, 0o666)

    def as_nobody(*arguments):
        return daemon.client(*arguments, expect=None, user=NOBODY, group=NOBODY, extra_groups=[])

    assert as_nobody("incidents", "--json").stdout.strip() == "[]"
    for arguments in (["incidents", "1", "-o", "-"], ["incidents", "1", "--remove"]):
        refused = as_nobody(*arguments)
        assert refused.returncode == 1 and "there is no incident 1" in refused.stderr, refused
    refused = as_nobody("save", "-p", str(target.pid))
    assert refused.returncode == 1, refused
    assert len(daemon.incidents()) == 1
    assert os.stat(os.path.join(daemon.store, "incidents")).st_mode & 0o777 == 0o700


@timeout(60)
def test_what_cannot_be():
    target, daemon = program(60000, 2), Keeper()
    for options, words, status in (
        (["--save-on", "step>2x"], "a rule about steps needs step", 1),
        (["--save-on", "gpu<20%"], "a rule about the GPU needs cuda", 1),
        (["--save-on", "cpu<5%;rm"], "is no rule: step>2x", 1),
        (["--save-on", "cpu<5%,"], "is no rule: step>2x", 1),
        (["--save-on", "step>0.5x", "--step", "main"], "is no rule: step>2x", 1),
        (["--save-on", "step>2x,step>1s", "--step", "main"], "two rules about steps", 1),
        (["--save-on", ",".join(["cpu<5%"] * 5)], "more than 4 rules", 1),
        (["--save-last", "5"], "--save-last and --save-pause need --save-on", 2),
    ):
        refused = daemon.attach(target, *options, expect=status)
        assert words in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    refused = daemon.client("attach", "-p", str(target.pid), "--save-on", "cpu<5%", expect=2)
    assert "--save-on needs --timeline" in refused.stderr, refused.stderr
    for arguments, words, status in (
        (["incidents", "7", "-o", "-"], "there is no incident 7", 1),
        (["incidents", "x", "-o", "-"], "'x' is not the ID of an incident", 2),
        (["incidents", "1"], "where to? -o FILE", 2),
        (["incidents", "--remove"], "which one?", 2),
        (["save", "-p", str(target.pid)], "is no target of the daemon", 1),
    ):
        refused = daemon.client(*arguments, expect=status)
        assert words in refused.stderr, (arguments, refused.stderr)
    daemon.client("attach", "-p", str(target.pid))
    refused = daemon.client("save", "-p", str(target.pid), expect=1)
    assert "attach it with --timeline" in refused.stderr and one_clear_line(refused.stderr)
    assert daemon.incidents() == []
    without = Daemon()
    refused = without.client("incidents", expect=1)
    assert "start it with --store DIR" in refused.stderr, refused.stderr
