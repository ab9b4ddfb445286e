# SPDX-License-Identifier: GPL-2.0-or-later
"""A thread that goes from one interpreter into another, works there and comes back.
Usage: py_subinterpreters.py [seconds]"""
import sys
import time

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

WORK = """
def innermost():
    total = 0
    for i in range(3000):
        total += i
    return total


def within():
    for _ in range(5000):
        innermost()


within()
"""
ENTER = f"exec(compile({WORK!r}, 'within.py', 'exec'))"


def enter(interpreter):
    interpreters.run_string(interpreter, ENTER)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    interpreter = interpreters.create()
    print("ready", flush=True)
    while time.monotonic() < deadline:
        enter(interpreter)


if __name__ == "__main__":
    main()
