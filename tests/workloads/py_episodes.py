# SPDX-License-Identifier: GPL-2.0-or-later
"""Episodes of a simulator: between two resets some steps, of three lengths in turn. Usage: py_episodes.py EPISODES; begins when
a byte comes on standard input. The last line is JSON: when each step began, in nanoseconds since the first one."""
import json
import sys
import time

LENGTHS = [5, 12, 40]


def compute(seconds):
    end, x = time.thread_time() + seconds, 0  # of CPU time: a share of samples is the same on a busy machine
    while time.thread_time() < end:
        for i in range(200):
            x += i


def reset():
    compute(0.06)


def env_step(begins):
    begins.append(time.monotonic_ns())
    compute(0.005)


def loop(episodes):
    begins = []
    for episode in range(episodes):
        reset()
        for _ in range(LENGTHS[episode % 3]):
            env_step(begins)
    return begins


def main():
    print("ready", flush=True)
    sys.stdin.read(1)
    begins = loop(int(sys.argv[1]))
    print(json.dumps([b - begins[0] for b in begins]))


main()
