# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that run at once, each under a function of its own: worker_0(), worker_1() and so on. They share the code
below those, of which a free-threaded build gives each thread a copy. Prints {TID: name of its function}.
Usage: py_parallel.py [seconds] [threads]"""
import json
import sys
import threading
import time

WORKER = """
def worker_{n}(deadline):
    while time.monotonic() < deadline:
        split()
"""


def unit():
    total = 0
    for i in range(2000):
        total += i
    return total


def split():
    for _ in range(10):
        unit(); unit(); unit(); unit(); unit(); unit()  # the 60 % line
        unit(); unit(); unit()  # the 30 % line
        unit()  # the 10 % line


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    names = {"time": time, "split": split}
    for i in range(n):
        exec(compile(WORKER.format(n=i), f"worker_{i}.py", "exec"), names)
    threads = [threading.Thread(target=names[f"worker_{i}"], args=(deadline,)) for i in range(n)]
    for thread in threads:
        thread.start()
    print(json.dumps({thread.native_id: f"worker_{i}" for i, thread in enumerate(threads)}), flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
