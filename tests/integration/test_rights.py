# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may do what: the daemon's capabilities, the group, strangers on every route, and the log of denials."""
import contextlib
import grp
import http.client
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import time
import types

from harness import (
    SOURCE_DIR,
    STAKEOUTD,
    Daemon,
    Recorder,
    Skip,
    Target,
    alone,
    descendant,
    has_number,
    need_bpf,
    need_tool,
    one_clear_line,
    parse_folded,
    run,
    start,
    start_script,
    status_of,
    temporary_dir,
    wait_until,
    workload,
)
from strangers import NOBODY, ask_as, become, fill, in_child, operations, query

# Linux's numbers: DAC_READ_SEARCH, SYS_PTRACE, SYSLOG, PERFMON, BPF, CHECKPOINT_RESTORE.
KEPT = {"CAP_DAC_READ_SEARCH": 2, "CAP_SYS_PTRACE": 19, "CAP_SYSLOG": 34, "CAP_PERFMON": 38, "CAP_BPF": 39, "CAP_CHECKPOINT_RESTORE": 40}
MASK = sum(1 << number for number in KEPT.values())


def may_keep():
    """What of the capabilities a daemon may have: kernels that Debian patches ask for CAP_SYS_ADMIN, 21, above a level of 2."""
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as f:
        return {MASK, MASK | 1 << 21} if int(f.read()) > 2 else {MASK}


def need_all_capabilities():
    need_bpf()
    has = int(status_of(os.getpid())["CapEff"], 16)
    if has & MASK != MASK:
        raise Skip("this machine's root lacks capabilities that stakeoutd keeps")


def check_threads(pid):
    """Every thread has what is kept and nothing else; how many there are."""
    tasks = os.listdir(f"/proc/{pid}/task")
    for task in list(tasks):
        try:
            status = status_of(f"{pid}/task/{task}")
        except (FileNotFoundError, ProcessLookupError):
            tasks.remove(task)  # it has ended since
            continue
        for name in ("CapPrm", "CapEff", "CapBnd"):
            assert int(status[name], 16) in may_keep(), (task, name, status[name])
        for name in ("CapInh", "CapAmb"):
            assert int(status[name], 16) == 0, (task, name, status[name])
        assert status["NoNewPrivs"] == "1", task
    return len(tasks)


def others_program():
    """A program of another user, in a directory that only they may enter; it runs."""
    where = os.path.join(temporary_dir(), "private")
    os.mkdir(where, 0o700)
    program = shutil.copy(workload("split"), where)
    os.chmod(program, 0o700)
    os.chown(program, NOBODY, NOBODY)
    os.chown(where, NOBODY, NOBODY)
    return Target([program, "600"], before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/")


def test_all_threads_give_up_capabilities():
    """After all that starts threads: targets with CUDA and Python, of another user, a store, a pull, NVML."""
    need_all_capabilities()
    folder = os.path.join(workload("cuda"), "ibt")
    daemon = Daemon("--store", temporary_dir(), "--window", "1", env={"LD_LIBRARY_PATH": folder, "WATCHDOG_USEC": "60000000"})
    assert check_threads(daemon.process.pid) >= 4
    target = start_script("py_cuda_launches.py", folder, 100, 3, 1, "stdin", stdin=subprocess.PIPE)
    body = {"pid": target.pid, "cuda": True, "cuda_budget_percent": 100, "keep": True}
    made = daemon.request("POST", "/v1/targets", body, expect=201)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    other = others_program()
    profile = daemon.request("GET", f"/debug/pprof/profile?pid={other.pid}&seconds=1")
    assert profile
    target.finish()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "ended", "the target's end")
    cuda = daemon.request("GET", f"/v1/targets/{made['id']}/cuda")
    told = {member: cuda[member] for member in ("estimate", "lost", "problems", "probes")}
    assert sum(row["calls"] for row in cuda["calls"]) == 300, (cuda["calls"], told)
    assert cuda["gpu"], "NVML was not asked"
    assert check_threads(daemon.process.pid) >= 4
    said = daemon.request("GET", "/v1/status")["privileges"]
    assert set(said["kept"]) == set(said["bounding"]) == set(KEPT) and not said["missing"] and said["no_new_privs"], said
    line = next(line for line in daemon.log().splitlines() if "keeps the capabilities" in line)
    assert set(re.findall(r"CAP_\w+", line)) == set(KEPT), line
    unmet = [c for c in daemon.request("GET", "/v1/check") if not c["found"]]
    own = [c for c in json.loads(run([STAKEOUTD, "--check-json"]).stdout) if not c["found"]]
    assert [c["name"] for c in unmet] == [c["name"] for c in own], "capabilities given up look like things missing"


def test_other_users_process_has_names():
    need_all_capabilities()
    daemon = Daemon()
    target = others_program()
    recording = daemon.record(target.pid, duration=2).check_complete()
    assert recording.count("split_kernel") > 100, recording.examples("")


def test_deleted_program_has_names():
    """Its file is reached through its mappings alone."""
    need_all_capabilities()
    daemon = Daemon()
    program = shutil.copy(workload("split"), temporary_dir())
    target = Target([program, "600"])
    os.unlink(program)
    recording = daemon.record(target.pid, duration=2).check_complete()
    assert recording.count("split_kernel") > 100, recording.examples("")


def test_private_daemon_gives_up_capabilities():
    need_all_capabilities()
    target = start("split", 600)
    recorder = Recorder(target.pid, duration=3)
    private = descendant(recorder.process.pid, "stakeoutd")
    wait_until(lambda: status_of(private)["NoNewPrivs"] == "1", "capabilities to be given up")
    time.sleep(1)
    assert check_threads(private) >= 4
    recorder.wait().check_complete()


def test_file_capabilities():
    """A user's own daemon with capabilities of its file works as root's does, without what they do not give."""
    need_all_capabilities()
    setcap = need_tool("setcap")
    where = temporary_dir()
    program = shutil.copy(STAKEOUTD, where)
    names = ",".join(name.lower() for name in KEPT)
    if run([setcap, f"{names}+ep", program]).returncode:
        raise Skip("file capabilities cannot be set here")
    mine = os.path.join(where, "run")
    os.mkdir(mine, 0o700)
    os.chown(mine, NOBODY, NOBODY)
    path = os.path.join(mine, "socket")
    log_path = os.path.join(where, "log")

    def said():
        with open(log_path, encoding="utf-8") as f:
            return f.read()

    with open(log_path, "wb") as log:
        process = subprocess.Popen(  # pylint: disable=R1732
            [program, "--socket", path, "--no-cache"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", preexec_fn=lambda: become(NOBODY, NOBODY, []),
        )  # fmt: skip
    try:
        wait_until(lambda: "listens" in said() or process.poll() is not None, "the daemon")
        assert process.poll() is None, said()
        for task in os.listdir(f"/proc/{process.pid}/task"):
            try:
                status = status_of(f"{process.pid}/task/{task}")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since
            assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) and int(status["CapEff"], 16) in may_keep(), (status["CapEff"], said())
            assert status["NoNewPrivs"] == "1"
        daemon = types.SimpleNamespace(socket=path)
        other = others_program()
        (code, answer), (denied, why) = ask_as(
            daemon,
            [("GET", f"/debug/pprof/profile?pid={other.pid}&seconds=1", None),
             ("GET", f"/debug/pprof/profile?pid={os.getpid()}&seconds=1", None)],
        )  # fmt: skip
        assert code == 200 and answer, answer
        assert denied == 403, why
    finally:
        process.terminate()
        process.wait(timeout=20)


def a_group():
    """Some group that is not root's, nor a user's of these tests."""
    for entry in grp.getgrall():
        if entry.gr_gid not in (0, NOBODY) and not entry.gr_mem:
            return entry.gr_name, entry.gr_gid
    raise Skip("there is no group to try")


def test_group_has_the_rights_of_root():
    name, gid = a_group()
    daemon = Daemon("--group", name)
    info = os.stat(daemon.socket)
    assert stat.S_IMODE(info.st_mode) == 0o660 and info.st_gid == gid and info.st_uid == 0, info
    target = start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid}, expect=201)
    path = f"/v1/targets/{made['id']}"
    look = [("GET", "/v1/targets", None), ("GET", path, None), ("GET", path + "/profile", None), ("GET", "/v1/history", None)]
    for gids in ({"gid": gid}, {"gid": NOBODY, "groups": [100, gid]}):
        answers = ask_as(daemon, look, **gids)
        assert [code for code, _ in answers] == [200, 200, 200, 409], answers
        assert [t["id"] for t in json.loads(answers[0][1])] == [made["id"]]
    assert ask_as(daemon, look[:1], groups=[100])[0] == [0, "Permission denied"]
    mine = start("split", 600)
    steps = [("POST", path + "/stop", None), ("DELETE", path, None), ("POST", "/v1/targets", {"pid": mine.pid})]
    assert [code for code, _ in ask_as(daemon, steps, groups=[gid])] == [200, 200, 201]
    assert "denied" not in daemon.log(), daemon.log()


def test_group_beside_an_open_socket():
    """Who is not in the group may connect then, and sees what is theirs."""
    name, gid = a_group()
    daemon = Daemon("--group", name, "--socket-mode", "0666")
    info = os.stat(daemon.socket)
    assert stat.S_IMODE(info.st_mode) == 0o666 and info.st_gid == gid
    target = start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid}, expect=201)
    look = [("GET", "/v1/targets", None), ("GET", f"/v1/targets/{made['id']}", None)]
    assert [code for code, _ in ask_as(daemon, look)] == [200, 403]
    assert ask_as(daemon, look)[0][1].strip() == "[]"
    assert [code for code, _ in ask_as(daemon, look, groups=[gid])] == [200, 200]


def test_group_from_the_file_and_none():
    name, gid = a_group()
    where = temporary_dir()
    config = os.path.join(where, "conf")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"group = {name}\n")
    assert os.stat(Daemon("--config", config).socket).st_gid == gid
    without = os.stat(Daemon("--config", config, "--group", "").socket)
    assert without.st_gid == 0 and stat.S_IMODE(without.st_mode) == 0o600
    result = run([STAKEOUTD, "--socket", os.path.join(where, "s"), "--group", "no-such-group"], seconds=20)
    assert result.returncode == 1 and "no-such-group" in one_clear_line(result.stderr), result


def roots_target(daemon):
    """A root's process, watched, with CUDA and a history: all that a route may ask for is there."""
    folder = os.path.join(workload("cuda"), "ibt")
    target = start_script("py_cuda_launches.py", folder, 500, 60, 1, "stdin", stdin=subprocess.PIPE)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "cuda": True, "keep": True, "timed": True, "memory": True, "gpu_memory": True, "allocations": True}, expect=201)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    wait_until(lambda: daemon.request("GET", "/v1/history")["targets"], "its history", step=0.2)
    return target, made["id"], daemon.request("GET", "/v1/history")["targets"][0]["key"]


def as_nobody(*argv):
    return Target(list(argv), before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/", stdin=subprocess.PIPE)


def test_a_users_target_is_left_where_it_becomes_another_users():
    """A program with the set-user-ID bit below a user's process is not the user's to see."""
    where = temporary_dir()
    os.chmod(where, 0o755)
    program = shutil.copy(workload("threads"), os.path.join(where, "roots"))
    os.chmod(program, 0o4755)
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    target = as_nobody("sh", "-c", f"echo ready; read line; {program} 30 >/dev/null & while :; do :; done")
    [(code, text)] = ask_as(daemon, [("POST", "/v1/targets", {"pid": target.pid, "rate_hz": 499, "keep": True})])
    assert code == 201, text
    path = f"/v1/targets/{json.loads(text)['id']}"
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    child = descendant(target.pid, "roots")
    if status_of(child)["Uid"].split()[1] != "0":
        raise Skip("the set-user-ID bit has no effect here")
    wait_until(lambda: "is not followed any more" in daemon.log(), "the daemon to let go of it")
    wait_until(lambda: daemon.request("GET", path)["samples"] > 300, "samples")
    assert daemon.request("GET", path)["processes"] == 1
    frames = daemon.client("folded", "-p", str(target.pid)).stdout
    assert "sh;" in frames and "thread_burn" not in frames, frames
    # Root may see it.
    made = daemon.request("POST", "/v1/targets", {"pid": child}, expect=201)
    assert made["state"] == "sampling"


def test_no_user_can_take_all_places():
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    targets = [as_nobody("sh", "-c", "echo ready; read line") for _ in range(25)]
    answers = ask_as(daemon, [("POST", "/v1/targets", {"pid": t.pid, "keep": True}) for t in targets])
    assert [code for code, _ in answers] == [201] * 24 + [503], [a for a in answers if a[0] != 201]
    assert "24 processes are watched for you" in json.loads(answers[24][1])["error"], answers[24]
    daemon.request("POST", "/v1/targets", {"pid": targets[24].pid, "keep": True}, expect=201)


def logged_denials(daemon):
    """Ten a second have lines of their own; the others are in one that comes a second later."""
    log = [line for line in daemon.log().splitlines() if "denied:" in line]
    return sum(int(m.group(1)) if (m := re.search(r"denied: (\d+) more$", line)) else 1 for line in log)


@alone
def test_strangers_on_every_route():
    """Whatever the schema has: another user's process is refused, or is not there. A new route is tried by itself."""
    folder = os.path.join(workload("cuda"), "ibt")
    # What is looked for is no number that something else may well have.
    with contextlib.suppress(OSError), open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as f:
        f.write("21000")
    daemon = Daemon("--socket-mode", "0666", "--group", "", "--store", temporary_dir(), "--window", "1", env={"LD_LIBRARY_PATH": folder})
    target, number, key = roots_target(daemon)
    second = start("split", 600)  # root's too, and no target yet
    rule = daemon.request("POST", "/v1/rules", {"match": "py_cuda_launches never"}, expect=201)["id"]
    kept = daemon.request("POST", f"/v1/targets/{number}/save", expect=201)["id"]
    tried, requests = [], []
    for method, path, operation in operations():
        if operation["x-rights"] == "own" and "{" not in path:
            pid = second.pid
            body = {"pid": pid} if "requestBody" in operation else None
        else:
            pid, body = target.pid, {} if "requestBody" in operation else None
        if path == "/v1/rules" and body is not None:
            body = {"match": "user=root"}
        where = fill(path, id=rule if "rules" in path else kept if "incidents" in path else number, key=key) + query(operation, pid=pid, from_ns=0, to_ns=time.time_ns()) + (f"?pid={pid}" if "/debug/" in path else "")
        requests.append((method, where, body))
        tried.append((method, path, operation["x-rights"]))
    answers = ask_as(daemon, requests)
    assert len(answers) >= 15
    marks = ["py_cuda_launches", f'"id":{number},']
    denied = 0
    for (method, path, rights), (code, text) in zip(tried, answers):
        if rights == "own":
            assert code == 403 and "another user" in json.loads(text)["error"], (method, path, code, text[:300])
            denied += 1
        elif rights == "hidden":
            assert code == 404, (method, path, code, text[:300])
        else:
            assert code == 200, (method, path, code, text[:300])
            found = [mark for mark in marks if mark in text] + ["its number"] * has_number(text, target.pid)
            assert not found, f"{method} {path} tells a stranger {found}: {text[:2000]}"
    assert denied >= 9
    # Root gets all that the stranger was refused, and nothing of it has changed.
    assert daemon.request("GET", f"/v1/targets/{number}")["state"] == "sampling"
    assert [t["id"] for t in daemon.request("GET", "/v1/targets")] == [number]
    assert [r["id"] for r in daemon.request("GET", "/v1/rules")] == [rule]
    assert [i["id"] for i in daemon.request("GET", "/v1/incidents")] == [kept]
    for (method, path, rights), (_, where, body) in zip(tried, requests):
        if method == "GET" and "/debug/" not in path:
            # Only a newer interpreter has tasks that can be read.
            answer = daemon.request(method, where, expect=None if path.endswith("/tasks") else 200)
            assert "another user" not in str(answer), answer
    assert daemon.request("GET", "/v1/status")["denials"] == denied
    wait_until(lambda: logged_denials(daemon) == denied, "the denials in the log")


def test_denials_are_logged():
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    made = daemon.request("POST", "/v1/targets", {"pid": start("split", 600).pid}, expect=201)

    def pid_and_answer():
        become(NOBODY, NOBODY, [])
        return os.getpid(), ask_raw(daemon.socket, f"GET /v1/targets/{made['id']}/stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    pid, answer = in_child(pid_and_answer)
    assert answer.startswith("HTTP/1.1 403")
    lines = [line for line in daemon.log().splitlines() if "denied:" in line]
    assert len(lines) == 1, lines
    assert f"uid {NOBODY} (nobody), pid {pid}: GET \"/v1/targets/{made['id']}/stats\": " in lines[0], lines
    assert "another user" in lines[0]


def test_denials_over_tcp_are_logged():
    token = os.path.join(temporary_dir(), "token")
    with open(token, "w", encoding="ascii") as f:
        f.write("0123456789abcdef-rights\n")
    os.chmod(token, 0o600)
    daemon = Daemon("--listen", "127.0.0.1:0", "--token-file", token)
    # The door opens after the socket.
    port = int(wait_until(lambda: re.search(r"listens on 127\.0\.0\.1:(\d+),", daemon.log()), "the door").group(1))
    codes = []
    for headers in ({}, {"Authorization": "Bearer 0123456789abcdef-rights"}):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("DELETE", "/v1/targets/7", headers=headers)
        codes.append(connection.getresponse().status)
        connection.close()
    assert codes == [401, 403]
    lines = [line for line in daemon.log().splitlines() if "denied:" in line]
    assert len(lines) == 2 and all('DELETE "/v1/targets/7": ' in line for line in lines), lines
    assert re.search(r"denied: 127\.0\.0\.1 port \d+: .*token", lines[0]), lines
    assert re.search(r"denied: .*TCP: .*Unix socket only", lines[1]), lines
    assert daemon.request("GET", "/v1/status")["denials"] == 2


def test_the_units_capabilities_suffice_for_a_group():
    """CAP_CHOWN and CAP_SETPCAP, which are in the unit for the start alone, are gone afterwards."""
    need_all_capabilities()
    name, gid = a_group()
    with open(os.path.join(SOURCE_DIR, "daemon", "stakeoutd.service"), encoding="utf-8") as f:
        words = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.MULTILINE).group(1).split()
    keep = ",".join(["-all"] + ["+" + word.removeprefix("CAP_").lower() for word in words])
    daemon = Daemon("--group", name, prefix=(need_tool("setpriv"), "--bounding-set", keep, "--no-new-privs"))
    assert os.stat(daemon.socket).st_gid == gid
    check_threads(daemon.process.pid)


def ask_raw(path, text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(30)
        peer.connect(path)
        peer.sendall(text.encode())
        answer = b""
        while part := peer.recv(65536):
            answer += part
    return answer.decode("latin-1")


def test_a_flood_of_denials_does_not_fill_the_log():
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    made = daemon.request("POST", "/v1/targets", {"pid": start("split", 600).pid}, expect=201)
    many = 500
    began = time.monotonic()
    answers = ask_as(daemon, [("GET", f"/v1/targets/{made['id']}", None)] * many)
    seconds = time.monotonic() - began
    assert [code for code, _ in answers] == [403] * many

    def all_told():
        log = [line for line in daemon.log().splitlines() if "denied:" in line]
        sums = [int(m.group(1)) for line in log if (m := re.search(r"denied: (\d+) more$", line))]
        return (log, sums) if len(log) - len(sums) + sum(sums) == many else None

    log, sums = wait_until(all_told, "every denial in a line or a sum")
    # At most ten lines in each second that has begun, and one sum for each.
    assert len(log) <= 11 * (int(seconds) + 3) and sums, (len(log), seconds)
    status = daemon.request("GET", "/v1/status")
    assert status["denials"] == many
    assert next(x for x in status["limits"] if x["name"] == "denial_lines_a_second")["hit"] == sum(sums)


def test_status_shows_limits_and_costs():
    daemon = Daemon("--socket-mode", "0666", "--store", temporary_dir())
    target = start("split", 600)
    daemon.client("attach", "-p", str(target.pid), "-r", "499")

    def sampled():
        status = daemon.request("GET", "/v1/status")
        return status if status["costs"][0]["samples"] > 50 else None

    status = wait_until(sampled, "samples")
    (cost,) = status["costs"]
    assert cost["pid"] == target.pid and cost["overhead_percent"] > 0 and cost["sample_bytes"] > 0, cost
    limits = {entry["name"]: entry for entry in status["limits"]}
    assert limits["targets"]["now"] == 1 and limits["targets"]["limit"] == status["max_targets"]
    assert limits["connections"]["now"] >= 1 and limits["sample_bytes"]["now"] > 0 and limits["store_bytes"]["now"] > 0
    daemon.request("POST", "/v1/targets", {"pid": "x" * 70000}, expect=413)
    after = {entry["name"]: entry for entry in daemon.request("GET", "/v1/status")["limits"]}
    assert after["body_bytes"]["hit"] == limits["body_bytes"]["hit"] + 1
    # The table: what each target costs, and the limits that were reached.
    table = daemon.client("status").stdout
    assert re.search(rf"^ *\d+ +{target.pid} split +1 +\d+ +0 +[\d.]+ % +[\d.]+ MB$", table, re.M), table
    assert re.search(r"^body_bytes +0 +65536 +[1-9]\d*$", table, re.M) and len(table.splitlines()) < 30, table
    text = daemon.client("status", "--json").stdout
    for word in ("cpu_s", "rss_bytes", "used_bytes", "overhead_percent", "CAP_BPF", "store_bytes", "sample_bytes"):
        assert word in text, text
    assert ask_as(daemon, [("GET", "/v1/status", None)])[0][0] == 200
    assert json.loads(ask_as(daemon, [("GET", "/v1/status", None)])[0][1])["costs"] == []


def test_the_limit_of_targets_is_counted():
    daemon = Daemon()
    limit = daemon.request("GET", "/v1/status")["max_targets"]
    sleepers = [start("sleeper", 600, ready=False) for _ in range(limit + 1)]
    time.sleep(1)
    for sleeper in sleepers[:limit]:
        daemon.request("POST", "/v1/targets", {"pid": sleeper.pid, "rate_hz": 1, "keep": True}, expect=201)
    answer = daemon.request("POST", "/v1/targets", {"pid": sleepers[limit].pid, "rate_hz": 1}, expect=503)
    assert str(limit) in answer["error"], answer
    entry = next(x for x in daemon.request("GET", "/v1/status")["limits"] if x["name"] == "targets")
    assert entry["now"] == limit and entry["hit"] == 1, entry
    assert parse_folded(daemon.client("folded", "-p", str(sleepers[0].pid)).stdout) is not None
