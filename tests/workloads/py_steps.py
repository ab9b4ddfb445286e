# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop of steps that knows its own times. Usage: py_steps.py STEPS; begins when a byte comes on standard input. The last line is
JSON: when each step began, in nanoseconds since the first one."""
import json
import sys
import time


def compute(seconds):
    end, x = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for i in range(200):
            x += i
    return x


def training_step(begins):
    begins.append(time.monotonic_ns())
    compute(0.004)


def loop(n):
    begins = []
    for _ in range(n):
        training_step(begins)  # a step
    return begins


def main():
    print("ready", flush=True)
    sys.stdin.read(1)
    begins = loop(int(sys.argv[1]))
    print(json.dumps([b - begins[0] for b in begins]))


main()
