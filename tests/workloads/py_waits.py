# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose threads wait in known places, and that measure themselves for how long.

Usage: py_waits.py KIND [argument]. Says "ready", goes on until a line or the end of standard input comes, and then
writes one line of JSON: for each thread its name and what it logged. A log is a list of
[what, begin_ns, end_ns, thread_ns at begin, at end]: CLOCK_MONOTONIC, and the thread's own CPU time; null at the end
of what goes on still."""
import concurrent.futures
import ctypes
import json
import mmap
import multiprocessing
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time

LOGS = {}
STOP = threading.Event()
KEPT = []  # what is not to be closed


class Log:
    """What one thread measures of itself. Not for several threads."""

    def __init__(self, name):
        self.name, self.entries = name, []
        LOGS[threading.get_native_id()] = {"name": name, "pid": os.getpid(), "log": self.entries}

    def __call__(self, what):
        """with log("sleep"): the lines within are measured."""
        self.entries.append([what, 0, None, 0, None])
        return self

    def __enter__(self):
        self.entries[-1][1::2] = time.monotonic_ns(), time.thread_time_ns()

    def __exit__(self, *_):
        self.entries[-1][2::2] = time.monotonic_ns(), time.thread_time_ns()


def spin(seconds):
    """By the thread's own CPU time: that long, whatever else runs."""
    end = time.thread_time_ns() + int(seconds * 1e9)
    while time.thread_time_ns() < end:
        pass


def threads(*functions):
    """Each in a thread that is named after it and has a log."""

    def begin(function, arguments):
        log = Log(function.__name__)
        function(log, *arguments)

    for function, *arguments in functions:
        threading.Thread(target=begin, args=(function, arguments), daemon=True).start()


def sleeper():
    def sleeps_and_runs(log):
        while not STOP.is_set():
            with log("sleep"):
                time.sleep(0.03)
            with log("run"):
                spin(0.02)

    def sleeps_on(log):
        with log("sleep"):
            time.sleep(3600)

    threads((sleeps_and_runs,), (sleeps_on,))


def convoy():
    lock = threading.Lock()

    def queues_up(log):
        while not STOP.is_set():
            with log("lock"):
                lock.acquire()
            with log("sleep"):
                time.sleep(0.01)
            lock.release()

    threads(*[(queues_up,)] * 4)


def consumer():
    items = queue.Queue()

    def produces(log):
        while not STOP.is_set():
            with log("sleep"):
                time.sleep(0.03)
            items.put(1)

    def consumes(log):
        while not STOP.is_set():
            with log("lock"):
                items.get()
            with log("run"):
                spin(0.01)

    threads((produces,), (consumes,))


def fight():
    def fights(log):
        while not STOP.is_set():
            with log("run"):
                spin(0.01)

    threads(*[(fights,)] * 8)


def loads(items, number):
    """A worker of the loader; it sends its log along, piece by piece."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    log = Log(f"loads-{number}")
    while True:
        with log("sleep"):
            time.sleep(0.08)
        with log("run"):
            spin(0.01)
        items.put((threading.get_native_id(), log.name, os.getpid(), log.entries, b"x" * 65536))
        log.entries = []


def loader():
    """As torch's DataLoader: processes that prepare, one thread that takes what they have made."""
    items = multiprocessing.Queue(8)
    for number in range(4):
        multiprocessing.Process(target=loads, args=(items, number), daemon=True).start()

    def trains(log):
        while not STOP.is_set():
            with log("pipe"):
                tid, name, pid, entries, _ = items.get()
            LOGS.setdefault(tid, {"name": name, "pid": pid, "log": []})["log"].extend(entries)
            with log("run"):
                spin(0.005)

    threads((trains,))


def idle():
    def waits_for_nothing(log):
        with log("lock"):
            STOP.wait()

    pool = concurrent.futures.ThreadPoolExecutor(8)
    KEPT.append(pool)
    for future in [pool.submit(time.sleep, 0.05) for _ in range(8)]:
        future.result()
    threads(*[(waits_for_nothing,)] * 200)


def holder():
    """A call of C that keeps the interpreter's lock for 50 ms at a time."""
    usleep = ctypes.PyDLL(None).usleep

    def keeps_the_lock(log):
        while not STOP.is_set():
            with log("hold"):
                usleep(50000)
            time.sleep(0.001)

    def wants_the_lock(log):
        while not STOP.is_set():
            with log("run"):
                spin(0.001)

    threads((keeps_the_lock,), (wants_the_lock,), (wants_the_lock,))


def places():
    """One thread for each thing that one may wait for. What is waited for does not come."""
    pipe, pair = os.pipe(), socket.socketpair()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    child = subprocess.Popen(["sleep", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # pylint: disable=R1732
    KEPT.append(client)

    def reads_a_pipe(log):
        with log("pipe"):
            os.read(pipe[0], 1)

    def reads_a_socket(log):
        with log("io-net"):
            server.recv(1)

    def reads_a_unix_socket(log):
        with log("io-net"):
            pair[0].recv(1)

    def waits_for_a_child(log):
        with log("child"):
            os.waitpid(child.pid, 0)

    def sleeps(log):
        with log("sleep"):
            time.sleep(3600)

    def polls(log):
        with log("poll"):
            select.select([pair[1]], [], [])

    def waits_for_a_signal(log):
        with log("signal"):
            signal.sigwait([signal.SIGUSR1])

    for function in (
        reads_a_pipe,
        reads_a_socket,
        reads_a_unix_socket,
        waits_for_a_child,
        sleeps,
        polls,
        waits_for_a_signal,
    ):
        threads((function,))


def fault():
    """Memory whose pages never come: whoever serves them by userfaultfd(2) does not."""
    libc, pages = ctypes.CDLL(None, use_errno=True), mmap.mmap(-1, 4 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    server = libc.syscall(323, os.O_CLOEXEC)  # userfaultfd
    api = (ctypes.c_uint64 * 3)(0xAA)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    area = (ctypes.c_uint64 * 4)(begin, 4 * 4096, 1)  # UFFDIO_REGISTER_MODE_MISSING
    if server < 0 or libc.ioctl(server, 0xC018AA3F, api) or libc.ioctl(server, 0xC020AA00, area):
        print(f"no userfaultfd: {os.strerror(ctypes.get_errno())}", flush=True)
        sys.exit(0)

    def reads_memory(log):
        time.sleep(0.5)  # the interpreter's lock is held from then on
        with log("page-fault"):
            return pages[4096]

    threads((reads_memory,))


def churn():
    """Threads and processes that come and go, and fork, and execute another program."""

    def lives(log, seconds):
        with log("sleep"):
            time.sleep(seconds)

    def begins_threads(log):
        while not STOP.is_set():
            threads((lives, 0.02), (lives, 0.4))
            with log("sleep"):
                time.sleep(0.1)

    def begins_processes(log):
        while not STOP.is_set():
            with subprocess.Popen(["sleep", "0.3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
                with log("child"):
                    child.wait()

    threads((begins_threads,), (begins_processes,))


def main():
    globals()[sys.argv[1]](*sys.argv[2:])
    print("ready", flush=True)
    sys.stdin.readline()
    STOP.set()
    print(json.dumps(dict(LOGS)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
