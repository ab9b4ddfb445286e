# SPDX-License-Identifier: GPL-2.0-or-later
"""What threads of a free-threaded interpreter wait for in place of its lock: collects() has the collector stop the
others, spins() is stopped, copies() works long on a dict at a time, and stores() wants the same one.
Usage: py_free_threads.py [seconds] [pauses|locks]"""
import gc
import sys
import threading
import time

KEPT = [[] for _ in range(400000)]  # what the collector looks at
SHARED = dict.fromkeys(range(1000000))


def collects(deadline):
    while time.monotonic() < deadline:
        gc.collect()


def spins(deadline):
    total = 0
    while time.monotonic() < deadline:
        for i in range(1000):
            total += i


def copies(deadline):
    while time.monotonic() < deadline:
        SHARED.copy()


def stores(deadline):
    while time.monotonic() < deadline:
        SHARED[0] = None


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    kinds = {"pauses": (collects, spins), "locks": (copies, stores)}[sys.argv[2] if len(sys.argv) > 2 else "pauses"]
    gc.disable()
    threads = [threading.Thread(target=f, args=(deadline,), name=f.__name__) for f in kinds]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
