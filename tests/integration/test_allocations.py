# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout memory --allocations against programs that count themselves, with several allocators.

Bounds are four standard errors, as the report gives them: a sampler that is right fails them once in 16,000 times.
"""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

from harness import (
    LONG,
    PYTHON,
    STAKEOUT,
    Daemon,
    Skip,
    Target,
    alone,
    cpu_seconds,
    long,
    need_module,
    need_tool,
    run,
    spawn,
    start,
    temporary_dir,
    timeout,
    uses,
    wait_until,
    workload,
)
import test_memory
from pprof_message import Message
from strangers import NOBODY, ask_as, become
from test_safety import Leftovers
from test_stuck import hang, hanging

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ROUNDS = 8
LEAK_S = 60 if LONG else 14
PACE_S = 0.3  # between two rounds: their calls are within the budget


class Program:
    """alloc_count.c, which says on request what it has done."""

    def __init__(self, mode, *arguments, program="alloc_count", **options):
        self.target = start(program, mode, *arguments, stdin=subprocess.PIPE, **options)
        self.pid = self.target.pid

    def ask(self):
        self.target.process.stdin.write(b"\n")
        self.target.process.stdin.flush()
        return json.loads(self.target.process.stdout.readline())

    def play(self, rounds=ROUNDS, pace_s=PACE_S):
        for _ in range(rounds):
            account = self.ask()
            time.sleep(pace_s)
        return account


def attach(daemon, pid):
    return daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": 19, "allocations": True}, expect=201)["id"]


def report(daemon, pid, *arguments):
    """Of what is watched already, until now."""
    done = daemon.client("memory", "-p", pid, "--allocations", "-d", 0.3, "--json", *arguments)
    return json.loads(done.stdout)


def begun(daemon, pid):
    """Waits until the probes are there: calls of before are none of it."""
    attach(daemon, pid)
    wait_until(lambda: daemon.client("memory", "-p", pid, "--allocations", "-d", 2.1), "probes")


def by_function(answer):
    """Lines with the same function in one."""
    sums = {}
    for line in answer["lines"]:
        nothing = {"allocated": 0, "freed": 0, "in_use": 0, "calls": 0}
        entry = sums.setdefault(re.split(r"[ .]", line["line"])[0], nothing)
        entry["allocated"] += line["allocated_bytes"]
        entry["freed"] += line["freed_bytes"]
        entry["in_use"] += line["in_use_bytes"]
        entry["calls"] += line["calls"]
    return sums


def near(value, truth, answer):
    """Within four standard errors, and what a few blocks on their way are worth."""
    error = (truth * answer["sample_bytes"]) ** 0.5
    return abs(value - truth) < 4 * error + answer["sample_bytes"]


def check_sums(answer, account, allocators):
    found = by_function(answer)
    # Windows may miss what is done in bursts, and say how far they may be wrong.
    for name, truth in account.items() if not answer["windowed"] else ():
        seen = found.get(name, {"allocated": 0, "freed": 0, "in_use": 0})
        assert near(seen["allocated"], truth["bytes"], answer), (name, seen, truth, answer)
        assert near(seen["freed"], truth["freed"], answer), (name, seen, truth, answer)
        assert near(seen["in_use"], truth["bytes"] - truth["freed"], answer), (name, seen, truth, answer)
    everything = sum(truth["bytes"] for truth in account.values())
    if not answer["dense"]:
        assert abs(answer["allocated_bytes"] - everything) < 4 * answer["standard_error_bytes"], (everything, answer)
    assert {kind["allocator"] for kind in answer["allocators"]} >= set(allocators), answer["allocators"]
    for key in ("lost", "hidden", "strange", "left_out", "failed"):
        assert answer[key] == 0, (key, answer)


def check_script(allocators, program="alloc_count", **options):
    target, daemon = Program("script", program=program, **options), Daemon()
    begun(daemon, target.pid)
    account = target.play()
    answer = report(daemon, target.pid)
    check_sums(answer, account, allocators)
    if answer["windowed"]:
        return
    [keep] = [line for line in answer["lines"] if line["line"].split(" ")[0] == "keep"]
    assert keep["freed_bytes"] == 0 and keep["median_age_s"] is None, keep
    [small] = [line for line in answer["lines"] if line["line"].split(" ")[0] == "small_ones"]
    assert 0 < small["median_age_s"] < 0.1, small


def check_library(name, kind):
    path = os.path.join(LIBRARIES, name)
    if not os.path.exists(path):
        raise Skip(f"{name} is not installed")
    check_script([kind], env={**os.environ, "LD_PRELOAD": path})


def test_sums():
    """malloc, calloc, realloc, free, posix_memalign, aligned_alloc, memalign, and what the C library allocates."""
    check_script(["malloc"])


def test_sums_of_a_program_with_its_own():
    """Linked statically: its functions are found in .symtab."""
    check_script(["malloc"], program="alloc_count-static")


def test_sums_of_jemalloc():
    check_library("libjemalloc.so.2", "jemalloc")


def test_sums_of_tcmalloc():
    check_library("libtcmalloc_minimal.so.4", "tcmalloc")


def test_sums_of_mimalloc():
    check_library("libmimalloc.so.2", "mimalloc")


def test_a_kernel_that_looks_at_all_returns():
    """As those from 6.6 to 6.12 do."""
    target, daemon = Program("script"), Daemon(env={"STAKEOUT_ALLOC_PROBES": "multi"})
    begun(daemon, target.pid)
    account = target.play()
    check_sums(report(daemon, target.pid), account, ["malloc"])


def test_a_kernel_that_cannot_is_refused():
    target, daemon = Program("script"), Daemon(env={"STAKEOUT_ALLOC_PROBES": "none"})
    done = run([STAKEOUT, "--socket", daemon.socket, "memory", "-p", target.pid, "--allocations", "-d", 5])
    assert done.returncode == 1 and "Linux 6.6 is needed" in done.stderr, done.stderr


def test_children_and_libraries_that_come_later():
    late, daemon = Program("late", workload("alloc_pool.so")), Daemon()
    fork = Program("fork")
    begun(daemon, fork.pid)
    attach(daemon, late.pid)
    account = fork.play()
    answer = report(daemon, fork.pid)
    check_sums(answer, account, ["malloc"])
    late.ask()
    # The library is mapped now; the probes come with the next look at the process.
    wait_until(
        lambda: report(daemon, late.pid)["probe_hits"] and late.ask() and mimalloc_of(daemon, late), "its probes"
    )
    before, account = mimalloc_of(daemon, late), late.ask()["by_library"]
    for _ in range(5):
        time.sleep(PACE_S)
        now = late.ask()["by_library"]
    answer = report(daemon, late.pid)
    more = mimalloc_of(daemon, late) - before
    truth = now["bytes"] - account["bytes"] + 4000 * 1000  # the round that was asked for after `before`
    assert near(more, truth, answer), (more, truth, answer)


def mimalloc_of(daemon, program):
    return sum(k["allocated_bytes"] for k in report(daemon, program.pid)["allocators"] if k["allocator"] == "mimalloc")


PYTHON_ROUNDS = 5
PYTHON_PROGRAM = """
import ctypes, itertools, sys
api = ctypes.pythonapi
api.PyMem_Malloc.restype = ctypes.c_void_p
api.PyMem_Malloc.argtypes = [ctypes.c_size_t]
api.PyMem_Free.argtypes = [ctypes.c_void_p]
def objects():
    for _ in itertools.repeat(None, 20000):
        bytes(450)
def memory():
    for _ in itertools.repeat(None, 2000):
        api.PyMem_Free(api.PyMem_Malloc(500))
def large():
    for _ in itertools.repeat(None, 200):
        bytes(40000)
print("ready", flush=True)
while sys.stdin.readline():
    objects()
    memory()
    large()
    print("done", flush=True)
"""


def play_python(**options):
    target, daemon = Target([PYTHON, "-c", PYTHON_PROGRAM], stdin=subprocess.PIPE, **options), Daemon()
    begun(daemon, target.pid)
    for _ in range(PYTHON_ROUNDS):
        target.process.stdin.write(b"\n")
        target.process.stdin.flush()
        target.process.stdout.readline()
        time.sleep(1.5)
    answer = report(daemon, target.pid)
    return answer, {kind["allocator"]: kind for kind in answer["allocators"]}


def check_line(answer, function, truth):
    """Of a loop that does little else."""
    seen = sum(line["allocated_bytes"] for line in answer["lines"] if line["line"].startswith(function + " ("))
    if not answer["windowed"]:
        assert near(seen, truth, answer), (function, seen, truth, answer)


# With the 33 bytes of a bytes object's head.
PYTHON_OBJECTS = PYTHON_ROUNDS * 20000 * 483
PYTHON_LARGE = PYTHON_ROUNDS * 200 * 40033


def test_cpython():
    """Objects and memory of its own, told apart from what it asks malloc for; each counts once."""
    answer, kinds = play_python()
    assert {"PyObject", "PyMem"} <= set(kinds) <= {"PyObject", "PyMem", "malloc"}, kinds
    assert answer["windowed"] or "malloc" in kinds, kinds
    check_line(answer, "objects", PYTHON_OBJECTS)
    check_line(answer, "large", PYTHON_LARGE)
    assert answer["windowed"] or kinds["malloc"]["allocated_bytes"] < PYTHON_LARGE * 2, kinds


def test_cpython_with_malloc_for_all():
    answer, kinds = play_python(env={**os.environ, "PYTHONMALLOC": "malloc"})
    assert set(kinds) == {"malloc"}, kinds
    check_line(answer, "objects", PYTHON_OBJECTS)
    check_line(answer, "large", PYTHON_LARGE)


def look(daemon, pid, seconds):
    """The client, which goes on."""
    return spawn(
        [STAKEOUT, "--socket", daemon.socket, "memory", "-p", pid, "--allocations", "-d", seconds, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer_of(client):
    out, err = client.communicate(timeout=120)
    assert client.returncode == 0, err
    return json.loads(out)


@timeout(200)
def test_a_leak_is_named_and_a_steady_program_is_not():
    leak, steady, daemon = Program("leak", 4), Program("steady", 4), Daemon()
    clients = [look(daemon, program.pid, LEAK_S) for program in (leak, steady)]
    leaking, steadily = [answer_of(client) for client in clients]
    assert leaking["verdict"] == "growing", leaking
    assert leaking["line"].startswith("keep_block"), leaking
    [line] = [line for line in leaking["lines"] if line["line"] == leaking["line"]]
    assert line["keeps"] and abs(line["allocated_bytes"] - line["in_use_bytes"]) < 1, line
    truth = 4e6 * leaking["duration_s"]
    # It began before the probes were there, and ended after they were read.
    assert near(line["allocated_bytes"], truth, {"sample_bytes": leaking["sample_bytes"] * 1.3}), (line, leaking)
    assert steadily["verdict"] in ("not growing", "grew once", "shrinking"), steadily
    assert steadily["line"] is None, steadily
    [line] = [line for line in steadily["lines"] if line["line"].startswith("keep_block")]
    assert near(line["allocated_bytes"], truth, {"sample_bytes": steadily["sample_bytes"] * 1.3}), (line, steadily)
    assert near(line["in_use_bytes"], 10e6, steadily), (line, steadily)


@timeout(200)
def test_leaks_of_a_megabyte_a_second():
    need_module("numpy")
    growers = [test_memory.cpp("leak", 1), test_memory.python("objects", 1), test_memory.python("numpy", 1)]
    lines = [r"^leak_record \(mem_grow", r"^keep_records \(py_memory", r"^keep_array \(py_memory"]
    for (answer, (kept, resident)), line in zip(test_memory.look(growers, LEAK_S, "--allocations"), lines):
        assert answer["verdict"] == "growing", answer
        for truth in (kept, resident):
            assert abs(answer["growth_bytes_per_s"] - truth) < 0.1 * truth, (answer, truth)
        truth = kept * answer["duration_s"]
        assert re.search(line, answer["lines"][0]["line"]), answer["lines"][:3]
        # Of what is seen in windows it is not known whether it was freed.
        if answer["windowed"]:
            continue
        assert answer["line"] == answer["lines"][0]["line"], (answer["line"], answer["lines"][:3])
        in_use = sum(each["in_use_bytes"] for each in answer["lines"] if re.search(line, each["line"]))
        # It began before the probes were there.
        assert near(in_use, truth, answer), (in_use, truth, answer)


def check_steady():
    growers = [test_memory.cpp("churn", 20), test_memory.python("churn", 20), test_memory.cpp("steady", 2)]
    for answer, _ in test_memory.look(growers, 10, "--allocations"):
        test_memory.check_no_leak(answer)


@timeout(200)
def test_who_keeps_nothing_is_not_accused():
    check_steady()


@long
@timeout(900)
def test_who_keeps_nothing_is_not_accused_in_20_runs():
    for _ in range(20):
        check_steady()


def test_windows():
    """More than a million calls a second: scaled, within what the report says of its error, and of its cost."""
    program, daemon, path = Program("busy", 64, 400), Daemon(), os.path.join(temporary_dir(), "a.pb.gz")
    # What it did before is none of the time that the cost is a share of.
    wait_until(lambda: cpu_seconds(program.pid) > 3, "some CPU time")
    begin = time.monotonic()
    begun(daemon, program.pid)
    wait_until(lambda: report(daemon, program.pid)["windowed"], "windows")
    first, before = report(daemon, program.pid), program.ask()["busy"]
    time.sleep(15)
    after, last = program.ask()["busy"], report(daemon, program.pid)
    truth = after["bytes"] - before["bytes"]
    assert last["windowed"] and last["seen_percent"] < 60, last
    more = last["allocated_bytes"] - first["allocated_bytes"]
    error = last["standard_error_bytes"] + first["standard_error_bytes"]
    assert abs(more - truth) < 4 * error, (more, truth, first, last)
    # Some of it is by half a second at the begin, and by the windows' random lengths.
    assert last["cost_percent"] < 8, last
    daemon.client("memory", "-p", program.pid, "--allocations", "-d", 0.3, "-o", path)
    assert int(Message(path).comments["memory.time_ns"]) < 1e9 * (time.monotonic() - begin + 0.1)
    assert last["line"] is None and not any(line["keeps"] for line in last["lines"]), last
    said = daemon.client("memory", "-p", program.pid, "--allocations", "-d", 0.3).stdout
    assert "in use is at most that much" in said, said


def test_files_and_views():
    target, daemon, where = Program("script"), Daemon(), temporary_dir()
    begun(daemon, target.pid)
    target.play(4)
    path = os.path.join(where, "a.pb.gz")
    said = daemon.client("memory", "-p", target.pid, "--allocations", "-d", 0.3, "-o", path).stdout
    assert run([STAKEOUT, "memory", path]).stdout == said
    message = Message(path)
    sums = [sum(sample.values[i] for sample in message.samples) for i in range(6)]
    assert sums[1] > 0 and abs(sums[1] - sums[3] - sums[5]) < 100 + sums[1] / 1000, sums
    for name in ("a.folded", "a.html"):
        done = run([STAKEOUT, "render", path, "--value", "alloc_space", "-o", os.path.join(where, name)])
        assert done.returncode == 0, done.stderr
    done = run([STAKEOUT, "memory", "--gpu", path])
    assert done.returncode == 1, done.stdout
    go = run([need_tool("go"), "tool", "pprof", "-top", "-alloc_space", "-unit=B", "-nodefraction=0", path])
    assert go.returncode == 0, go.stderr
    assert re.search(rf"of {sums[1]}B total", go.stdout), go.stdout


def test_what_was_not_asked_for_is_said():
    target, daemon = Program("script"), Daemon()
    number = daemon.request("POST", "/v1/targets", {"pid": target.pid}, expect=201)["id"]
    answer = daemon.request("GET", f"/v1/targets/{number}/allocations", expect=409)
    assert "without" in answer["error"], answer


def test_rights():
    """Probes on the C library are root's to ask for, of whomever's process."""
    roots, daemon = Program("script"), Daemon("--socket-mode", "0666", "--group", "")
    target = attach(daemon, roots.pid)
    program = shutil.copy(workload("split"), temporary_dir())
    own = Target([program, "600"], before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/")
    refused, others, asked, without = ask_as(
        daemon,
        [
            ("GET", f"/v1/targets/{target}/allocations", None),
            ("POST", "/v1/targets", {"pid": roots.pid, "allocations": True}),
            ("POST", "/v1/targets", {"pid": own.pid, "rate_hz": 19, "allocations": True}),
            ("POST", "/v1/targets", {"pid": own.pid, "rate_hz": 19}),
        ],
    )
    assert refused[0] == others[0] == asked[0] == 403, (refused, others, asked)
    assert "for root to watch" in json.loads(asked[1])["error"] and without[0] == 201, (asked, without)
    of_root = daemon.request("POST", "/v1/targets", {"pid": own.pid, "rate_hz": 19, "allocations": True}, expect=201)["id"]
    daemon.request("GET", f"/v1/targets/{of_root}/allocations")


EXECUTES = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
static char *blocks[1000];
static void *volatile one;
__attribute__((noinline)) static void keep(int n)
{
    for (int i = 0; i < n; i++)
        memset(blocks[i] = (char *)malloc(1 << 20), 1, 100);
}
static void keep_when_told(const char *who, int n)
{
    pollfd in = {0, POLLIN, 0};
    for (puts(who), fflush(stdout); !poll(&in, 1, 1);)
        free(one = malloc(100));
    char c;
    read(0, &c, 1);
    keep(n);
    puts("kept"), fflush(stdout);
}
int main(int argc, char **argv)
{
    if (argc > 1)
        return keep_when_told("executed", 50), pause();
    keep_when_told("ready", 200);
    if (!fork())
        keep_when_told("forked", 100), _exit(0);
    wait(NULL);
    execl("/proc/self/exe", argv[0], "again", NULL);
}
"""


def compiled(source):
    path = os.path.join(temporary_dir(), "program")
    with open(path + ".cpp", "w", encoding="ascii") as f:
        f.write(source)
    built = run([need_tool("g++"), "-O1", "-o", path, path + ".cpp"])
    assert built.returncode == 0, built.stderr
    return path


def test_what_has_ended_has_nothing_in_use():
    """The program before an exec, and a child."""
    target, daemon = Target([compiled(EXECUTES)], stdin=subprocess.PIPE), Daemon()
    begun(daemon, target.pid)
    for who in (None, "forked", "executed"):
        if who:
            assert target.process.stdout.readline() == f"{who}\n".encode()
            hits = report(daemon, target.pid)["probe_hits"]
            wait_until(lambda hits=hits: report(daemon, target.pid)["probe_hits"] > hits, f"probes in what has {who}")
        target.process.stdin.write(b"\n")
        target.process.stdin.flush()
        assert target.process.stdout.readline() == b"kept\n"
    answer = report(daemon, target.pid)
    found = by_function(answer)["keep"]
    assert near(found["allocated"], 350 << 20, answer), found
    assert near(found["in_use"], 50 << 20, answer), found


THROWS = """
#include <cstdio>
#include <new>
#include <sys/resource.h>
#include <unistd.h>
static char *volatile block;
__attribute__((noinline)) static bool refused(unsigned long bytes)
{
    try {
        block = new char[bytes];
        delete[] block;
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}
int main()
{
    unsigned long tries = 0, caught = 0;
    rlimit most = {1ul << 30, 1ul << 30};
    setrlimit(RLIMIT_AS, &most);
    for (puts("ready"), fflush(stdout); ; usleep(1000)) {
        caught += refused(1ul << 31);
        refused(1ul << 20);
        if (!(++tries % 500))
            printf("%lu %lu\\n", tries, caught), fflush(stdout);
    }
}
"""


def test_what_throws_is_left_to_throw():
    """operator new of tcmalloc throws std::bad_alloc: an exception does not pass a return that the kernel has taken."""
    library = next(iter(glob.glob("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.*")), None)
    if not library:
        raise Skip("libtcmalloc_minimal is not installed")
    target = Target([compiled(THROWS)], env={**os.environ, "LD_PRELOAD": library})
    answer = json.loads(Daemon().client("memory", "-p", target.pid, "--allocations", "-d", 4, "--json").stdout)
    tries, caught = map(int, target.process.stdout.readline().split())
    assert tries == caught and target.process.poll() is None, (tries, caught, target.process.poll())
    # What it was given is known, and that it was not followed.
    assert [k["allocator"] for k in answer["allocators"] if k["allocated_bytes"] > 0] == ["tcmalloc"], answer
    assert not any(k["in_use_bytes"] for k in answer["allocators"]), answer


@alone
@uses("a process that hangs")
def test_a_process_that_keeps_its_lock():
    """The kernel takes it to place a probe in a library that the process maps, whomever the probe is for. Until it is let
    go no process of the machine can fork, this one neither: all is asked for through the socket."""
    program, daemon = Program("script"), Daemon()
    path = os.path.join(temporary_dir(), "answer")
    with hanging() as stuck:
        hang(stuck)
        target = attach(daemon, program.pid)

        def problem():
            with open(path, "wb") as f:
                f.write(daemon.request("GET", f"/v1/targets/{target}/allocations"))
            return Message(path).comments.get("alloc.problem", "")

        wait_until(lambda: "not placed yet" in problem(), "it to be said")
        begin = time.monotonic()
        for _ in range(10):
            assert [t["state"] for t in daemon.request("GET", "/v1/targets")] == ["sampling"]
        assert time.monotonic() - begin < 2, time.monotonic() - begin
    wait_until(lambda: program.ask() and report(daemon, program.pid)["probe_hits"], "the probes")
    assert not problem(), problem()


def test_kill_9_leaves_nothing():
    target, leftovers, daemon = Program("script"), Leftovers(), Daemon()
    begun(daemon, target.pid)
    leftovers.look(daemon.process.pid)
    assert leftovers.brought["link"], "nothing was attached"
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    leftovers.check_gone()
    before = target.ask()["keep"]["bytes"]
    assert target.ask()["keep"]["bytes"] > before


def held(daemon, kind):
    """How many links ("link") or maps ("map") the daemon has: what it has made goes with its descriptors."""
    folder, n = f"/proc/{daemon.process.pid}/fd", 0
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            n += os.readlink(os.path.join(folder, name)) in (f"anon_inode:bpf-{kind}", f"anon_inode:bpf_{kind}")
    return n


def test_nothing_is_left_when_nobody_asks():
    target, daemon = Program("script"), Daemon()
    # What is loaded once stays.
    daemon.request("DELETE", f"/v1/targets/{attach(daemon, target.pid)}")
    wait_until(lambda: not daemon.request("GET", "/v1/targets"), "it to be forgotten")
    time.sleep(1)
    before = {kind: held(daemon, kind) for kind in ("link", "map")}
    begun(daemon, target.pid)
    now = {kind: held(daemon, kind) for kind in before}
    assert now["map"] >= before["map"] + 2 and now["link"] > before["link"], (now, before)
    for each in daemon.request("GET", "/v1/targets"):
        daemon.request("DELETE", f"/v1/targets/{each['id']}")
    for kind, n in before.items():
        wait_until(lambda kind=kind, n=n: held(daemon, kind) <= n, f"each {kind} to go")
