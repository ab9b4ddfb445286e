# SPDX-License-Identifier: GPL-2.0-or-later
"""Work split 60, 30 and 10 % between three lines of one function, by counts. Usage: py_lines.py [seconds]"""
import sys
import time


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
    print("ready", flush=True)
    while time.monotonic() < deadline:
        split()


if __name__ == "__main__":
    main()
