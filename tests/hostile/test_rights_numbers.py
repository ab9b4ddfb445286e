# SPDX-License-Identifier: GPL-2.0-or-later
"""Process numbers that mean another process: a daemon in a PID namespace of its own would sample strangers."""
import json
import os

from harness import STAKEOUT, STAKEOUTD, need_bpf, need_namespaces, one_clear_line, run, temporary_dir

NESTED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def test_daemon_in_a_pid_namespace():
    need_bpf()
    need_namespaces()
    path = os.path.join(temporary_dir(), "socket")
    result = run([*NESTED, STAKEOUTD, "--socket", path, "--no-cache"], seconds=10)
    line = one_clear_line(result.stderr)
    assert result.returncode == 1 and "PID namespace" in line and "hostPID" in line, result
    assert not os.path.exists(path)


def test_daemon_with_the_proc_of_another_namespace():
    need_bpf()
    need_namespaces()
    path = os.path.join(temporary_dir(), "socket")
    without_mount = NESTED[:-1]
    result = run([*without_mount, STAKEOUTD, "--socket", path, "--no-cache"], seconds=10)
    assert result.returncode == 1 and "PID namespace" in one_clear_line(result.stderr), result


def test_record_in_a_pid_namespace():
    need_bpf()
    need_namespaces()
    where = temporary_dir()
    shell = f"cd {where}; sleep 60 & exec {STAKEOUT} record -p $! -d 1 -o {where}/out"
    result = run([*NESTED, "sh", "-c", shell], seconds=20)
    assert result.returncode != 0 and "PID namespace" in result.stderr, result
    assert not os.path.exists(f"{where}/out")


def test_check_says_so():
    need_namespaces()
    result = run([*NESTED, STAKEOUTD, "--check-json"])
    [found] = [c for c in json.loads(result.stdout) if "process numbers" in c["name"]]
    assert found["required"] and not found["found"], found
