#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""make bench-check: what stakeout's own work takes, in counts that do not depend on the machine's speed or load, against
those kept in counts.json: instructions (by valgrind) of reading, sorting and comparing profiles of fixed content, and
of the kernel side's programs as they are compiled. Exit status 0: none grew by more than the limit; 3: one did; 1: the
counts cannot be compared."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

BENCH = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(BENCH), "integration"))
import made_program  # noqa: E402  pylint: disable=C0413

BUILD = os.environ.get("STAKEOUT_BUILD", "build")
BASELINE = os.path.join(BENCH, "counts.json")
LIMIT_PERCENT = 1  # hash tables are keyed at random: the same program differs by some hundredths of a percent


def instructions(*argv):
    """Of one run of the program, in user space."""
    with tempfile.NamedTemporaryFile() as out:
        callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out.name, *argv]
        result = subprocess.run(callgrind, capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode or not found:
        sys.exit(f"bench-check: {' '.join(argv)}: {result.stderr[-400:]}")
    return int(found.group(1))


def make_recordings(where):
    shares = {f"function_{i}": 1 / (i + 3) for i in range(150)}
    paths = [os.path.join(where, name) for name in ("base.pb", "new.pb")]
    for seed, path in enumerate(paths):
        made_program.record(path, made_program.make_program(shares, 0.004), seconds=30, seed=seed)
    return paths


def client_counts():
    client = os.path.join(BUILD, "stakeout")
    with tempfile.TemporaryDirectory() as where:
        base, new = make_recordings(where)
        yield "start of the client", instructions(client, "--version")
        yield "render -f folded", instructions(client, "render", base, "-o", os.path.join(where, "x.folded"))
        yield "render -f html", instructions(client, "render", base, "-o", os.path.join(where, "x.html"))
        yield "summary", instructions(client, "summary", base)
        yield "diff", instructions(client, "diff", base, new)
    yield "categories of a window", instructions(os.path.join(BUILD, "bench", "categories"), "300")


def kernel_counts():
    """Sections that hold programs and functions of the kernel side; an instruction has 8 bytes."""
    folder = os.path.join(BUILD, "bpf")
    for path in sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names):
        if not path.endswith(".bpf.o"):
            continue
        sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
        code = re.findall(r"PROGBITS +\w+ +\w+ +(\w+) +\w+ +AX ", sections)
        yield os.path.relpath(path, BUILD), sum(int(size, 16) for size in code) // 8


def versions():
    """With another compiler or C library counts are others."""
    first = {}
    for name, argv in (("gcc", ["gcc", "--version"]), ("clang", ["clang", "--version"]), ("libc", ["ldd", "--version"])):
        try:
            first[name] = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()[0]
        except OSError:
            first[name] = "none"
    return first


def compare(base, now):
    """Prints a table; the names of what grew by more than the limit."""
    hit = []
    print(f"{'base':>13}  {'new':>13}  change  count")
    for name in [*now, *(name for name in base if name not in now)]:
        before, after = base.get(name), now.get(name)
        change = f"{100 * (after / before - 1):+5.1f} %" if before and after is not None else "new" if after else "gone"
        if before and after and after > before * (1 + LIMIT_PERCENT / 100):
            hit.append(name)
        print(f"{before or '-':>13}  {after or '-':>13}  {change:>7}  {name}")
    return hit


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="keep the counts as the new baseline")
    save = parser.parse_args().save
    now = {"versions": versions(), "counts": {**dict(client_counts()), **dict(kernel_counts())}}
    if save:
        with open(BASELINE, "w", encoding="utf-8") as f:
            json.dump(now, f, indent=1)
            f.write("\n")
        print(f"saved {len(now['counts'])} counts in {os.path.relpath(BASELINE)}")
        return 0
    with open(BASELINE, encoding="utf-8") as f:
        base = json.load(f)
    if base["versions"] != now["versions"]:
        print(f"bench-check: counts of another compiler or C library: {base['versions']}, here {now['versions']}", file=sys.stderr)
        return 1
    hit = compare(base["counts"], now["counts"])
    for name in hit:
        print(f"grew by more than {LIMIT_PERCENT} %: {name}")
    print(f"{len(now['counts'])} counts, {len(hit)} grew by more than {LIMIT_PERCENT} %")
    return 3 if hit else 0


if __name__ == "__main__":
    sys.exit(main())
