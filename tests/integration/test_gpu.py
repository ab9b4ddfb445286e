# SPDX-License-Identifier: GPL-2.0-or-later
"""A real GPU with a real training (tests/gpu), where there is one; and the comparison itself, which needs none."""
import os
import subprocess

from harness import PYTHON, SOURCE_DIR, Skip, long, timeout

GPU_DIR = os.path.join(SOURCE_DIR, "tests", "gpu")


@long
def test_the_comparison():
    result = subprocess.run([PYTHON, os.path.join(GPU_DIR, "self_test.py")], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


@long
@timeout(1800)
def test_against_torch_profiler():
    result = subprocess.run([PYTHON, os.path.join(GPU_DIR, "run")], capture_output=True, text=True, check=False)
    lines = result.stdout.strip().splitlines()
    assert result.returncode == 0 and lines, f"{result.stdout}{result.stderr}"
    if " 0 skipped" not in lines[-1]:
        raise Skip(lines[0].removeprefix("skip  "))
