# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program loses while something watches it: CPU time of its own for a unit of its work, in pairs of short times
with and without. Throughput tells what else the machine does; CPU time for a unit hardly does."""
import contextlib
import os
import random
import statistics
import struct
import time

import harness
import targets

PART_S = 0.3  # CPU time of one half of a pair
LIMIT_S, LEAST_PAIRS = 600, 5  # on a busy machine there are fewer pairs instead
RESAMPLES = 2000
PATIENCE_S = 300
LAYOUT = struct.Struct("=QQ")  # struct counted


class Counted:
    """A running program that counts itself (counted.h, counted.py)."""

    def __init__(self, pid, path):
        self.pid, self.path = pid, path

    def read(self):
        """(units, CPU time in ns), of the same moment to a round of the program's loop."""
        with open(self.path, "rb") as f:
            return LAYOUT.unpack(f.read(LAYOUT.size))

    def ns_per_unit(self, cpu_s=PART_S):
        first = self.read()
        harness.wait_until(lambda: self.read()[1] - first[1] >= cpu_s * 1e9, "the program's CPU time", PATIENCE_S)
        last = self.read()
        return (last[1] - first[1]) / (last[0] - first[0])


@contextlib.contextmanager
def started(argv):
    """The program, counting in the file that is its last argument, once it has warmed up."""
    path = os.path.join(harness.temporary_dir(), "counted")
    with targets.running([*argv, path]) as pid:
        program = Counted(pid, path)
        harness.wait_until(lambda: program.read()[1], "the first units")
        program.ns_per_unit()
        yield program


def losses(pairs, without, watched):
    """Of each pair, by how many percent a unit cost more. Both are functions that return ns for a unit; which of them
    comes first is random."""
    order, found = random.Random(1), []
    deadline_s = time.monotonic() + LIMIT_S
    while len(found) < min(pairs, LEAST_PAIRS) or (len(found) < pairs and time.monotonic() < deadline_s):
        if order.random() < 0.5:
            plain, under = without(), watched()
        else:
            under, plain = watched(), without()
        found.append(100 * (under / plain - 1))
    return found


def interval(values):
    """The median's 95 % interval, by resampling the pairs."""
    chance = random.Random(2)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def cell(values):
    low, high = interval(values)
    return f"{statistics.median(values):+.1f} [{low:+.1f}, {high:+.1f}]"
