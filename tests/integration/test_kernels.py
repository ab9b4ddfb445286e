# SPDX-License-Identifier: GPL-2.0-or-later
"""Other kernels than the one that runs here: tests/kernels/run.py boots them under qemu's software emulation."""
import os
import subprocess
import sys

from harness import SANITIZED, SOURCE_DIR, Skip, long, timeout, uses


def run_kernel(name, *options):
    if SANITIZED:
        raise Skip("a sanitized build is tested on the running kernel alone")
    script = os.path.join(SOURCE_DIR, "tests", "kernels", "run.py")
    result = subprocess.run([sys.executable, script, name, *options], capture_output=True, text=True, check=False)
    if result.returncode == 77:
        raise Skip((result.stderr.strip() or "?").splitlines()[-1])
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"


@timeout(1800)
@uses("qemu")
def test_oldest_kernel_5_10():
    """The oldest kernel that stakeout promises to run on."""
    run_kernel("5.10")


@long
@timeout(1800)
@uses("qemu")
def test_debian_12_kernel_6_1():
    run_kernel("6.1")


@long
@timeout(1800)
@uses("qemu")
def test_debian_13_kernel_6_12():
    """CUDA probes of a kind of its own, beside the oldest kernel's none, the one before's and the running one's."""
    run_kernel("6.12")


@long
@timeout(1800)
@uses("qemu")
def test_debian_12_system():
    """Control groups, kernel modules and the wall clock, in a machine that may have them changed. Some three minutes: an
    emulated daemon starts slowly, and much of it goes by the clock."""
    run_kernel("6.1-system")
