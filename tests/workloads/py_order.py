# SPDX-License-Identifier: GPL-2.0-or-later
"""Python, C, Python, C, Python: sorted() calls a key function, which calls C code that calls back.
Usage: py_order.py [seconds]"""
import ctypes
import sys
import time

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
LIBC = ctypes.CDLL(None)
LIBC.qsort.restype = None


def innermost():
    total = 0
    for i in range(300):
        total += i
    return total


def compare(a, b):
    innermost()
    return a[0] - b[0]


CALLBACK = COMPARE(compare)


def by_key(value):
    numbers = (ctypes.c_int * 8)(*range(8, 0, -1))
    LIBC.qsort(numbers, 8, ctypes.sizeof(ctypes.c_int), CALLBACK)
    return numbers[0] + value


def outer():
    return sorted(range(4), key=by_key)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print("ready", flush=True)
    while time.monotonic() < deadline:
        outer()


if __name__ == "__main__":
    main()
