# SPDX-License-Identifier: GPL-2.0-or-later
"""The history's room is divided among users: one who fills it loses their own past, and nobody else's."""
import os
import random
import string
import subprocess

from harness import Daemon, Target, need_tool, temporary_dir, timeout, wait_until
from users import ALICE, MALLORY, as_user, program, start_as

FUNCTIONS = 1000
NAME_BYTES = 2000


def program_of_long_names():
    """Its windows are large: many functions in turn, of names that do not get smaller."""
    chance = random.Random(1)
    names = ["f" + "".join(chance.choices(string.ascii_letters + string.digits, k=NAME_BYTES)) for _ in range(FUNCTIONS)]
    source, path = os.path.join(temporary_dir(), "names.c"), os.path.join(temporary_dir(), "names")
    with open(source, "w", encoding="ascii") as f:
        f.write("static volatile unsigned n;\n")
        for name in names:
            f.write(f"__attribute__((noinline)) void {name}(void) {{ for (n = 0; n < 200000; n++) ; }}\n")
        f.write("int main(void) { for (;;) {\n" + "".join(f"{name}();\n" for name in names) + "} }\n")
    subprocess.run([need_tool("gcc"), "-O1", "-o", path, source], check=True)
    return path


def entry_of(daemon, pid):
    found = [t for t in daemon.request("GET", "/v1/history")["targets"] if t["pid"] == pid]
    return found[-1] if found and found[-1]["first_ns"] else None


def attach(daemon, target, rate_hz):
    daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True, "rate_hz": rate_hz}, expect=201)


@timeout(300)
def test_who_fills_the_history():
    store = os.path.join(temporary_dir(), "store")
    daemon = Daemon("--store", store, "--window", "1", "--retain-size", "16M")
    alice = start_as(ALICE, [program("deep"), "600"])
    attach(daemon, alice, 99)
    before = wait_until(
        lambda: (e := entry_of(daemon, alice.pid)) and e["last_ns"] - e["first_ns"] > 2e9 and e, "Alice's history"
    )
    mallory = Target([program_of_long_names()], ready=False, before_exec=as_user(MALLORY), cwd="/")
    attach(daemon, mallory, 2000)
    first = wait_until(lambda: entry_of(daemon, mallory.pid), "Mallory's history")["first_ns"]
    wait_until(lambda: entry_of(daemon, mallory.pid)["first_ns"] > first, "the history to be full", seconds=240, step=1)
    after = entry_of(daemon, alice.pid)
    assert after["first_ns"] == before["first_ns"] and after["samples"] >= before["samples"], (before, after)
    assert daemon.stop() == 0
