# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs that are watched."""
import contextlib
import os
import subprocess

import harness
from tools import Absent

LAST_CPU = max(os.sched_getaffinity(0))
BENCH_DIR = os.path.join(harness.BUILD_DIR, "bench")
FOREVER_S = 3600


def built(name):
    path = os.path.join(BENCH_DIR, name)
    if not os.path.exists(path):
        raise Absent(f"{path} is not built: run make bench")
    return path


@contextlib.contextmanager
def running(argv, cpu=None):
    """A target from its first "ready" to its end."""
    pin = ["taskset", "-c", str(cpu)] if cpu is not None else []
    target = harness.Target([*pin, *argv])
    try:
        yield target.pid
    finally:
        target.process.kill()
        target.process.communicate()


def depth(frames, frame_pointers=False):
    """A busy leaf under so many frames, on one CPU, so that no other process is sampled."""
    return running([built("depth-fp" if frame_pointers else "depth"), frames], LAST_CPU)


def sleeper():
    """Never sampled, where its CPU is."""
    return running([harness.workload("sleeper"), FOREVER_S], LAST_CPU)


def small():
    return running([harness.workload("split"), FOREVER_S])


def has_module(name):
    return not subprocess.run([harness.PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode


def python(script, module=None, cpu=None):
    """A Python program of tests/workloads or, by its path, another."""
    if module and not has_module(module):
        raise Absent(f"{harness.PYTHON} has no module {module}")
    path = script if os.path.isabs(script) else harness.script(script)
    return running([harness.PYTHON, path, FOREVER_S], cpu)


def torch(cpu=None):
    return python("train.py", "torch", cpu)


def varied():
    """What complete stacks are asked of: (name, a function that starts it)."""
    loop = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loop.py")
    return [
        ("C++ without frame pointers", lambda: running([harness.workload("cpp_sim"), FOREVER_S])),
        ("static binary", lambda: running([harness.workload("split-static"), FOREVER_S])),
        ("Python, interpreter only", lambda: python(loop)),
        ("numpy with BLAS", lambda: python("matmul.py", "numpy")),
        ("PyTorch training", torch),
    ]
