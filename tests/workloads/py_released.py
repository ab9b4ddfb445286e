# SPDX-License-Identifier: GPL-2.0-or-later
"""One thread in a C function that was called without the interpreter's lock, another that works with it.
Usage: py_released.py [seconds]"""
import ctypes
import sys
import threading
import time

LIBC = ctypes.CDLL(None)  # CDLL gives the lock up around each call, PyDLL does not
# A byte at a time: tens of milliseconds a call, many times what a thread waits to get the lock back (5 ms).
FIRST, SECOND = (ctypes.create_string_buffer(b"x" * (48 << 20)) for _ in range(2))


def released(deadline):
    while time.monotonic() < deadline:
        LIBC.strverscmp(FIRST, SECOND)  # the call that releases


def held(deadline):
    total = 0
    while time.monotonic() < deadline:
        for i in range(1000):
            total += i


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    threads = [threading.Thread(target=work, args=(deadline,)) for work in (released, held)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
