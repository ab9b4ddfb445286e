# SPDX-License-Identifier: GPL-2.0-or-later
"""A training loop in small; with the argument "log" it writes lines each step, with "log SECONDS" from then on."""
import logging
import math
import sys
import time

LOG_FROM = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 0) if len(sys.argv) > 1 else float("inf")


def encode(n):
    return [math.sin(i) * i for i in range(n)]


def simulate(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


def log_step(i, values):
    logging.info("step %d: %s", i, values[:20])


def train_step(i):
    values = encode(2000)
    simulate(4000)
    if time.monotonic() >= LOG_FROM:
        for _ in range(20):
            log_step(i, values)


def main():
    logging.basicConfig(level=logging.INFO, filename="/dev/null")
    i = 0
    while True:
        train_step(i)
        i += 1


main()
