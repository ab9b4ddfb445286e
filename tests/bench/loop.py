# SPDX-License-Identifier: GPL-2.0-or-later
"""The interpreter alone: calls, attributes, dictionaries. Runs until it is killed.
Usage: loop.py [seconds [FILE]]; FILE: where it counts portions of its work, a u64."""
import mmap
import sys


class Counter:
    def __init__(self):
        self.seen = {}

    def add(self, key):
        self.seen[key] = self.seen.get(key, 0) + 1


def collatz(n):
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


def progress_of(path):
    if not path:
        return None
    with open(path, "w+b") as f:
        f.truncate(8)
        return memoryview(mmap.mmap(f.fileno(), 8)).cast("Q")


def main():
    progress = progress_of(sys.argv[2] if len(sys.argv) > 2 else None)
    print("ready", flush=True)
    while True:
        counter = Counter()
        for i in range(1, 5000):
            counter.add(collatz(i))
            if progress and not i & 15:
                progress[0] += 1


if __name__ == "__main__":
    main()
