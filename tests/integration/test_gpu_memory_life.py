# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout memory --gpu of processes that end, execute, fork, run out of memory, and are others': whose is what."""
import json
import os
import re
import shutil
import subprocess
import time

from harness import STAKEOUT, Daemon, Target, run, spawn, temporary_dir, timeout, wait_until, workload
from pprof_message import Message
from strangers import NOBODY, ask_as, become
from test_gpu_memory import BEFORE, Program, answer_of, attach, by_function, comments_of, look, report


def test_a_process_that_ends_meanwhile():
    """What it had in use at its end is what is asked for after it ran out of memory."""
    program, daemon = Program("leak", 2), Daemon()
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "memory", "-p", program.pid, "--gpu", "-d", 60],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: daemon.request("GET", "/v1/targets"), "it to be watched")
    time.sleep(5)
    program.end()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    assert "the process has ended: what it had in use then\n" in out, out
    assert re.search(r"^ +\d+\.\d +\d+\.\d +\d+ +\d+\.\d  cache_result ", out, re.M), out


def check_end(first):
    """Somebody else has the process sampled already, and watches its memory or does not."""
    program, daemon = Program("script"), Daemon()
    daemon.request("POST", "/v1/targets", {"pid": program.pid, "rate_hz": 19, "gpu_memory": first}, expect=201)
    client = look(daemon, program.pid, 60)
    wait_until(lambda: len(daemon.request("GET", "/v1/targets")) == 2, "the second recording")
    wait_until(lambda: comments_of(daemon, 2)["gpu.linked"] == "1", "its probes")
    for _ in range(3):
        account = program.ask()
    # The client says after two seconds that nothing can be seen, if that is so; and stacks are read four times a second.
    time.sleep(4)
    program.end()
    answer = answer_of(client)
    assert answer["ended"] is True, answer
    found = by_function(answer)
    for name, truth in account["functions"].items():
        assert name in found and found[name]["live"] == truth["live"], (name, answer, truth)
    for device, truth in zip(answer["devices"], account["devices"]):
        assert device["allocated_bytes"] == truth["allocated"], (device, truth)


@timeout(120)
def test_the_end_of_a_process_that_others_watch():
    """What it had in use then is there for a second recording of it as well."""
    check_end(False)
    check_end(True)


def test_a_program_that_executes_another():
    """What the first one had is in use no more; the second one's totals are its own."""
    daemon, program = Daemon(), Program("exec")
    attach(daemon, program.pid)
    program.ask()
    answer = report(daemon, program.pid)
    assert by_function(answer)["allocate_before_exec"]["live"] == 40 * 1000000, answer
    program.target.process.stdin.write(b"\n")
    program.target.process.stdin.flush()
    assert program.target.process.stdout.readline() == b"ready\n"

    # Its interpreter is looked at while it runs already, so the first stacks may lack its frames.
    def is_seen():
        functions = program.ask()["functions"]
        return functions.keys() <= by_function(report(daemon, program.pid)).keys()

    wait_until(is_seen, "the functions of the second program", seconds=40)
    account = program.ask()
    answer = report(daemon, program.pid)
    found = by_function(answer)
    assert found["allocate_before_exec"]["live"] == 0, answer
    # It was seen, and so it is among what was allocated.
    assert found["allocate_before_exec"]["allocations"] == 40, answer
    assert sum(found[name]["live"] for name in account["functions"]) > 0, answer
    for device, truth in zip(answer["devices"], account["devices"]):
        assert device["pid"] == program.pid and device["allocated_bytes"] == truth["allocated"], (device, truth)
        assert device["peak_allocated_bytes"] < 40 * 1000000 + truth["allocated"], (device, truth)
    for name, then in account["then"].items():
        assert found[name]["then"] <= then, (name, found[name], account)
    assert found["allocate_before_exec"]["then"] == 0, found
    program.end()


def test_a_worker_with_copies():
    """A forked child that gives back its copies of its parent's blocks has nothing, and the parent all of them."""
    daemon, program = Daemon(), Program("worker")
    target = attach(daemon, program.pid)
    account = program.ask()
    hits = int(comments_of(daemon, target)["gpu.hits"])

    def is_seen():
        program.ask()
        return int(comments_of(daemon, target)["gpu.hits"]) > hits

    wait_until(is_seen, "the child's calls", step=0.5)
    answer = report(daemon, program.pid)
    [device] = answer["devices"]
    assert device["pid"] == program.pid and device["frees"] == 0, device
    assert device["allocated_bytes"] == account["devices"][0]["allocated"] == BEFORE + 40 * 1000000, (device, account)
    assert by_function(answer)["keep_activations"]["live"] == 40 * 1000000, answer
    points = [int(point.split(":")[1]) for point in comments_of(daemon, target)["gpu.series"].split(",")]
    assert max(points) * 1024 < 1.5 * device["allocated_bytes"], points
    program.end()


def test_processes_of_others_are_a_number():
    """A user's program has a child that the user may not look into: neither its lines nor its sums are shown."""
    daemon, program = Daemon("--socket-mode", "0666", "--group", ""), Program("users")
    target = attach(daemon, program.pid)
    path = os.path.join(temporary_dir(), "gpu.pb.gz")

    def seen_by_nobody():
        [(status, text)] = ask_as(daemon, [("GET", f"/v1/targets/{target}/gpu-memory", None)])
        assert status == 200, text
        with open(path, "wb") as f:
            f.write(text.encode("latin-1"))
        return json.loads(run([STAKEOUT, "memory", "--gpu", path, "--json"]).stdout)

    for _ in range(5):
        program.ask()
    wait_until(lambda: len(report(daemon, program.pid)["devices"]) == 2, "the child to be seen")
    program.ask()
    roots = report(daemon, program.pid)
    assert {d["pid"] for d in roots["devices"]} > {program.pid} and roots["hidden_processes"] == 0, roots
    assert by_function(roots)["keep_gradients"]["live"] >= 900 * 1000000, roots
    nobodys = seen_by_nobody()
    assert [d["pid"] for d in nobodys["devices"]] == [program.pid], nobodys
    assert nobodys["hidden_processes"] == 1, nobodys
    assert list(by_function(nobodys)) == ["cache_result"], nobodys
    series = Message(path).comments["gpu.series"].split(",")
    assert series[0] and all(int(point.split(":")[1]) < 100000 for point in series), series
    assert "1 process more has memory on GPUs" in run([STAKEOUT, "memory", "--gpu", path]).stdout
    program.end()


def test_an_incident_is_left():
    """Of a program that catches the error, and of one that ends by it."""
    daemon, where = Daemon("--store", temporary_dir()), temporary_dir()
    programs = [Program("script"), Program("die")]
    for program in programs:
        daemon.client("attach", "-p", program.pid, "--gpu-memory", "--save-on", "oom")
    account = programs[0].ask()
    programs[1].target.process.stdin.write(b"\n")
    programs[1].target.process.stdin.flush()
    incidents = wait_until(
        lambda: len(found := daemon.request("GET", "/v1/incidents")) == 2 and found, "two incidents", step=0.3
    )
    assert {incident["pid"] for incident in incidents} == {program.pid for program in programs}, incidents
    for incident in incidents:
        assert incident["why"] == "PyTorch was out of memory on a GPU", incident
        path = os.path.join(where, f"{incident['id']}.pb.gz")
        daemon.client("incidents", str(incident["id"]), "-o", path)
        answer = json.loads(run([STAKEOUT, "memory", "--gpu", path, "--json"]).stdout)
        found = by_function(answer)
        # Both programs do the same.
        for name, then in account["then"].items():
            assert name in found and found[name]["then"] == then, (incident, name, found, account)
        assert answer["devices"][0]["refused"] == 1, answer["devices"]
    refused = run([STAKEOUT, "--socket", daemon.socket, "attach", "-p", programs[0].pid, "--save-on", "oom"])
    assert refused.returncode == 1 and "gpu_memory" in refused.stderr, refused.stderr
    programs[0].end()


@timeout(90)
def test_a_pause_is_of_one_sort():
    """An incident of another rule, just before, does not cost what is left of memory that was refused."""
    daemon, program = Daemon("--store", temporary_dir()), Program("script")
    rules = "cpu<5%/1s,oom"
    daemon.client("attach", "-p", program.pid, "--gpu-memory", "--timeline", "--save-on", rules, "--save-pause", "600")

    def incidents(n):
        return wait_until(
            lambda: len(found := daemon.request("GET", "/v1/incidents")) >= n and found, f"{n} incidents", seconds=40
        )

    program.ask("spin")
    (first,) = incidents(1)
    assert first["why"].startswith("it used less than 5 %"), first
    account = program.ask()
    first, second = incidents(2)
    assert second["why"] == "PyTorch was out of memory on a GPU" and second["left_out"] == 0, second
    path = os.path.join(temporary_dir(), "gpu.pb.gz")
    daemon.client("incidents", str(second["id"]), "-o", path)
    found = by_function(json.loads(run([STAKEOUT, "memory", "--gpu", path, "--json"]).stdout))
    for name, then in account["then"].items():
        assert found[name]["then"] == then, (name, found[name], account)
    program.end()


def test_rights():
    """A user sees the memory of their own processes alone; few of them at a time."""
    roots, daemon = Program("leak", 1), Daemon("--socket-mode", "0666", "--group", "")
    target = attach(daemon, roots.pid)
    program = shutil.copy(workload("split"), temporary_dir())
    own = [Target([program, "600"], before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/") for _ in range(5)]
    asked = [("POST", "/v1/targets", {"pid": t.pid, "rate_hz": 19, "gpu_memory": True}) for t in own]
    refused, others, *answers = ask_as(
        daemon,
        [
            ("GET", f"/v1/targets/{target}/gpu-memory", None),
            ("POST", "/v1/targets", {"pid": roots.pid, "gpu_memory": True}),
            *asked,
        ],
    )
    assert refused[0] == others[0] == 403, (refused, others)
    assert [status for status, _ in answers] == [201] * 4 + [503], answers
    assert "GPU memory" in json.loads(answers[4][1])["error"], answers[4]
    first = json.loads(answers[0][1])["id"]
    (status, _), (ended, _), (again, _) = ask_as(
        daemon,
        [("GET", f"/v1/targets/{first}/gpu-memory", None), ("POST", f"/v1/targets/{first}/stop", None), asked[4]],
    )
    # One that has ended gives its place to a further one, and what it had seen.
    assert (status, ended, again) == (200, 200, 201)
    [(status, _)] = ask_as(daemon, [("GET", f"/v1/targets/{first}/gpu-memory", None)])
    assert status == 409
    roots.end()
