# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout memory --gpu of programs without PyTorch: by CUDA call, against the stand-in's own counts."""
import json
import re
import signal
import subprocess
import time

from cuda_targets import finish, go, python_program
from harness import STAKEOUT, Daemon, spawn, timeout, wait_until
from test_cuda import line_of


def cuda_is_watched(daemon):
    """Whether a target is there that is attached, and whose libraries have probes."""
    answers = [
        daemon.request("GET", f"/v1/targets/{target['id']}/cuda", expect=None)
        for target in daemon.request("GET", "/v1/targets")
        if target["state"] == "sampling"
    ]
    return any(len(answer.get("libraries", ())) >= 2 for answer in answers)


def ask_by_call(*arguments):
    """py_cuda_memory.py's answer by CUDA call, and its truth. With a budget for every call, whatever a probe costs here:
    the program does little else than these calls."""
    daemon, target = Daemon(), python_program("py_cuda_memory.py", "300")
    command = [STAKEOUT, "--socket", daemon.socket, "memory", "-p", target.pid, "--gpu", "--budget", 100, "-d", 60, *arguments]
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
