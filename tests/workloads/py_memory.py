# SPDX-License-Identifier: GPL-2.0-or-later
"""Grows by a known rate, or allocates as much and keeps nothing.

py_memory.py objects|numpy|churn|shared|file|child MB_A_SECOND

Says "ready", then what it has kept, in bytes, whenever it is asked by a line on standard input.
"""
import mmap
import os
import select
import signal
import sys
import tempfile
import time

KEPT = []
kept_bytes = 0


def keep_records(count):
    """Objects as a program that never clears its log would keep them."""
    global kept_bytes  # pylint: disable=global-statement
    for i in range(count):
        record = b"r" * (3000 + i)
        KEPT.append(record)
        kept_bytes += sys.getsizeof(record) + 8


def keep_array(numpy, count):
    global kept_bytes  # pylint: disable=global-statement
    array = numpy.ones(count)
    KEPT.append(array)
    kept_bytes += array.nbytes


def make_and_drop(count):
    return sum(len(b"r" * count) for _ in range(4))


def keep_mapping(count, mapping):
    """Pages of shared memory, or of a file."""
    global kept_bytes  # pylint: disable=global-statement
    for at in range(0, count, 4096):
        assert mapping[at] == 0
    KEPT.append(mapping)
    kept_bytes += count


def map_file(count):
    with tempfile.TemporaryFile() as f:
        f.write(bytes(count))
        f.flush()
        return mmap.mmap(f.fileno(), count, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)


def start_child():
    """What grows is a child, which ends with its parent."""
    parent = os.getpid()
    if os.fork():
        signal.pause()
    while os.getppid() == parent:
        keep_records(100)
        time.sleep(0.3)
    os._exit(0)


def main():
    mode, rate = sys.argv[1], float(sys.argv[2]) * 1e6
    numpy = __import__("numpy") if mode == "numpy" else None
    print("ready", flush=True)
    if mode == "child":
        start_child()
    begin, done, told = time.monotonic(), 0.0, 0
    while True:
        while done < (time.monotonic() - begin) * rate:
            if mode == "objects":
                keep_records(100)
            elif mode == "numpy":
                keep_array(numpy, 20000)
            elif mode == "shared":
                keep_mapping(200000, mmap.mmap(-1, 200000))
            elif mode == "file":
                keep_mapping(200000, map_file(200000))
            else:
                make_and_drop(300000)
                done += 1200000
            done += kept_bytes - told
            told = kept_bytes
        if select.select([sys.stdin], [], [], 0.01)[0]:
            if not sys.stdin.readline():
                return
            print(kept_bytes, flush=True)


main()
