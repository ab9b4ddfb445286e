# SPDX-License-Identifier: GPL-2.0-or-later
"""Targets that are watched for long: their memory has a bound, and nothing that asks for the past notices."""
import json
import os
import re
import subprocess
import time

from harness import (
    PYTHON,
    STAKEOUT,
    Daemon,
    Target,
    long,
    run,
    script,
    start_script,
    temporary_dir,
    wait_until,
    workload,
)
from metrics_text import parse_metrics

SMALL = 200000  # bytes; a loop at 999 Hz fills them in a second or two
RATE = 999


def watched(daemon, pid, **options):
    return daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": RATE, "keep": True, **options}, expect=201)


def sample_bytes(daemon, made):
    return next(x for x in daemon.request("GET", "/v1/status")["costs"] if x["id"] == made["id"])["sample_bytes"]


def forgotten(daemon, made):
    """How many samples the target's profile says that it lacks."""
    path = os.path.join(temporary_dir(), "now.pb.gz")
    with open(path, "wb") as f:
        f.write(daemon.request("GET", f"/v1/targets/{made['id']}/profile"))
    return json.loads(run([STAKEOUT, "summary", path, "--json"]).stdout)


def test_memory_of_an_attached_target_is_bounded():
    store = temporary_dir()
    daemon = Daemon("--generation-bytes", str(SMALL), "--store", store, "--window", "2")
    target = Target([PYTHON, script("py_logging_training.py"), "600", "0.5"])
    made = watched(daemon, target.pid)
    out, stats = (os.path.join(temporary_dir(), name) for name in ("out.folded", "stats.json"))
    argv = [STAKEOUT, "--socket", daemon.socket, "record", "-p", str(target.pid), "-r", str(RATE), "-d", "6"]
    most = 0
    with subprocess.Popen([*argv, "-o", out, "--stats", stats], stderr=subprocess.PIPE, text=True) as recording:
        while recording.poll() is None:
            most = max(most, sample_bytes(daemon, made))
            time.sleep(0.2)
        assert recording.returncode == 0, recording.stderr.read()
    # Two generations, what a window of a second adds to one, and what the open window and the recording carry.
    assert most < 8 * SMALL, most
    with open(stats, encoding="utf-8") as f:
        seen = json.load(f)
    with open(out, encoding="utf-8") as f:
        folded = sum(int(line.rsplit(" ", 1)[1]) for line in f)
    assert seen["taken"] == seen["samples"] == folded > 100 and not seen["lost"], seen

    def shortened():
        now = forgotten(daemon, made)
        return now if now.get("forgotten") else None

    part = wait_until(shortened, "a third generation", step=0.5)
    before = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    assert part["forgotten"] > 100 and part["samples"] > 100, {k: part[k] for k in ("forgotten", "samples")}
    assert part["duration_s"] < before["duration_s"] - 1, (part["duration_s"], before["duration_s"])
    text = daemon.client("summary", "-p", str(target.pid)).stdout
    assert re.search(r"^older: [1-9]\d+ samples are in memory no more", text, re.M), text
    assert re.search(r"samples before that are in memory no more", daemon.client("folded", "-p", str(target.pid)).stderr)
    assert daemon.client("dump", "-p", str(target.pid)).returncode == 0

    daemon.request("POST", f"/v1/targets/{made['id']}/stop")
    total = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    assert total["taken"] == total["samples"] == total["complete"] + sum(total["truncated"].values()), total
    assert total["samples"] > before["samples"] and not total["lost"], total
    last = forgotten(daemon, made)
    assert last["forgotten"] + last["samples"] == total["samples"], (last["forgotten"], last["samples"], total)

    def whole():
        kept = json.loads(daemon.client("summary", "-p", str(target.pid), "--since", "1h", "--json").stdout)
        return kept if kept["samples"] >= total["samples"] else None

    kept = wait_until(whole, "the last window in the history", step=0.3)
    assert kept["samples"] == total["samples"], (kept["samples"], total["samples"])
    assert "forgotten" not in kept


def category_samples(daemon):
    series = parse_metrics(daemon.request("GET", "/metrics").decode())
    return round(sum(series["stakeout_target_category_cpu_seconds_total"].values()) * RATE)


@long
def test_one_scrape_does_not_hold_all_that_comes_after():
    """Counters by category begin with the first scrape; whether there is another one or not, memory has its bound."""
    daemon = Daemon("--generation-bytes", str(SMALL))
    target = Target([PYTHON, script("py_logging_training.py"), "600", "0.5"])
    made = watched(daemon, target.pid)
    first = category_samples(daemon)
    most = 0
    for _ in range(40):
        most = max(most, sample_bytes(daemon, made))
        time.sleep(0.5)
    assert most < 8 * SMALL, most
    daemon.request("POST", f"/v1/targets/{made['id']}/stop")
    total = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    last = forgotten(daemon, made)
    assert last["forgotten"] > 3 * RATE and not total["lost"], (last["forgotten"], total["lost"])
    enough = total["samples"] - 1
    found = wait_until(lambda: (n := category_samples(daemon)) >= enough and n, "the last window", step=0.5)
    assert abs(found - total["samples"]) <= 1 and first < found, (first, found, total["samples"])


@long
def test_a_late_first_scrape_has_all_that_is_in_memory():
    daemon = Daemon("--generation-bytes", str(SMALL))
    target = Target([PYTHON, script("py_logging_training.py"), "600", "0.5"])
    made = watched(daemon, target.pid)
    wait_until(lambda: forgotten(daemon, made).get("forgotten"), "a third generation", step=0.5)
    daemon.request("POST", f"/v1/targets/{made['id']}/stop")
    assert abs(category_samples(daemon) - forgotten(daemon, made)["samples"]) <= 1


def test_what_a_window_has_no_room_for_is_told():
    """Generations so small that several begin between two looks: the window loses what the target does not."""
    daemon = Daemon("--generation-bytes", "4096", "--store", temporary_dir(), "--window", "2")
    target = Target([PYTHON, script("py_logging_training.py"), "600", "0.5"])
    made = watched(daemon, target.pid)
    for _ in range(25):  # each draws in what was sampled
        daemon.request("GET", f"/v1/targets/{made['id']}/stats")
        time.sleep(0.2)
    daemon.request("POST", f"/v1/targets/{made['id']}/stop")
    total = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    assert not total["lost"], total["lost"]

    def whole():
        (history,) = daemon.request("GET", "/v1/history")["targets"]
        return history if history["end"] == "detached" else None

    history = wait_until(whole, "the last window in the history", step=0.3)
    assert history["samples"] + history["lost"] == total["samples"], (history, total["samples"])
    assert history["lost"] > 0 and history["samples"] > 100, history
    kept = daemon.request("GET", f"/v1/history/{history['key']}/profile")
    path = os.path.join(temporary_dir(), "kept.pb.gz")
    with open(path, "wb") as f:
        f.write(kept)
    assert json.loads(run([STAKEOUT, "summary", path, "--json"]).stdout)["lost"] == {"out-of-memory": history["lost"]}


def test_lines_of_cuda_calls_outlive_generations():
    """A call's line is told as long as the target is watched, also when the samples of its time are in memory no more."""
    folder = os.path.join(workload("cuda"), "ibt")
    daemon = Daemon("--generation-bytes", "8192", env={"LD_LIBRARY_PATH": folder})
    target = start_script("py_cuda_launches.py", folder, 4000, 6, 2, "stdin", stdin=subprocess.PIPE)
    made = watched(daemon, target.pid, cuda=True)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    target.finish()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "ended", "its end")
    assert forgotten(daemon, made)["forgotten"] > 0
    cuda = daemon.request("GET", f"/v1/targets/{made['id']}/cuda")
    lines = [line for line in cuda["lines"] if "py_cuda_launches.py" in json.dumps(line)]
    assert lines and len(lines) == len(cuda["lines"]) and not cuda["lost"].get("lines-lost"), (cuda["lines"][:3], cuda["lost"])


def test_an_ended_target_keeps_its_two_generations():
    daemon = Daemon("--generation-bytes", str(SMALL))
    target = Target([PYTHON, script("py_logging_training.py"), "600", "0.5"])
    made = watched(daemon, target.pid)
    wait_until(lambda: forgotten(daemon, made).get("forgotten"), "a third generation", step=0.5)
    target.process.kill()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "ended", "its end")
    total = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    last = forgotten(daemon, made)
    assert last["forgotten"] > 0 and last["forgotten"] + last["samples"] == total["samples"], total
    assert daemon.request("GET", f"/v1/targets/{made['id']}")["samples"] == total["samples"]
