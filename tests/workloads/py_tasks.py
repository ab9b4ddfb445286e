#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of asyncio that wait in known places, and what asyncio itself tells of them.

py_tasks.py shapes     tasks of many kinds, two loops; for each line on standard input, JSON of each task as it is now
py_tasks.py many N     N tasks that wait
py_tasks.py switch N   N tasks that take turns as fast as they can; functions of one chain begin with the same letter
py_tasks.py blocked    a coroutine that blocks its loop
py_tasks.py broken K   a list of tasks that the process has damaged: K of DAMAGES
"""
import asyncio
import ctypes
import gc
import json
import sys
import threading
import time

FOREVER_S = 100000
OTHERS = []  # the loop of another thread, and a lock that is held


async def sleeper():
    await asyncio.sleep(FOREVER_S)


async def nested(depth):
    if depth:
        await nested(depth - 1)
    else:
        await sleeper()


async def numbers():
    yield 1
    await asyncio.sleep(FOREVER_S)
    yield 2


async def iterates():
    async for _ in numbers():
        pass


async def sends():
    numbers_ = numbers()
    await anext(numbers_)
    await anext(numbers_, None)


async def takes(queue):
    return await queue.get()


async def locks(lock):
    async with lock:
        pass


class Awaitable:
    def __await__(self):
        yield from sleeper().__await__()


async def awaits_object():
    await Awaitable()


async def awaits_future():
    await asyncio.get_running_loop().create_future()


async def group():
    async with asyncio.TaskGroup() as tasks:
        for i in range(3):
            tasks.create_task(nested(i), name=f"member-{i}")


async def gathers():
    await asyncio.gather(asyncio.create_task(sleeper(), name="gathered-1"), asyncio.create_task(sleeper(), name="gathered-2"))


async def timed():
    async with asyncio.timeout(FOREVER_S):
        await sleeper()


async def eager(name):
    await asyncio.Task(sleeper(), eager_start=True, name=name)


def inner_of(awaitable):
    """What stands for a coroutine leads to it."""
    if hasattr(awaitable, "cr_frame"):
        return awaitable.cr_frame, awaitable.cr_await
    if hasattr(awaitable, "gi_frame"):
        return awaitable.gi_frame, awaitable.gi_yieldfrom
    if hasattr(awaitable, "ag_frame"):
        return awaitable.ag_frame, awaitable.ag_await
    if type(awaitable).__name__ in ("coroutine_wrapper", "async_generator_asend", "anext_awaitable"):
        inner = [o for o in gc.get_referents(awaitable) if any(hasattr(o, a) for a in ("cr_frame", "ag_frame")) or "asend" in type(o).__name__]
        return None, inner[0]
    return None, None


def frames_of(task):
    frames, at = [], task.get_coro()
    while at is not None:
        frame, at = inner_of(at)
        if frame:
            frames.append([frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno])
    return frames


def waiters_of(task, depth=0):
    names = []
    for waiter in getattr(task, "_asyncio_awaited_by", None) or ():
        names += [waiter.get_name()] if isinstance(waiter, asyncio.Task) else waiters_of(waiter, depth + 1)
    return sorted(names)


def told(loops):
    """Of the tasks that wait: the one that asks is not in its place while it does."""
    tasks = [task for loop in loops for task in asyncio.all_tasks(loop) if task.get_name() != "asker"]
    return [{"name": t.get_name(), "frames": frames_of(t), "awaited_by": waiters_of(t)} for t in tasks]


def other_thread(ready):
    async def work():
        OTHERS.append(asyncio.get_running_loop())
        asyncio.create_task(nested(2), name="in another thread")
        await asyncio.sleep(0)
        ready.set()
        await sleeper()

    asyncio.run(work())


async def shapes():
    asyncio.current_task().set_name("asker")
    lock = asyncio.Lock()
    await lock.acquire()
    coroutines = [sleeper(), nested(5), iterates(), sends(), takes(asyncio.Queue()), locks(lock), awaits_object()]
    coroutines += [awaits_future(), group(), gathers(), timed(), eager("begun at once")]
    kept = [asyncio.create_task(c) for c in coroutines]
    kept += [asyncio.create_task(sleeper(), name=name) for name in ("ünïcödé ☃ 𝄞", "x" * 300, "with\nlines", "")]
    ready = threading.Event()
    threading.Thread(target=other_thread, args=(ready,), daemon=True).start()
    for _ in range(20):
        await asyncio.sleep(0)
    ready.wait()
    time.sleep(0.2)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(told([loop, *OTHERS])), flush=True)
    return kept


async def many(n):
    kept = [asyncio.create_task(nested(1)) for _ in range(n)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    print("ready", flush=True)
    await asyncio.gather(*kept)


LETTERS = "abcd"
for letter in LETTERS:
    exec(  # pylint: disable=W0122
        f"""
async def {letter}_inner(): await asyncio.sleep(0)
async def {letter}_middle(): await {letter}_inner()
async def {letter}_outer(): await {letter}_middle()
"""
    )


async def turns():
    while True:
        for one in LETTERS:
            await globals()[one + "_outer"]()


async def switch(n):
    kept = [asyncio.create_task(turns(), name=f"turns-{i}") for i in range(n)]
    print("ready", flush=True)
    await asyncio.gather(*kept)


async def blocked():
    asyncio.current_task().set_name("blocker")
    other = asyncio.create_task(sleeper(), name="other")
    await asyncio.sleep(0)
    print("ready", flush=True)
    time.sleep(FOREVER_S)
    return other


def word(address):
    return ctypes.c_uint64.from_address(address)


def node_of(task, others):
    """Where in a task's object its place in the list is: the first two words in a row that lead into other tasks."""
    size = task.__sizeof__()
    for at in range(16, size - 8, 8):
        ends = [word(id(task) + at + k).value for k in (0, 8)]
        if all(any(0 < end - id(o) < size for o in others) for end in ends):
            return at
    raise LookupError("no list")


DAMAGES = {
    "circle": lambda t, at: word(id(t[2]) + at).__setattr__("value", id(t[1]) + at),
    "wild": lambda t, at: word(id(t[2]) + at).__setattr__("value", 0x7FFFFFFFFFF8),
    "kernel": lambda t, at: word(id(t[2]) + at).__setattr__("value", 0xFFFFFFFF80000000),
    "odd": lambda t, at: word(id(t[2]) + at).__setattr__("value", id(t[1]) + at + 3),
    # All that is in it: the coroutine, the name, who awaits it.
    "names": lambda t, at: [word(id(t[2]) + i).__setattr__("value", id(t[2])) for i in range(64, at, 8)],
    "garbage": lambda t, at: [word(id(t[2]) + i).__setattr__("value", 0x4141414141414140) for i in range(64, at, 8)],
}


async def broken(kind):
    tasks = [asyncio.create_task(sleeper(), name=f"n-{i}") for i in range(6)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    DAMAGES[kind](tasks, node_of(tasks[2], tasks))
    print("ready", flush=True)
    time.sleep(FOREVER_S)


def main():
    what = sys.argv[1]
    numbers_ = [int(argument) if argument.isdigit() else argument for argument in sys.argv[2:]]
    asyncio.run(globals()[what](*numbers_))


if __name__ == "__main__":
    main()
