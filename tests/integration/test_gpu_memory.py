# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout memory --gpu against a program that counts itself, on a stand-in for libc10 and on the true one."""
import glob
import json
import os
import re
import signal
import subprocess
import time

from harness import (
    LONG,
    PYTHON,
    SOURCE_DIR,
    STAKEOUT,
    Daemon,
    Skip,
    Target,
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
from test_safety import Leftovers, bpf_objects, held_by

LEAK_S = 60 if LONG else 12
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


def comments_of(daemon, target):
    """What GET /v1/targets/ID/gpu-memory says beside its samples."""
    path = os.path.join(temporary_dir(), "gpu.pb.gz")
    with open(path, "wb") as f:
        f.write(daemon.request("GET", f"/v1/targets/{target}/gpu-memory"))
    return Message(path).comments


def attach(daemon, pid):
    """A library that is there already has probes then: on a busy machine that may take longer than the answer."""
    target = daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": 19, "gpu_memory": True}, expect=201)["id"]
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        loaded = "libc10" in f.read()
    if loaded:
        wait_until(lambda: comments_of(daemon, target)["gpu.linked"] == "1", "probes")
    return target


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
            done = daemon.client("memory", "-p", pid, "--gpu", "-d", 0.5, "--json", expect=None)
            # Refused as long as there is no library.
            assert done.returncode == 0 or "PyTorch is not loaded" in done.stderr, done.stderr
            answer = json.loads(done.stdout or '{"devices": []}')
            return answer["devices"] and sum(d["allocations"] for d in answer["devices"]) > 10

        wait_until(kept, f"what process {program.pid} allocates", step=0.5)
        answer = report(daemon, program.pid)
        assert any(line["line"].startswith("cache_result ") for line in answer["lines"]), answer
        [device] = answer["devices"]
        assert (device["pid"] == program.pid) == (program is late), answer
        program.end()


def test_what_cannot_be_watched_is_said():
    """No PyTorch, and one that is too old."""
    plain, daemon = start("split", 600), Daemon()
    old = Program("script", library=os.path.join(workload("torch_old"), "libc10.so"))
    clients = [look(daemon, pid, 60) for pid in (plain.pid, old.pid)]
    for client, words in zip(clients, (["PyTorch is not loaded", "no CUDA library in it either"], ["before 1.9"])):
        _, said = client.communicate(timeout=120)
        assert client.returncode == 1 and all(word in said for word in words), said
    target = daemon.request("POST", "/v1/targets", {"pid": plain.pid}, expect=201)["id"]
    answer = daemon.request("GET", f"/v1/targets/{target}/gpu-memory", expect=409)
    assert "without" in answer["error"], answer
    old.end()


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


def test_kill_9_leaves_nothing():
    program, leftovers, daemon = Program("leak", 2), Leftovers(), Daemon()
    attach(daemon, program.pid)
    wait_until(lambda: report(daemon, program.pid)["devices"], "allocations to be seen")
    leftovers.look(daemon.process.pid)
    assert leftovers.brought["link"], "nothing was attached"
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    leftovers.check_gone()
    kept = program.ask()["functions"]["cache_result"]["live"]
    time.sleep(0.5)
    assert program.ask()["functions"]["cache_result"]["live"] > kept
    program.end()


def test_nothing_is_left_when_nobody_asks():
    """Probes and maps go with the target."""
    program, daemon = Program("leak", 2), Daemon()
    # What is loaded once stays.
    daemon.request("DELETE", f"/v1/targets/{attach(daemon, program.pid)}")
    need_tool("bpftool")
    pid = daemon.process.pid
    before = held_by(pid)
    target = attach(daemon, program.pid)
    wait_until(lambda: report(daemon, program.pid)["devices"], "allocations to be seen")
    more = {kind: ids - before[kind] for kind, ids in held_by(pid).items()}
    assert len(more["map"]) >= 3, (more, before)
    daemon.request("DELETE", f"/v1/targets/{target}")

    def gone(kind):
        return held_by(pid)[kind] <= before[kind] and not more[kind] & bpf_objects(kind)

    for kind in ("link", "map"):
        wait_until(lambda kind=kind: gone(kind), f"each {kind} to go")
    program.end()
