# SPDX-License-Identifier: GPL-2.0-or-later
"""The interpreter alone: calls, attributes, dictionaries. Runs until it is killed."""


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


def main():
    print("ready", flush=True)
    while True:
        counter = Counter()
        for i in range(1, 5000):
            counter.add(collatz(i))


if __name__ == "__main__":
    main()
