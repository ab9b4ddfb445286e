# SPDX-License-Identifier: GPL-2.0-or-later
"""One thread computes alone for a second; then six threads want the interpreter's lock for half a second."""
import threading
import time

crowded = threading.Event()


def alone():
    until = time.monotonic() + 1
    while time.monotonic() < until:
        sum(range(1000))


def crowd():
    while True:
        crowded.wait()
        until = time.monotonic() + 0.5
        while time.monotonic() < until and crowded.is_set():
            sum(range(1000))
        while crowded.is_set():
            time.sleep(0.01)


for _ in range(6):
    threading.Thread(target=crowd, daemon=True).start()
print("ready", flush=True)
while True:
    alone()
    crowded.set()
    time.sleep(0.6)
    crowded.clear()
