# SPDX-License-Identifier: GPL-2.0-or-later
"""Generators that C functions resume, so that calls of the interpreter's loop begin and end all the time.
Usage: py_generators.py [seconds]"""
import sys
import time


def count(n):
    i = 0
    while i < n:
        yield i
        i += 1


def nothing(n):
    for _ in range(n):
        yield


class Iterator:
    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 100:
            raise StopIteration
        return self.n


def use():
    sum(count(100))
    list(nothing(100))
    max(x * 2 for x in range(100))
    sum(Iterator())
    for end in (lambda g: g.close(), lambda g: g.throw(ValueError)):
        generator = count(3)
        next(generator)
        try:
            end(generator)
        except ValueError:
            pass


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print("ready", flush=True)
    while time.monotonic() < deadline:
        use()


if __name__ == "__main__":
    main()
