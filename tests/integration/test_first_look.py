# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of known truth: the first line of the summary names the line in which most of the time goes."""
import contextlib
import json
import os
import pty
import re
import subprocess

from harness import (
    PYTHON,
    SOURCE_DIR,
    STAKEOUT,
    Target,
    long,
    need_bpf,
    need_module,
    run,
    spawn,
    start,
    temporary_dir,
)

# In each the line with "HOT" takes nearly all of the CPU time, in its own code or in what it calls.
ARITHMETIC = """
import math
def step(n):
    total = 0
    for i in range(n): total += math.sqrt(i) * (i % 7) ** 3 + (i ^ 5)  # HOT
    return total
def rest(n):
    return [str(i) for i in range(n)]
print('ready', flush=True)
while True: step(60000); rest(300)
"""
SORTING = """
import json
data = {str(i): list(range(20)) for i in range(2000)}
def save():
    return json.dumps(data, indent=1)  # HOT
def rest(n):
    return sum(range(n))
print('ready', flush=True)
while True: save(); rest(9999)
"""
NUMPY = """
import numpy
a = numpy.random.default_rng(1).random((200, 200))
def step():
    return numpy.sort(numpy.exp(numpy.sin(a)), axis=0)  # HOT
print('ready', flush=True)
while True: step(); sum(range(999))
"""
TORCH = """
import torch
torch.set_num_threads(1)
a = torch.rand(200, 200)
def step():
    return torch.relu(a @ a).sum()  # HOT
print('ready', flush=True)
while True: step(); sum(range(999))
"""
LOGGING = """
import io, logging
log = logging.getLogger('train')
log.addHandler(logging.StreamHandler(io.StringIO()))
log.setLevel(logging.DEBUG)
def step(n):
    for i in range(n): log.debug('step %d of %d: loss %f', i, n, i / 7)  # HOT
def rest(n):
    return sum(range(n))
print('ready', flush=True)
while True: step(1000); rest(9999)
"""
QUEUE = """
import queue, threading, time
batches = queue.Queue(maxsize=4)
def load():
    while True:
        time.sleep(0.05)
        batches.put(bytes(30000))
threading.Thread(target=load, daemon=True).start()
def train():
    while True:
        batch = batches.get()  # HOT
        sum(i * i for i in range(len(batch)))
print('ready', flush=True)
train()
"""
GIL = """
import threading, time
def hog():
    n = 0
    while True: n = (n * 3 + 1) % 1000003  # HOT
def victim():
    while True:
        sum(range(100))
        time.sleep(0.001)
threading.Thread(target=hog, daemon=True).start()
threading.Thread(target=victim, daemon=True).start()
print('ready', flush=True)
time.sleep(600)
"""
LOADER = """
import multiprocessing, zlib
data = bytes(range(256)) * 4000
def decode(i):
    return len(zlib.compress(data, 9))  # HOT
if __name__ == '__main__':
    with multiprocessing.Pool(3) as pool:
        print('ready', flush=True)
        for _ in pool.imap_unordered(decode, range(10**9)): pass
"""


def hot_line(source):
    return next(i + 1 for i, line in enumerate(source.splitlines()) if "HOT" in line)


def record(target, *options):
    path = os.path.join(temporary_dir(), "first.pb.gz")
    result = run([STAKEOUT, "record", "-q", "-p", target.pid, "-d", "3", "-r", "499", "-o", path, *options])
    assert result.returncode == 0, result.stderr
    return path


def check_verdict(path, place):
    text = run([STAKEOUT, "summary", path]).stdout
    first, sure, look = text.splitlines()[:3]
    match = re.match(rf"largest: .*{re.escape(place)}\)?.*, ([\d.]+) % \[", first)
    assert match and float(match.group(1)) > 60, text
    assert sure.startswith("  how sure: ") and look.startswith("  look at: ") and place in look, text
    own = json.loads(run([STAKEOUT, "summary", path, "--json"]).stdout)["own_lines"]
    assert place in own[0]["name"] and sum(row["self"]["samples"] for row in own) > 0, own[:3]
    assert "_PyEval_EvalFrame" not in text and "[python3" not in text, text
    return text


def program(source):
    path = os.path.join(temporary_dir(), "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    return Target([PYTHON, path])


def look(source, module=None):
    need_bpf()
    if module:
        need_module(module)
    return check_verdict(record(program(source)), f"(program.py:{hot_line(source)})")


def test_python_arithmetic():
    look(ARITHMETIC)


def test_the_library_that_a_line_calls():
    text = look(SORTING)
    assert "(encoder.py)" in text and "observation encoding" not in text, text


def test_numpy():
    look(NUMPY, "numpy")


@long
def test_pytorch():
    look(TORCH, "torch")


def test_logging():
    need_bpf()
    lines = run([STAKEOUT, "summary", record(program(LOGGING))]).stdout.splitlines()
    match = re.match(r"largest: logging, ([\d.]+) % \[", lines[0])
    assert match and float(match.group(1)) > 60, lines[:3]
    assert lines[2].startswith(f"  look at: step (program.py:{hot_line(LOGGING)}) "), lines[:3]


def test_a_wait_for_a_queue():
    need_bpf()
    first, sure, look_at = run([STAKEOUT, "summary", record(program(QUEUE), "--wall")]).stdout.splitlines()[:3]
    place = re.escape(f"train (program.py:{hot_line(QUEUE)})")
    match = re.match(rf"largest: lock in {place}, ([\d.]+) % \[.*\] of the time of python3.*, the busiest thread", first)
    assert match and float(match.group(1)) > 60, first
    assert re.match(r"  how sure: .* \d+ looks", sure), sure
    assert re.search(rf"look at: {place} [\d.]+ %; meanwhile .*: sleep in load \(program.py:\d+\)", look_at), look_at


def test_a_fight_for_the_gil():
    look(GIL)


def test_worker_processes():
    look(LOADER)


def test_cpp():
    need_bpf()
    with open(os.path.join(SOURCE_DIR, "tests/workloads/cpp_lines.cpp"), encoding="utf-8") as file:
        line = next(i + 1 for i, text in enumerate(file) if "LINE cell" in text)
    check_verdict(record(start("cpp_lines", "600")), f"(cpp_lines.cpp:{line} in cpp_lines)")


def on_a_terminal(argv):
    """What a program writes to a terminal that is its standard error; its standard output is a pipe."""
    ours, theirs = pty.openpty()
    process = spawn(argv, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # the end of a terminal's last writer
        while True:
            text += os.read(ours, 4096)
    os.close(ours)
    assert process.wait() == 0, text
    return text.decode()


def test_progress_while_tables_are_read():
    need_bpf()
    target = start("split", 600)
    words = f"reading the tables of process {target.pid}"
    for command in (["record", "-o", os.devnull, "-f", "folded"], ["summary"]):
        argv = [STAKEOUT, *command, "-p", str(target.pid), "-d", "1"]
        text = on_a_terminal(argv)
        assert text.index(words) < text.rindex("\r\x1b[K"), text
        assert words not in run(argv).stderr
    assert words not in on_a_terminal([STAKEOUT, "record", "-q", "-o", os.devnull, "-f", "folded", *argv[2:]])
