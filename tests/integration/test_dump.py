# SPDX-License-Identifier: GPL-2.0-or-later
"""`stakeout dump`: every thread's stack, now, sleeping ones too."""
import json
import os
import re

from harness import PYTHON, STAKEOUT, Target, need_bpf, one_clear_line, run, script, start, status_of, wait_until


def dump(pid, *options, expect=0):
    need_bpf()
    result = run([STAKEOUT, "dump", "-p", pid, *options])
    assert result.returncode == expect, f"status {result.returncode}: {result.stderr}"
    return result


def threads_of(pid, *options):
    """The JSON form: {tid: thread}."""
    threads = json.loads(dump(pid, "--json", *options).stdout)
    return {thread["tid"]: thread for thread in threads}


def functions(thread):
    """Innermost first; "" where there is no name."""
    return [frame["function"] or "" for frame in thread["frames"]]


def look_at_python_threads(pid):
    """The thread that sleeps, once it does; it also waits for the lock now and then."""
    threads = threads_of(pid)
    assert len(threads) == 5, threads
    main = threads[pid]
    assert "main" in functions(main) and main["state"] == "sleeping" and main["gil"] is False, main
    seen = {name: t for t in threads.values() for name in ("heavy", "light", "unlocked", "asleep") if name in functions(t)}
    assert len(seen) == 4, [functions(t) for t in threads.values()]
    return seen["asleep"] if any("nanosleep" in name for name in functions(seen["asleep"])) else None


def test_python_threads():
    """Threads that spin, sleep, wait for the lock or for another thread: each with its own Python and native frames."""
    target = Target([PYTHON, script("py_threads.py"), "600"])
    asleep = wait_until(lambda: look_at_python_threads(target.pid), "the thread to sleep")
    assert asleep["state"] == "sleeping" and asleep["gil"] is False, asleep
    names = functions(asleep)
    assert any("nanosleep" in name for name in names), names
    # Innermost first: the C library's sleep, the Python function that called it, the thread's start.
    order = [next(i for i, name in enumerate(names) if part in name) for part in ("nanosleep", "asleep", "clone")]
    assert order == sorted(order), names
    line = next(frame for frame in asleep["frames"] if frame["function"] == "asleep")
    assert line["file"].endswith("/py_threads.py") and line["line"] == 37 and line["kind"] == "python", line
    assert status_of(target.pid)["TracerPid"] == "0"


def test_text():
    target = Target([PYTHON, script("py_threads.py"), "600"])
    text = dump(target.pid).stdout
    assert text.startswith(f"Process {target.pid}: {PYTHON} "), text
    assert len(re.findall(r"^Thread \d+ \(", text, re.MULTILINE)) == 5, text
    assert re.search(r"^    asleep \(/.*/py_threads\.py:37\)$", text, re.MULTILINE), text
    only = dump(target.pid, "--python-only").stdout
    assert "nanosleep" not in only and "asleep (" in only, only


def test_rank_of_a_distributed_job():
    target = Target([PYTHON, script("py_threads.py"), "600"], env={**os.environ, "RANK": "3", "WORLD_SIZE": "8"})
    assert dump(target.pid).stdout.splitlines()[0].endswith(", rank 3")


def test_many_native_threads():
    target = start("threads", 600, 50)
    wait_until(lambda: len(os.listdir(f"/proc/{target.pid}/task")) >= 51, "50 threads")
    threads = threads_of(target.pid)
    assert set(threads) == {int(tid) for tid in os.listdir(f"/proc/{target.pid}/task")}
    whole = [t for t in threads.values() if re.search("_start|clone", functions(t)[-1])]  # the others moved
    assert len(whole) >= len(threads) - 2, [functions(t)[-3:] for t in threads.values()]


def test_sleeping_program():
    """One that takes no CPU time at all, from Debian."""
    target = Target(["sleep", "60"], ready=False)
    wait_until(lambda: status_of(target.pid)["State"][0] == "S", "it to sleep")
    (thread,) = threads_of(target.pid).values()
    names = functions(thread)
    assert "__libc_start_main" in names and any("nanosleep" in name for name in names), names
    assert not any(name.startswith("[truncated") for name in names), names
    assert any(frame["kind"] == "kernel" for frame in thread["frames"])
    assert not any(f["kind"] == "kernel" for t in threads_of(target.pid, "--no-kernel").values() for f in t["frames"])


def test_no_such_process():
    child = Target(["true"], ready=False)
    child.process.wait()
    one_clear_line(dump(child.pid, expect=1).stderr)
    assert dump("x", expect=2).stdout == ""
