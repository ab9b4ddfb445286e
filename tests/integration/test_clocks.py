# SPDX-License-Identifier: GPL-2.0-or-later
"""The clocks that sampling goes by: targets that keep step with a rate."""
import time

from harness import Skip, quiet, record, start, status_of

RATE_HZ = 99
PERIOD_NS = 1000000000 // RATE_HZ


def run_seconds(pid):
    with open(f"/proc/{pid}/schedstat") as f:
        return int(f.read().split()[0]) / 1e9


def rounds(pid):
    """It sleeps once a round."""
    return int(status_of(pid)["voluntary_ctxt_switches"])


def check_rounds(round_ns, starts=2):
    """
    A clock that keeps step with the rounds sees the same moment of each: all of its samples are in one part, or there are
    none. By chance alone a recording of 8 s is off by 3 % (one standard error).
    """
    taken = expected = first = 0
    target = start("resonant", 600, round_ns)
    for _ in range(starts):
        begin_s, before_s, before = time.monotonic(), run_seconds(target.pid), rounds(target.pid)
        recording = record(target.pid, duration=8, rate=RATE_HZ).check_totals()
        wall_s = time.monotonic() - begin_s
        kept = (rounds(target.pid) - before) * round_ns / 1e9 / wall_s
        if kept < 0.9:
            raise Skip(f"the target kept {kept:.0%} of its rounds only: this machine is too busy")
        share = (run_seconds(target.pid) - before_s) / wall_s
        wants = share * recording.stats["duration_s"] * RATE_HZ
        got = recording.stats["samples"]
        assert abs(got / wants - 1) < 0.15, f"{got} samples where {wants:.0f} were due: rounds of {round_ns} ns"
        taken, expected = taken + got, expected + wants
        first += recording.count("first_part")
    assert abs(taken / expected - 1) < 0.12, f"{taken} samples where {expected:.0f} were due: rounds of {round_ns} ns"
    assert 0.4 < first / taken < 0.6, f"{first} of {taken} samples are in the first half of the work"


@quiet
def test_rounds_of_half_a_period():
    check_rounds(PERIOD_NS // 2)


@quiet
def test_rounds_of_a_period():
    check_rounds(PERIOD_NS)
