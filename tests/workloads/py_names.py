# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that the program names: one that works, one that sleeps all the time, one that names itself later, one that is
longer than the kernel's names may be. Prints their names by their numbers, once they run. Usage: py_names.py [seconds]"""
import json
import sys
import threading
import time


def spin():
    return sum(range(20000))


def work(deadline):
    while time.monotonic() < deadline:
        spin()


def asleep(deadline):
    time.sleep(max(deadline - time.monotonic(), 0))


def renamed(deadline):
    threading.current_thread().name = "after"
    work(deadline)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    deadline = time.monotonic() + seconds
    names, started = {}, threading.Barrier(5)

    def begin(function, name):
        names[threading.get_native_id()] = name
        started.wait()
        function(deadline)

    for function, name, last in (
        (work, "loader-3", "loader-3"),
        (asleep, "größe; 12", "größe; 12"),
        (renamed, "before", "after"),
        (work, "a name that is longer than comm", "a name that is longer than comm"),
    ):
        threading.Thread(target=begin, args=(function, last), name=name, daemon=True).start()
    started.wait()
    print(json.dumps(names), flush=True)
    time.sleep(seconds)


if __name__ == "__main__":
    main()
