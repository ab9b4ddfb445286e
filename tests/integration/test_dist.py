# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make dist` packs: it runs where nothing else is, and reads NVIDIA's library through its helper."""
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile

import harness
from harness import (
    BUILD_DIR,
    PYTHON,
    SANITIZED,
    SOURCE_DIR,
    Daemon,
    Skip,
    Target,
    children_of,
    comm_of,
    long,
    need_bpf,
    need_namespaces,
    need_tool,
    parse_folded,
    run,
    start,
    start_script,
    temporary_dir,
    timeout,
    uses,
    wait_until,
    workload,
)

BUSY_PYTHON = """
def outer():
    while True:
        inner()
def inner():
    return sum(i * i for i in range(1000))
print("ready", flush=True)
outer()
"""


def make_dist(**variables):
    """Builds the archive, or finds it built; its path."""
    if SANITIZED:
        raise Skip("static programs have no sanitizer")
    build = os.path.relpath(BUILD_DIR, SOURCE_DIR)
    argv = [need_tool("make"), "-C", SOURCE_DIR, f"BUILD={build}", "PACKAGES=no", "SANITIZE=", "dist"]
    result = run([*argv, *(f"{k}={v}" for k, v in variables.items())], seconds=900)
    assert result.returncode == 0, result.stderr[-2000:]
    path, size = re.search(r"^(\S+): (\d+) bytes$", result.stdout, re.MULTILINE).groups()
    path = os.path.join(SOURCE_DIR, path)
    assert os.path.getsize(path) == int(size)
    return path


def unpacked():
    """A directory in which nothing is but what the archive holds, and empty places for the kernel's."""
    root = temporary_dir()
    with tarfile.open(make_dist()) as archive:
        members = archive.getmembers()
        assert len({m.mtime for m in members}) == 1 and {(m.uid, m.gid) for m in members} == {(0, 0)}
        archive.extractall(root)
    (name,) = os.listdir(root)
    for place in ("proc", "sys", "tmp"):
        os.mkdir(os.path.join(root, place))
    return root, name


def alone(root, shared="proc sys"):
    """The beginning of a command line that runs a program of that root, which shares these directories."""
    script = f'for d in {shared}; do mount --rbind /$d "$0/$d" || exit 99; done && exec {need_tool("chroot")} "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", script, root]


@timeout(1200)
@uses("dist")
def test_archive_is_whole():
    root, name = unpacked()
    tree, version = os.path.join(root, name), name.split("-", 1)[1].rsplit("-", 1)[0]
    with open(os.path.join(tree, "SHA256SUMS"), encoding="ascii") as f:
        sums = dict(reversed(line.split()) for line in f)
    found = sorted(os.path.relpath(os.path.join(base, f), tree) for base, _, files in os.walk(tree) for f in files)
    assert sorted([*sums, "SHA256SUMS"]) == found, found
    for path, wanted in sums.items():
        with open(os.path.join(tree, path), "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == wanted, path
    assert {
        "README.md",
        "LICENSE",
        "bin/stakeout",
        "bin/stakeoutd",
        "bin/stakeout-nvml",
        "lib/systemd/system/stakeoutd.service",
        "share/bash-completion/completions/stakeout",
        "share/doc/stakeout/cuda.md",
        "share/doc/stakeout/stakeoutd.conf",
        "share/doc/stakeout/waiting.md",
        "share/man/man1/stakeout-cuda.1",
        "share/man/man1/stakeout-summary.1",
        "share/man/man1/stakeout.1",
        "share/man/man8/stakeoutd.8",
    } < set(found), found
    for program in ("stakeout", "stakeoutd"):
        path = os.path.join(tree, "bin", program)
        headers = run([need_tool("readelf"), "-lW", path]).stdout
        assert "INTERP" not in headers, headers
        said = run(["ldd", path])
        assert re.search("not a dynamic executable|statically linked", said.stdout + said.stderr), said
        said = run([path, "--version"]).stdout
        assert said.startswith(f"{program} {version} (build-id ") and "none" not in said, said
        with open(path, "rb") as f:
            assert SOURCE_DIR.encode() not in f.read(), "the place where it was built is in it"


@timeout(1200)
@uses("dist")
def test_helper_runs_with_old_glibcs():
    """Every symbol is asked for as x86-64's first glibc had it, or one before CentOS 7's 2.17."""
    root, name = unpacked()
    needs = run([need_tool("readelf"), "-VW", os.path.join(root, name, "bin/stakeout-nvml")]).stdout
    versions = {tuple(int(n) for n in v.split(".")) for v in re.findall(r"GLIBC_([0-9.]+)", needs)}
    assert versions and max(versions) <= (2, 17), needs


@long
@timeout(1200)
@uses("dist")
def test_same_sources_same_bytes():
    path = make_dist(VERSION="0.test", SOURCE_DATE_EPOCH=1700000000)
    with open(path, "rb") as f:
        first = f.read()
    for made in glob.glob(os.path.join(BUILD_DIR, "dist/obj/dist/*")):
        os.remove(made)
    with open(make_dist(VERSION="0.test", SOURCE_DATE_EPOCH=1700000000), "rb") as f:
        assert f.read() == first
    os.remove(path)
    shutil.rmtree(path.removesuffix(".tar.gz"))


@timeout(1200)
@uses("dist")
def test_records_where_nothing_is_installed():
    need_bpf()
    need_namespaces()
    root, name = unpacked()
    client = [*alone(root), f"/{name}/bin/stakeout"]
    native = start("split", 600)
    python = Target([PYTHON, "-c", BUSY_PYTHON])
    for target, wanted in ((native, "split_kernel"), (python, "inner (<string>:")):
        result = run([*client, "record", "-p", target.pid, "-d", "2", "-r", "499", "-o", "-", "--stats", "/tmp/stats"])
        assert result.returncode == 0, result.stderr
        stacks = parse_folded(result.stdout)
        named = sum(n for s, n in stacks.items() if any(f.startswith(wanted) for f in s))
        assert named > 0.8 * sum(stacks.values()) > 0, (wanted, result.stdout[:2000])
        assert "complete 100" in result.stderr or "complete 99" in result.stderr, result.stderr
    assert any(f.startswith(("Py", "_Py", "[python3")) for s in stacks for f in s), "no native frames beside Python's"
    result = run([*client, "record", "-p", native.pid, "-d", "1", "-o", "/tmp/a.pb.gz"])
    assert result.returncode == 0, result.stderr
    summary = run([*client, "summary", "/tmp/a.pb.gz"])
    assert "split_kernel" in summary.stdout, summary.stderr


@timeout(1200)
@uses("dist")
def test_the_daemon_where_nothing_is_installed():
    """With its history, over TCP as well; and what NVIDIA's library would say is said to be missing."""
    need_namespaces()
    root, name = unpacked()
    harness.STAKEOUTD = f"/{name}/bin/stakeoutd"
    with open(os.open(os.path.join(root, "token"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
        f.write("0123456789abcdef0123456789abcdef\n")
    options = ["--store", "/store", "--window", "1", "--listen", "127.0.0.1:0", "--token-file", "/token"]
    daemon = Daemon(*options, prefix=alone(root, "proc sys tmp"))  # its socket lies in /tmp
    target, other = start("split", 600), start("split", 600)
    daemon.client("attach", "-p", str(target.pid))
    made = daemon.request("POST", "/v1/targets", {"pid": other.pid, "cuda": True}, expect=201)
    wait_until(
        lambda: any(t["last_ns"] for t in daemon.request("GET", "/v1/history")["targets"] if t["pid"] == target.pid),
        "a window",
        step=0.2,
    )
    # The first window is short, and may have no sample of a target that waits for a CPU.
    wait_until(
        lambda: "split_kernel" in daemon.client("folded", "-p", str(target.pid), "--since", "1h").stdout,
        "samples in the history",
        step=0.5,
    )
    problem = daemon.request("GET", f"/v1/targets/{made['id']}/cuda")["gpu_problem"]
    assert f"/{name}/bin/stakeout-nvml" in problem and "does not start" in problem, problem
    assert os.path.exists(os.path.join(root, "store/history.sqlite"))
    assert daemon.stop() == 0, daemon.log()


def helper_of(daemon):
    found = [p for p in children_of(daemon.process.pid) if comm_of(p) == "stakeout-nvml"]
    return found[0] if found else 0


def gpu_of(daemon, number):
    answer = daemon.request("GET", f"/v1/targets/{number}/cuda")
    assert answer.get("gpu"), answer.get("gpu_problem")
    return answer["gpu"]["devices"][0]


@long
@timeout(1200)
@uses("dist")
def test_gpus_through_the_helper():
    """Figures as by the library itself; a helper that is gone, or hangs, is said, and the daemon goes on."""
    root, name = unpacked()
    folder = os.path.join(workload("cuda"), "plain")
    harness.STAKEOUTD = os.path.join(root, name, "bin/stakeoutd")
    environment = {
        "STAKEOUT_NVML": os.path.join(folder, "libnvidia-ml.so.1"),
        "STAKEOUT_NVML_AGAIN_S": "8",
        "STANDIN_NVML": "gpu=37,mem=12",
    }
    for end, words in ((signal.SIGKILL, "ended"), (signal.SIGSTOP, "does not answer")):
        daemon = Daemon(env=environment)
        target = start_script("py_cuda_launches.py", folder, 500, 3, 1, "stdin", stdin=subprocess.PIPE)
        number = daemon.request("POST", "/v1/targets", {"pid": target.pid, "cuda": True}, expect=201)["id"]
        device = wait_until(lambda: (d := gpu_of(daemon, number))["samples"] >= 2 and d, "samples", step=0.2)
        assert (device["name"], device["utilisation_percent"]) == ("Stand-in GPU", 37), device
        assert device["problem"] is None, device
        helper = helper_of(daemon)
        os.kill(helper, end)
        device = wait_until(lambda: (d := gpu_of(daemon, number))["problem"] and d, "the problem", step=0.2)
        assert words in device["problem"], device
        wait_until(lambda: not helper_of(daemon), "the helper's end")
        daemon.request("GET", "/v1/status")
        if end == signal.SIGSTOP:
            # Another is started, at the earliest eight seconds after the one before: until then the problem stays.
            device = wait_until(lambda: not (d := gpu_of(daemon, number))["problem"] and d, "figures again", step=0.2)
            assert helper_of(daemon) not in (0, helper) and device["utilisation_percent"] == 37, device
        assert daemon.stop() == 0, daemon.log()


@timeout(1200)
@uses("dist")
def test_the_helper_ends_with_a_killed_daemon():
    root, name = unpacked()
    harness.STAKEOUTD = os.path.join(root, name, "bin/stakeoutd")
    library = os.path.join(workload("cuda"), "plain", "libnvidia-ml.so.1")
    daemon = Daemon(env={"STAKEOUT_NVML": library})
    target = start("split", 600)
    daemon.request("POST", "/v1/targets", {"pid": target.pid, "cuda": True}, expect=201)
    helper = wait_until(lambda: helper_of(daemon), "the helper")
    # Nothing of the daemon's is open in it but the socket, and the log.
    links = {int(fd): os.readlink(f"/proc/{helper}/fd/{fd}") for fd in os.listdir(f"/proc/{helper}/fd")}
    assert sorted(links) == [0, 1, 2] and links[0].startswith("socket:") and links[1] == links[2], links
    daemon.process.kill()
    daemon.process.wait()
    wait_until(lambda: comm_of(helper) != "stakeout-nvml" or state(helper) == "Z", "the helper's end")


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        return f.read().rsplit(")", 1)[1].split()[0]
