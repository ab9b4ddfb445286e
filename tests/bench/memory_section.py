# SPDX-License-Identifier: GPL-2.0-or-later
"""The section of `make bench` for `stakeout memory`: what a program that allocates all the time loses."""
import os

import harness
import sections
import targets
from report import spread

HZ = 19  # as the command samples beside it


class Allocations:
    """A busy loop of malloc() and free(): progress is thousands of them."""

    def __init__(self, name, large):
        self.name, self.large = name, large
        self.file = os.path.join(harness.temporary_dir(), "progress")

    def start(self):
        return targets.running([targets.built("allocate"), self.file, self.large], targets.LAST_CPU)

    def progress(self, _pid):
        with open(self.file, "rb") as f:
            return int.from_bytes(f.read(8), "little")


class Watchers(sections.Watchers):
    def memory(self, pid):
        self.daemon.client("attach", "-p", pid, "-r", self.hz, "--memory")
        return lambda: self.daemon.client("detach", "-p", pid)


def memory(report, quick):
    rounds, seconds = (3, 0.5) if quick else (15, 2)
    report.section(
        "memory",
        f"how much slower a program that allocates runs, %: median [least..most] of {rounds} rounds of {seconds} s",
        "Each window is compared with the mean of the windows without a tool before and after it; 'nothing' is the noise.",
        "Small blocks reuse memory, so that no page is touched first; one block in a thousand of 1 MB is mapped anew.",
    )
    watchers = Watchers(HZ)
    ways = [("nothing", watchers.nothing), ("stakeout", watchers.stakeout), ("stakeout --memory", watchers.memory)]
    rows = []
    for target in (Allocations("small blocks", 0), Allocations("with blocks of 1 MB", 1000000)):
        found, _ = sections.slowdowns(target, ways, rounds, seconds)
        rows += [[target.name, name, spread(found[name], 2)] for name, _ in ways]
    watchers.daemon.stop()
    report.table(["target", "tool", "slower by %"], rows)
