# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop of long steps in parts, one of them a loop of its own. Usage: py_parts.py STEPS; begins when a byte comes on standard
input. The last line is JSON: when each step began, in nanoseconds since the first one."""
import json
import sys
import time


def compute(seconds):
    end, x = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for i in range(200):
            x += i


def wait_for_batch():
    time.sleep(0.05)


def training_loop(n):
    begins = []
    for step in range(n):
        begins.append(time.monotonic_ns())
        wait_for_batch()  # a step
        compute(0.06)  # the longest part
        for _ in range(4):
            compute(0.012)
            compute(0.012)
        if step % 20 == 7:
            time.sleep(0.3)  # seldom
    return begins


def main():
    print("ready", flush=True)
    sys.stdin.read(1)
    begins = training_loop(int(sys.argv[1]))
    print(json.dumps([b - begins[0] for b in begins]))


main()
