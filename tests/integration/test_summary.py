# SPDX-License-Identifier: GPL-2.0-or-later
"""`stakeout summary`: categories, phases, JSON, and what it refuses."""
import json
import os
import re

from harness import (
    PYTHON,
    STAKEOUT,
    Daemon,
    Target,
    need_bpf,
    one_clear_line,
    quiet,
    run,
    script,
    temporary_dir,
    wait_until,
)


def summary(*options, expect=0):
    result = run([STAKEOUT, "summary", *options])
    assert result.returncode == expect, f"status {result.returncode}: {result.stderr}"
    return result


def record_training(share="0.8"):
    """A pprof file of the loop that logs too much."""
    need_bpf()
    path = os.path.join(temporary_dir(), "training.pb.gz")
    target = Target([PYTHON, script("py_logging_training.py"), "600", share])
    result = run([STAKEOUT, "record", "-p", target.pid, "-d", "4", "-r", "499", "-o", path])
    assert result.returncode == 0, result.stderr
    return path, result.stderr


def check_share(first_line):
    """It is 80 % by the script's own clock; both have an error, and chance makes more of it where samples are few."""
    match = re.match(r"largest: logging, ([\d.]+) % \[ *([\d.]+), *([\d.]+)\], [\d.]+ CPU s$", first_line)
    assert match, first_line
    share, low, high = (float(number) for number in match.groups())
    assert low <= share <= high and abs(share - 80) <= 4 + (high - low), first_line


def test_a_training_loop_that_logs():
    """80 % of the time in logging calls is what the first line says, also at the end of a recording."""
    path, words = record_training()
    check_share(words.splitlines()[0])
    report = os.path.join(temporary_dir(), "report.txt")
    text = summary(path, "--report", report).stdout
    lines = text.splitlines()
    check_share(lines[0])
    assert re.match(r"  how sure: within the interval in 95 of 100 cases, by \d+ samples$", lines[1]), lines[1]
    assert re.match(r"  look at: main \(py_logging_training.py:\d+\) [\d.]+ %, which calls ", lines[2]), lines[2]
    with open(report, encoding="utf-8") as file:
        assert file.read() == text
    for category in ("simulator step", "observation encoding", "inference", "optimizer"):
        assert re.search(rf"^ *[\d.]+ %  \[.*\] +[\d.]+  {category}$", text, re.M), f"no {category} in: {text}"

    phases = ["--phase", r"env step=^VectorEnv[.]step$", "--phase", "slip=VectorEnv.stpe"]
    everything = json.loads(summary(path, "--json", *phases).stdout)
    categories = {category["name"]: category for category in everything["categories"]}
    assert sum(category["samples"] for category in categories.values()) == everything["samples"]
    assert sum(means["samples"] for means in everything["means"]) == everything["samples"]
    step, slip = everything["phases"]
    # With what other activities do within it: garbage collection.
    assert step["samples"] >= categories["simulator step"]["samples"] > 0, (step, categories["simulator step"])
    assert slip["samples"] == 0 and "VectorEnv.step (py_logging_training.py)" in slip["similar"], slip


@quiet
def test_the_share_of_logging_is_within_four_points():
    match = re.match(r"largest: logging, ([\d.]+) % ", record_training()[1])
    assert match and 76 <= float(match.group(1)) <= 84, match


def test_rules_of_ones_own():
    path, _ = record_training("0.5")
    rules = os.path.join(temporary_dir(), "own.conf")
    with open(rules, "w", encoding="utf-8") as file:
        file.write("[the report]\nframe = ^log_step$\n[logging]\nreplace = yes\n")
    names = [c["name"] for c in json.loads(summary(path, "--categories", rules, "--json").stdout)["categories"]]
    assert "the report" in names and "logging" not in names, names
    # What is printed is a file of rules itself.
    with open(rules, "w", encoding="utf-8") as file:
        file.write(summary("--print-categories").stdout)
    assert summary(path, "--categories", rules).stdout == summary(path).stdout


def test_a_watched_process():
    need_bpf()
    daemon = Daemon()
    target = Target([PYTHON, script("py_logging_training.py"), "600"])
    daemon.client("attach", "-p", target.pid, "-r", "499")

    def told():
        result = daemon.client("summary", "-p", target.pid, expect=None)
        return result.stdout if result.returncode == 0 and result.stdout.startswith("largest: logging, ") else None

    text = wait_until(told, "logging to be the largest category")
    assert re.search(r"^cost: [\d.]+ µs a sample, ", text, re.M), text


def test_wrong_usage():
    rules = os.path.join(temporary_dir(), "bad.conf")
    with open(rules, "w", encoding="utf-8") as file:
        file.write("[a]\nframe = x\nfrme = y\n")
    for options, words in (
        ([], "which process"),
        (["--since", "1m"], "stakeout history"),
        (["-p", "1", "x.pb.gz"], "not both"),
        (["x.pb.gz", "--categories", rules], f"{rules}:3: unknown word 'frme'"),
        (["x.pb.gz", "--categories", "/nonexistent"], "No such file"),
        (["x.pb.gz", "--phase", "env"], "NAME=PATTERN"),
        (["x.pb.gz", "--phase", "env=("], "--phase env: "),
        (["x.pb.gz"] + ["--phase", "a=b"] * 17, "more than 16 times"),
    ):
        result = summary(*options, expect=2)
        assert result.stdout == "" and words in one_clear_line(result.stderr), result.stderr
    result = summary("/nonexistent.pb.gz", expect=1)
    assert "No such file" in one_clear_line(result.stderr)


FOLDED = """python3;main (train.py:9);step (train.py:4);[libc.so.6] 90
python3;main (train.py:9);load (train.py:7);do_sys_read_[k] 10
"""


def write(name, content):
    path = os.path.join(temporary_dir(), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return path


def test_folded_stacks():
    """Told from pprof by what is in the file, whatever its name."""
    path = write("stacks.pb.gz", FOLDED)
    everything = json.loads(summary(path, "--json").stdout)
    assert everything["samples"] == 100, everything
    lines = {line["name"]: line["self"]["samples"] for line in everything["lines"]}
    assert lines == {"step (train.py:4)": 90, "load (train.py:7)": 10, "main (train.py:9)": 0}, lines
    assert "step (train.py:4)" in summary(path).stdout
    assert sorted(run([STAKEOUT, "render", path]).stdout.splitlines()) == sorted(FOLDED.splitlines())
    page = os.path.join(temporary_dir(), "page.html")
    assert run([STAKEOUT, "render", path, "-o", page]).returncode == 0 and os.path.getsize(page) > 1000
    for options, words in (
        (["-f", "pprof", "-o", page], "has folded stacks"),
        (["--value", "bytes"], "only the values of a pprof file have types"),
    ):
        refused = run([STAKEOUT, "render", path, *options])
        assert refused.returncode == 1 and words in one_clear_line(refused.stderr), refused


def test_files_that_are_no_profile():
    for content, words in (
        ("", "is empty"),
        ('{"version": 1}\n', "is neither a pprof file nor folded stacks: line 1 has no count"),
        ("a;b 1\na;c\n", "line 2 has no count behind a stack"),
        ("\x01\x02", "not a profile"),
    ):
        path = write("what", content)
        for command in ("summary", "render"):
            refused = run([STAKEOUT, command, path])
            assert refused.returncode == 1 and refused.stdout == "", refused
            assert words in one_clear_line(refused.stderr), refused.stderr
