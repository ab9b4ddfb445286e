# SPDX-License-Identifier: GPL-2.0-or-later
"""Mappings that change while a process is sampled: whatever is executed is unwound as what it is at that moment."""
import os
import re
import shutil
import subprocess
import time

from harness import Daemon, long, parse_folded, record, start, temporary_dir, wait_until, workload


def code_made_later(mode):
    """Recorded from a second before the code is made."""
    return record(start("late_code", mode, 600, 1.3).pid, duration=2).check_complete(least=100)


def test_code_mapped_writable_and_executable():
    assert code_made_later("rwx").count("run_one", "call_code", "[jit]") > 50


def test_code_made_writable_and_executable():
    assert code_made_later("mprotect-rwx").count("run_one", "call_code", "[jit]") > 50


def test_code_made_executable():
    assert code_made_later("mprotect-rx").count("run_one", "call_code", "[jit]") > 50


def test_code_that_grows_in_its_mapping():
    """Functions with and without frame pointer, each met by a sample or two before the next one is made."""
    assert code_made_later("growing").count("run_growing", "call_code", "[jit]") > 50


class Reloads:
    """A program that loads libraries in turn where the one before was, from its first load to its end."""

    def __init__(self, paths, loads, ms_a, ms_b):
        self.daemon = Daemon()
        self.target = start("reloader", *paths, loads, ms_a, ms_b, stdin=subprocess.PIPE)
        request = {"pid": self.target.pid, "rate_hz": 999, "keep": True}
        self.id = self.daemon.request("POST", "/v1/targets", request, expect=201)["id"]
        self.target.process.stdin.write(b"\n")
        self.target.process.stdin.flush()

    def check(self):
        """The shares are those of the program's own account; nothing is cut, and nothing ends in the wrong function."""
        out = self.target.finish()
        wait_until(lambda: self.daemon.request("GET", f"/v1/targets/{self.id}")["state"] == "ended", "its end")
        stats = self.daemon.request("GET", f"/v1/targets/{self.id}/stats")
        stacks = parse_folded(self.daemon.client("folded", "-p", str(self.target.pid)).stdout)
        assert sum(stacks.values()) == stats["samples"] == stats["taken"] and not stats["lost"], stats
        # When it ends its memory is gone before it is.
        at_end = stats["truncated"].get("no-user-stack", 0)
        cut = [f"{n} × {';'.join(s)}" for s, n in stacks.items() if any(f.startswith("[truncated") for f in s)]
        assert at_end <= 2 and stats["complete"] + at_end == stats["samples"] > 100, (stats["truncated"], cut)
        found = {}
        for letter in "ab":
            burns = {s: n for s, n in stacks.items() if f"burn_{letter}" in s}
            found[letter] = sum(burns.values())
            for stack in burns:
                assert stack[4:8] == ("main", "run_library", "reloaded_run", f"burn_{letter}"), stack
        match = re.search(r"^a (\d+) b (\d+) moved (\d+)$", out, re.M)
        a, b, moved = (int(n) for n in match.groups())
        n, expected = sum(found.values()), a / (a + b)
        assert abs(found["a"] / n - expected) <= 3.3 * (expected * (1 - expected) / n) ** 0.5, (found, a, b)
        return moved


def libraries():
    return workload("reload_a.so"), workload("reload_b.so")


def test_library_in_the_place_of_another():
    """50 times a second, of equal size: nothing that the kernel counts of a process tells them apart."""
    assert Reloads(libraries(), 120, 6, 14).check() == 0


@long
def test_a_thousand_reloads():
    assert Reloads(libraries(), 1000, 6, 14).check() == 0


def test_600_loads_a_second():
    """A library lasts for a sample or two."""
    Reloads(libraries(), 1200, 0.6, 1.4).check()


def test_library_renamed_to_the_path_of_another():
    """A hot reload: each time it is another file of the same name."""
    where, paths = temporary_dir(), libraries()
    path = os.path.join(where, "plugin.so")
    shutil.copy(paths[0], path)
    reloads = Reloads((path, path), 120, 6, 14)
    # The last one is there for some more loads: what is loaded once, just before the end, may be gone when it is to be read.
    for i in range(1, 7):
        shutil.copy(paths[i % 2], path + ".new")
        os.rename(path + ".new", path)
        time.sleep(0.15)
    reloads.check()
