# SPDX-License-Identifier: GPL-2.0-or-later
"""The section of `make bench` for the daemon's history: a day of four targets, simulated at speed."""
import json
import os
import shutil
import subprocess

import harness
import targets
from tools import Absent

TARGETS, STACKS, CAP_MIB = 4, 600, 1024
PROMISED_MS = 300


def store(report, quick):
    hours = 2 if quick else 24
    report.section(
        "store",
        f"{hours} hours of {TARGETS} targets at 99 Hz, windows of 10 s with {STACKS} stacks, cap {CAP_MIB} MiB",
        "add: writing one window; maintain: merging and deleting, by windows written. MiB: files of the store, the most",
        "at any time of the hour. Ranges: 100 of ten minutes anywhere, one half of them in the last hour; promised:",
        f"{PROMISED_MS} ms.",
    )
    where = harness.temporary_dir()
    if shutil.disk_usage(where).free < 2 * CAP_MIB << 20:
        raise Absent("no room on the disk")
    command = [targets.built("store"), os.path.join(where, "store"), hours, TARGETS, STACKS, CAP_MIB]
    os.mkdir(command[1], 0o700)
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    every_hour = [line for line in lines if "hour" in line]
    shown = [h for h in every_hour if h["hour"] in (1, 2, 6, 12, 18, 24)]
    columns = ["add_ms", "worst_add_ms", "maintain_ms", "worst_maintain_ms", "most_mib", "rss_mib"]
    head = ["hour", "add ms", "worst", "maintain ms", "worst", "MiB", "memory MiB", "windows of 10 s, 1 min, 10 min"]
    report.table(
        head, [[h["hour"], *(float(h[c]) for c in columns), " ".join(map(str, h["windows"]))] for h in shown]
    )
    asked = [line for line in lines if "ten_minutes_of" in line]
    report.table(
        ["ten minutes of", "median ms", "worst ms", "most windows"],
        [[a["ten_minutes_of"], a["median_ms"], a["worst_ms"], a["most_windows"]] for a in asked],
    )
    most, memory = max(h["most_mib"] for h in every_hour), [h["rss_mib"] for h in every_hour]
    report.note(f"most of the disk at any time: {most:.1f} MiB, cap {CAP_MIB} MiB: {verdict(most <= CAP_MIB)}")
    worst = max(a["worst_ms"] for a in asked)
    report.note(f"longest answer: {worst:.0f} ms, promised {PROMISED_MS} ms: {verdict(worst <= PROMISED_MS)}")
    report.note(f"memory at the end of an hour: {min(memory):.1f} to {max(memory):.1f} MiB")


def verdict(kept):
    return "kept" if kept else "NOT KEPT"
