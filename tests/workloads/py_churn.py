# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that are redefined all the time, each under its own name, while threads come and go. Those of even numbers are
called by even(), the others by odd(); one takes the memory that the one before it has left.
Usage: py_churn.py [seconds]"""
import sys
import threading
import time

SOURCE = """
def generation_{n:08}_function():
    total = 0
    for i in range({size}):
        total += i
    return total
"""


def even(function):
    return function()


def odd(function):
    return function()


def one(n):
    names = {}
    exec(compile(SOURCE.format(n=n, size=400), f"generation_{n:08}.py", "exec"), names)
    function = names[f"generation_{n:08}_function"]
    return odd(function) if n % 2 else even(function)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print("ready", flush=True)
    n = 0
    while time.monotonic() < deadline:
        n += 1
        one(n)
        if n % 50 == 0:
            thread = threading.Thread(target=one, args=(n,))
            thread.start()
            thread.join()


if __name__ == "__main__":
    main()
