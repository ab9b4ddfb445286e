# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that are redefined all the time, each under its own name, while threads come and go.
Usage: py_churn.py [seconds]"""
import sys
import threading
import time

SOURCE = """
def generation_{n}_function():
    total = 0
    for i in range({size}):
        total += i
    return total
"""


def one(n):
    names = {}
    exec(compile(SOURCE.format(n=n, size=400), f"generation_{n}.py", "exec"), names)
    return names[f"generation_{n}_function"]()


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
