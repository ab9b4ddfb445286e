# SPDX-License-Identifier: GPL-2.0-or-later
"""Distributed jobs and containers as the real launchers start them: torchrun, mpirun, mpiexec, runc or crun, podman."""
import contextlib
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import time

from harness import (
    PYTHON,
    Daemon,
    Skip,
    Target,
    at_exit,
    children_of,
    need_bpf,
    need_module,
    need_tool,
    parse_folded,
    record,
    run,
    spawn,
    temporary_dir,
    timeout,
    wait_until,
)

NOBODY = 65534
# Three processes that import PyTorch from a disk that other programs read as well.
START_S = 200

# Rank 1 has more to do, in a function that rank 0 does not call.
TRAIN = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def only_rank_one(): return sum(i * i for i in range(20000))
def batch(): return torch.tensor([[(i * j) % 7 / 7.0 for i in range(64)] for j in range(16)])
step = 0
while True:
    if dist.get_rank() == 1: only_rank_one()
    loss = model(batch()).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    step += 1
    if step == 3: print("trains", flush=True)
"""

BUSY = """
import sys
def simulate(): return sum(i * i for i in range(20000))
print("runs", flush=True)
while True: simulate()
"""

MPI = """
import sys
from mpi4py import MPI
def simulate(n): return sum(i * i for i in range(n))
print("runs", MPI.COMM_WORLD.Get_rank(), flush=True)
while True:
    simulate(20000)
    MPI.COMM_WORLD.Barrier()
"""

IN_CONTAINER = """
import ctypes
library = ctypes.CDLL("/opt/job/libonly_inside.so")
def python_part(): return sum(i * i for i in range(20000))
def native_part(): return library.spin_inside(ctypes.c_long(1000000))
print("runs", flush=True)
while True:
    python_part()
    native_part()
"""

NATIVE = """
__attribute__((noinline)) long spin_inside(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++) sum += i * i;
    return sum;
}
"""

# Of a job that started this test; its own launchers set what belongs to its processes.
LAUNCHED = re.compile(r"^(RANK$|LOCAL_RANK$|WORLD_SIZE$|MASTER_|OMPI_|PMIX_|PMI_|MPI_LOCAL|SLURM_|GROUP_|ROLE_|TORCHELASTIC_)")


def environment(**more):
    """A launcher that passes its processes' words on keeps them in its buffer otherwise."""
    return {**{k: v for k, v in os.environ.items() if not LAUNCHED.match(k)}, "PYTHONUNBUFFERED": "1", **more}


class Job:
    """A launcher, whose processes' output goes to a file. The script's path is like no other's on the machine."""

    def __init__(self, script, launcher, **options):
        self.dir = temporary_dir()
        self.script = os.path.join(self.dir, "job.py")
        self.log_path = os.path.join(self.dir, "log")
        self.launcher, self.options = launcher, options
        with open(self.script, "w", encoding="ascii") as f:
            f.write(script)
        self.process = None

    def start(self, word, times=2):
        """Waits until its processes have said the word so many times."""
        argv = [part.format(dir=self.dir, script=self.script) for part in self.launcher]
        with open(self.log_path, "wb") as log:
            self.process = spawn(argv, stdout=log, stderr=log, **self.options)
        wait_until(lambda: self._said(word, times), f"{times} × '{word}' from {argv}", START_S, step=0.1)
        return self

    def _said(self, word, times):
        said = self.log().count(word)
        assert said >= times or self.process.poll() is None, f"{self.process.args} ended: {self.log()}"
        return said >= times

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def end(self):
        """Asks for it, so that shared memory is given back."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)

    def kill(self):
        """As when the machine runs out of memory: nobody has a chance to say anything."""
        workers = children_of(self.process.pid)
        self.process.kill()
        for pid in workers:
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torchrun(script):
    """The launcher that torchrun is; -r and -t, since its defaults fail in Debian's torch 1.13 with Python 3.11."""
    need_module("torch.distributed.run")
    options = f"--nproc_per_node=2 --master_addr 127.0.0.1 --master_port {free_port()} -r 1 -t 1 --log_dir".split()
    argv = [PYTHON, "-m", "torch.distributed.run", *options, "{dir}/logs", "{script}"]
    return Job(script, argv, env=environment(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))


def targets(daemon):
    return [t for t in daemon.request("GET", "/v1/targets") if t["state"] == "sampling"]


def attached(daemon, pid, seconds=10):
    def look():
        return [t for t in targets(daemon) if t["pid"] == pid]

    return wait_until(look, f"process {pid} among the targets: {daemon.log()}", seconds)[0]


def ranks(rows):
    """Of a summary's rows; a launcher has none."""
    return sorted(row["rank"] for row in rows if row["rank"])


def label_values(path, label):
    """All values of a label in a profile, as go tool pprof tells them."""
    text = run([need_tool("go"), "tool", "pprof", "-tags", path]).stdout
    section = re.search(rf"^ *{label}: Total.*\n((?: +[0-9.].*\n)*)", text, re.MULTILINE)
    return sorted(line.split(": ", 1)[1] for line in section.group(1).splitlines()) if section else []


@timeout(600)
def test_torchrun():
    """The launcher is the target, its ranks are its children; a job killed and started again is watched again."""
    need_bpf()
    job = torchrun(TRAIN)
    daemon = Daemon("--match", f"torch.distributed.run.*{job.script}", "--store", temporary_dir(), "--window", "1")
    job.start("trains")
    launcher = attached(daemon, job.process.pid)
    # A launcher is no rank, though its children are.
    assert launcher["rule"] == 1 and launcher["processes"] == 3 and not launcher["labels"], launcher
    profile = os.path.join(temporary_dir(), "job.pb.gz")
    daemon.client("record", "-p", str(job.process.pid), "-d", "3", "-o", profile)
    shown = json.loads(daemon.client("summary", profile, "--json").stdout)
    assert ranks(shown["processes"]) == ["0", "1"], shown["processes"]
    assert shown["truncated"] is not None and shown["complete"] >= 0.99 * shown["samples"], shown
    text = daemon.client("summary", profile).stdout
    # Among threads, processes, and who held the GIL.
    for rank in "01":
        assert len(re.findall(rf"python3-\d+(?:/\d+)?  rank {rank}\n", text)) >= 3, text
    check_only(daemon, profile)
    check_go(profile)
    check_children(daemon, job)
    first = daemon.request("GET", "/v1/history")["targets"]
    job.kill()
    wait_until(lambda: not targets(daemon), "the target's end")
    job.start("trains")
    assert attached(daemon, job.process.pid)["processes"] == 3
    assert 'stakeout_rule_attached_total{rule="1"} 2' in daemon.request("GET", "/metrics").decode()
    past = daemon.request("GET", "/v1/history")["targets"]
    assert len(first) == 1 and len(past) == 2 and past[0]["end"] == "ended", past
    # What the history kept of the one that was killed has its ranks.
    kept = json.loads(daemon.client("summary", "-p", str(past[0]["pid"]), "--since", "1h", "--json").stdout)
    assert ranks(kept["processes"]) == ["0", "1"], kept["processes"]


def check_only(daemon, profile):
    """One rank's part, in each form that has parts."""
    whole = json.loads(daemon.client("summary", profile, "--json").stdout)
    of_rank = {}
    for rank in "01":
        part = json.loads(daemon.client("summary", profile, "--only", f"rank={rank}", "--json").stdout)
        assert ranks(part["processes"]) == [rank] and part["only"] == [f"rank={rank}"], part["processes"]
        of_rank[rank] = part["samples"]
        assert any("only_rank_one" in f["name"] for f in part["functions"]) == (rank == "1"), part["functions"]
    assert sum(of_rank.values()) + sum(p["samples"] for p in whole["processes"] if not p["rank"]) == whole["samples"]
    text = daemon.client("summary", profile, "--only", "rank=1").stdout
    assert f"of the {of_rank['1']} samples of --only:\n" in text, text
    folded = daemon.client("render", profile, "--only", "rank=0")
    assert sum(parse_folded(folded.stdout).values()) == of_rank["0"] and "left out" in folded.stderr, folded.stderr
    said = daemon.client("render", profile, "--only", "rank=2", expect=1).stderr
    assert "no sample here has it; there are " in said and "0" in said and "1" in said, said


def check_go(profile):
    """Only one rank runs only_rank_one(), and pprof knows which."""
    if not shutil.which("go"):
        return
    assert label_values(profile, "rank") == ["0", "1"], label_values(profile, "rank")
    assert label_values(profile, "world_size") == ["2"], label_values(profile, "world_size")
    tops = {}
    for rank in "01":
        argv = ["go", "tool", "pprof", "-top", "-cum", "-nodecount=5000", f"-tagfocus=rank=^{rank}$", profile]
        tops[rank] = run(argv).stdout
    assert "only_rank_one" in tops["1"] and "only_rank_one" not in tops["0"], tops
    assert "<module>" in tops["0"] and "<unknown>" not in tops["0"], tops["0"]


def check_children(daemon, job):
    """A rank that is watched below its launcher can be looked at all the same, with its own threads."""
    for pid in children_of(job.process.pid):
        seen = daemon.client("dump", "-p", str(pid)).stdout
        assert seen.startswith(f"Process {pid}: ") and f"Thread {pid} (" in seen, seen
        assert f"<module> ({job.script}:" in seen, seen
    said = daemon.client("record", "-p", str(pid), "-d", "1", "-o", "/dev/null", "-f", "folded", expect=1).stderr
    assert f"use process {job.process.pid}" in said, said
    # Not those of any process: init is none of the target's.
    path = f"/v1/targets/{targets(daemon)[0]['id']}/threads?pid="
    assert "none of target" in daemon.request("GET", path + "1", expect=404)["error"]
    daemon.request("GET", path + "x", expect=400)


@timeout(600)
def test_torchrun_without_its_launcher():
    """A rule of the workers' command line makes each rank a target of its own."""
    need_bpf()
    job = torchrun(BUSY)
    daemon = Daemon("--match", f"^{PYTHON} -u {job.script}")
    job.start("runs")
    workers = children_of(job.process.pid)
    entries = {pid: attached(daemon, pid) for pid in workers}
    assert not [t for t in targets(daemon) if t["pid"] == job.process.pid]
    found = [(e["labels"]["rank"], e["labels"]["local_rank"], e["labels"]["world_size"]) for e in entries.values()]
    assert sorted(found) == [("0", "0", "2"), ("1", "1", "2")], found
    listed = daemon.client("list").stdout.splitlines()
    assert " RANK " in listed[0] and len(listed[0]) == len(listed[1]), listed
    metrics = daemon.request("GET", "/metrics").decode()
    for pid, entry in entries.items():
        labels = f'rank="{entry["labels"]["rank"]}",local_rank="{entry["labels"]["local_rank"]}",world_size="2"'
        assert re.search(rf'stakeout_target_info{{id="\d+",pid="{pid}",comm="python3",{labels}', metrics), metrics
        # There is no table of one process.
        wait_until(
            lambda pid=pid, rank=entry["labels"]["rank"]: f" of 1 process, 1 thread, rank {rank}\n"
            in daemon.client("summary", "-p", str(pid)).stdout,
            "a summary that says which rank it is",
        )


def test_mpirun():
    need_bpf()
    mpirun = need_tool("mpirun")
    need_module("mpi4py")
    argv = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", PYTHON, "{script}"]
    job = Job(MPI, argv, env=environment(OMPI_MCA_btl_tcp_if_include="lo", OMPI_MCA_orte_tmpdir_base=temporary_dir()))
    daemon = Daemon("--match", f"mpirun.*{job.script}")
    job.start("runs")
    at_exit(job.end)
    launcher = attached(daemon, job.process.pid)
    assert launcher["comm"] == "mpirun" and launcher["processes"] == 3 and not launcher["labels"], launcher
    recording = daemon.record(job.process.pid, rate=99, duration=3, extra=("-t",)).check_totals()
    assert recording.count("simulate (job.py:4)") > 0, recording.examples("")
    shown = json.loads(daemon.client("summary", "-p", str(job.process.pid), "--json").stdout)
    assert ranks(shown["processes"]) == ["0", "1"], shown["processes"]
    for pid in children_of(job.process.pid):
        assert f"({job.script}:" in daemon.client("dump", "-p", str(pid)).stdout


def test_mpiexec_of_mpich():
    """Hydra, which Intel MPI has as well. What it starts need not be an MPI program."""
    need_bpf()
    job = Job(BUSY, [need_tool("mpiexec.hydra"), "-n", "2", PYTHON, "-u", "{script}"], env=environment())
    daemon = Daemon("--match", f"mpiexec.*{job.script}")
    job.start("runs")
    at_exit(job.end)
    assert not attached(daemon, job.process.pid)["labels"]
    recording = daemon.record(job.process.pid, rate=99, duration=3, extra=("-t",)).check_totals()
    assert recording.count("simulate (job.py:3)") > 0, recording.examples("")
    shown = json.loads(daemon.client("summary", "-p", str(job.process.pid), "--json").stdout)
    assert ranks(shown["processes"]) == ["0", "1"], shown["processes"]


# A parent that gives its rights up, whose child keeps them.
FORK = """
import os
if os.fork():
    os.setuid(65534)
    # As long as it executes root's program the new user may not look into it.
    os.execlp("sh", "sh", "-c", "echo ready; while :; do :; done")
while True: sum(i * i for i in range(1000))
"""


def test_a_child_of_another_user_is_not_shown():
    """The parent's user may see the target, but not every process below it."""
    daemon = Daemon("--socket-mode", "666")
    target = Target([PYTHON, "-c", FORK])
    child = children_of(target.pid)[0]
    daemon.client("attach", "-p", str(target.pid))
    url = f"http://localhost/v1/targets/{attached(daemon, target.pid)['id']}/threads"

    def status(argument, user):
        argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", daemon.socket]
        return run([*argv, url + argument], user=user).stdout

    assert status("", NOBODY) == "200" and status(f"?pid={target.pid}", NOBODY) == "200", daemon.log()
    assert status(f"?pid={child}", NOBODY) == "403" and status(f"?pid={child}", 0) == "200", daemon.log()


# Containers.


ID = "0123456789abcdef" * 4
POD = "3f2a61c4-0d5e-4a1b-9c7d-112233445566"


def job_dir():
    """What is mounted at /opt/job, and is at no such place outside."""
    assert not os.path.exists("/opt/job")
    where = temporary_dir()
    with open(os.path.join(where, "job.py"), "w", encoding="ascii") as f:
        f.write(IN_CONTAINER)
    source = os.path.join(where, "native.c")
    with open(source, "w", encoding="ascii") as f:
        f.write(NATIVE)
    library = os.path.join(where, "libonly_inside.so")
    done = run([need_tool("gcc"), "-O1", "-g", "-shared", "-fPIC", "-o", library, source])
    assert done.returncode == 0, done.stderr
    return where


def root_dir():
    """The root of a container that has the host's /usr, read-only, and nothing else."""
    root = temporary_dir()
    for name in ("usr", "proc", "dev", "sys", "tmp", "etc", "opt"):
        os.mkdir(os.path.join(root, name))
    for name in ("bin", "sbin", "lib", "lib64"):
        if not os.path.islink(f"/{name}"):
            raise Skip("/bin and /lib are no part of /usr here")
        os.symlink(f"usr/{name}", os.path.join(root, name))
    return root


def write_config(runtime, bundle, cgroup):
    made = run([runtime, "spec"], cwd=bundle)
    assert made.returncode == 0, made.stderr
    path = os.path.join(bundle, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    config["process"].update(terminal=False, args=["/usr/bin/python3", "/opt/job/job.py"])
    # A hard limit that is above this process's own cannot be set everywhere.
    config["process"]["rlimits"] = []
    config["root"] = {"path": root_dir(), "readonly": False}
    for source, at in (("/usr", "/usr"), (job_dir(), "/opt/job")):
        config["mounts"].append({"destination": at, "type": "bind", "source": source, "options": ["rbind", "ro"]})
    kinds = [n["type"] for n in config["linux"]["namespaces"]]
    assert "pid" in kinds and "mount" in kinds, kinds
    config["linux"]["cgroupsPath"] = cgroup
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)


def remove_groups(name):
    """The control groups that a runtime made on the way to a container's, and left."""
    for hierarchy in ["/sys/fs/cgroup", *(e.path for e in os.scandir("/sys/fs/cgroup") if e.is_dir())]:
        for where, _, _ in os.walk(os.path.join(hierarchy, name), topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(where)


def end_container(runtime, state, name):
    run([runtime, "--root", state, "delete", "--force", name])


def start_container(runtime, cgroup):
    """The process's number on the host, or None and why it did not start."""
    bundle, state = temporary_dir(), temporary_dir()
    name = f"stakeout-{os.getpid()}-{time.monotonic_ns()}"
    top = cgroup.strip("/").split("/")[0]
    write_config(runtime, bundle, cgroup)
    at_exit(remove_groups, top)
    at_exit(end_container, runtime, state, name)
    log_path, pid_path = os.path.join(bundle, "log"), os.path.join(bundle, "pid")
    with open(log_path, "wb") as log:
        argv = [runtime, "--root", state, "run", "--bundle", bundle, "--pid-file", pid_path, name]
        process = spawn(argv, stdout=log, stderr=log)

    def said():
        with open(log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    wait_until(lambda: "runs\n" in said() or process.poll() is not None, f"{argv} to run")
    if "runs\n" not in said():
        return None, said().strip()

    def number():
        if not os.path.exists(pid_path):
            return None
        with open(pid_path, encoding="ascii") as f:
            return int(f.read() or 0)

    # The runtime writes it when the program runs already.
    return wait_until(number, f"{pid_path}"), None


def start_in_any(cgroup):
    """By the first runtime that works here: crun none where control groups are a mixture of both versions."""
    need_bpf()
    problems = []
    for name in ("crun", "runc"):
        path = shutil.which(name)
        pid, problem = start_container(path, cgroup) if path else (None, "not installed")
        if pid:
            return pid
        problems.append(f"{name}: {problem}")
    raise Skip("; ".join(problems))


def check_names(folded):
    """Names and lines of files that only the container has."""
    inside = [s for s in folded if "native_part (job.py:5)" in s and s[-1] == "spin_inside"]
    python = [s for s in folded if "python_part (job.py:4)" in s]
    assert inside and python, list(folded)[:5]


def check_container(pid, daemon, container):
    """From outside, by the host's number of it."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        inner = re.search(r"^NSpid:\s+(\d+)\s+(\d+)$", f.read(), re.MULTILINE)
    assert inner and inner.group(2) == "1", "it has no PID namespace of its own"
    entry = attached(daemon, pid)
    assert entry["labels"]["container"] == container, entry
    assert f'container="{container}"' in daemon.request("GET", "/metrics").decode()
    listed = daemon.client("list").stdout.splitlines()
    assert " CONTAINER " in listed[0] and f" {container[:12]} " in listed[1], listed
    time.sleep(1.5)
    check_names(parse_folded(daemon.client("folded", "-p", str(pid)).stdout))
    text = daemon.client("summary", "-p", str(pid)).stdout
    assert f" of 1 process, 1 thread, container {container[:12]}\n" in text, text
    seen = daemon.client("dump", "-p", str(pid)).stdout
    assert "(/opt/job/job.py:" in seen and f"Thread {pid} (" in seen, seen


def test_a_container():
    """Attached by its control group, as Docker names it."""
    cgroup = f"/stakeout-test-{os.getpid()}/docker/{ID}"
    pid = start_in_any(cgroup)
    daemon = Daemon("--match", f"cgroup=^{cgroup}$")
    check_container(pid, daemon, ID)
    daemon.stop()
    # With a daemon of its own.
    recording = record(pid, rate=499, duration=2).check_complete(0.99, 50)
    check_names(recording.stacks)
    path = os.path.join(temporary_dir(), "out.pb.gz")
    record(pid, rate=99, duration=1, extra=("-f", "pprof", "-o", path))
    with gzip.open(path) as f:
        assert ID.encode() in f.read()


def test_a_pod():
    """As a kubelet without systemd names its groups."""
    pid = start_in_any(f"/stakeout-test-{os.getpid()}/kubepods/burstable/pod{POD}/{ID}")
    daemon = Daemon("--match", f"cgroup=kubepods.*/pod{POD}/ user=root")
    labels = {"container": ID, "pod": POD}
    wait_until(lambda: attached(daemon, pid)["labels"] == labels, f"its labels in {targets(daemon)}")
    check_container(pid, daemon, ID)


def podman_argv(runtime, where):
    argv = [need_tool("podman"), "--root", f"{where}/root", "--runroot", f"{where}/run", "--tmpdir", f"{where}/tmp"]
    return [*argv, "--cgroup-manager=cgroupfs", "--events-backend=none", f"--runtime={runtime}"]


def end_podman(argv):
    run([*argv, "rm", "--all", "--force", "--time", "0"])


def start_podman(runtime, where, job):
    """A container's id and the host's number of its process; None and why where it did not start."""
    argv = podman_argv(runtime, where)
    # Not more than this process's own, which podman would ask for.
    limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]
    mounts = ["--volume=/usr:/usr:ro", f"--volume={job}:/opt/job:ro"]
    command = ["--rootfs", root_dir(), "/usr/bin/python3", "/opt/job/job.py"]
    made = run([*argv, "run", "--detach", "--network=none", *limits, *mounts, *command])
    if made.returncode:
        return None, made.stderr.strip().splitlines()[-1]
    container = made.stdout.strip()
    asked = run([*argv, "inspect", "--format", "{{.State.Pid}}", container])
    return container, int(asked.stdout)


def test_podman():
    """Each of its containers has another id, which the samples and the target have, too; its monitor is not watched."""
    need_bpf()
    need_tool("podman")
    job, where, problems = job_dir(), temporary_dir(), []
    had_groups = os.path.exists("/sys/fs/cgroup/libpod_parent") or os.path.exists("/sys/fs/cgroup/pids/libpod_parent")
    daemon = Daemon("--match", "cmd=/opt/job/job.py cgroup=libpod-[0-9a-f]{64}")
    if not had_groups:
        at_exit(remove_groups, "libpod_parent")
    for runtime in ("crun", "runc"):
        if not shutil.which(runtime):
            problems.append(f"{runtime}: not installed")
            continue
        at_exit(end_podman, podman_argv(runtime, where))
        container, pid = start_podman(runtime, where, job)
        if container:
            break
        problems.append(f"{runtime}: {pid}")
    else:
        raise Skip("; ".join(problems))
    check_container(pid, daemon, container)
    assert [t["pid"] for t in targets(daemon)] == [pid], targets(daemon)
    end_podman(podman_argv(runtime, where))
    wait_until(lambda: not targets(daemon), "the container's end")
    again, pid = start_podman(runtime, where, job)
    assert again and again != container, pid
    assert attached(daemon, pid)["labels"]["container"] == again
