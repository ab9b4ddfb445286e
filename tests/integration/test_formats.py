# SPDX-License-Identifier: GPL-2.0-or-later
"""One profile in each form that `record` and `render` write: the same time, the same stacks, and files as their readers
want them: speedscope's file-format-schema.json, and the Firefox Profiler's processed format."""
import gzip
import json
import os
import re

from harness import STAKEOUT, need_bpf, one_clear_line, parse_folded, run, start, temporary_dir
from made_pprof import Pprof
from pprof_message import Message

HOSTILE = [b"</script>\"'\\", "line\u2028\u202epara".encode(), b"invalid \xff\xc3\x1b[31m", "漢字 ü".encode(), b"a;b 12"]
STEP, MATMUL, FUTEX = ("step", "/app/env.py", 42), ("matmul", "/usr/lib/libblas.so.3"), ("futex_wait", "[kernel.kallsyms]")


def made_profile(path):
    profile = Pprof("pid=7", "sample_hz=99", "wall_hz=10", "complete=10")
    profile.sample([MATMUL, STEP], 3.000001, pid=7, tid=7, comm="train", state="running")
    profile.sample([STEP], 1, pid=7, tid=7, comm="train", state="running")
    profile.sample([FUTEX, MATMUL, STEP], 3.5, pid=7, tid=8, comm="train", state="gil")
    profile.sample([STEP, STEP, STEP], 0.25, pid=9, tid=9, comm="other", state="running")
    profile.sample([], 0.125, pid=9, tid=10, comm="no stack", state="waiting")
    for name in HOSTILE:
        profile.sample([(name, name, 3), STEP], 0.5, pid=7, tid=7, comm=name, state="running")
    profile.write(path)


def rendered(source, ending, *arguments, expect=0):
    path = os.path.join(temporary_dir(), "out" + ending)
    result = run([STAKEOUT, "render", source, "-o", path, *arguments])
    assert result.returncode == expect, result
    with open(path, "rb") as f:
        return f.read()


def speedscope_stacks(data):
    """{(thread, outermost, ..., innermost): weight}, after holding it against the schema."""
    document = json.loads(data)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert isinstance(document["version"], str) and isinstance(document["exporter"], str)
    frames, stacks = document["shared"]["frames"], {}
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str), frame
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 0), int), frame
    assert 0 <= document["activeProfileIndex"] < max(1, len(document["profiles"]))
    units = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}, profile.keys()
        assert profile["type"] == "sampled" and profile["unit"] in units and profile["startValue"] == 0
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
        for sample, weight in zip(profile["samples"], profile["weights"]):
            assert all(0 <= frame < len(frames) for frame in sample) and weight > 0
            stack = (profile["name"], *(frames[frame]["name"] for frame in sample))
            assert stack not in stacks
            stacks[stack] = weight
    totals = [profile["endValue"] for profile in document["profiles"]]
    assert totals == sorted(totals, reverse=True), totals
    return stacks


def check_table(table, columns, limits=None):
    """Each column is as long as the table says, and what refers to another table does."""
    assert set(table) - {"weightType"} == {"length", *columns}, table.keys()
    for name in columns:
        assert len(table[name]) == table["length"], (name, table["length"], len(table[name]))
    for name, n in (limits or {}).items():
        assert all(value is None or 0 <= value < n for value in table[name]), name


def firefox_stacks(data):
    """The same of a Firefox profile; weights in milliseconds are made microseconds."""
    document = json.loads(data, parse_float=lambda text: round(float(text) * 1000) if re.search(r"\.\d{3}$", text) else 0)
    meta, shared = document["meta"], document["shared"]
    assert meta["preprocessedProfileVersion"] == 62 and meta["version"] == 24 and meta["symbolicated"] is True
    assert any(category["color"] == "grey" for category in meta["categories"])
    for name in ("interval", "startTime", "processType", "product", "extensions", "markerSchema", "sampleUnits"):
        assert name in meta, name
    strings, frames, functions = shared["stringArray"], shared["frameTable"], shared["funcTable"]
    check_table(
        frames,
        ["func", "line", "category", "subcategory", "address", "inlineDepth", "column", "nativeSymbol", "innerWindowID"],
        {"func": functions["length"], "category": len(meta["categories"])},
    )
    check_table(
        functions,
        ["name", "source", "isJS", "relevantForJS", "resource", "lineNumber", "columnNumber"],
        {"name": len(strings), "source": shared["sources"]["length"]},
    )
    check_table(
        shared["sources"], ["filename", "id", "startLine", "startColumn", "sourceMapURL"], {"filename": len(strings)}
    )
    nodes = shared["stackTable"]
    check_table(nodes, ["prefix", "frame"], {"frame": frames["length"], "prefix": nodes["length"]})
    assert all(prefix is None or prefix < i for i, prefix in enumerate(nodes["prefix"]))
    assert all(isinstance(text, str) for text in strings)
    stacks = {}
    for thread in document["threads"]:
        samples = thread["samples"]
        check_table(samples, ["stack", "weight", "timeDeltas", "threadCPUDelta"], {"stack": nodes["length"]})
        assert samples["weightType"] in ("samples", "tracing-ms", "bytes")
        assert isinstance(thread["pid"], str) and isinstance(thread["tid"], str)
        check_table(thread["markers"], ["category", "data", "endTime", "name", "phase", "startTime"])
        for node, weight in zip(samples["stack"], samples["weight"]):
            stack = []
            while node is not None:
                stack.append(strings[functions["name"][frames["func"][nodes["frame"][node]]]])
                node = nodes["prefix"][node]
            stacks[(thread["name"], *reversed(stack))] = weight
    return stacks


def check_all(source, total):
    folded = parse_folded(rendered(source, ".folded", "-t").decode())
    assert total == sum(folded.values()) > 0
    # In JSON a name that holds what is cleaned for folded lines is the same text.
    assert speedscope_stacks(rendered(source, ".speedscope.json", "-t")) == folded
    assert firefox_stacks(rendered(source, ".firefox.json")) == folded
    assert firefox_stacks(gzip.decompress(rendered(source, ".json.gz"))) == folded
    assert firefox_stacks(gzip.decompress(rendered(source, ".gz", "-f", "firefox"))) == folded
    together = speedscope_stacks(rendered(source, ".x", "-f", "speedscope"))
    assert together == parse_folded(rendered(source, ".txt").decode())
    page = rendered(source, ".html").decode()
    assert int(re.search(r'"total":(\d+)', page).group(1)) == total


def test_a_made_profile_is_equal_in_all_forms():
    path = os.path.join(temporary_dir(), "made.pb")
    made_profile(path)
    check_all(path, 10375001)
    text = rendered(path, ".speedscope.json").decode()
    assert "\x1b" not in text and "<" not in text and "\u2028" not in text
    assert {"name": "step (env.py:42)", "file": "/app/env.py", "line": 42} in json.loads(text)["shared"]["frames"]
    assert all(p["unit"] == "microseconds" for p in json.loads(text)["profiles"])
    assert json.loads(rendered(path, ".firefox.json"))["threads"][0]["samples"]["weightType"] == "tracing-ms"


def test_options_choose_a_part():
    path = os.path.join(temporary_dir(), "made.pb")
    made_profile(path)
    for options in (["--only", "pid=9"], ["-F"], ["--python-only"]):
        folded = parse_folded(rendered(path, ".folded", "-t", *options).decode())
        assert speedscope_stacks(rendered(path, ".speedscope.json", "-t", *options)) == folded
        assert firefox_stacks(rendered(path, ".firefox.json", *options)) == folded


def test_no_samples():
    path = os.path.join(temporary_dir(), "empty.pb")
    Pprof("pid=7", "sample_hz=99", "complete=0").write(path)
    assert not speedscope_stacks(rendered(path, ".speedscope.json"))
    assert not firefox_stacks(rendered(path, ".firefox.json"))


def test_a_recording_is_equal_in_all_forms():
    need_bpf()
    target, where = start("threads", 600, 4), temporary_dir()
    path = os.path.join(where, "x.pb.gz")
    result = run([STAKEOUT, "record", "-p", str(target.pid), "-d", "1", "-r", "999", "-q", "-o", path])
    assert result.returncode == 0, result
    message = Message(path)
    assert message.types[0] == ("samples", "count"), message.types
    check_all(path, sum(sample.values[0] for sample in message.samples))
    for ending, read in ((".speedscope.json", speedscope_stacks), (".firefox.json", firefox_stacks)):
        path = os.path.join(where, "y" + ending)
        result = run([STAKEOUT, "record", "-p", str(target.pid), "-d", "1", "-q", "-o", path])
        assert result.returncode == 0, result
        with open(path, "rb") as f:
            assert sum(read(f.read()).values()) > 0


def test_a_full_disk_is_said():
    path = os.path.join(temporary_dir(), "made.pb")
    made_profile(path)
    for form in ("speedscope", "firefox"):
        result = run([STAKEOUT, "render", path, "-f", form, "-o", "/dev/full"])
        assert result.returncode == 1 and "No space left" in one_clear_line(result.stderr), result
