# SPDX-License-Identifier: GPL-2.0-or-later
"""Targets by rule, and labels: restarted jobs, execs, restarted daemons, whose processes a user's rule takes, ranks."""
import gzip
import json
import os
import signal
import subprocess
import time

from harness import (
    PATIENCE_S,
    PYTHON,
    STAKEOUT,
    STAKEOUTD,
    Daemon,
    Target,
    one_clear_line,
    quiet,
    record,
    run,
    script,
    spawn,
    temporary_dir,
    wait_until,
    workload,
)

NOBODY = 65534
BUSY = "print('ready', flush=True)\nwhile True: sum(i * i for i in range(1000))"
PICK_UP_S = 2.5  # two seconds, and the attachment itself, on a quiet machine


def word():
    """A word that no other process of the machine has in its command line."""
    word.last += 1
    return f"job-{os.getpid()}-{word.last}-{time.monotonic_ns()}"


word.last = 0


def job(name, program=BUSY, **options):
    return Target([PYTHON, "-c", program, name], **options)


def targets(daemon, pid):
    return [t for t in daemon.request("GET", "/v1/targets") if t["pid"] == pid and t["state"] == "sampling"]


def attached(daemon, pid, seconds=PATIENCE_S):
    return wait_until(lambda: targets(daemon, pid), f"process {pid} among the targets", seconds)[0]


def not_attached(daemon, pid, seconds=2.5):
    """Not during so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not targets(daemon, pid), daemon.log()
        time.sleep(0.1)


def rules(daemon):
    return {rule["match"]: rule for rule in daemon.request("GET", "/v1/rules")}


def test_a_restarted_job_is_picked_up():
    name = word()
    daemon = Daemon("--match", f"python.*{name}")
    for _ in range(3):
        target = job(name)
        entry = attached(daemon, target.pid)
        assert entry["keep"] and entry["children"] and entry["rule"] == 1 and entry["rate_hz"] == 99, entry
        target.process.kill()
        target.process.wait()
    wait_until(lambda: rules(daemon)[f"python.*{name}"]["targets"] == 0, "the end of all targets")
    assert rules(daemon)[f"python.*{name}"]["attached"] == 3
    listed = daemon.client("list").stdout
    assert f"python.*{name}" in listed and "configured" in listed, listed


@quiet
def test_jobs_are_picked_up_within_two_seconds():
    name = word()
    daemon = Daemon("--match", name)
    for _ in range(8):
        target = job(name)
        attached(daemon, target.pid, PICK_UP_S)
        target.process.kill()
        target.process.wait()


def test_what_runs_already_is_attached():
    name = word()
    target, other = job(name), job(word())
    daemon = Daemon("--match", f'cmd="{name}" user=root rate=499')
    assert attached(daemon, target.pid)["rate_hz"] == 499
    assert not targets(daemon, other.pid)


def test_an_exec_is_picked_up():
    """The shell's own command line says nothing of what it will execute."""
    name = word()
    daemon = Daemon("--match", name)
    shell = spawn(
        ["bash", "-c", "read line; exec $PROGRAM"],
        stdin=subprocess.PIPE,
        env={**os.environ, "PROGRAM": f"{PYTHON} -c while(True):pass {name}"},
    )
    not_attached(daemon, shell.pid)
    shell.stdin.write(b"\n")
    shell.stdin.flush()
    wait_until(lambda: os.readlink(f"/proc/{shell.pid}/exe").endswith(os.path.realpath(PYTHON)), "the exec")
    attached(daemon, shell.pid)


def test_children_come_with_their_parent():
    """Each of them matches by itself."""
    name = word()
    daemon = Daemon("--match", name)
    fork = "import os\nprint('ready', flush=True)\nfor i in range(3):\n    if not os.fork(): break\nwhile True: pass"
    target = job(name, fork)
    attached(daemon, target.pid)
    wait_until(lambda: attached(daemon, target.pid)["processes"] == 4, "three children")
    time.sleep(2.5)
    assert len(daemon.request("GET", "/v1/targets")) == 1, daemon.log()


def test_a_killed_daemon_attaches_again():
    name, store = word(), os.path.join(temporary_dir(), "store")
    config = os.path.join(temporary_dir(), "conf")
    with open(config, "w", encoding="ascii") as f:
        f.write(f"# what is watched\nmatch = {name}\nmatch = cmd={word()}\n")
    target = job(name)
    options = ("--config", config, "--store", store, "--window", "1")
    first = Daemon(*options)
    attached(first, target.pid)
    time.sleep(2.5)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = Daemon(*options)
    assert attached(second, target.pid)["rule"] == 1
    time.sleep(2.5)
    kept = [t for t in second.request("GET", "/v1/history")["targets"] if t["pid"] == target.pid]
    assert kept and kept[-1]["end"] == "open", kept
    assert sum(t["last_ns"] - t["first_ns"] for t in kept) > 3e9, f"its past of before is gone: {kept}"


def test_an_ended_target_is_forgotten_but_its_past():
    name = word()
    daemon = Daemon("--match", name, "--store", os.path.join(temporary_dir(), "store"), "--window", "1")
    target = job(name, env={**os.environ, "RANK": "5"})
    attached(daemon, target.pid)
    time.sleep(1.5)
    target.process.kill()
    target.process.wait()
    wait_until(lambda: not daemon.request("GET", "/v1/targets"), "no target")
    entry = daemon.request("GET", "/v1/history")["targets"][-1]
    assert entry["pid"] == target.pid and entry["end"] == "ended" and entry["samples"] > 0, entry
    shown = json.loads(daemon.client("summary", "-p", str(target.pid), "--since", "1h", "--json").stdout)
    assert [p["rank"] for p in shown["processes"]] == ["5"], shown["processes"]


def test_what_the_user_detaches_stays_so():
    name = word()
    daemon = Daemon("--match", name)
    target = job(name)
    attached(daemon, target.pid)
    daemon.client("detach", "-p", str(target.pid))
    not_attached(daemon, target.pid)
    daemon.client("attach", "-p", str(target.pid))
    assert attached(daemon, target.pid)["rule"] is None
    again = job(name)
    assert attached(daemon, again.pid)["rule"] == 1


def test_rules_of_a_client():
    name = word()
    daemon, target = Daemon(), job(name)
    said = daemon.client("attach", "--match", f"python.*{name}").stdout
    assert "until the daemon ends" in said, said
    attached(daemon, target.pid)
    assert one_clear_line(daemon.client("attach", "--match", f"python.*{name}", expect=1).stderr)
    listed = daemon.client("list").stdout
    assert f"python.*{name}" in listed and "this run" in listed, listed
    said = daemon.client("detach", "--match", f"python.*{name}").stdout
    assert "rule 1" in said and "1 process " in said, said
    not_attached(daemon, target.pid)
    assert daemon.request("GET", "/v1/rules") == []
    daemon.client("attach", "--match", f"cmd={name} rate=50")
    assert attached(daemon, target.pid)["rate_hz"] == 50
    daemon.client("detach", "--match", "2")
    assert not targets(daemon, target.pid)
    assert "no rule '2'" in one_clear_line(daemon.client("detach", "--match", "2", expect=1).stderr)


def test_rules_by_control_group():
    name = word()
    with open("/proc/self/cgroup", encoding="utf-8") as f:
        path = f.readline().rstrip("\n").split(":", 2)[2]
    daemon = Daemon("--match", f"cmd={name} cgroup=^/no/such/group$")
    target = job(name)
    not_attached(daemon, target.pid)
    escaped = "".join(c if c.isalnum() or c in "/-_:@" else f"[{c}]" for c in path)
    daemon.client("attach", "--match", f"cmd={name} cgroup=^{escaped}$")
    assert attached(daemon, target.pid)["rule"] == 2


def test_a_users_rule_takes_their_own_processes():
    name = word()
    daemon = Daemon("--socket-mode", "666")
    roots, own = job(name), job(name, user=NOBODY)
    curl = ["curl", "-s", "--unix-socket", daemon.socket, "http://localhost/v1/rules"]

    def ask(*arguments):
        return json.loads(run([*curl, *arguments], user=NOBODY).stdout)

    assert "only root" in ask("-d", json.dumps({"match": f"cmd={name} user=root"}))["error"]
    made = ask("-d", json.dumps({"match": name}))
    assert made["uid"] == NOBODY and made["match"] == name, made
    assert attached(daemon, own.pid)["rule"] == made["id"]
    not_attached(daemon, roots.pid)
    # Root's rules are not theirs to see or to remove.
    daemon.client("attach", "--match", f"cmd={name} rate=50")
    assert attached(daemon, roots.pid)["rate_hz"] == 50
    assert [rule["id"] for rule in ask()] == [made["id"]]
    url = curl[-1]
    curl[-1] = f"{url}/2"
    assert "no rule 2" in ask("-X", "DELETE")["error"]
    curl[-1] = f"{url}/1"
    assert ask("-X", "DELETE")["detached"] == 1
    # Now root's rule may have it.
    assert attached(daemon, own.pid)["rule"] == 2


def test_the_daemon_is_no_target():
    """Neither it nor what it descends from, though their command lines match."""
    name = word()
    daemon = Daemon("--match", name, prefix=["bash", "-c", '"$0" "$@"; exit $?'])
    own = [t["pid"] for t in daemon.request("GET", "/v1/targets")]
    target = job(name)
    attached(daemon, target.pid)
    time.sleep(1.5)
    listed = [t["pid"] for t in daemon.request("GET", "/v1/targets")]
    assert not own and listed == [target.pid], (listed, daemon.log())


def test_bad_rules_are_one_clear_line():
    def refused(*arguments):
        result = run([STAKEOUTD, "--socket", os.path.join(temporary_dir(), "socket"), *arguments], seconds=20)
        assert result.returncode == 2, result
        return one_clear_line(result.stderr)

    assert "not a regular expression" in refused("--match", "train(")
    assert "'user=' behind a pattern" in refused("--match", "train user=root")
    assert "there is no user 'nobody-here'" in refused("--match", "user=nobody-here")
    config = os.path.join(temporary_dir(), "conf")
    with open(config, "w", encoding="ascii") as f:
        f.write("\nmatch = rate=50\n")
    assert f"{config}:2: --match: a rule needs" in refused("--config", config)
    for arguments in (
        ["attach"],
        ["attach", "-p", "1", "--match", "x"],
        ["attach", "--match", "x", "-r", "50"],
        ["attach", "--match", ""],
        ["detach"],
        ["detach", "-p", "1", "--match", "x"],
    ):
        result = run([STAKEOUT, *arguments])
        assert result.returncode == 2, result
        one_clear_line(result.stderr)
    daemon = Daemon()
    for rule in ("(", "user=nobody-here", "((a{1,99}){1,99}){1,99}", "rate=50", "usr=root"):
        one_clear_line(daemon.client("attach", "--match", rule, expect=1).stderr)
    assert daemon.request("GET", "/v1/rules") == []


STARTER = """
import os, subprocess, sys
if len(sys.argv) > 1:
    environment = {**os.environ, "RANK": "2", "LOCAL_RANK": "0"}
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment)
    print("ready", flush=True)
while True: sum(i * i for i in range(1000))
"""


def test_profiles_have_ranks():
    """Of each process its own: those that a launcher starts are its children."""
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "3", "API_TOKEN": "0123-secret-3210", "SLURM_PROCID": "9"}
    target = Target([PYTHON, "-c", STARTER, STARTER], env=environment)
    path = os.path.join(temporary_dir(), "out.pb.gz")
    record(target.pid, extra=("-f", "pprof", "-o", path), duration=2)
    with gzip.open(path) as f:
        content = f.read()
    assert b"world_size" in content and b"local_rank" in content and b"secret" not in content
    shown = json.loads(run([STAKEOUT, "summary", path, "--json"]).stdout)
    assert sorted(p["rank"] for p in shown["processes"]) == ["0", "2"], shown["processes"]
    text = run([STAKEOUT, "summary", path]).stdout
    assert "  rank 0\n" in text and "  rank 2\n" in text, text
    daemon = Daemon()
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True}, expect=201)
    assert made["labels"]["rank"] == "0" and made["labels"]["world_size"] == "3", made
    assert "local_rank" not in made["labels"] and "secret" not in json.dumps(made)
    listed = daemon.client("list").stdout.splitlines()
    assert listed[0].endswith("   RANK") and listed[1].endswith("      0"), listed
    # A recording is a view of the target.
    again = os.path.join(temporary_dir(), "again.pb.gz")
    result = daemon.client("record", "-p", str(target.pid), "-d", "1", "-o", again)
    assert result.returncode == 0
    shown = json.loads(run([STAKEOUT, "summary", again, "--json"]).stdout)
    assert sorted(p["rank"] for p in shown["processes"]) == ["0", "2"], shown["processes"]


def test_an_exec_may_change_the_rank():
    """Only a process's own start tells: what it sets for itself is not seen, what it executes is."""
    daemon = Daemon()
    program = (
        "import os, sys, time\nprint('ready', flush=True)\nos.environ['RANK'] = '7'\n"
        f"end = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nos.execv({PYTHON!r}, ['python', '-c', sys.argv[1]])"
    )
    target = Target([PYTHON, "-c", program, BUSY], env={**os.environ, "RANK": "1"})
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True}, expect=201)
    assert made["labels"]["rank"] == "1", made
    wait_until(
        lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["labels"].get("rank") == "7", "the other rank"
    )


def test_without_ranks_nothing_is_said():
    target = job(word(), env={k: v for k, v in os.environ.items() if "RANK" not in k and "SLURM" not in k})
    daemon = Daemon()
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True}, expect=201)
    assert "rank" not in made["labels"], made
    assert "RANK" not in daemon.client("list").stdout
    assert " rank " not in daemon.client("summary", "-p", str(target.pid)).stdout


def test_a_rule_may_time_cuda_calls():
    """Their stacks have the rank as well."""
    folder = os.path.dirname(workload(os.path.join("cuda", "plain", "libcudart.so.12")))
    iterations = str(10_000_000 + os.getpid())
    argv = [PYTHON, script("py_cuda_training.py"), folder, iterations, "stdin"]
    target = Target(argv, stdin=subprocess.PIPE, env={**os.environ, "RANK": "6"})
    daemon = Daemon("--match", f'cmd="training.py .* {iterations} " cuda rate=50')
    path = f"/v1/targets/{attached(daemon, target.pid)['id']}"
    wait_until(lambda: daemon.request("GET", f"{path}/cuda")["libraries"], "probes on the CUDA library")
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()

    def labelled():
        content = gzip.decompress(daemon.request("GET", f"{path}/profile?event=cuda-copy"))
        return b"cudaMemcpy" in content and content

    assert b"rank" in wait_until(labelled, "copies in the profile", step=0.2)
