# SPDX-License-Identifier: GPL-2.0-or-later
"""A rank of a job that hangs: all wait for each other, but rank 2 reads what nobody writes. Each has a pool of threads.

Usage: py_hang.py WORKERS|NAME. It forks workers, by multiprocessing, and waits for them; with a name it is rank $RANK.
"""
import multiprocessing
import os
import sys
import threading
import time

POOL = 5


def idle(event):
    event.wait(3600)


def all_reduce():
    time.sleep(3600)


def load_batch():
    reader, _writer = os.pipe()
    os.read(reader, 1)


def step(rank):
    if rank == 2:
        load_batch()
    all_reduce()


def work(rank):
    event = threading.Event()
    for _ in range(POOL):
        threading.Thread(target=idle, args=(event,), daemon=True).start()
    step(rank)


def main():
    if not sys.argv[1].isdigit():
        work(int(os.environ["RANK"]))
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(rank,)) for rank in range(int(sys.argv[1]))]
    for worker in workers:
        worker.start()
    print("ready", flush=True)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
