# SPDX-License-Identifier: GPL-2.0-or-later
"""The side of the trainings: a training does nothing but what tests/gpu/run asks for on standard input, one word a line,
and answers with one line of JSON on standard output. Between two requests it waits for input and makes no CUDA call, so
that whoever attaches meanwhile sees the steps asked for and nothing else.

    steps N        runs N steps: {"step_ns": [of each]}
    profile        torch.profiler begins
    trace PATH     torch.profiler ends and writes its trace: {}
    memory         {"allocated": bytes, "reserved": bytes}, of the current device, as torch.cuda says
    quit
"""
import argparse
import importlib.util
import inspect
import json
import os
import sys
import time

MARK = "stakeout_steps"  # the profiler's range around the steps of one request
WAIT_COMMENT = "# the wait"
WARM_UP_STEPS = 20


class _Answers:
    """Standard output for answers alone; what others print goes to standard error."""

    def __init__(self):
        self.file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def send(self, answer):
        self.file.write(json.dumps(answer) + "\n")
        self.file.flush()


def _why_not(device, need_compiler):
    """Why this machine cannot run the training, or None."""
    if importlib.util.find_spec("torch") is None:
        return f"{sys.executable} has no PyTorch"
    import torch  # pylint: disable=C0415

    if device == "cuda" and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} of {sys.executable} finds no GPU (torch.cuda.is_available() is False)"
    if need_compiler and (not hasattr(torch, "compile") or importlib.util.find_spec("triton") is None):
        return f"PyTorch {torch.__version__} of {sys.executable} has no torch.compile with Triton"
    return None


def _wait_line(function):
    """FILE:LINE of the line that waits for the GPU, as a frame shows it."""
    lines, first = inspect.getsourcelines(function)
    found = [first + i for i, line in enumerate(lines) if line.rstrip().endswith(WAIT_COMMENT)]
    if len(found) != 1:
        raise RuntimeError(f"one line of {function.__name__} must end in {WAIT_COMMENT!r}")
    return f"{os.path.basename(inspect.getsourcefile(function))}:{found[0]}"


def _profile(device):
    from torch.profiler import ProfilerActivity, profile  # pylint: disable=C0415

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    profiler = profile(activities=activities)
    profiler.start()
    return profiler


def _run(step, n):
    from torch.profiler import record_function  # pylint: disable=C0415

    step_ns = []
    with record_function(MARK):
        for _ in range(n):
            began = time.perf_counter_ns()
            step()
            step_ns.append(time.perf_counter_ns() - began)
    return {"step_ns": step_ns}


def _warm_up(step, device):
    """All that happens once: compilation, graphs, the allocator's memory, the profiler's own preparations."""
    _run(step, WARM_UP_STEPS)
    profiler = _profile(device)
    _run(step, 2)
    profiler.stop()
    _run(step, 2)


def _serve(step, device, answers):
    profiler = None
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "steps":
            answers.send(_run(step, int(argument)))
        elif word == "profile":
            profiler = _profile(device)
            answers.send({})
        elif word == "trace":
            profiler.stop()
            profiler.export_chrome_trace(argument)
            answers.send({})
        elif word == "memory":
            import torch  # pylint: disable=C0415

            answers.send({"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()})
        elif word == "quit":
            break
        else:
            raise RuntimeError(f"not a request: {line!r}")


def main(make, need_compiler=False, only_cuda=False):
    """make(device) prepares the training and returns (its step, the function with the line that waits)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    device = parser.parse_args().device
    answers = _Answers()
    reason = _why_not(device, need_compiler)
    if not reason and only_cuda and device != "cuda":
        reason = "needs a GPU"
    if reason:
        answers.send({"skip": reason})
        return
    import torch  # pylint: disable=C0415

    torch.manual_seed(1)
    step, waits = make(torch.device(device))
    _warm_up(step, device)
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    answers.send({"pid": os.getpid(), "torch": torch.__version__, "gpu": gpu, "wait": _wait_line(waits)})
    _serve(step, device, answers)
