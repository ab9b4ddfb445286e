# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout memory --gpu against a program that counts itself, on a stand-in for libc10 and on the true one."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

from cuda_targets import finish, go, python_program
from harness import (
    LONG,
    PYTHON,
    SOURCE_DIR,
    STAKEOUT,
    Daemon,
    Skip,
    Target,
    alone,
    need_tool,
    parse_folded,
    run,
    spawn,
    start,
    start_script,
    temporary_dir,
    timeout,
    wait_until,
    workload,
)
from pprof_message import Message
from strangers import NOBODY, ask_as, become
from test_cuda import line_of
from test_safety import Leftovers

LEAK_S = 60 if LONG else 15
BEFORE = 5 * 1000000  # of each device, allocated before anybody looks


def standin():
    return os.path.join(workload("torch"), "libc10.so")


def true_libc10():
    paths = sorted(glob.glob("/usr/lib/x86_64-linux-gnu/libc10.so.*"))
    if not paths:
        raise Skip("Debian's libtorch is not installed")
    return paths[-1]


class Program:
    """py_gpu_memory.py, which says on request what it has counted."""

    def __init__(self, mode, *arguments, library=None):
        self.target = start_script("py_gpu_memory.py", library or standin(), mode, *arguments, stdin=subprocess.PIPE)
        self.pid = self.target.pid

    def ask(self, what=""):
        self.target.process.stdin.write(what.encode() + b"\n")
        self.target.process.stdin.flush()
        return json.loads(self.target.process.stdout.readline())

    def end(self):
        assert self.target.process.poll() is None, "the target has died"
        self.target.process.kill()
        self.target.process.wait()


def attach(daemon, pid):
    return daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": 19, "gpu_memory": True}, expect=201)["id"]


def report(daemon, pid, seconds=0.5, *arguments):
    """Of what is watched already; this adds a recording of that."""
    done = daemon.client("memory", "-p", pid, "--gpu", "-d", seconds, "--json", "--top", 100, *arguments)
    return json.loads(done.stdout)


def look(daemon, pid, seconds):
    """The client, which goes on."""
    return spawn(
        [STAKEOUT, "--socket", daemon.socket, "memory", "-p", pid, "--gpu", "-d", seconds, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer_of(client):
    out, err = client.communicate(timeout=120)
    assert client.returncode == 0, err
    return json.loads(out)


def by_function(answer):
    """Sums over the lines of each function."""
    sums = {}
    for line in answer["lines"]:
        entry = sums.setdefault(line["line"].split(" ")[0], dict.fromkeys(("live", "peak", "allocations", "bytes"), 0))
        entry["live"] += line["in_use_bytes"]
        entry["peak"] += line["peak_bytes"]
        entry["allocations"] += line["allocations"]
        entry["bytes"] += line["allocated_bytes"]
        entry["then"] = entry.get("then", 0) + line["in_use_at_refusal_bytes"]
    return sums


def check_script(library):
    program, daemon = Program("script", library=library), Daemon()
    attach(daemon, program.pid)
    for rounds in (1, 7):
        for _ in range(rounds):
            account = program.ask()
        answer = report(daemon, program.pid)
        found = by_function(answer)
        for name, truth in account["functions"].items():
            for key in ("live", "allocations", "bytes"):
                assert found[name][key] == truth[key], (name, key, found[name], truth)
            # Peaks of stacks, which come at different times.
            assert truth["peak"] <= found[name]["peak"] <= truth["bytes"], (name, found[name], truth)
            # What was in use when memory of the first device was refused, though some was given back since.
            assert found[name]["then"] == account["then"].get(name, 0), (name, found[name], account["then"])
        assert [d["device"] for d in answer["devices"]] == ["CUDA 0", "CUDA 1"], answer["devices"]
        seen = sum(truth["live"] for truth in account["functions"].values())
        before = 0
        for device, truth in zip(answer["devices"], account["devices"]):
            assert device["pid"] == program.pid
            assert device["allocated_bytes"] == truth["allocated"], (device, truth)
            assert device["reserved_bytes"] == truth["reserved"], (device, truth)
            assert device["cached_bytes"] == truth["reserved"] - truth["allocated"], (device, truth)
            assert device["without_stack_bytes"] == device["left_out"] == device["replaced"] == 0, device
            before += device["allocated_before_bytes"]
        assert before == sum(d["allocated"] for d in account["devices"]) - seen, (before, seen, account)
    # Those of before have come back one by one, the second device's first.
    assert before == 2 * BEFORE - 8 * 1000000, before
    refused, none = answer["devices"]
    assert refused["refused"] == 8 and refused["refused_bytes"] == 7000000, refused
    assert refused["refused_allocated_bytes"] > refused["allocated_bytes"], refused
    assert none["refused"] == 0, none
    lines = [line for line in answer["lines"] if line["refused_bytes"]]
    assert len(lines) == 1 and lines[0]["line"].startswith("play_round "), lines
    assert lines[0]["refused_bytes"] == 8 * 7000000, lines
    assert answer["lost"] == answer["skipped"] == answer["hidden"] == 0, answer
    said = daemon.client("memory", "-p", program.pid, "--gpu", "-d", 0.5).stdout
    assert re.search(r"^OUT OF MEMORY 8 times on CUDA 0: the last for 7\.0 MB", said, re.M), said
    assert re.search(r"^most of what was refused was asked for by play_round \(py_gpu_memory", said, re.M), said
    assert re.search(r"^ +\d+\.\d MB were in use then by (keep_|cache_result )", said, re.M), said
    program.end()


def test_a_scripted_sequence():
    """Live bytes of each line, to the byte; several devices, blocks of before, and memory that was refused."""
    check_script(standin())


def test_a_scripted_sequence_on_the_true_libc10():
    """The functions of Debian's PyTorch, called as its allocator for CUDA calls them."""
    check_script(true_libc10())


def test_pytorch_itself():
    """A process that has all of PyTorch loaded, with nothing on a GPU: none of what it does on the CPU counts."""
    true_libc10()
    if run([PYTHON, "-c", "import torch"]).returncode:
        raise Skip("python3-torch is not installed")
    code = (
        "import torch, ctypes, glob, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import torch_standin\n"
        "path = glob.glob('/usr/lib/x86_64-linux-gnu/libc10.so.*')[-1]\n"
        "gpu = torch_standin.Allocator(torch_standin.Library(path), 3)\n"
        "print('ready', flush=True)\n"
        "def keep_one():\n"
        "    gpu.allocate(4096)\n"
        "while sys.stdin.readline():\n"
        "    torch.ones(1000000).sum()\n"
        "    keep_one()\n"
        "    print(gpu.allocated, flush=True)\n"
    )
    target = Target([PYTHON, "-c", code, os.path.join(SOURCE_DIR, "tests", "workloads")], stdin=subprocess.PIPE)
    daemon = Daemon()
    attach(daemon, target.pid)
    for _ in range(10):
        target.process.stdin.write(b"\n")
        target.process.stdin.flush()
        allocated = int(target.process.stdout.readline())
    answer = report(daemon, target.pid)
    [device] = answer["devices"]
    assert device["device"] == "CUDA 3" and device["allocated_bytes"] == allocated == 40960, device
    assert device["allocated_before_bytes"] == 0 and device["allocations"] == 10, device


@timeout(LEAK_S + 120)
def test_a_leak_is_named():
    program, daemon = Program("leak", 1), Daemon()
    first, began = program.ask(), time.monotonic()
    client = look(daemon, program.pid, LEAK_S)
    answer = answer_of(client)
    last, ended = program.ask(), time.monotonic()
    live = [account["functions"]["cache_result"]["live"] for account in (first, last)]
    rate = (live[1] - live[0]) / (ended - began)
    assert answer["verdict"] == "growing", answer
    assert abs(answer["growth_bytes_per_s"] - rate) < 0.1 * rate, (rate, answer)
    assert answer["line"].startswith("cache_result (py_gpu_memory.py:"), answer["line"]
    [line] = [line for line in answer["lines"] if line["line"] == answer["line"]]
    assert abs(line["kept_bytes_per_s"] - rate) < 0.1 * rate, (rate, line)
    assert not any(other["keeps"] for other in answer["lines"] if other is not line), answer["lines"]
    program.end()


def look_at_churn(daemon, programs):
    clients = [look(daemon, program.pid, 12) for program in programs]
    for client in clients:
        answer = answer_of(client)
        assert answer["verdict"] == "not growing" and answer["line"] is None, answer
        assert not any(line["keeps"] for line in answer["lines"]), answer["lines"]
        assert sum(line["allocations"] for line in answer["lines"]) > 10, answer


@timeout(300)
def test_churn_is_not_accused():
    """It allocates as much as a leak, and keeps nothing: in 20 of 20 runs, or in 4 of 4."""
    programs, daemon = [Program("churn", 1 + i) for i in range(10 if LONG else 4)], Daemon()
    for _ in range(2 if LONG else 1):
        look_at_churn(daemon, programs)
    for program in programs:
        program.end()


def test_libraries_that_come_later():
    """In a child that was forked before anybody looked, in one forked later, and in what loads it later."""
    daemon, forked, late = Daemon(), Program("fork", 2), Program("late", 2)
    ids = [attach(daemon, forked.pid), attach(daemon, late.pid)]
    assert len(set(ids)) == 2
    for program in (forked, late):

        def kept(pid=program.pid):
            answer = report(daemon, pid)
            return answer["devices"] and sum(d["allocations"] for d in answer["devices"]) > 10

        time.sleep(4)
        assert kept(), program.pid
        answer = report(daemon, program.pid)
        assert any(line["line"].startswith("cache_result ") for line in answer["lines"]), answer
        [device] = answer["devices"]
        assert (device["pid"] == program.pid) == (program is late), answer
        program.end()


def test_what_cannot_be_watched_is_said():
    """No PyTorch, and one that is too old."""
    plain, daemon = start("split", 600), Daemon()
    old = Program("script", library=os.path.join(workload("torch_old"), "libc10.so"))
    done = run([STAKEOUT, "--socket", daemon.socket, "memory", "-p", plain.pid, "--gpu", "-d", 60])
    assert done.returncode == 1 and "PyTorch is not loaded" in done.stderr, done.stderr
    assert "no CUDA library in it either" in done.stderr, done.stderr
    done = run([STAKEOUT, "--socket", daemon.socket, "memory", "-p", old.pid, "--gpu", "-d", 60])
    assert done.returncode == 1 and "before 1.9" in done.stderr, done.stderr
    target = daemon.request("POST", "/v1/targets", {"pid": plain.pid}, expect=201)["id"]
    answer = daemon.request("GET", f"/v1/targets/{target}/gpu-memory", expect=409)
    assert "without" in answer["error"], answer
    old.end()


def cuda_is_watched(daemon):
    """Whether a target is there that is attached, and whose libraries have probes."""
    answers = [
        daemon.request("GET", f"/v1/targets/{target['id']}/cuda", expect=None)
        for target in daemon.request("GET", "/v1/targets")
        if target["state"] == "sampling"
    ]
    return any(len(answer.get("libraries", ())) >= 2 for answer in answers)


def ask_by_call(*arguments):
    """py_cuda_memory.py's answer by CUDA call, and its truth."""
    daemon, target = Daemon(), python_program("py_cuda_memory.py", "300")
    command = [STAKEOUT, "--socket", daemon.socket, "memory", "-p", target.pid, "--gpu", "-d", 60, *arguments]
    client = spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: cuda_is_watched(daemon), "probes", seconds=40)
    go(target)
    assert target.process.stdout.readline() == b"done\n"
    time.sleep(1)  # the last window of stacks
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    go(target)
    return out, finish(target)


@timeout(120)
def test_memory_by_cuda_call():
    """Without PyTorch: what each call and each line allocated, gave back and has, to the byte."""
    out, truth = ask_by_call("--json")
    answer, true = json.loads(out), truth["memory"]["device"]
    assert answer["by"] == "cuda-call" and "PyTorch is not loaded" in answer["why"] and answer["exact"], answer
    assert answer["allocated_bytes"] == true["allocated_bytes"], (answer, true)
    assert answer["in_use_bytes"] == true["allocated_bytes"] - true["freed_bytes"] == 300 * 3000, (answer, true)
    assert answer["frees_before"] == 0 and not answer["lost"], answer
    calls = {row["call"]: row for row in answer["calls"]}
    assert calls["cudaMalloc"]["calls"] == true["allocations"] == 900, (calls, true)
    assert calls["cudaMalloc"]["allocated_bytes"] == true["allocated_bytes"], (calls, true)
    assert calls["cudaFree"]["calls"] == true["frees"] == 600, (calls, true)
    lines = {row["line"]: row for row in answer["lines"]}
    keeps, gives, churns = (
        lines[line_of("py_cuda_memory.py", function, text)]
        for function, text in (("keeps_half", "byref(first)"), ("keeps_half", "byref(second)"), ("churns", "cudaMalloc"))
    )
    assert (keeps["in_use_bytes"], keeps["allocated_bytes"], keeps["frees"]) == (900000, 900000, 0), keeps
    assert (gives["in_use_bytes"], gives["peak_bytes"], gives["frees"]) == (0, 3000, 300), gives
    assert (churns["in_use_bytes"], churns["allocations"], churns["frees"]) == (0, 300, 300), churns


@timeout(120)
def test_memory_by_cuda_call_in_words():
    out, _ = ask_by_call()
    assert re.search(r"^process \d+: PyTorch is not loaded \(no libc10\.so is mapped\)$", out, re.M), out
    assert re.search(r"^by CUDA call, \d+\.\d s: 22\.8 MB allocated, 0\.9 of it in use, by line; ", out, re.M), out
    assert re.search(r"^ +900 +0 +22\.8  cudaMalloc$", out, re.M) and re.search(r"^ +600 +0 +cudaFree$", out, re.M), out
    assert re.search(r"^ +0\.9 +0\.9 +0\.9 +300 +0  keeps_half \(py_cuda_memory\.py:\d+\)$", out, re.M), out


def test_more_than_can_be_looked_at():
    """Totals stay exact beyond the budget; what no stack was taken of is shown as that."""
    program, daemon = Program("fast"), Daemon()
    attach(daemon, program.pid)
    time.sleep(5)
    program.ask()
    answer = report(daemon, program.pid)
    assert answer["skipped"] > answer["stacks"] > 0, answer
    [device] = answer["devices"]
    taken = sum(line["allocations"] for line in answer["lines"] if line["line"] != "[no-stack-taken]")
    [rest] = [line for line in answer["lines"] if line["line"] == "[no-stack-taken]"]
    assert taken == answer["stacks"] and rest["allocations"] == answer["skipped"], (taken, rest, answer)
    assert taken + rest["allocations"] == device["allocations"], (taken, rest, device)
    # When it began one block may have been under way.
    assert device["frees"] - device["allocations"] in (0, 1), device
    assert device["allocated_bytes"] == device["allocated_before_bytes"] == device["replaced"] == 0, device
    assert device["peak_allocated_bytes"] == 1 << 20, device
    assert rest["in_use_bytes"] == 0 and not any(line["in_use_bytes"] for line in answer["lines"]), answer["lines"]
    program.end()


def test_files_and_views():
    program, daemon, where = Program("script"), Daemon(), temporary_dir()
    attach(daemon, program.pid)
    account = program.ask()
    live = sum(truth["live"] for truth in account["functions"].values())
    path = os.path.join(where, "gpu.pb.gz")
    said = daemon.client("memory", "-p", program.pid, "--gpu", "-d", 0.5, "-o", path).stdout
    assert run([STAKEOUT, "memory", "--gpu", path]).stdout == said
    message = Message(path)
    assert sum(sample.values[3] for sample in message.samples) == live
    assert {sample.labels["device"] for sample in message.samples} == {"CUDA 0", "CUDA 1"}
    for name in ("gpu.folded", "gpu.html"):
        done = run([STAKEOUT, "memory", "--gpu", path, "-o", os.path.join(where, name)])
        assert done.returncode == 0, done.stderr
    with open(os.path.join(where, "gpu.folded"), encoding="utf-8") as f:
        assert sum(parse_folded(f.read()).values()) == live
    done = run([STAKEOUT, "memory", path])
    assert done.returncode == 1 and "--gpu" in done.stderr, done.stderr
    go = run([need_tool("go"), "tool", "pprof", "-top", "-inuse_space", "-unit=B", "-nodefraction=0", path])
    assert go.returncode == 0, go.stderr
    assert re.search(rf"of {live}B total", go.stdout), go.stdout
    program.end()


def test_a_process_that_ends_meanwhile():
    """What it had in use at its end is what is asked for after it ran out of memory."""
    program, daemon = Program("leak", 2), Daemon()
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "memory", "-p", program.pid, "--gpu", "-d", 60],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: daemon.request("GET", "/v1/targets"), "it to be watched")
    time.sleep(5)
    program.end()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    assert "the process has ended: what it had in use then\n" in out, out
    assert re.search(r"^ +\d+\.\d +\d+\.\d +\d+ +\d+\.\d  cache_result ", out, re.M), out


def check_end(first):
    """Somebody else has the process sampled already, and watches its memory or does not."""
    program, daemon = Program("script"), Daemon()
    daemon.request("POST", "/v1/targets", {"pid": program.pid, "rate_hz": 19, "gpu_memory": first}, expect=201)
    client, path = look(daemon, program.pid, 60), os.path.join(temporary_dir(), "gpu.pb.gz")

    def has_probes():
        if len(daemon.request("GET", "/v1/targets")) < 2:
            return False
        with open(path, "wb") as f:
            f.write(daemon.request("GET", "/v1/targets/2/gpu-memory"))
        return Message(path).comments["gpu.linked"] == "1"

    wait_until(has_probes, "the probes of the second recording")
    for _ in range(3):
        account = program.ask()
    # The client says after two seconds that nothing can be seen, if that is so; and stacks are read four times a second.
    time.sleep(4)
    program.end()
    answer = answer_of(client)
    assert answer["ended"] is True, answer
    found = by_function(answer)
    for name, truth in account["functions"].items():
        assert name in found and found[name]["live"] == truth["live"], (name, answer, truth)
    for device, truth in zip(answer["devices"], account["devices"]):
        assert device["allocated_bytes"] == truth["allocated"], (device, truth)


@timeout(120)
def test_the_end_of_a_process_that_others_watch():
    """What it had in use then is there for a second recording of it as well."""
    check_end(False)
    check_end(True)


def comments_of(daemon, target):
    """What GET /v1/targets/ID/gpu-memory says beside its samples."""
    path = os.path.join(temporary_dir(), "gpu.pb.gz")
    with open(path, "wb") as f:
        f.write(daemon.request("GET", f"/v1/targets/{target}/gpu-memory"))
    return Message(path).comments


def test_a_program_that_executes_another():
    """What the first one had is in use no more; the second one's totals are its own."""
    daemon, program = Daemon(), Program("exec")
    attach(daemon, program.pid)
    program.ask()
    answer = report(daemon, program.pid)
    assert by_function(answer)["allocate_before_exec"]["live"] == 40 * 1000000, answer
    program.target.process.stdin.write(b"\n")
    program.target.process.stdin.flush()
    assert program.target.process.stdout.readline() == b"ready\n"

    def is_seen():
        program.ask()
        devices = report(daemon, program.pid)["devices"]
        return devices and devices[0]["allocations"] > 20

    wait_until(is_seen, "allocations of the second program", seconds=40)
    account = program.ask()
    answer = report(daemon, program.pid)
    found = by_function(answer)
    assert found["allocate_before_exec"]["live"] == 0, answer
    # It was seen, and so it is among what was allocated.
    assert found["allocate_before_exec"]["allocations"] == 40, answer
    assert sum(found[name]["live"] for name in account["functions"]) > 0, answer
    for device, truth in zip(answer["devices"], account["devices"]):
        assert device["pid"] == program.pid and device["allocated_bytes"] == truth["allocated"], (device, truth)
        assert device["peak_allocated_bytes"] < 40 * 1000000 + truth["allocated"], (device, truth)
    for name, then in account["then"].items():
        assert found[name]["then"] <= then, (name, found[name], account)
    assert found["allocate_before_exec"]["then"] == 0, found
    program.end()


def test_a_worker_with_copies():
    """A forked child that gives back its copies of its parent's blocks has nothing, and the parent all of them."""
    daemon, program = Daemon(), Program("worker")
    target = attach(daemon, program.pid)
    account = program.ask()
    hits = int(comments_of(daemon, target)["gpu.hits"])

    def is_seen():
        program.ask()
        return int(comments_of(daemon, target)["gpu.hits"]) > hits

    wait_until(is_seen, "the child's calls", step=0.5)
    answer = report(daemon, program.pid)
    [device] = answer["devices"]
    assert device["pid"] == program.pid and device["frees"] == 0, device
    assert device["allocated_bytes"] == account["devices"][0]["allocated"] == BEFORE + 40 * 1000000, (device, account)
    assert by_function(answer)["keep_activations"]["live"] == 40 * 1000000, answer
    points = [int(point.split(":")[1]) for point in comments_of(daemon, target)["gpu.series"].split(",")]
    assert max(points) * 1024 < 1.5 * device["allocated_bytes"], points
    program.end()


def test_processes_of_others_are_a_number():
    """A user's program has a child that the user may not look into: neither its lines nor its sums are shown."""
    daemon, program = Daemon("--socket-mode", "0666", "--group", ""), Program("users")
    target = attach(daemon, program.pid)
    path = os.path.join(temporary_dir(), "gpu.pb.gz")

    def seen_by_nobody():
        [(status, text)] = ask_as(daemon, [("GET", f"/v1/targets/{target}/gpu-memory", None)])
        assert status == 200, text
        with open(path, "wb") as f:
            f.write(text.encode("latin-1"))
        return json.loads(run([STAKEOUT, "memory", "--gpu", path, "--json"]).stdout)

    for _ in range(5):
        program.ask()
    wait_until(lambda: len(report(daemon, program.pid)["devices"]) == 2, "the child to be seen")
    program.ask()
    roots = report(daemon, program.pid)
    assert {d["pid"] for d in roots["devices"]} > {program.pid} and roots["hidden_processes"] == 0, roots
    assert by_function(roots)["keep_gradients"]["live"] >= 900 * 1000000, roots
    nobodys = seen_by_nobody()
    assert [d["pid"] for d in nobodys["devices"]] == [program.pid], nobodys
    assert nobodys["hidden_processes"] == 1, nobodys
    assert list(by_function(nobodys)) == ["cache_result"], nobodys
    series = Message(path).comments["gpu.series"].split(",")
    assert series[0] and all(int(point.split(":")[1]) < 100000 for point in series), series
    assert "1 process more has memory on GPUs" in run([STAKEOUT, "memory", "--gpu", path]).stdout
    program.end()


def test_an_incident_is_left():
    """Of a program that catches the error, and of one that ends by it."""
    daemon, where = Daemon("--store", temporary_dir()), temporary_dir()
    programs = [Program("script"), Program("die")]
    for program in programs:
        daemon.client("attach", "-p", program.pid, "--gpu-memory", "--save-on", "oom")
    account = programs[0].ask()
    programs[1].target.process.stdin.write(b"\n")
    programs[1].target.process.stdin.flush()
    incidents = wait_until(
        lambda: len(found := daemon.request("GET", "/v1/incidents")) == 2 and found, "two incidents", step=0.3
    )
    assert {incident["pid"] for incident in incidents} == {program.pid for program in programs}, incidents
    for incident in incidents:
        assert incident["why"] == "PyTorch was out of memory on a GPU", incident
        path = os.path.join(where, f"{incident['id']}.pb.gz")
        daemon.client("incidents", str(incident["id"]), "-o", path)
        answer = json.loads(run([STAKEOUT, "memory", "--gpu", path, "--json"]).stdout)
        found = by_function(answer)
        # Both programs do the same.
        for name, then in account["then"].items():
            assert name in found and found[name]["then"] == then, (incident, name, found, account)
        assert answer["devices"][0]["refused"] == 1, answer["devices"]
    refused = run([STAKEOUT, "--socket", daemon.socket, "attach", "-p", programs[0].pid, "--save-on", "oom"])
    assert refused.returncode == 1 and "gpu_memory" in refused.stderr, refused.stderr
    programs[0].end()


@timeout(90)
def test_a_pause_is_of_one_sort():
    """An incident of another rule, just before, does not cost what is left of memory that was refused."""
    daemon, program = Daemon("--store", temporary_dir()), Program("script")
    rules = "cpu<5%/1s,oom"
    daemon.client("attach", "-p", program.pid, "--gpu-memory", "--timeline", "--save-on", rules, "--save-pause", "600")

    def incidents(n):
        return wait_until(
            lambda: len(found := daemon.request("GET", "/v1/incidents")) >= n and found, f"{n} incidents", seconds=40
        )

    program.ask("spin")
    (first,) = incidents(1)
    assert first["why"].startswith("it used less than 5 %"), first
    account = program.ask()
    first, second = incidents(2)
    assert second["why"] == "PyTorch was out of memory on a GPU" and second["left_out"] == 0, second
    path = os.path.join(temporary_dir(), "gpu.pb.gz")
    daemon.client("incidents", str(second["id"]), "-o", path)
    found = by_function(json.loads(run([STAKEOUT, "memory", "--gpu", path, "--json"]).stdout))
    for name, then in account["then"].items():
        assert found[name]["then"] == then, (name, found[name], account)
    program.end()


def test_rights():
    """A user sees the memory of their own processes alone; few of them at a time."""
    roots, daemon = Program("leak", 1), Daemon("--socket-mode", "0666", "--group", "")
    target = attach(daemon, roots.pid)
    program = shutil.copy(workload("split"), temporary_dir())
    own = [Target([program, "600"], before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/") for _ in range(5)]
    asked = [("POST", "/v1/targets", {"pid": t.pid, "rate_hz": 19, "gpu_memory": True}) for t in own]
    refused, others, *answers = ask_as(
        daemon,
        [
            ("GET", f"/v1/targets/{target}/gpu-memory", None),
            ("POST", "/v1/targets", {"pid": roots.pid, "gpu_memory": True}),
            *asked,
        ],
    )
    assert refused[0] == others[0] == 403, (refused, others)
    assert [status for status, _ in answers] == [201] * 4 + [503], answers
    assert "GPU memory" in json.loads(answers[4][1])["error"], answers[4]
    first = json.loads(answers[0][1])["id"]
    (status, _), (ended, _), (again, _) = ask_as(
        daemon,
        [("GET", f"/v1/targets/{first}/gpu-memory", None), ("POST", f"/v1/targets/{first}/stop", None), asked[4]],
    )
    # One that has ended gives its place to a further one, and what it had seen.
    assert (status, ended, again) == (200, 200, 201)
    [(status, _)] = ask_as(daemon, [("GET", f"/v1/targets/{first}/gpu-memory", None)])
    assert status == 409
    roots.end()


@alone
def test_kill_9_leaves_nothing():
    program, leftovers, daemon = Program("leak", 2), Leftovers(), Daemon()
    attach(daemon, program.pid)
    wait_until(lambda: report(daemon, program.pid)["devices"], "allocations to be seen")
    leftovers.look()
    assert leftovers.brought["link"], "nothing was attached"
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    leftovers.check_gone()
    kept = program.ask()["functions"]["cache_result"]["live"]
    time.sleep(0.5)
    assert program.ask()["functions"]["cache_result"]["live"] > kept
    program.end()


@alone
def test_nothing_is_left_when_nobody_asks():
    """Probes and maps go with the target."""
    program, daemon = Program("leak", 2), Daemon()
    # What is loaded once stays.
    daemon.request("DELETE", f"/v1/targets/{attach(daemon, program.pid)}")
    before = Leftovers().before
    target = attach(daemon, program.pid)
    wait_until(lambda: report(daemon, program.pid)["devices"], "allocations to be seen")
    now = Leftovers().before
    assert len(now["map"] - before["map"]) >= 3, (now, before)
    daemon.request("DELETE", f"/v1/targets/{target}")
    for kind in ("link", "map"):
        wait_until(lambda kind=kind: not Leftovers().before[kind] - before[kind], f"each {kind} to go")
    program.end()
