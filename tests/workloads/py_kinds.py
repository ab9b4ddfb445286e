# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames of all kinds: generators, coroutines, methods, closures, recursion, names that are not ASCII.
Usage: py_kinds.py [seconds]"""
import asyncio
import sys
import time


def burn(n=1500):
    total = 0
    for i in range(n):
        total += i * i
    return total


def generator():
    while True:
        yield burn()


def delegating():
    yield from generator()


async def inner_coroutine():
    return burn()


async def coroutine():
    return await inner_coroutine()


class Simulator:
    def step(self):
        return burn()

    @staticmethod
    def reset():
        return burn()


def größe():
    return burn()


def closure():
    def inside():
        return burn()

    return inside


def recurse(depth):
    return burn() if not depth else recurse(depth - 1)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    values, inside = delegating(), closure()
    loop = asyncio.new_event_loop()
    print("ready", flush=True)
    while time.monotonic() < deadline:
        next(values)
        loop.run_until_complete(coroutine())
        Simulator().step()
        Simulator.reset()
        größe()
        inside()
        [burn() for _ in range(1)]
        (lambda: burn())()
        recurse(100)


if __name__ == "__main__":
    main()
