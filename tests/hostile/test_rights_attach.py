# SPDX-License-Identifier: GPL-2.0-or-later
"""A user profiles what ptrace would let them read, and nothing else: programs with rights of their own, and such as a
process becomes while it is profiled."""
import json
import os
import time

from harness import PYTHON, Daemon, Skip, need_tool, run, start, status_of, wait_until
from strangers import ask_as, become
from users import MALLORY, as_user, program, start_as

OTHER_GROUP = 65531
NOT_DUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True)\nwhile True: pass"


def open_daemon(*options):
    return Daemon("--socket-mode", "0666", "--group", "", *options)


def ask(daemon, *requests):
    return ask_as(daemon, requests, uid=MALLORY, gid=MALLORY)


def attach(daemon, pid, **more):
    [(code, text)] = ask(daemon, ("POST", "/v1/targets", {"pid": pid, **more}))
    return code, json.loads(text)


def set_group_id():
    path = program("threads")
    os.chown(path, 0, OTHER_GROUP)
    os.chmod(path, 0o2755)
    return path


def with_capability():
    path = program("threads")
    if run([need_tool("setcap"), "cap_net_raw+ep", path]).returncode:
        raise Skip("file capabilities cannot be set here")
    return path


def not_readable():
    path = program("threads")
    os.chmod(path, 0o711)
    return path


def check_has_rights(pid):
    status = status_of(pid)
    if len(set(status["Gid"].split())) == 1 and int(status["CapPrm"], 16) == 0:
        raise Skip("set-group-ID bits and file capabilities have no effect here")


def check_refused(daemon, pid, why):
    code, answer = attach(daemon, pid)
    assert code == 403, answer
    assert why in answer["error"] and "only root may profile it" in answer["error"], answer
    [(code, _)] = ask(daemon, ("GET", f"/debug/pprof/profile?pid={pid}&seconds=1", None))
    assert code == 403
    # Root's target is not the user's to see either.
    made = daemon.request("POST", "/v1/targets", {"pid": pid, "keep": True}, expect=201)
    path = f"/v1/targets/{made['id']}"
    routes = [path, path + "/profile", path + "/threads", path + "/stats"]
    answers = ask(daemon, *(("GET", route, None) for route in routes))
    assert [code for code, _ in answers] == [403] * len(routes), answers
    assert json.loads(ask(daemon, ("GET", "/v1/targets", None))[0][1]) == []
    daemon.request("DELETE", path)


def test_set_group_id_program():
    daemon = open_daemon()
    target = start_as(MALLORY, [set_group_id(), "600"])
    check_has_rights(target.pid)
    check_refused(daemon, target.pid, "set-group-ID")


def test_program_with_capabilities():
    daemon = open_daemon()
    target = start_as(MALLORY, [with_capability(), "600"])
    check_has_rights(target.pid)
    check_refused(daemon, target.pid, "has capabilities")


def test_not_dumpable():
    daemon = open_daemon()
    check_refused(daemon, start_as(MALLORY, [PYTHON, "-c", NOT_DUMPABLE]).pid, "is not dumpable")


def test_program_that_its_user_may_not_read():
    daemon = open_daemon()
    check_refused(daemon, start_as(MALLORY, [not_readable(), "600"]).pid, "is not dumpable")


def test_another_group():
    daemon = open_daemon()
    target = start("threads", 600, before_exec=lambda: become(MALLORY, OTHER_GROUP, []), cwd="/")
    check_refused(daemon, target.pid, "another group")


def test_own_user_namespace():
    """Whoever makes one is root in it, with all capabilities there, and remains the same user outside."""
    daemon = open_daemon()
    unshare = need_tool("unshare")
    if run([unshare, "--user", "--map-root-user", "true"], before_exec=as_user(MALLORY), cwd="/").returncode:
        raise Skip("users cannot make user namespaces here")
    target = start_as(MALLORY, [unshare, "--user", "--map-root-user", program("threads"), "600"])
    code, answer = attach(daemon, target.pid)
    assert code == 201, answer


def test_rule_of_a_user():
    daemon = open_daemon()
    path = set_group_id()
    target = start_as(MALLORY, [path, "600"])
    check_has_rights(target.pid)
    [(code, text)] = ask(daemon, ("POST", "/v1/rules", {"match": f"cmd={path}"}))
    assert code == 201, text
    wait_until(lambda: daemon.request("GET", "/v1/rules")[0]["problem"], "the rule to be refused", step=0.2)
    assert daemon.request("GET", "/v1/targets") == []


def check_left_at_exec(path, name):
    """A shell, which is profiled, becomes the program; of that nothing is seen."""
    daemon = open_daemon()
    lines = f"while ! [ -e {path}.go ]; do :; done; exec {path} 600 >/dev/null"
    target = start_as(MALLORY, ["sh", "-c", f"echo ready; {lines}"])
    code, answer = attach(daemon, target.pid, rate_hz=999, keep=True)
    assert code == 201, answer
    time.sleep(0.5)
    with open(path + ".go", "wb"):
        pass
    wait_until(lambda: os.readlink(f"/proc/{target.pid}/exe") == path, "the program", step=0.01)
    check_has_rights(target.pid)
    route = f"/v1/targets/{answer['id']}"
    [(code, text)] = ask(daemon, ("GET", route + "/threads", None))
    assert code in (403, 404), (code, text[:200])
    wait_until(lambda: "is not followed any more" in daemon.log(), "the daemon to let go of it")
    time.sleep(0.3)
    folded = daemon.client("folded", "-p", str(target.pid)).stdout
    assert "sh;" in folded and name not in folded, folded


def test_exec_of_a_set_group_id_program():
    check_left_at_exec(set_group_id(), "thread_burn")


def test_exec_of_a_program_with_capabilities():
    check_left_at_exec(with_capability(), "thread_burn")
