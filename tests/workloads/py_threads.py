# SPDX-License-Identifier: GPL-2.0-or-later
"""Two threads of unequal work under the interpreter's lock, one that works without it (zlib), one that sleeps.
Usage: py_threads.py [seconds]"""
import sys
import threading
import time
import zlib


def spin(n):
    total = 0
    for i in range(n):
        total += i
    return total


def heavy(deadline):
    while time.monotonic() < deadline:
        spin(30000)


def light(deadline):
    while time.monotonic() < deadline:
        spin(3000)
        time.sleep(0.002)


def unlocked(deadline):
    data = bytes(range(256)) * 4096
    while time.monotonic() < deadline:
        zlib.crc32(data)
        zlib.compress(data, 1)


def asleep(deadline):
    while time.monotonic() < deadline:
        time.sleep(0.1)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    threads = [threading.Thread(target=f, args=(deadline,)) for f in (heavy, light, unlocked, asleep)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
