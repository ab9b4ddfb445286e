# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop that waits for batches, and the thread that makes them. Usage: py_feed.py"""
import queue
import random
import threading
import time

batches = queue.Queue(8)


def load():
    while True:
        time.sleep(0.02)
        batches.put([random.random() for _ in range(2000)])


def train():
    while True:
        sum(x * x for x in batches.get())


threading.Thread(target=load, name="loader", daemon=True).start()
train()
