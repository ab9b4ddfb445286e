# SPDX-License-Identifier: GPL-2.0-or-later
"""The section of `make bench` for the categories of /metrics: what sorting a window's samples costs the daemon."""
import subprocess

import targets

STACKS = 600


def categories(report, _quick):
    report.section(
        "categories",
        f"CPU time of reading and sorting windows of {STACKS} stacks of a made-up training process into categories.",
        "In the first window the rules are asked for each function; in later ones for those that are new.",
    )
    result = subprocess.run([targets.built("categories"), str(STACKS)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for line in result.stdout.splitlines():
        report.note(line)
