# SPDX-License-Identifier: GPL-2.0-or-later
"""`stakeout dump`: every thread's stack, now, sleeping ones too."""
import json
import os
import re

from harness import (
    PYTHON,
    STAKEOUT,
    Daemon,
    Target,
    children_of,
    need_bpf,
    need_tool,
    one_clear_line,
    run,
    script,
    start,
    status_of,
    wait_until,
)


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
    assert main["thread"] == "MainThread", main
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
    target = start("threads", 600, 50, before_exec=lambda: os.nice(10))  # or the dump is one of 51 that want a CPU
    wait_until(lambda: len(os.listdir(f"/proc/{target.pid}/task")) >= 51, "50 threads")
    threads = threads_of(target.pid)
    assert set(threads) == {int(tid) for tid in os.listdir(f"/proc/{target.pid}/task")}
    whole = [t for t in threads.values() if re.search("_start|clone", functions(t)[-1])]
    moved = [t for t in threads.values() if functions(t) == ["[moved]"]]
    # Those that ran while they were read have moved: two on an idle machine, more where the dump waits for a CPU itself.
    assert len(whole) + len(moved) == len(threads) and len(whole) > len(threads) / 2, [functions(t)[-3:] for t in threads.values()]


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


RANKS = 4
POOL = 5  # of py_hang.py
JOB = f"job-{os.getpid()}"  # as no other test's


def settled(pid):
    """The ranks below it, once each has its pool of threads and sleeps."""
    ranks = sorted(children_of(pid))
    if len(ranks) < RANKS or any(status_of(rank)["Threads"] != str(POOL + 1) for rank in ranks):
        return None
    return ranks if all(status_of(rank)["State"][0] == "S" for rank in ranks) else None


def start_job():
    """A shell that launches ranks, and these in order."""
    loop = f"for r in 0 1 2 3; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=4 {PYTHON} {script('py_hang.py')} {JOB} & done; wait"
    target = Target([need_tool("bash"), "-c", loop], ready=False)
    return target, wait_until(lambda: settled(target.pid), "the job to hang")


def groups_of(text):
    """Each group's first line, second line, and frames."""
    parts = [part.splitlines() for part in text.strip().split("\n\n")[1:]]
    return [(part[0], part[1].strip(), [line.strip() for line in part[2:]]) for part in parts]


def names(ranks):
    return ", ".join(f"rank {rank} (PID {pid})" for rank, pid in ranks)


def check_job(text, ranks):
    """The rank that hangs elsewhere is the second group, after those that wait for it."""
    waiting, reading, *others = groups_of(text)
    assert waiting[0].startswith("3 of 4 main threads (sleeping): python3"), text
    assert waiting[1] == names([(i, pid) for i, pid in enumerate(ranks) if i != 2]), text
    assert any(frame.startswith("all_reduce (") for frame in waiting[2]), text
    assert reading[0].startswith("1 of 4 main threads (sleeping): python3"), text
    assert reading[1] == names([(2, ranks[2])]), text
    assert any(frame.startswith("load_batch (") for frame in reading[2]), text
    return others


def test_job_of_a_shell():
    target, ranks = start_job()
    text = dump(target.pid, "--python-only").stdout
    others = check_job(text, ranks)
    assert text.startswith(f"Process {target.pid}: "), text
    assert f"\n  {names(enumerate(ranks))}\n" in text.replace(",\n ", ","), text
    assert others[0][0] == "Main thread (sleeping): bash" and others[0][1] == f"PID {target.pid}", text
    assert len(others) == 2 and others[1][0].startswith(f"{RANKS * POOL} threads of 4 processes"), text
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("    ")), text
    alone = dump(target.pid, "--no-children").stdout
    assert alone.startswith(f"Process {target.pid}: ") and alone.count("\nThread ") == 1, alone
    assert all(status_of(pid)["TracerPid"] == "0" for pid in ranks)


def test_job_as_json():
    target, ranks = start_job()
    assert [thread["tid"] for thread in json.loads(dump(target.pid, "--json").stdout)] == [target.pid]
    processes = json.loads(dump(target.pid, "--json", "--children").stdout)
    assert [p["pid"] for p in processes] == [target.pid, *ranks]
    assert [p["ppid"] for p in processes[1:]] == [target.pid] * RANKS
    assert [(p["rank"], p["local_rank"], p["error"]) for p in processes] == [(None, None, None)] + [
        (rank, rank, None) for rank in range(RANKS)
    ]
    assert [p["threads"][0]["group"] for p in processes] == [2, 0, 0, 1, 0], processes
    assert len({t["group"] for p in processes[1:] for t in p["threads"][1:]}) == 1


def test_job_by_its_command_line():
    """Under a daemon that watches one of its ranks; nothing is attached afterwards but that."""
    target, ranks = start_job()
    daemon = Daemon("--match", f"not py_hang.py {JOB}")  # whose own command line is not meant
    daemon.client("attach", "-p", ranks[1], "--no-children")
    text = daemon.client("dump", "--match", f"py_hang.py {JOB}$", "--python-only").stdout
    assert not check_job(text, ranks)[1:], text
    assert text.startswith("4 processes: "), text
    assert [t["pid"] for t in daemon.request("GET", "/v1/targets")] == [ranks[1]]
    text = daemon.client("dump", "-p", target.pid, "--python-only").stdout
    check_job(text, ranks)
    assert [t["pid"] for t in daemon.request("GET", "/v1/targets")] == [ranks[1]]
    one_clear_line(daemon.client("dump", "--match", "no such job [h]ere", expect=1).stderr)


def test_workers_of_multiprocessing():
    """They have no ranks, and their parent is no launcher. One that has ended is said."""
    target = Target([PYTHON, script("py_hang.py"), RANKS])
    workers = wait_until(lambda: settled(target.pid), "the workers to hang")
    assert "load_batch" not in dump(target.pid).stdout
    text = dump(target.pid, "--children", "--python-only").stdout
    groups = groups_of(text)
    assert groups[0][0].startswith("3 of 4 main threads"), text
    assert groups[1][0].startswith("1 of 4 main threads") and groups[1][1] == f"PID {workers[2]}", text
    os.kill(workers[1], 9)  # their parent waits for the first one
    wait_until(lambda: status_of(workers[1])["State"][0] == "Z", "its end")
    text = dump(target.pid, "--children", "--python-only").stdout
    assert f"Process {workers[1]} (python3) is left out: ended, " in text, text
    assert groups_of(text)[0][0].startswith("2 of 3 main threads"), text


def test_equal_threads_of_a_process():
    program = (
        "import threading, time\n"
        "event = threading.Event()\n"
        "for _ in range(50): threading.Thread(target=event.wait).start()\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    target = Target([PYTHON, "-c", program])
    wait_until(lambda: re.search(r"\n\n50 threads .*\n  threads .*\n", dump(target.pid).stdout), "50 threads that wait")
    assert dump(target.pid, "--no-merge").stdout.count("\nThread ") == 51
    assert len(threads_of(target.pid)) == 51


def test_no_such_process():
    child = Target(["true"], ready=False)
    child.process.wait()
    one_clear_line(dump(child.pid, expect=1).stderr)
    assert dump("x", expect=2).stdout == ""
