# SPDX-License-Identifier: GPL-2.0-or-later
"""A loader with forked workers, each with a function of its own. Usage: py_workers.py [seconds] [workers]"""
import os
import sys
import time


def burn():
    total = 0
    for i in range(5000):
        total += i
    return total


def worker(number, deadline):
    names = {}
    exec(f"def worker_{number}(burn):\n    return burn()\n", names)
    work = names[f"worker_{number}"]
    while time.monotonic() < deadline:
        work(burn)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            worker(number, deadline)
            os._exit(0)
        children.append(child)
    print("ready", flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
