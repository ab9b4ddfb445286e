# SPDX-License-Identifier: GPL-2.0-or-later
"""A program whose memory on GPUs is known: `py_gpu_memory.py LIBC10 MODE [MB_A_SECOND]`, of the modes script, die,
leak, churn, fast, fork, late, users, exec
and worker.

Says "ready", then for each line on standard input what it has counted by itself, as JSON. `script` does one round of a
scripted sequence for each, or after "spin" nothing but four seconds of work; `die` ends after one. `users` becomes
another user's, and has a child that does not: on each line that allocates 900 MB, and it one MB. `exec` allocates 40 MB on
a line, and executes the `script` on the next. `worker` allocates 40 MB on the first line, and forks; on each further one the
child gives one of its copies back.
"""
import ctypes
import json
import os
import random
import select
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
KB, MB = 1000, 1000000


def load():
    """As a module of an installed package: its lines are not the program's own."""
    names = {"__name__": "torch_standin"}
    with open(os.path.join(FOLDER, "torch_standin.py"), encoding="utf-8") as f:
        exec(compile(f.read(), "/usr/lib/python3/dist-packages/torch_standin.py", "exec"), names)
    return names


class Account:
    """What each function has in use, the most of it, how often it asked, and how many bytes."""

    def __init__(self):
        self.by_function = {}

    def took(self, function, size):
        entry = self.by_function.setdefault(function, {"live": 0, "peak": 0, "allocations": 0, "bytes": 0})
        entry["live"] += size
        entry["allocations"] += 1
        entry["bytes"] += size
        entry["peak"] = max(entry["peak"], entry["live"])

    def gave(self, function, size):
        self.by_function[function]["live"] -= size


ACCOUNT = Account()
KEPT = []


def keep_activations(gpu, size):
    block = gpu.allocate(size)
    ACCOUNT.took("keep_activations", size)
    return "keep_activations", gpu, block, size


def keep_gradients(gpu, size):
    block = gpu.allocate(size)
    ACCOUNT.took("keep_gradients", size)
    return "keep_gradients", gpu, block, size


def cache_result(gpu, size):
    block = gpu.allocate(size)
    ACCOUNT.took("cache_result", size)
    return "cache_result", gpu, block, size


def give_back(entry):
    function, gpu, block, size = entry
    gpu.free(block)
    if function:
        ACCOUNT.gave(function, size)


def play_round(gpus, before, chance):
    """Some 300 calls: blocks come and go on all devices, some from before anybody looked; one is refused."""
    for _ in range(100):
        make = chance.choice((keep_activations, keep_gradients, cache_result))
        KEPT.append(make(chance.choice(gpus), 512 * chance.randrange(1, 4000)))
        if chance.random() < 0.6:
            give_back(KEPT.pop(chance.randrange(len(KEPT))))
    if before:
        give_back(before.pop())
    then = {}
    for function, gpu, _, size in KEPT:
        if gpu is gpus[0]:
            then[function] = then.get(function, 0) + size
    gpus[0].refuse(7 * MB)
    # As a program does that catches the error.
    give_back(KEPT.pop(next(i for i, entry in enumerate(KEPT) if entry[1] is gpus[0])))
    return then


def leak_tensor(gpu):
    KEPT.append(cache_result(gpu, 65536))


def churn(gpu):
    for entry in (keep_activations(gpu, 262144), keep_gradients(gpu, 131072)):
        give_back(entry)


def say(gpus, **more):
    totals = [{"allocated": gpu.allocated, "reserved": gpu.reserved} for gpu in gpus]
    print(json.dumps({"functions": ACCOUNT.by_function, "devices": totals, **more}), flush=True)


def asked(seconds):
    """The line, or None."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return None
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return line


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def fork_one():
    """What allocates is a child that was forked after the library was loaded; it ends with its parent."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        sys.exit(0)


def allocate_of_two_users(gpu):
    to_child, to_parent = os.pipe(), os.pipe()
    if not os.fork():
        os.close(to_child[1])
        while os.read(to_child[0], 1):
            KEPT.append(keep_gradients(gpu, 900 * MB))
            os.write(to_parent[1], b"x")
        os._exit(0)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    # The kernel takes it for a program with rights of its own otherwise (PR_SET_DUMPABLE).
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    print("ready", flush=True)
    while asked(None):
        os.write(to_child[1], b"x")
        os.read(to_parent[0], 1)
        KEPT.append(cache_result(gpu, MB))
        say([gpu])


def allocate_before_exec(gpu, size):
    return gpu.allocate(size)


def execute_another(gpu, path):
    print("ready", flush=True)
    asked(None)
    for _ in range(40):
        allocate_before_exec(gpu, MB)
    say([gpu])
    asked(None)
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), path, "script"])


def fork_a_worker(gpu):
    to_child, to_parent = os.pipe(), os.pipe()
    print("ready", flush=True)
    asked(None)
    KEPT.extend(keep_activations(gpu, MB) for _ in range(40))
    if not os.fork():
        os.close(to_child[1])
        while os.read(to_child[0], 1):
            give_back(KEPT.pop())
            os.write(to_parent[1], b"x")
        os._exit(0)
    say([gpu])
    while asked(None):
        os.write(to_child[1], b"x")
        os.read(to_parent[0], 1)
        say([gpu])


def run_steadily(mode, rate, gpu):
    begin, done = time.monotonic(), 0.0
    while True:
        while done < (time.monotonic() - begin) * rate:
            if mode == "churn":
                churn(gpu)
                done += 393216
            else:
                leak_tensor(gpu)
                churn(gpu)
                done += 65536
        if asked(0.01):
            say([gpu])


def run_fast(library, gpu):
    """As many as the CPU can, until it is asked; then nothing more."""
    while not asked(0):
        library.report_many(20000, 1 << 20)
    say([gpu])
    asked(None)


def main():
    path, mode = sys.argv[1:3]
    rate = float(sys.argv[3]) * 1e6 if len(sys.argv) > 3 else 0
    if mode == "late":
        print("ready", flush=True)
        time.sleep(2)
    names = load()
    library = names["Library"](path)
    if mode == "fork":
        fork_one()
    gpus = [names["Allocator"](library, 0), names["Allocator"](library, 1)]
    before = [(None, gpu, gpu.allocate(MB), MB) for gpu in gpus for _ in range(5)]
    # Other allocators report as well: of the CPU, and of no type that is known.
    for kind in (0, 20):
        other = names["Allocator"](library, 0, kind)
        other.free(other.allocate(KB))
    if mode == "exec":
        execute_another(gpus[0], path)
    if mode == "worker":
        fork_a_worker(gpus[0])
    if mode == "users":
        allocate_of_two_users(gpus[0])
    if mode != "late":
        print("ready", flush=True)
    if mode in ("leak", "churn", "fork", "late"):
        run_steadily(mode, rate, gpus[0])
    if mode == "fast":
        run_fast(library, gpus[0])
    chance = random.Random(7)
    while line := asked(None):
        if line == "spin\n":
            spin(4)
            say(gpus)
            continue
        then = play_round(gpus, before, chance)
        if mode == "die":
            # PyTorch takes longer to end. Names are read while there is a process.
            time.sleep(0.3)
            sys.exit("torch.cuda.OutOfMemoryError")
        say(gpus, then=then)


main()
