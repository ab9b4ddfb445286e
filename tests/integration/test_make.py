# SPDX-License-Identifier: GPL-2.0-or-later
"""What make offers beside building: installing, removing again, the demo."""
import os

from harness import (
    BUILD_DIR,
    SANITIZED,
    SOURCE_DIR,
    long,
    need_bpf,
    need_tool,
    parse_folded,
    run,
    start,
    temporary_dir,
    timeout,
    workload,
)


def make(*arguments):
    result = run(
        [
            need_tool("make"),
            "-C",
            SOURCE_DIR,
            f"BUILD={os.path.relpath(BUILD_DIR, SOURCE_DIR)}",
            "PACKAGES=no",
            f"SANITIZE={1 if SANITIZED else ''}",
            *arguments,
        ],
        seconds=100,
    )
    assert result.returncode == 0, f"make {arguments}: {result.stderr[-2000:]}"


def files_below(path):
    return sorted(os.path.relpath(os.path.join(base, f), path) for base, _, files in os.walk(path) for f in files)


def test_install_and_uninstall():
    """What is installed works without the source, and goes again."""
    root = temporary_dir()
    make("install", f"DESTDIR={root}", "PREFIX=/opt/stakeout")
    installed = [
        "bin/stakeout",
        "bin/stakeoutd",
        "lib/systemd/system/stakeoutd.service",
        "share/bash-completion/completions/stakeout",
        "share/man/man1/stakeout-cuda.1",
        "share/man/man1/stakeout-summary.1",
        "share/man/man1/stakeout.1",
        "share/man/man8/stakeoutd.8",
    ]
    assert files_below(os.path.join(root, "opt/stakeout")) == installed, files_below(root)
    with open(os.path.join(root, "opt/stakeout/lib/systemd/system/stakeoutd.service"), encoding="utf-8") as f:
        assert "\nExecStart=/opt/stakeout/bin/stakeoutd\n" in f.read()
    client = os.path.join(root, "opt/stakeout/bin/stakeout")
    assert run([client, "--version"]).stdout.startswith("stakeout ")
    need_bpf()
    result = run([client, "record", "-p", start("split", 600).pid, "-d", "1", "-o", "-"], cwd="/")
    assert result.returncode == 0 and "split_kernel" in result.stdout, result.stderr
    make("uninstall", f"DESTDIR={root}", "PREFIX=/opt/stakeout")
    assert files_below(root) == []


def test_demo():
    need_bpf()
    workload("cpp_sim")
    where = temporary_dir()
    result = run([os.path.join(SOURCE_DIR, "tests", "demo"), BUILD_DIR, "2"], cwd=where)
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"
    with open(os.path.join(where, "demo.folded"), encoding="utf-8") as f:
        stacks = parse_folded(f.read())
    assert any("sim::run_epoch" in stack for stack in stacks), stacks
    assert "sim::run_epoch" in result.stdout, result.stdout


@long
@timeout(200)
def test_examples_of_the_readme():
    """They look as what is printed looks, but for figures and names."""
    need_bpf()
    workload("cpp_sim")
    result = run([os.path.join(SOURCE_DIR, "tests", "examples"), BUILD_DIR], seconds=180)
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"
