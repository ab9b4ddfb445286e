# SPDX-License-Identifier: GPL-2.0-or-later
"""What all users share in the kernel: one user's files and processes leave the others theirs."""
import os
import subprocess

from harness import Daemon, need_tool, start, temporary_dir
from users import MALLORY, start_as

MAP_AND_WAIT = """
import mmap, signal, sys
kept = []
for path in sys.argv[1:]:
    with open(path, "rb") as f:
        kept.append(mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
print("ready", flush=True)
signal.pause()
"""

# Neighbours with other rights are not made one.
MANY_MAPPINGS = """
import mmap, signal
rights = [mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC]
kept = [mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, rights[i % 2]) for i in range(17000)]
print("ready", flush=True)
signal.pause()
"""


def library(name, rules, first=0):
    """A shared library with so many unwind rules that differ, from the first-th on."""
    source, path = os.path.join(temporary_dir(), "rules.s"), os.path.join(temporary_dir(), name)
    with open(source, "w", encoding="ascii") as f:
        f.write(".text\n.globl f\nf:\n.cfi_startproc\n")
        for i in range(first, first + rules):
            f.write(f"nop\n.cfi_def_cfa_offset {16 + 8 * (i % 2000)}\n.cfi_offset rbp, {-16 - 8 * (i // 2000)}\n")
        f.write(".cfi_endproc\n")
    subprocess.run([need_tool("gcc"), "-shared", "-nostdlib", "-o", path, source], check=True)
    os.chown(path, MALLORY, MALLORY)
    return path


def attach(daemon, *paths):
    """A target of Mallory's that has these files mapped."""
    target = start_as(MALLORY, ["/usr/bin/python3", "-c", MAP_AND_WAIT, *paths])
    daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True, "rate_hz": 49}, expect=201)
    return target


def limit(daemon, name):
    return {entry["name"]: entry for entry in daemon.request("GET", "/v1/status")["limits"]}[name]


def check_others(daemon):
    daemon.record(start("deep", 600).pid).check_complete(least=10)
    assert daemon.stop() == 0


def test_rules():
    daemon = Daemon("--no-cache")
    files = [library(f"lib{i}.so", 14000, i * 14000) for i in range(10)]
    attach(daemon, library("large.so", 140000), *files)
    assert limit(daemon, "unwind_rules")["now"] < limit(daemon, "unwind_rules")["limit"] / 2
    check_others(daemon)


def test_mappings():
    daemon = Daemon()
    targets = [start_as(MALLORY, ["/usr/bin/python3", "-c", MANY_MAPPINGS]) for _ in range(6)]
    for target in targets:
        daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True, "rate_hz": 49}, expect=201)
    check_others(daemon)
