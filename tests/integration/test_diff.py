# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout diff: of recordings that are made up, so that the truth is known, and of real ones."""
import json
import os
import random
import re
import time

from browser import Browser
from harness import LONG, PYTHON, SOURCE_DIR, STAKEOUT, Daemon, long, need_bpf, need_module, one_clear_line, run, script, spawn
from harness import temporary_dir, timeout
from made_pprof import Pprof
from made_program import make_program, record

PAIRS = 100 if LONG else 12
STEP_S = 0.023  # no multiple of the clock's period


def made_shares(target=0.05, others=20):
    weights = [1 / (i + 2) for i in range(others)]
    return {**{f"f{i}": (1 - target) * w / sum(weights) for i, w in enumerate(weights)}, "target": target}


def made(name, program, **options):
    path = os.path.join(temporary_dir(), name)
    record(path, program, **options)
    return path


def diff(*arguments, expect=0):
    result = run([STAKEOUT, "diff", *arguments], 120)
    assert result.returncode == expect, result
    return result.stdout


def compare(*arguments, expect=0):
    return json.loads(diff("--json", *arguments, expect=expect))


def row(answer, name, kind):
    found = [r for r in answer["rows"] if r["kind"] == kind and r["name"].startswith(name)]
    assert len(found) == 1, (name, kind, found)
    return found[0]


def base_and_new(seed, shares, step_s=STEP_S, **options):
    options = {"seconds": 20, **options}
    base = made("base.pb", make_program(made_shares(), STEP_S), seed=seed, **options)
    return base, made("new.pb", make_program(shares, step_s), seed=seed + 1, **{**options, "pid": 200})


@timeout(900)
def test_nothing_changed():
    """At 5 in 100 by design: of 12 pairs 4 or more are seen in one of 400 runs."""
    most = 5 if LONG else 3
    rows = verdicts = 0
    for i in range(PAIRS):
        pair = base_and_new(1000 + 2 * i, made_shares(), drift=0.1)
        rows += compare(*pair, "--per", "cpu")["different"] > 0
        verdicts += compare(*pair)["verdict"] != "no difference found"
    assert rows <= most and verdicts <= most, (rows, verdicts)


@long
@timeout(1800)
def test_power():
    """From 5 to 6 % of 60 s at 199 Hz; and the smallest change that is named is found in four of five."""
    found, smallest = 0, []
    for i in range(PAIRS):
        answer = compare(*base_and_new(3000 + 2 * i, made_shares(0.06), seconds=60), "--per", "cpu")
        target = row(answer, "native_target", "function")
        found += target["significant"]
        smallest.append(target["smallest_percent"])
    print(f"5 to 6 %: found in {found} of {PAIRS}; the smallest change that is named: {sum(smallest) / PAIRS:.1f} %")
    assert found >= 0.87 * PAIRS


@long
@timeout(3600)
def test_the_smallest_change():
    """A change as large as the smallest that is named is found in four of five: within a tenth of it."""
    smallest = [row(compare(*base_and_new(5000 + 2 * i, made_shares(), seconds=60), "--per", "cpu"), "native_target", "function")["smallest_percent"] for i in range(20)]
    mean = sum(smallest) / len(smallest)
    found = {}
    for part in (0.9, 1.1):
        share = 0.05 * (1 + part * mean / 100)
        answers = [compare(*base_and_new(7000 + 2 * i, made_shares(share), seconds=60), "--per", "cpu") for i in range(PAIRS)]
        found[part] = sum(row(a, "native_target", "function")["significant"] for a in answers) / PAIRS
    print(f"the smallest change that is named is {mean:.1f} %; of nine tenths {found[0.9]:.0%} are found, of eleven {found[1.1]:.0%}")
    # With 100 pairs a share is known to 0.08.
    assert found[0.9] < 0.8 + 0.08 and found[1.1] > 0.8 - 0.08, found


def test_a_function_that_grew():
    pair = base_and_new(1, made_shares(0.15))
    answer = compare(*pair, "--per", "cpu")
    target = row(answer, "native_target", "function")
    assert answer["verdict"] == "different" and target["significant"], target
    assert target["low_percent"] < 200 < target["high_percent"], target
    assert "target (train.py:" in answer["leading"], answer["leading"]
    rules = ["--per", "cpu", "--fail-on", "function:native_target > 50 %"]
    assert "HIT" in diff(*pair, *rules, expect=3)
    assert compare(*pair, *rules, expect=3)["fail_on"][0]["hit"] is True
    assert "not hit" in diff(*pair, "--per", "cpu", "--fail-on", "function:native_target > 900 %")
    assert "not hit, neither side has it" in diff(*pair, "--per", "cpu", "--fail-on", "function:other > 1 %")
    text = diff(*pair, "--per", "cpu", "-f", "markdown")
    assert text.startswith("**different") and re.search(r"^\| 4\.\d % \| 1\d\.\d % \| .*`native_target \(train\)` \|$", text, re.M)


def test_steps():
    """Each step takes 10 % longer, all of it in one function that the base does not have."""
    shares = made_shares()
    pair = base_and_new(5, {**shares, "added": 0.1})
    answer = compare(*pair, "--fail-on", "total > 3 %", expect=3)
    assert answer["verdict"] == "slower" and answer["per"] == "step"
    assert answer["total"]["low_percent"] < 10 < answer["total"]["high_percent"], answer["total"]
    assert row(answer, "native_added", "function")["presence"] == "new"
    different = [r["name"] for r in answer["rows"] if r["significant"]]
    assert all("added" in name or name == "other native" for name in different), different
    assert compare(*reversed(pair), "--fail-on", "total > 3 %")["verdict"] == "faster"
    assert "new: " in answer["leading"] and "added (train.py" in answer["leading"], answer["leading"]
    assert diff(*pair).startswith("slower: +")


def test_cuda_apis():
    """By the one that the program calls, whatever the library makes of it, and whatever the variant is called."""
    python = ("item", "train.py", 40), ("train_step", "train.py", 20)
    runtime, driver = "libcudart.so.12", "libcuda.so.1"

    def program(sync_s):
        return [
            ([("poll", "libc.so.6"), ("cuStreamSynchronize", driver), ("cudaStreamSynchronize_ptsz", runtime), *python], sync_s),
            ([("cuLaunchKernel", driver), ("cudaLaunchKernel", runtime), ("train_step", "train.py", 20)], 0.006),
            ([("cuMemcpyHtoDAsync_v2", driver), ("train_step", "train.py", 22)], 0.004),
            ([("forward", "model.py", 7), ("train_step", "train.py", 21)], 0.008),
        ]

    pair = made("base.pb", program(0.005), seed=21), made("new.pb", program(0.009), seed=22, pid=200)
    answer = compare(*pair, "--fail-on", "cuda:cudaStreamSynchronize > 20 %", expect=3)
    assert {r["name"] for r in answer["rows"] if r["kind"] == "cuda"} == {"cudaStreamSynchronize", "cudaLaunchKernel", "cuMemcpyHtoDAsync"}
    sync, launch = row(answer, "cudaStreamSynchronize", "cuda"), row(answer, "cudaLaunchKernel", "cuda")
    assert sync["significant"] and sync["low_percent"] < 80 < sync["high_percent"] and not launch["significant"], (sync, launch)
    assert "CUDA APIs, the time that their calls take on the host" in diff(*pair)


def test_what_does_not_matter():
    """Rates, durations, PIDs, a renamed binary, lines that moved, no times: no difference."""
    base = made("base.pb", make_program(made_shares(), STEP_S), seconds=20, seed=11)
    lines = {f"f{i}": 10 * i + 37 for i in range(20)}
    renamed = make_program(made_shares(), STEP_S, lines=lines, module="train-2", file="/srv/app2/train.py")
    new = made("new.pb", renamed, seconds=30, hz=997, seed=12, pid=77)
    for per in ("step", "cpu"):
        answer = compare(base, new, "--per", per)
        assert answer["verdict"] == "no difference found" and not answer["different"], answer["leading"]
        gone = [r["name"] for r in answer["rows"] if r["presence"] != "both" and r["observations"] > 5]
        assert not gone, gone
    moved = row(answer, "f3 (train.py:40", "line")
    assert moved["line"] == 40 and moved["line_new"] == 67 and moved["name"].endswith(", now :67"), moved
    assert row(answer, "native_f3", "function")["name"] == "native_f3 (train), now native_f3 (train-2)"
    plain = [made(f"{i}.pb", make_program(made_shares(), STEP_S), seed=20 + i, hz=hz, times=False, steps=False)
             for i, hz in enumerate((99, 999))]
    answer = compare(*plain)
    assert not answer["different"] and answer["base"]["variance_by"] == "samples", answer["leading"]
    assert "--timeline" in diff(*plain)


def test_rates():
    """Many small functions: what 999 Hz see and 99 Hz by chance do not is not new."""
    shares = {f"f{i}": 1 / (i + 2) ** 1.5 for i in range(80)}
    shares = {name: share / sum(shares.values()) for name, share in shares.items()}
    different = 0
    for i in range(PAIRS):
        pair = [made(f"{hz}.pb", make_program(shares, 0.0031), seconds=10, hz=hz, seed=500 + 2 * i + hz % 2, steps=False)
                for hz in (99, 998)]
        different += compare(*pair)["different"] > 0
    assert different <= (5 if LONG else 2), different


def test_several_runs():
    runs = [made(f"{i}.pb", make_program(made_shares(0.05 if i < 5 else 0.3), STEP_S), seed=40 + i) for i in range(10)]
    answer = compare(*runs[:5], "--", *runs[5:])
    assert answer["base"]["variance_by"] == answer["new"]["variance_by"] == "runs" and answer["base"]["runs"] == 5
    target = row(answer, "native_target", "function")
    assert target["significant"] and answer["verdict"] == "no difference found", target
    answer = compare(*runs[:5], "--", runs[5])
    assert answer["new"]["variance_by"] == "borrowed"
    assert row(answer, "native_target", "function")["significant"]
    assert compare("--per", "run", *runs[:4], "--", *runs[6:])["per"] == "run"


def blocks_of(recording, stacks, seconds):
    """What each stack has in each block of time, and what all have: of recordings without steps."""
    n = min(30, int(seconds))
    x = {stack: [0] * n for stack in stacks}
    for moment, stack in recording:
        x[stack][int(moment / seconds * n)] += 1
    return [x[stack] for stack in stacks], [sum(column) for column in zip(*x.values())]


def test_statistics_against_others():
    """scipy and statsmodels come to the same, from the samples themselves."""
    for module in ("scipy", "statsmodels"):
        need_module(module)
    for seed in range(4):
        rng = random.Random(seed)
        paths, sides = [], []
        for i, target in enumerate((0.05, rng.choice((0.05, 0.08)))):
            program, seconds = make_program(made_shares(target, 6), STEP_S), rng.choice((12, 20, 41.5))
            paths.append(os.path.join(temporary_dir(), "side.pb"))
            taken = record(paths[-1], program, seconds=seconds, seed=10 * seed + i, steps=False, drift=0.2)
            x, w = blocks_of(taken, [stack for stack, _ in program], seconds)
            sides.append({"x": x, "w": w})
        answer = compare(*paths)
        tested = [r for r in answer["rows"] if r["tested"]]
        reference = run([PYTHON, os.path.join(SOURCE_DIR, "tests", "integration", "diff_reference.py")], 120,
                        stdin=text_file(json.dumps({"sides": sides, "p": [r["p"] for r in tested]})))
        assert reference.returncode == 0, reference.stderr
        reference = json.loads(reference.stdout)
        for ours, q in zip(tested, reference["q"]):
            assert abs(ours["q"] - q) < 1e-9, (ours, q)
        for name, theirs in zip(made_shares(0.05, 6), reference["rows"]):
            ours = row(answer, "native_" + name, "function")
            for a, b in (("change_percent", "change"), ("low_percent", "low"), ("high_percent", "high"), ("p", "p")):
                assert abs(ours[a] - theirs[b]) < 1e-6 * max(1, abs(theirs[b])), (name, a, ours, theirs)


def text_file(text):
    path = os.path.join(temporary_dir(), "text")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return open(path, encoding="utf-8")  # pylint: disable=R1732


def test_bad_input():
    good = made("good.pb", make_program(made_shares()), seconds=6)
    folded = text_file("main;a 10\nmain;b 5\n").name
    nothing = text_file("").name
    for arguments, status, words in (
        ([good], 2, "BASE NEW"),
        ([good, good, good], 2, "--"),
        ([good, "--"], 2, "which files"),
        ([good, "--", good, "--json"], 2, "options go before"),
        (["-p", "1", good, good], 2, "not both"),
        (["-p", "1", "--base", "3:00"], 2, "--new"),
        (["-p", "1", "--base", "x..y", "--new", "2h..1h"], 1, "--base 'x..y'"),
        ([good, good, "--base", "2h..1h"], 2, "-p PID"),
        ([good, good, "--per", "hour"], 2, "step, run, second or cpu"),
        ([good, good, "-f", "pdf"], 2, "text, markdown or json"),
        ([good, good, "--fail-on", "total > 3"], 2, "%"),
        ([good, good, "--fail-on", "total < 3 %"], 2, "not of the form"),
        ([good, good, "--fail-on", "category:loging > 3 %"], 2, "no such category"),
        ([good, good, "--fail-on", "phase:x > 3 %"], 2, "no such --phase"),
        ([good, good, "--per", "cpu", "--fail-on", "total > 3 %"], 1, "no total"),
        ([good, good, "--only", "pid=x"], 2, "pid"),
        ([good, good, "--only", "pid=12345"], 1, "12345"),
        ([good, "/nowhere/x.pb"], 1, "/nowhere/x.pb"),
        ([good, nothing], 1, "empty"),
        ([good, folded], 1, "samples"),
        ([folded, folded, "--per", "step"], 1, "steps"),
        ([folded, folded, "--per", "second"], 1, "how long"),
    ):
        result = run([STAKEOUT, "diff", *arguments])
        assert result.returncode == status, (arguments, result)
        assert words in one_clear_line(result.stderr), (arguments, result.stderr)
    assert compare(folded, folded)["verdict"] == "no difference found"


def test_flame_graph():
    """Both totals, the function that grew in red, all others grey; a renamed binary is one box, and so is another directory."""
    base, new = base_and_new(90, {**made_shares(), "added": 0.2}, steps=True)
    other = made("renamed.pb", make_program({**made_shares(), "added": 0.2}, STEP_S, module="train-2", file="/other/train.py"), seed=91)
    path = os.path.join(temporary_dir(), "change.html")
    for file in (new, other):
        diff(base, file, "-f", "html", "-o", path)
        browser = Browser()
        browser.open(path)
        title = browser.text("#title")
        assert re.match(r"Flame graph of the change: 2\d\.\d ms → 2\d\.\d ms a step", title), title
        boxes = browser.evaluate("boxes.filter(b => b.node.frame >= 0).map(b => [nameOf(b.node), changeOf(b.node)])")
        changes = dict(boxes)
        assert len(boxes) == len(changes) == 45, sorted(changes)
        assert changes["added"] == changes["native_added"] == 1 and 0.05 < changes["main"] < 0.2, changes
        assert sum(change != 0 for change in changes.values()) <= 5, changes
        assert not browser.problems and not browser.requests, (browser.problems, browser.requests)
    with open(base, "rb") as f:
        piped = run([STAKEOUT, "diff", "-", new, "-f", "html", "-o", path], stdin=f)
    assert piped.returncode == 0, piped.stderr
    refused = run([STAKEOUT, "diff", "-p", "1", "--base", "2h..1h", "--new", "1h..now", "-f", "html"])
    assert refused.returncode == 2 and "of files" in one_clear_line(refused.stderr)


def baseline(*arguments, expect=0, where=None):
    result = run([STAKEOUT, "baseline", *arguments], 120, cwd=where)
    assert result.returncode == expect, result
    return result


def test_baseline():
    where = temporary_dir()
    runs = [made(f"{i}.pb", make_program(made_shares(0.05), STEP_S), seed=60 + i) for i in range(4)]
    slower = made("slower.pb", make_program({**made_shares(0.05), "added": 0.2}, STEP_S), seed=70)
    assert "no baselines" in baseline("list", where=where).stderr
    baseline("save", "main", *runs[:3], "--command", "train.py", "--phase", "middle=^f[3-5]$", where=where)
    path = os.path.join(where, ".stakeout", "baselines", "main.json")
    assert os.path.getsize(path) < 200000
    assert re.match(r"main +\S+Z  train, 3 runs, ", baseline("list", where=where).stdout)
    same = baseline("check", "main", runs[3], where=where)
    assert same.stdout.startswith("no difference found"), same
    answer = json.loads(baseline("check", "main", slower, "--json", where=where, expect=3).stdout)
    assert answer["verdict"] == "slower" and answer["new"]["variance_by"] == "borrowed"
    assert row(answer, "middle", "phase")["observations"] > 100
    assert "added (train.py" in answer["leading"], answer["leading"]
    baseline("check", "main", slower, "--fail-on", "total > 30 %", where=where)
    baseline("check", "main", slower, "--fail-on", "total > 5 %", "-f", "markdown", where=where, expect=3)
    # The files that it was saved from, compared at once, give the same figures.
    direct = compare("--phase", "middle=^f[3-5]$", *runs[:3], "--", slower)
    for ours, theirs in zip(answer["rows"], direct["rows"]):
        assert ours["name"] == theirs["name"] and abs(ours["new"] - theirs["new"]) <= 1e-9 * theirs["new"]
        assert abs(ours["base"] - theirs["base"]) <= 1e-3 * theirs["base"], (ours, theirs)


def test_baseline_refuses_what_is_not_comparable():
    where = temporary_dir()
    steps = made("steps.pb", make_program(made_shares(), STEP_S), seed=80)
    plain = made("plain.pb", make_program(made_shares(), STEP_S), seed=81, steps=False)
    folded = text_file("other;a 100\nother;b 50\n").name
    baseline("save", "main", steps, "--command", "train.py", where=where)
    path = os.path.join(where, ".stakeout", "baselines", "main.json")
    with open(path, encoding="utf-8") as f:
        saved = json.load(f)

    def refused(words, file=steps, *options, status=1, **changes):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**saved, **changes}, f)
        result = baseline("check", "main", file, *options, where=where, expect=status)
        assert words in one_clear_line(result.stderr), result

    refused("no steps", plain)
    refused("another program", folded)
    refused("another command", steps, "--command", "other.py")
    refused("another machine", machine={**saved["machine"], "cpus": 999})
    refused("another GPU", machine={**saved["machine"], "gpu": "H100"})
    refused("--gil", gil=True)
    refused("--categories", categories="own.conf")
    refused("another version", stakeout_baseline=1)
    refused("damaged", blocks=[])
    refused("damaged", rows=[["line", "x", 3, 1, 1, [1]]])
    refused("damaged", saved=3)
    refused("not of the form", steps, "--fail-on", "total", status=2)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**saved, "machine": {**saved["machine"], "cpus": 999}}, f)
    assert "another machine" in baseline("check", "main", steps, "--anyway", where=where).stderr
    for arguments, words in (
        ([], "save NAME FILE"),
        (["save"], "which?"),
        (["save", "../x", steps], "letters"),
        (["save", "x"], "which files"),
        (["list", "x"], "no name"),
    ):
        assert words in one_clear_line(baseline(*arguments, where=where, expect=2).stderr)
    assert "none.json" in one_clear_line(baseline("check", "none", steps, where=where, expect=1).stderr)


@timeout(600)
def test_lines_that_one_side_lacks():
    """Debug information that could not be read in time on one side is no change of the program."""
    where = temporary_dir()
    with_lines = [[("push", "vector.h", 40), ("advance", "sim.cpp", 12), "sim"], [("main", "sim.cpp", 90), "sim"]]
    without = [[("advance", "", 0), "sim"], [("main", "sim.cpp", 90), "sim"]]
    other = [[("draw", "draw.cpp", 7), "sim"], [("main", "sim.cpp", 91), "sim"]]
    paths = []
    for name, stack, comments in (("base", without, ["lines-missing=1"]), ("new", with_lines, [])):
        made = Pprof(*comments)
        for _ in range(60):
            made.sample(stack, 1, pid=1, tid=1)
            made.sample(other, 1, pid=1, tid=1)
        paths.append(os.path.join(where, name + ".pb"))
        made.write(paths[-1])
    for pair in (paths, paths[::-1]):
        answer = compare(*pair)
        assert answer["different"] == 0 and answer["functions_without_lines"] == 1, answer
        assert {r["name"] for r in answer["rows"] if r["kind"] == "function"} == {"advance (sim)", "draw (sim)"}, answer["rows"]
        text = diff(*pair)
        assert "of 1 native function are not compared: one side lacks them" in text and "push" not in text, text
        # What both have is compared by line.
        assert "draw.cpp" in diff(*pair, "-v")


def test_a_real_program():
    """A loop that logs, and the same without it: named first."""
    need_bpf()
    paths, recorders = [], []
    for arguments in ([], ["log"]):
        program = spawn([PYTHON, script("py_diff_loop.py"), *arguments])
        paths.append(os.path.join(temporary_dir(), "loop.pb.gz"))
        argv = [STAKEOUT, "record", "-q", "-p", program.pid, "-d", "10", "-r", "199", "--timeline", "-o", paths[-1]]
        recorders.append(spawn(argv))
    for recorder in recorders:
        assert recorder.wait(120) == 0
    plain, logging = paths
    answer = compare(logging, plain)
    assert answer["verdict"] == "different" and answer["leading"].count("log"), answer["leading"]
    assert re.search(r"most of all \S*log\S* \(py_diff_loop", answer["leading"]), answer["leading"]
    assert row(answer, "logging", "category")["change_percent"] == -100


def test_the_history():
    """A program that logs from a time on: the ranges before and after it."""
    daemon = Daemon("--store", os.path.join(temporary_dir(), "store"), "--window", "1")
    program, begun = spawn([PYTHON, script("py_diff_loop.py"), "log", "11"]), time.monotonic()
    daemon.client("attach", "-p", str(program.pid), "-r", "199")
    time.sleep(max(begun + 22 - time.monotonic(), 0))
    process = ["-p", str(program.pid)]
    answer = json.loads(daemon.client("diff", *process, "--base", "20s..12s", "--new", "10s..2s", "--json").stdout)
    assert answer["base"]["variance_by"] == answer["new"]["variance_by"] == "time", answer["known_by"]
    assert 6 <= answer["base"]["blocks"] <= 10 and 6 <= answer["base"]["duration_s"] <= 11, answer["base"]
    assert re.search(r"most of all \S*log\S* \(py_diff_loop", answer["leading"]), answer["leading"]
    assert row(answer, "logging", "category")["presence"] in ("new", "both")
    rule = ["--per", "second", "--fail-on", "category:logging > 5 pp"]
    daemon.client("diff", *process, "--base", "20s..12s", "--new", "10s..2s", *rule, expect=3)
    early = daemon.client("diff", *process, "--base", "3h..2h", "--new", "10s..2s", expect=1)
    assert "--base: there is no history" in one_clear_line(early.stderr), early


@long
@timeout(7200)
def test_real_recordings_of_the_same():
    """100 pairs of neighbouring recordings of one program; and one at 99 Hz against one at 999 Hz."""
    need_bpf()
    program = spawn([PYTHON, script("py_diff_loop.py"), "log"])

    def take(hz=199):
        path = os.path.join(temporary_dir(), "loop.pb.gz")
        result = run([STAKEOUT, "record", "-p", program.pid, "-d", "10", "-r", str(hz), "--timeline", "-o", path])
        assert result.returncode == 0, result
        return path

    rows = verdicts = 0
    for _ in range(100):
        answer = compare(take(), take())
        rows += answer["different"] > 0
        verdicts += answer["verdict"] != "no difference found"
    print(f"of 100 pairs {rows} with a significant row, {verdicts} with a false verdict")
    assert rows <= 5 and verdicts <= 5
    assert compare(take(99), take(999))["verdict"] == "no difference found"
