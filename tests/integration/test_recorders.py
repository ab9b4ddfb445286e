# SPDX-License-Identifier: GPL-2.0-or-later
"""The one-shot form: how recordings end, what is written where, several at once."""
import gzip
import json
import os
import re
import signal
import sys
import time

from harness import (
    PYTHON,
    STAKEOUT,
    Recorder,
    Target,
    cpu_seconds,
    need_bpf,
    one_clear_line,
    quiet,
    record,
    run,
    script,
    spawn,
    start,
    temporary_dir,
    wait_until,
)
from pprof_message import fields, varint


def interrupted(with_signal):
    target = start("split", 600)
    recorder = Recorder(target.pid, duration=250)
    before = cpu_seconds(target.pid)
    wait_until(lambda: cpu_seconds(target.pid) > before + 1, "a second of the target's work", seconds=200)
    recorder.process.send_signal(with_signal)
    recording = recorder.wait().check_complete()
    assert recording.count("split_kernel") > 0.2 * recording.samples, recording.samples
    assert recording.stats["duration_s"] < recording.wall_s < 250, (recording.wall_s, recording.stats)
    return recording


def test_ctrl_c_writes_what_was_taken():
    interrupted(signal.SIGINT)


def test_sigterm_writes_what_was_taken():
    interrupted(signal.SIGTERM)


@quiet
def test_recordings_end_in_time_and_cost_little():
    recording = interrupted(signal.SIGINT)
    assert recording.wall_s < 12 and recording.stats["duration_s"] < 6, (recording.wall_s, recording.stats)
    stats = record(start("split", 600).pid, duration=4).check_complete().stats
    assert abs(stats["duration_s"] - 4) < 0.3, stats["duration_s"]
    assert stats["attach_ms"] < 5000 and stats["daemon"]["cpu_s"] < 5 and stats["overhead_percent"] < 10, stats
    assert stats["samples"] > 3500, stats["samples"]


def start_ns(path):
    with gzip.open(path) as f:
        return next(value for field, value in fields(f.read()) if field == 9)


def test_cycles():
    """A file for each active part, which begins with the clock; what is between them is in none."""
    need_bpf()
    target, path = start("split", 600), os.path.join(temporary_dir(), "run.pb.gz")
    schedule = ["--wait", "0.5", "--warmup", "0.5", "--active", "1", "--repeat", "2", "--at-clock", "/4s"]
    done = run([STAKEOUT, "record", "-p", target.pid, *schedule, "-o", path])
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(cycle \d: wrote \S+run-\d\.pb\.gz \(\d+ stacks?\)\n){2}", done.stderr), done.stderr
    began = [start_ns(path.replace("run", f"run-{n}")) for n in (1, 2)]
    assert began[1] - began[0] > 3e9 and all(ns % 4e9 < 1.5e9 for ns in began), began
    assert not os.path.exists(path) and not os.path.exists(path.replace("run", "run-3"))
    # Without end until the process ends; the cycle that it ends in is the last one.
    recorder = spawn([STAKEOUT, "record", "-q", "-p", str(target.pid), "--active", "1", "--repeat", "0", "-o", path])
    wait_until(lambda: os.path.exists(path.replace("run", "run-4")), "a fourth cycle")
    target.process.kill()
    assert recorder.wait(timeout=60) == 0
    for words, why in ((["--warmup", "1"], "they need --active"), (["--active", "1", "-d", "1"], "not both")):
        refused = run([STAKEOUT, "record", "-p", os.getpid(), *words])
        assert refused.returncode == 2 and why in one_clear_line(refused.stderr), refused


def test_a_command():
    """Recorded from its first instruction; output and exit status are its own."""
    need_bpf()
    path = os.path.join(temporary_dir(), "command.folded")
    code = "import sys\nx = 0\nfor i in range(10000000): x += i\nprint('done', file=sys.stdout)\nsys.exit(7)"
    done = run([STAKEOUT, "record", "-q", "-o", path, "--", sys.executable, "-c", code])
    assert done.returncode == 7 and done.stdout == "done\n" and done.stderr == "", done
    with open(path, encoding="utf-8") as f:
        folded = f.read()
    assert "<module> (<string>:3)" in folded, folded[:2000]
    missing = run([STAKEOUT, "record", "-o", path, "--", "/no/such/program"])
    assert missing.returncode == 1, missing
    assert missing.stderr.endswith("cannot execute '/no/such/program': No such file or directory\n"), missing.stderr
    ended = run([STAKEOUT, "record", "-q", "-o", path, "--", "sh", "-c", "kill -TERM $$"])
    assert ended.returncode == 128 + 15 and ended.stderr == "", ended.stderr
    piped = run([STAKEOUT, "record", "-q", "-o", path, "--", "sh", "-c", "kill -PIPE $$"])
    assert piped.returncode == 128 + 13, piped
    spared = run(["nohup", STAKEOUT, "record", "-q", "-o", path, "--", "sh", "-c", "kill -HUP $$; exit 3"])
    assert spared.returncode == 3, spared


def test_without_a_file_a_new_one_is_kept():
    """It is named by what was recorded, is pprof wherever standard output goes, and the next commands read it."""
    need_bpf()
    where = temporary_dir()
    target = Target([PYTHON, script("py_order.py"), "600"])
    done = run([STAKEOUT, "record", "-p", target.pid, "-d", "1"], cwd=where)
    assert done.returncode == 0 and done.stdout == "", done
    (name,) = os.listdir(where)
    assert re.fullmatch(rf"stakeout-py_order.py-{target.pid}-\d{{8}}T\d{{6}}[.]pb[.]gz", name), name
    commands = re.findall(r"^(?:next:|     ) (stakeout .*)$", done.stderr, re.M)
    assert len(commands) == 2 and all(name in command for command in commands), done.stderr
    for command in commands:
        next_one = run([STAKEOUT, *command.split()[1:]], cwd=where)
        assert next_one.returncode == 0 and next_one.stderr == "", next_one
    assert sorted(os.listdir(where)) == [name.replace(".pb.gz", ".html"), name], os.listdir(where)
    folded = run([STAKEOUT, "record", "-q", "-p", target.pid, "-d", "1", "-o", "-"], cwd=where)
    assert re.match(r"python\S*;.* \d+$", folded.stdout.splitlines()[0]), folded.stdout[:500]
    assert len(os.listdir(where)) == 2, os.listdir(where)


def test_a_process_by_its_name():
    """One that is called exactly so is taken, with those below it; several are listed, and none of them is taken."""
    need_bpf()
    name = f"named-{os.getpid()}.py"
    path = os.path.join(temporary_dir(), name)
    with open(path, "w", encoding="utf-8") as f:
        f.write("import os\nif os.fork():\n print('ready', flush=True)\nwhile True: sum(range(999))\n")
    first = Target([PYTHON, path])
    done = run([STAKEOUT, "record", "-p", name, "-d", "2", "-o", "-"])
    assert done.returncode == 0 and "of 2 processes" in done.stderr, done.stderr
    assert one_clear_line(run([STAKEOUT, "record", "-p", name[:-1]]).stderr).endswith(
        f"'{name[:-1]}' is not a process ID, and no process is called so"
    )
    second = Target([PYTHON, path])
    for command in ("record", "summary", "dump", "cuda", "attach", "detach", "folded", "profile"):
        refused = run([STAKEOUT, command, "-p", name])
        assert refused.returncode == 2 and refused.stdout == "", refused
        head, *rows, last = refused.stderr.splitlines()
        assert head.split() == ["PID", "USER", "AGE", "COMMAND"], head
        assert [int(row.split()[0]) for row in rows] == sorted([first.pid, second.pid]), rows
        assert all(re.fullmatch(rf" *\d+  root +\d+[ms]\w*  {PYTHON} {path}", row) for row in rows), rows
        assert last == f"stakeout: 2 processes are called '{name}': say which with -p PID", last


def test_a_look_at_an_unwatched_process():
    """A summary of a process needs no daemon, and is in wall time."""
    need_bpf()
    target = start("split", 600)
    done = run([STAKEOUT, "summary", str(target.pid), "-d", "2"])
    assert re.search(r"\n\d+ threads? ran [0-9.]+ s in [0-9.]+ s", done.stdout), done.stdout[:500]
    assert "of 1 process" in done.stdout and done.stderr == "", done.stderr


def two_recorders():
    target = start("split", 600)
    recorders = [Recorder(target.pid, duration=4, rate=rate) for rate in (999, 499)]
    first, second = (r.wait().check_complete() for r in recorders)
    assert [r.stats["sample_hz"] for r in (first, second)] == [999, 499]
    return first, second


def test_two_recorders_of_one_process():
    two_recorders()


@quiet
def test_each_of_two_recorders_has_its_rate():
    first, second = two_recorders()
    assert first.samples > 1.5 * second.samples, f"{first.samples} at 999 Hz, {second.samples} at 499 Hz"


def test_two_recorders_of_two_processes():
    targets = [start("deep", 600, 100), start("realign", 600)]
    recorders = [Recorder(t.pid, duration=3) for t in targets]
    recordings = [r.wait().check_complete() for r in recorders]
    assert set(recordings[0].comms()) == {"deep"} and set(recordings[1].comms()) == {"realign"}


def test_summary_and_progress():
    """The summary goes to standard error; no progress without a terminal."""
    recording = record(start("cpp_sim", 600).pid, duration=2).check_complete()
    assert recording.stdout == ""
    assert "\r" not in recording.stderr and "\x1b" not in recording.stderr
    for words in ("samples", "complete", "lost", "%"):
        assert words in recording.stderr, f"no {words} in: {recording.stderr}"
    assert re.search(r"sim::\w+::\w+", recording.stderr), f"no function in: {recording.stderr}"


def test_stats_fields():
    """The fields that README names, with values that make sense."""
    recording = record(start("split", 600).pid).check_complete()
    stats = recording.stats
    for field in ("duration_s", "sample_hz", "samples", "complete", "truncated", "lost", "bpf", "unwind", "attach_ms"):
        assert field in stats, f"no {field} in {sorted(stats)}"
    programs = stats["bpf"]["programs"]
    assert programs and all(p["run_count"] >= 0 and p["run_ns"] >= 0 for p in programs.values()), programs
    assert max(p["run_count"] for p in programs.values()) >= stats["samples"], programs
    unwind = stats["unwind"]
    assert unwind["files"] >= 3 and unwind["rows"] > 1000, unwind
    assert unwind["bytes"] <= 8 * unwind["rows"], f"{unwind['bytes'] / unwind['rows']:.1f} bytes a row"
    assert 0 < stats["attach_ms"] < 1000 * recording.wall_s, (stats["attach_ms"], recording.wall_s)
    of_daemon = stats["daemon"]
    assert 0 <= of_daemon["cpu_s"] < 2 * recording.wall_s and 1 << 20 < of_daemon["rss_bytes"] < 256 << 20, of_daemon
    assert 0 <= stats["overhead_percent"] < 100, stats["overhead_percent"]
    assert json.loads(json.dumps(stats)) == stats


def test_standard_output():
    need_bpf()
    target = start("split", 600)
    result = run([STAKEOUT, "record", "-p", target.pid, "-d", "1", "-o", "-"])
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines and all(re.fullmatch(r"split;.* \d+", line) for line in lines), result.stdout


def test_threads_option():
    target = start("threads", 600, 3)
    recording = record(target.pid, duration=2, extra=["-t"]).check_complete()
    tids = set(os.listdir(f"/proc/{target.pid}/task")) - {str(target.pid)}
    assert set(recording.comms()) == {f"threads-{target.pid}/{tid}" for tid in tids}, recording.comms()


def test_only_a_part():
    target = start("threads", 600, 3)
    tid = int(next(tid for tid in os.listdir(f"/proc/{target.pid}/task") if tid != str(target.pid)))
    recording = record(target.pid, duration=2, extra=["-t", "--only", f"tid={tid}"])
    assert set(recording.comms()) == {f"threads-{target.pid}/{tid}"}, recording.comms()
    assert 0.2 < recording.samples / recording.stats["samples"] < 0.5, (recording.samples, recording.stats)
    assert "% of all was left out: not of --only" in recording.stderr, recording.stderr
    # Nothing that was recorded is thrown away for a wrong word.
    folded, stats = (os.path.join(temporary_dir(), name) for name in ("out.folded", "stats.json"))
    argv = [STAKEOUT, "record", "-p", target.pid, "-d", "1", "-o", folded, "--stats", stats, "--only", "comm=other"]
    result = run(argv)
    assert result.returncode == 1, result
    said = "--only comm=other: no sample here has it; there are threads: all of it was written\n"
    assert result.stderr.endswith(said), result.stderr
    with open(folded, encoding="ascii") as f, open(stats, encoding="ascii") as g:
        assert sum(int(line.rsplit(" ", 1)[1]) for line in f) == json.load(g)["samples"] > 0
    result = run([STAKEOUT, "record", "-p", target.pid, "--only", "comm"])
    assert result.returncode == 2 and "not of the form KEY=VALUE" in result.stderr, result


def test_pprof_format():
    """The message itself, read by an independent reader."""
    need_bpf()
    target = start("split", 600)
    out = os.path.join(temporary_dir(), "out.pb.gz")
    began = time.monotonic()
    result = run([STAKEOUT, "record", "-p", target.pid, "-d", "2", "-r", "999", "-o", out])
    wall_s = time.monotonic() - began
    assert result.returncode == 0, result.stderr
    with gzip.open(out) as f:
        message = list(fields(f.read()))
    strings = [value.decode() for number, value in message if number == 6]
    assert strings[0] == "" and "split_kernel" in strings
    types = [dict(fields(value)) for number, value in message if number == 1]
    assert [(strings[t[1]], strings[t[2]]) for t in types] == [("samples", "count"), ("cpu", "nanoseconds")]
    functions = {f[1]: strings[f.get(2, 0)] for f in (dict(fields(v)) for n, v in message if n == 5)}
    locations = {}
    for value in (v for n, v in message if n == 4):
        location = list(fields(value))
        lines = [dict(fields(v)) for n, v in location if n == 4]
        locations[dict(location)[1]] = [functions[line[1]] for line in lines]
    for ids in (functions, locations):
        assert sorted(ids) == list(range(1, len(ids) + 1)), "ids have gaps"
    leaves = {}
    for value in (v for n, v in message if n == 2):
        sample = dict(fields(value))
        first, _ = varint(sample[1], 0)
        count, at = varint(sample[2], 0)
        cpu_ns, _ = varint(sample[2], at)
        assert abs(cpu_ns - count * 1e9 / 999) < 1e6 * count
        leaf = (locations[first] or ["?"])[0]
        leaves[leaf] = leaves.get(leaf, 0) + count
    assert leaves["split_kernel"] > 0.5 * sum(leaves.values()), leaves
    duration_ns = next(v for n, v in message if n == 10)
    assert 1.9e9 < duration_ns < 1e9 * wall_s, (duration_ns, wall_s)


def test_format_by_option_beats_ending():
    need_bpf()
    target = start("split", 600)
    out = os.path.join(temporary_dir(), "out.folded")
    result = run([STAKEOUT, "record", "-p", target.pid, "-d", "1", "-f", "pprof", "-o", out])
    assert result.returncode == 0, result.stderr
    with gzip.open(out) as f:
        assert b"split_kernel" in f.read()


def test_check_command():
    need_bpf()
    result = run([STAKEOUT, "check"])
    assert result.returncode == 0, f"{result.returncode}: {result.stdout}{result.stderr}"
    assert "BTF" in result.stdout, result.stdout
