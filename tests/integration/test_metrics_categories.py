# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU time by category in /metrics, the labels of targets, and rules."""
import os
import re
import shutil
import subprocess
import time

from harness import (
    PYTHON,
    STAKEOUTD,
    Daemon,
    Target,
    one_clear_line,
    quiet,
    run,
    script,
    start,
    temporary_dir,
    wait_until,
)
from metrics_text import parse_metrics

CATEGORIES = "stakeout_target_category_cpu_seconds_total"
PERIOD_S = (10**9 // 99) / 1e9  # at 99 Hz, in whole ns
BETWEEN_S = 5.5  # windows are taken at most every 5 s


def scrape(daemon):
    text = daemon.request("GET", "/metrics").decode()
    if shutil.which("promtool"):
        promtool = ["promtool", "check", "metrics"]
        result = subprocess.run(promtool, input=text, text=True, capture_output=True, check=False)
        assert result.returncode == 0 and not result.stderr, result.stderr
    return parse_metrics(text)


def categories(found, target_id):
    """{category: CPU seconds} of a target; None where it has none."""
    mine = {
        re.search(r'category="([^"]*)"', labels).group(1): value
        for labels, value in found.get(CATEGORIES, {}).items()
        if labels.startswith(f'id="{target_id}",')
    }
    return mine or None


def sampled_s(found, target_id):
    """CPU seconds of the samples that are in a profile."""

    def total(name):
        return sum(v for k, v in found[name].items() if k.startswith(f'id="{target_id}",'))

    return (total("stakeout_target_samples_total") - total("stakeout_target_lost_samples_total")) * PERIOD_S


def attach(daemon, target, keep=True):
    return daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": keep}, expect=201)["id"]


def file_of(text):
    path = os.path.join(temporary_dir(), "categories")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def logging_loop():
    target = Target([PYTHON, script("py_logging_training.py"), "600"])
    time.sleep(1)  # past the imports
    return target


def increase(first, second):
    assert first.keys() == second.keys()
    assert all(second[name] >= value for name, value in first.items()), (first, second)
    return {name: second[name] - value for name, value in first.items()}


def test_logging_is_the_largest_category():
    daemon, target = Daemon(), logging_loop()
    number = attach(daemon, target)
    path = f"/v1/targets/{number}"
    wait_until(lambda: daemon.request("GET", path)["samples"] > 30, "samples")
    began = time.monotonic()
    first = scrape(daemon)
    took_s = time.monotonic() - began
    assert sum(categories(first, number).values()) > 0.2, "what was before the first scrape is there"
    time.sleep(BETWEEN_S)
    began = time.monotonic()
    second = scrape(daemon)
    took_s = max(took_s, time.monotonic() - began)
    grown = increase(categories(first, number), categories(second, number))
    assert max(grown, key=grown.get) == "logging", grown
    assert grown["logging"] > 0.6 * sum(grown.values()), grown
    for found in (first, second):
        # A scrape sorts what was sampled up to it, then counts the samples.
        behind = sampled_s(found, number) - sum(categories(found, number).values())
        assert -1e-6 < behind < 0.1 + took_s, (behind, took_s)
    # Soon after, nothing is sorted; at the target's end everything is.
    assert categories(scrape(daemon), number) == categories(second, number)
    daemon.request("POST", f"/v1/targets/{number}/stop")
    for _ in range(2):
        last = scrape(daemon)
        assert abs(sum(categories(last, number).values()) - sampled_s(last, number)) < 1e-6
    increase(categories(second, number), categories(last, number))
    assert {"logging", "optimizer", "kernel, other", "no stack"} < categories(last, number).keys()
    daemon.request("DELETE", f"/v1/targets/{number}")
    assert categories(scrape(daemon), number) is None
    assert daemon.stop() == 0


def test_a_target_that_ends_is_sorted_to_its_end():
    daemon, target = Daemon(), start("split", 600)
    number = attach(daemon, target)
    time.sleep(0.5)
    scrape(daemon)
    time.sleep(1)
    target.process.kill()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{number}")["state"] == "ended", "the end of the target")
    found = scrape(daemon)
    assert abs(sum(categories(found, number).values()) - sampled_s(found, number)) < 1e-6
    assert categories(found, number)["other native"] > 0.3 * sampled_s(found, number) > 0


def test_with_a_history():
    assert with_a_history() > -1e-6


@quiet
def test_no_more_than_two_windows_are_unsorted():
    assert with_a_history() < 2.5


def with_a_history():
    """CPU seconds that were sampled and not sorted at the second of two scrapes."""
    daemon = Daemon("--store", temporary_dir(), "--window", "1")
    target = logging_loop()
    number = attach(daemon, target)
    first = categories(scrape(daemon), number)
    assert first is not None, "categories are there from the first moment"
    time.sleep(4)
    second = scrape(daemon)
    grown = increase(first, categories(second, number))
    assert max(grown, key=grown.get) == "logging", grown
    behind = sampled_s(second, number) - sum(categories(second, number).values())
    daemon.request("POST", f"/v1/targets/{number}/stop")

    def sorted_to_the_end():
        found = scrape(daemon)
        return abs(sum(categories(found, number).values()) - sampled_s(found, number)) < 1e-6

    wait_until(sorted_to_the_end, "the last window", step=0.2)
    history = [t for t in daemon.request("GET", "/v1/history")["targets"] if t["pid"] == target.pid]
    assert abs((history[0]["samples"]) * PERIOD_S - sampled_s(scrape(daemon), number)) < 1e-6, history
    return behind


def test_recordings_are_not_sorted():
    daemon, target = Daemon(), start("split", 600)
    number = attach(daemon, target, keep=False)
    time.sleep(0.5)
    found = scrape(daemon)
    assert categories(found, number) is None
    assert f'id="{number}",pid="{target.pid}",comm="split"' in found["stakeout_target_info"]


def test_own_categories():
    path = file_of("[tenfold]\nframe = ^split_\n[logging]\nreplace = yes\n")
    config = file_of(f"categories = {path}\n")
    for arguments in (("--categories", path), ("--config", config)):
        daemon, target = Daemon(*arguments), start("split", 600)
        number = attach(daemon, target)
        wait_until(lambda n=number: daemon.request("GET", f"/v1/targets/{n}")["samples"] > 30, "samples")
        found = categories(scrape(daemon), number)
        assert found["tenfold"] > 0.5 * sum(found.values()) > 0, found
        assert "logging" not in found and "optimizer" in found
        assert daemon.stop() == 0


def test_a_wrong_file_is_said_at_once():
    for text, words in (("[x]\nframe = (\n", ":2: "), ("[x]\n", "no pattern"), ("frame = x\n", ":1: ")):
        path = file_of(text)
        result = run([STAKEOUTD, "--socket", os.path.join(temporary_dir(), "socket"), "--categories", path], seconds=20)
        line = one_clear_line(result.stderr)
        assert result.returncode == 2 and path in line and words in line, result
    result = run([STAKEOUTD, "--socket", os.path.join(temporary_dir(), "socket"), "--categories", "/nonexistent/x"])
    assert result.returncode == 2 and "/nonexistent/x" in one_clear_line(result.stderr)


def test_labels_and_rules():
    word = f"job-{os.getpid()}-{time.monotonic_ns()}"
    daemon = Daemon("--match", f"cmd={word}")
    busy = "print('ready', flush=True)\nwhile True: sum(i * i for i in range(1000))"
    found = scrape(daemon)
    assert found["stakeout_rules"] == {None: 1} and found["stakeout_rule_attached_total"] == {'rule="1"': 0}
    ranks = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    target = Target([PYTHON, "-c", busy, word], env={**os.environ, **ranks})
    # A target is listed while it is being attached, and counted when it is.
    wait_until(lambda: scrape(daemon)["stakeout_rule_attached_total"] == {'rule="1"': 1}, "the target")
    found = scrape(daemon)
    (labels,) = [k for k in found["stakeout_target_info"] if f'pid="{target.pid}"' in k]
    assert 'rank="3",local_rank="1",world_size="8"' in labels and labels.endswith('rule="1"'), labels
    number = re.match(r'id="(\d+)"', labels).group(1)
    time.sleep(BETWEEN_S)
    assert sum(categories(scrape(daemon), number).values()) > 0
