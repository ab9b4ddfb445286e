# SPDX-License-Identifier: GPL-2.0-or-later
"""py_spawner.py INTERPRETER N SECONDS: N processes of that interpreter, two at a time, process I busy in function busy_I."""
import subprocess
import sys

CODE = """
import time
def busy_{i}(end):
    while time.perf_counter() < end:
        sum(range(200))
busy_{i}(time.perf_counter() + {seconds})
"""


def main(interpreter, n, seconds):
    running = []
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(n):
        running.append(subprocess.Popen([interpreter, "-S", "-E", "-c", CODE.format(i=i, seconds=seconds)]))
        if len(running) == 2:
            running.pop(0).wait()
    for child in running:
        child.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
