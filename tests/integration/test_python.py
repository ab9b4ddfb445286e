# SPDX-License-Identifier: GPL-2.0-or-later
"""Python frames in the stacks: on each CPython that the machine has, the system's own always."""
import collections
import functools
import glob
import json
import math
import os
import re
import shutil
import subprocess

from harness import (
    BUILD_DIR,
    PYTHON,
    SANITIZED,
    STAKEOUT,
    WORKLOAD_DIR,
    Daemon,
    Skip,
    Target,
    long,
    need_bpf,
    need_module,
    quiet,
    record,
    run,
    script,
    start,
    temporary_dir,
    timeout,
    wait_until,
)
from pprof_message import Message

FIRST = "test_order"
# With a "t", free-threaded builds; "-jit": with the JIT on that is built in; others: see tests/pythons/build.
VERSIONS = ["system", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.14-jit", "3.15-jit"]
VERSIONS += ["3.13t", "3.14t", "3.15t", "3.13-clang", "3.13-bolt", "3.14-tail"]


def with_jit(version):
    """A program that runs a version with its JIT on, in its own place."""
    python = interpreter(version)
    if run([python, "-c", "import sys; sys.exit(not sys._jit.is_available())"]).returncode:
        raise Skip(f"this CPython {version} has no JIT")
    launcher = os.path.join(temporary_dir(), "python3")
    with open(launcher, "w", encoding="ascii") as f:
        f.write(f'#!/bin/sh\nPYTHON_JIT=1 exec {python} "$@"\n')
    os.chmod(launcher, 0o755)
    return launcher


def interpreter(version):
    """The executable of a version: the system's, pyenv's, or what tests/pythons/fetch or build got."""
    if version == "system":
        return PYTHON
    if has_jit(version):
        return with_jit(version.removesuffix("-jit"))
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    end = "t" if is_free_threaded(version) else "[0-9]"
    found = glob.glob(os.path.join(root, "versions", f"{version.rstrip('t')}.*{end}", "bin", "python3"))
    found += glob.glob(f"/usr/local/bin/python{version}")
    found = found or glob.glob(os.path.join(BUILD_DIR, "pythons", version, "python3"))
    if not found:
        raise Skip(f"CPython {version} is not installed")
    return sorted(found)[-1]


def is_free_threaded(version):
    return re.fullmatch("[0-9.]+t", version) is not None


def has_jit(version):
    return version.endswith("-jit")


def number(version):
    """(3, 11) for "3.11", and for the system's own."""
    text = re.sub("t$|-.*", "", version)
    if version == "system":
        command = [PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in text.split("."))


def each_version(test, versions, long_always=False):
    """Makes one test a version. Each version has its first test in every run, and the system's has all of them."""

    def bind(version):
        def one():
            return test(version)

        functools.update_wrapper(one, test)
        return one

    for version in versions:
        name = f"{test.__name__}_{re.sub('[.-]', '_', version)}"
        short = not long_always and (version == "system" or test.__name__ == FIRST)
        globals()[name] = bind(version) if short else long(bind(version))
    return None


def record_script(version, name, *arguments, **options):
    target = Target([interpreter(version), script(name), *arguments])
    return record(target.pid, **options).check_totals()


def line_of(name, text):
    """The number of the one line of a script that holds this text."""
    with open(script(name), encoding="utf-8") as f:
        lines = [i for i, line in enumerate(f, 1) if text in line]
    assert len(lines) == 1, f"{text!r} is in lines {lines}"
    return lines[0]


def python_frames(stack):
    return [frame for frame in stack if re.search(r"\(.*\.py(:\d+)?\)$", frame)]


def place(version, function, file, text=None):
    """How a frame begins: with the line that holds the text. Code of a JIT may show an earlier line."""
    return f"{function} ({file}:" + (f"{line_of(file, text)})" if text and not has_jit(version) else "")


def check_python(recording, version="system", share=0.995, native=0.995):
    """Python frames are complete and have names, and so are the native ones."""
    python = recording.stats["python"]
    assert python["samples"] >= 40, python
    assert python["complete"] >= share * python["samples"], python
    # Code without rules is learned from the first samples that meet it; a JIT makes ever more of it.
    most = recording.samples // 3 if has_jit(version) else 5
    learning = min(most, recording.stats["truncated"].get("no-rules", 0))
    assert recording.stats["complete"] + learning >= native * recording.samples, recording.stats["truncated"]
    unknown = sum(n for stack, n in recording.stacks.items() if any(f.startswith("[python:") for f in stack))
    # No more than one in a thousand, as far as so many samples can tell (three standard deviations).
    expected = 0.001 * recording.samples
    assert unknown <= expected + 3 * math.sqrt(expected), recording.examples("[python:")
    return recording


def check_jit(recording, version):
    """What CPython's own JIT made is said to be that, and no other compiler's; and there is none where it is off."""
    own = sum(n for stack, n in recording.stacks.items() if in_jit(stack))
    said = re.search(r"^([0-9.]+) % of the Python samples are in code of CPython's", recording.stderr, re.MULTILINE)
    assert bool(own) == bool(said) == has_jit(version), (own, recording.stderr)
    assert "--perf-basic-prof" not in recording.stderr, recording.stderr
    if said:
        share = 100 * own / recording.stats["python"]["samples"]
        assert abs(float(said[1]) - share) < 1, (said[0], share)


def in_jit(stack):
    """The interpreter's loop was in code of its own JIT."""
    frames = [f for f in stack if f != "_PyJIT_Entry"]
    return any(f == "[jit]" and python_frames([caller]) for caller, f in zip(frames, frames[1:]))


def count_function(recording, function):
    """Samples with "NAME (FILE" in their stacks, whatever the line."""
    return sum(n for stack, n in recording.stacks.items() if any(f.startswith(function + ":") for f in stack))


def wilson(hits, total):
    z, p = 1.96, hits / total
    middle, half = p + z * z / (2 * total), z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return (middle - half) / scale, (middle + half) / scale


def test_order(version):
    """Python → sorted(key) → ctypes → qsort → callback → Python, outermost to innermost."""
    recording = check_python(record_script(version, "py_order.py", 30), version)
    name = "py_order.py"
    chain = [
        place(version, "main", name, "        outer()"),
        place(version, "outer", name, "return sorted"),
        place(version, "by_key", name, "LIBC.qsort(numbers"),
        "qsort",
        place(version, "compare", name, "    innermost()"),
    ]
    seen = 0
    for stack, n in recording.stacks.items():
        at = [next((i for i, f in enumerate(stack) if f.startswith(want)), None) for want in chain]
        if None in at:
            continue
        assert at == sorted(at), f"out of order: {stack}"
        seen += n
        # Every native frame of a call of the interpreter's loop was replaced by its Python frames.
        loops = [f for f in stack if f.startswith("_PyEval_EvalFrameDefault")]
        assert len(loops) <= 1, stack
    assert seen > 0.5 * recording.samples, recording.examples("python3", 5)
    check_jit(recording, version)


def test_kinds(version):
    """Generators, coroutines, methods, closures, lambdas, recursion; names that are not ASCII."""
    recording = check_python(record_script(version, "py_kinds.py", 30, duration=3), version)
    qualified = number(version) >= (3, 11)
    names = [
        ("generator", "generator"),
        ("delegating", "delegating"),
        ("coroutine", "coroutine"),
        ("inner_coroutine", "inner_coroutine"),
        ("step", "Simulator.step"),
        ("reset", "Simulator.reset"),
        ("größe", "größe"),
        ("inside", "closure.<locals>.inside"),
        ("<lambda>", "main.<locals>.<lambda>"),
        ("recurse", "recurse"),
    ]
    functions = collections.Counter()
    for stack, n in recording.stacks.items():
        for function in {re.sub(r" \([^()]*\)$", "", f) for f in python_frames(stack)}:
            functions[function] += n
    for plain, full in names:
        assert functions[full if qualified else plain] > 0, f"no {full} in {functions}"
    deepest = max(sum(f.startswith("recurse ") for f in stack) for stack in recording.stacks)
    assert deepest == 101, deepest


def test_lines(version):
    """Lines with a known split, each within a 99.9 % interval of what was seen. With a JIT they are the function's."""
    recording = check_python(record_script(version, "py_lines.py", 30, duration=4), version)
    name = "py_lines.py"
    shares = [(line_of(name, f"the {percent} % line"), percent) for percent in (60, 30, 10)]
    counts = {line: recording.count(f"split ({name}:{line})") for line, _ in shares}
    total = sum(counts.values())
    if has_jit(version):
        check_jit(recording, version)
        frames = [f for stack in recording.stacks for f in stack if f.startswith(f"split ({name}:")]
        lines = range(line_of(name, "def split"), line_of(name, "the 10 % line") + 1)
        assert frames and all(f[:-1].endswith(tuple(f":{line}" for line in lines)) for f in frames), set(frames)
        return
    assert total > 0.9 * recording.samples, f"{counts} of {recording.samples}"
    for line, percent in shares:
        low, high = wilson(counts[line], total)
        slack = (high - low) * 0.7  # from 95 % to 99.9 %
        assert low - slack <= percent / 100 <= high + slack, f"line {line}: {counts} for {percent} %"


def test_threads(version, share=0.5):
    """Each thread's own frames, and who held the lock."""
    recording = record_script(version, "py_threads.py", 30, duration=4, extra=["-t"])
    check_python(recording, version)
    heavy, light = count_function(recording, "heavy (py_threads.py"), count_function(recording, "light (py_threads.py")
    unlocked = count_function(recording, "unlocked (py_threads.py")
    assert heavy > 2 * light > 0, (heavy, light)
    assert unlocked > 0.05 * recording.samples, unlocked
    assert not any("heavy (" in " ".join(s) and "unlocked (" in " ".join(s) for s in recording.stacks)
    # The spinning threads hold it nearly always when they run; zlib gives it up, but for moments that a busy machine
    # makes longer.
    gil = recording.stats["python"]["gil"]
    if is_free_threaded(version):
        assert not gil and recording.stats["python"]["no_gil"] == recording.stats["python"]["samples"], recording.stats
        return
    assert 0.8 * (heavy + light) < gil < 1.1 * (heavy + light) + share * unlocked, (gil, heavy, light, unlocked)


def test_thread_names(version):
    """What a program calls its threads: in a profile's labels, folded stacks, the summary, a dump."""
    need_bpf()
    target = Target([interpreter(version), script("py_names.py"), "600"], ready=False)
    names = {int(tid): name for tid, name in json.loads(target.process.stdout.readline()).items()}
    assert len(names) == 4, names
    daemon, path = Daemon(), os.path.join(temporary_dir(), "names.pb.gz")
    daemon.client("attach", "--wall", "-p", str(target.pid))

    def labels():
        daemon.client("profile", "-p", str(target.pid), "-o", path)
        return {(s.labels["tid"], s.labels.get("thread")) for s in Message(path).samples}

    # Each by one name, also what was sampled before it was known; and the main thread by none.
    wanted = {*names.items(), (target.pid, None)}
    wait_until(lambda: labels() == wanted, "all names")
    folded = run([STAKEOUT, "render", "-f", "folded", "-t", path]).stdout
    assert f"/{target.pid};" in folded, folded
    shown = run([STAKEOUT, "summary", path]).stdout
    for tid, name in names.items():
        assert f"/{tid}_({name.replace(' ', '_').replace(';', ':')});" in folded, (name, folded)
        assert f"/{tid} ({name.replace(';', ':')})" in shown, (name, shown)
    threads = json.loads(daemon.client("dump", "--json", "-p", str(target.pid)).stdout)
    shown = {*names.items(), (target.pid, "MainThread")}
    assert {(t["tid"], t["thread"]) for t in threads} == shown, threads
    text = daemon.client("dump", "-p", str(target.pid)).stdout
    heads = re.findall(r"^Thread (\d+) .*: \S+.* \((.*)\)$", text, re.MULTILINE)
    # Threads with equal stacks have one head.
    assert "größe; 12" in dict(heads).values() and {(int(tid), name) for tid, name in heads} <= shown, text


def check_generations(recording):
    """Names of functions that live for a moment are right or said to be unknown, never another's."""
    python = recording.stats["python"]
    assert python["samples"] > 100, python
    wrong = seen = 0
    for stack, n in recording.stacks.items():
        frames = python_frames(stack)
        # Whatever of it is on the stack, its caller is.
        if any(frame.startswith(("odd (py_churn", "even (py_churn", "generation_")) for frame in frames):
            assert any(frame.startswith("one (py_churn") for frame in frames), stack
        for caller, frame in zip(frames, frames[1:]):
            match = re.fullmatch(r"generation_(\d+)_function \(generation_(\d+)\.py:(\d+)\)", frame)
            if match:
                by = "odd (py_churn" if int(match[1]) % 2 else "even (py_churn"
                seen += n
                wrong += n * (not caller.startswith(by) or match[1] != match[2] or not 1 <= int(match[3]) <= 6)
    assert seen and not wrong, (seen, wrong)


def test_churn(version):
    recording = record_script(version, "py_churn.py", 30, duration=4)
    check_generations(recording)
    # The rest is threads that begin and end, which takes a machine longer at times.
    outer = count_function(recording, "one (py_churn.py") / recording.samples
    assert outer > 0.5, outer


def test_a_million_samples(version):
    """No wrong name in any of them."""
    target = Target([interpreter(version), script("py_churn.py"), "900"])
    samples = 0
    while samples < 1e6:
        recording = record(target.pid, duration=10, rate=8000).check_totals()
        check_generations(recording)
        samples += recording.samples


def test_workers(version):
    """Forked workers: each one's function below its own process only."""
    target = Target([interpreter(version), script("py_workers.py"), "600", "4"])
    recording = check_python(record(target.pid, duration=4, extra=["-t"]).check_totals(), version)
    of_process = collections.defaultdict(set)
    for stack in recording.stacks:
        pid = re.search(r"-(\d+)/\d+$", stack[0]).group(1)
        of_process[pid] |= {m.group(1) for f in stack if (m := re.match(r"(worker_\d+) \(", f))}
    workers = [found for found in of_process.values() if found]
    assert len(workers) == 4 and all(len(found) == 1 for found in workers), of_process


def test_released(version):
    """A C function that was called without the lock: its Python caller and line are there, and -g leaves it out."""
    target = Target([interpreter(version), script("py_released.py"), "600"])
    recording = check_python(record(target.pid).check_totals(), version)
    caller = place(version, "released", "py_released.py", "# the call that releases")
    stacks = {stack: n for stack, n in recording.stacks.items() if any(f.startswith(caller) for f in stack)}
    assert sum(stacks.values()) > 0.2 * recording.samples, recording.examples("released")
    # An interrupt may be on top of it.
    inside = sum(n for s, n in stacks.items() if any("strverscmp" in f for f in s))
    assert inside > 0.9 * sum(stacks.values()), stacks
    if is_free_threaded(version):
        refused = run([STAKEOUT, "record", "-g", "-d", "1", "-p", str(target.pid), "-o", "-"])
        assert refused.returncode == 1 and "free-threaded" in refused.stderr, refused
        return
    with_lock = record(target.pid, extra=["-g"])
    held, around = (count_function(with_lock, f"{name} (py_released.py") for name in ("held", "released"))
    # The lock is held also for the moments before and after the call.
    assert held > 0.9 * (held + around) > 0 and held > 0.3 * with_lock.samples, (held, around, with_lock.samples)


def test_starting_and_ending(version, named_share=0.0, complete_share=0.0):
    """Interpreters that are born and end while they are watched: what is missing of their stacks is counted and marked."""
    target = Target([PYTHON, script("py_starter.py"), "600", interpreter(version)])
    recording = record(target.pid, duration=5).check_totals()
    python = recording.stats["python"]
    assert python["samples"] > 50 and recording.stats["processes"] > 5, recording.stats
    # Much of such a life is the dynamic loader's and the interpreter's start, before there is any Python.
    named = sum(n for stack, n in recording.stacks.items() if python_frames(stack))
    assert named > max(50, named_share * recording.samples), (named, recording.samples)
    # How many were read before their process ended is a matter of the machine's load.
    assert python["complete"] > complete_share * python["samples"], python
    incomplete = sum(n for stack, n in recording.stacks.items() if any(f.startswith("[python:") for f in stack))
    assert python["complete"] + sum(python["truncated"].values()) + python["stale_frames"] >= python["samples"] - incomplete


def cpu_ns(pid):
    """What each thread has run, by its number."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
            found[int(tid)] = int(f.read().split()[0])
    return found


def test_parallel(version):
    """Eight threads at once: to each its own function, its share of the CPU time, and the split of its lines."""
    target = Target([interpreter(version), script("py_parallel.py"), "600", "8"], ready=False)
    functions = {int(tid): name for tid, name in json.loads(target.process.stdout.readline()).items()}
    before = cpu_ns(target.pid)
    recording = check_python(record(target.pid, duration=8, rate=499, extra=["-t"]).check_totals(), version)
    ran = {tid: ns - before[tid] for tid, ns in cpu_ns(target.pid).items() if tid in functions}
    lines = {line_of("py_parallel.py", f"the {percent} % line"): percent for percent in (60, 30, 10)}
    seen = {tid: collections.Counter() for tid in functions}
    for stack, n in recording.stacks.items():
        tid = int(re.search(r"-\d+/(\d+)", stack[0]).group(1))
        if tid not in functions:
            continue
        frames = python_frames(stack)
        workers = {f.split(" ")[0] for f in frames if f.startswith("worker_")}
        assert workers <= {functions[tid]}, stack
        seen[tid]["all"] += n
        for frame in frames:
            if frame.startswith("split ("):
                seen[tid][int(re.search(r":(\d+)\)$", frame).group(1))] += n
    total = sum(counts["all"] for counts in seen.values())
    assert total > 0.95 * recording.samples, (seen, recording.samples)
    for tid, counts in seen.items():
        low, high = wilson(counts["all"], total)
        share = ran[tid] / sum(ran.values())
        # What lies between the two readings and the recording: some tenths of a second of 8.
        assert low - 0.02 <= share <= high + 0.02, (tid, share, low, high)
        of_lines = sum(counts[line] for line in lines)
        assert of_lines > 0.9 * counts["all"], counts
        for line, percent in lines.items():
            low, high = wilson(counts[line], of_lines)
            slack = (high - low) * 0.9  # from 95 % to 99.99 %: 24 of them a version
            assert low - slack <= percent / 100 <= high + slack, f"thread {tid}, line {line}: {counts} for {percent} %"


def test_generators(version):
    """Calls of the interpreter's loop that begin or end: its Python frame is there, or none of the loop."""
    recording = check_python(record_script(version, "py_generators.py", 30, duration=3), version)
    # 3 to 12 % of the samples hit such a moment. check_python() bounds those whose frames could not be read.
    read = [stack for stack in recording.stacks if not any(f.startswith("[python:") for f in stack)]
    bare = [stack for stack in read if any(re.fullmatch(r"_PyEval_EvalFrameDefault([.].*)?", f) for f in stack)]
    # A stack that was cut while the code of a JIT was learned does not say which call of the loop is which.
    cut = sum(recording.stacks[s] for s in bare if has_jit(version) and any(f.startswith("[truncated:") for f in s))
    assert sum(recording.stacks[s] for s in bare) == cut, bare
    asked = sum(recording.stacks[s] for s in read if any(f.startswith("use (py_generators") for f in s))
    assert asked > 0.9 * recording.samples, recording.examples("python3", 5)


def need_subinterpreters(version):
    modules = "_xxsubinterpreters" if number(version) < (3, 13) else "_interpreters"
    if run([interpreter(version), "-c", f"import {modules}"]).returncode:
        raise Skip(f"this CPython {version} has no module {modules}")


def in_order(stack, *starts):
    """Whether frames that begin so are in the stack, in this order."""
    rest = iter(stack)
    return all(any(frame.startswith(start) for frame in rest) for start in starts)


def loops_of(stack):
    return [f for f in stack if re.fullmatch(r"_PyEval_EvalFrameDefault([.].*)?", f)]


def test_subinterpreters(version):
    """A thread within another interpreter: its frames there and its caller's are in their places."""
    need_subinterpreters(version)
    recording = check_python(record_script(version, "py_subinterpreters.py", 30, duration=3), version)
    whole = below = 0
    for stack, n in recording.stacks.items():
        if not any(f.startswith("innermost (within.py:") for f in stack):
            continue
        line = "within (within.py:" + ("" if has_jit(version) else "11)")
        below += n
        whole += n * in_order(stack, "main (py_sub", "enter (py_sub", "<module> (<s", line, "innermost (")
        assert not loops_of(stack), stack
    assert whole == below > 0.9 * recording.samples, recording.examples("python3", 3)
    python = recording.stats["python"]
    if not is_free_threaded(version):
        assert python["gil"] > 0.99 * python["samples"] > 0, python


def check_nested(version, recording, *functions):
    """Each interpreter's and thread state's frames between those of its caller and those of what it calls."""
    check_python(recording, version)
    # The main thread may still be on its way to wait for this one.
    inside = {stack: n for stack, n in recording.stacks.items() if in_order(stack, "top (py_nested")}
    whole = sum(n for stack, n in inside.items() if in_order(stack, "top (py_nested", *functions))
    assert sum(inside.values()) > 0.9 * recording.samples, recording.examples("python3", 5)
    assert whole > 0.98 * sum(inside.values()), recording.examples("top (py_nested", 5)
    # A call that ends or begins is left out; all others have their frames.
    assert not any(loops_of(stack) for stack in recording.stacks), [s for s in recording.stacks if loops_of(s)][:3]


def test_nested_interpreters(version):
    """Three interpreters in one thread, each entered from the one before; and one that another thread made."""
    need_subinterpreters(version)
    recording = record_script(version, "py_nested.py", 30)
    check_nested(version, recording, "<module> (<s", "middle (<s", "<module> (<s", "deep (<s")
    # Before 3.10 it is not known who has the lock, once that was given up in an interpreter that another thread made.
    if number(version) >= (3, 10):
        recording = record_script(version, "py_nested.py", 30, "made-before")
        check_nested(version, recording, "<module> (<s", "deep (<s")


def test_thread_states(version):
    """An embedding program's own: three thread states of one interpreter, and a new interpreter."""
    library = os.path.join(WORKLOAD_DIR, "py_states.so")
    recording = record_script(version, "py_nested.py", 30, library, "run_in_interpreter")
    check_nested(version, recording, "<module> (<s", "deep (<s")
    recording = record_script(version, "py_nested.py", 30, library, "run_in_state")
    check_nested(version, recording, "<module> (<s", "middle (py_nested.py", "<module> (<s", "deep (<s")


def test_thread_states_later(version):
    """A thread that goes to a further thread state while it is watched: only the first samples lack frames."""
    library = os.path.join(WORKLOAD_DIR, "py_states.so")
    stats = os.path.join(temporary_dir(), "stats.json")
    program = [interpreter(version), script("py_nested.py"), "1.5", library, "run_in_state"]
    run([STAKEOUT, "record", "-r", "999", "-o", "/dev/null", "--stats", stats, "--", *program])
    with open(stats, encoding="utf-8") as f:
        python = json.load(f)["python"]
    # How soon the daemon sees them is a matter of the machine's load. Without that, none would be complete.
    assert python["samples"] > 100 and python["complete"] > 0.5 * python["samples"], python


def test_in_place_of_the_lock(version):
    """What threads of a free-threaded build wait for: pauses of the collector, and objects of others."""
    for kind, function, state in (("pauses", "spins", "stop-the-world"), ("locks", "stores", "object-lock")):
        need_bpf()
        target = Target([interpreter(version), script("py_free_threads.py"), "600", kind])
        path = os.path.join(temporary_dir(), f"{kind}.pb.gz")
        run([STAKEOUT, "record", "--wall", "-p", str(target.pid), "-d", "5", "-o", path])
        states = collections.Counter()
        for sample in Message(path).samples:
            # A busy machine may be late to read the name; from 3.14 on the kernel is told.
            if function in (sample.labels.get("thread"), sample.labels.get("comm")):
                states[sample.state] += sample.wall_ns
        # How long they wait for a CPU is the machine's affair.
        rest = sum(states.values()) - states["runnable"]
        assert states[state] > 0.1 * rest > 0, (kind, states)
        # Nothing of it is the GIL's, and next to nothing another lock's.
        assert not states["gil"] and states["lock"] < 0.1 * states[state], (kind, states)


test_lock_of_threads = quiet(functools.partial(test_threads, "system", 0.1))
test_names_of_short_lives = quiet(functools.partial(test_starting_and_ending, "system", 0.2, 0.6))


for _test, _versions in (
    (test_order, VERSIONS),
    (test_kinds, VERSIONS),
    (test_lines, VERSIONS),
    (test_threads, VERSIONS),
    (test_thread_names, VERSIONS),
    (test_churn, VERSIONS),
    (test_workers, VERSIONS),
    (test_released, VERSIONS),
    (test_starting_and_ending, VERSIONS),
    (test_generators, VERSIONS),
    (test_subinterpreters, VERSIONS),
    (test_nested_interpreters, VERSIONS),
    (test_thread_states, VERSIONS),
    (test_thread_states_later, VERSIONS),
    (test_parallel, [v for v in VERSIONS if is_free_threaded(v)]),
    (test_in_place_of_the_lock, [v for v in VERSIONS if is_free_threaded(v)]),
):
    del globals()[_test.__name__]
    each_version(_test, _versions)
del _test, _versions
each_version(timeout(900)(test_a_million_samples), VERSIONS, long_always=True)
del test_a_million_samples


def test_pytorch():
    """Training with a simulator in Python."""
    need_module("torch")
    target = Target([PYTHON, script("train.py"), 600])
    recording = check_python(record(target.pid, duration=8, rate=499).check_totals())
    assert any("train.py" in f for stack in recording.stacks for f in stack)
    assert SANITIZED or recording.stats["daemon"]["rss_bytes"] < 64 << 20, recording.stats["daemon"]


def test_data_loader():
    """Eight DataLoader workers: the samples of each are below its own process."""
    need_module("torch")
    target = Target([PYTHON, script("py_loader.py"), "600", "8"])
    recording = check_python(record(target.pid, duration=6, rate=499, extra=["-t"]).check_totals())
    line = "Samples.__getitem__ (py_loader.py"
    items = collections.Counter()
    for stack, n in recording.stacks.items():
        if any(f.startswith(line) for f in stack):
            items[re.search(r"-(\d+)/\d+$", stack[0]).group(1)] += n
    assert len(items) == 8 and str(target.pid) not in items, items
    # Each does the same work; the scheduler's share is not exact.
    assert min(items.values()) > 0.4 * max(items.values()), items
    assert recording.stats["processes"] == 9, recording.stats


def test_no_python_behind_the_symbols():
    """Garbage where an interpreter is said to be: native stacks are whole, and the user is told."""
    recording = record(start("not_python", 600).pid).check_totals().check_complete()
    assert recording.count("spin") > 0.9 * recording.samples, recording.stacks
    python = recording.stats["python"]
    assert python["complete"] == 0, python
    assert python.get("problem") or python["samples"] == sum(python["truncated"].values()) > 0, python


def test_numpy():
    """The caller of a matrix product, which gives the lock up, and its line."""
    need_module("numpy")
    target = Target([PYTHON, script("matmul.py"), 600])
    recording = check_python(record(target.pid, duration=4).check_totals())
    assert recording.count(f"product (matmul.py:{line_of('matmul.py', 'return a @ b')})") > 0.03 * recording.samples


def test_too_old():
    """A version that is not supported is named, and its native stacks are complete."""
    for version in ("3.6", "3.7"):
        try:
            python = interpreter(version)
        except Skip:
            continue
        target = Target([python, script("py_lines.py"), "600"])
        recording = record(target.pid).check_complete()
        assert version in recording.stats["python"]["problem"], recording.stats["python"]
        return
    raise Skip("neither CPython 3.6 nor 3.7 is installed")


def test_pypy():
    """PyPy is named, and its native frames are there."""
    pypy = shutil.which("pypy3")
    if not pypy:
        raise Skip("PyPy is not installed")
    target = Target([pypy, script("py_lines.py"), "600"])
    recording = record(target.pid).check_totals()
    assert "PyPy" in recording.stats["python"]["problem"], recording.stats
    assert recording.stats["python"]["samples"] == 0, recording.stats
    native = sum(n for stack, n in recording.stacks.items() if any("libpypy" in f or f == "[jit]" for f in stack))
    assert native > 0.8 * recording.samples, recording.examples("pypy", 5)
