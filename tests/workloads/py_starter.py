# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts interpreters one after another; each imports a little, works a moment and ends.
Usage: py_starter.py [seconds] [interpreter] [its arguments ...]"""
import subprocess
import sys
import time

WORK = "import json, re, threading\nfor i in range(20000): json.dumps(i)\n"


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    command = sys.argv[2:] or [sys.executable]
    print("ready", flush=True)
    while time.monotonic() < deadline:
        subprocess.run([*command, "-c", WORK], check=True)


if __name__ == "__main__":
    main()
