# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout tasks against what asyncio itself tells of its tasks."""
import functools
import json
import subprocess
import time

from api_schema import errors_of
from harness import PYTHON, STAKEOUT, Daemon, Skip, Target, one_clear_line, run, script, start, wait_until
from strangers import ask_as, schema
from test_python import interpreter, is_free_threaded

VERSIONS = ["3.14", "3.15", "3.14t", "3.15t"]
SWITCH_S = 6


def tasks_of(version, *arguments):
    return Target([interpreter(version), script("py_tasks.py"), *arguments], stdin=subprocess.PIPE)


class Looks:
    """At the tasks of a process, through a daemon that watches it."""

    def __init__(self, pid):
        self.daemon = Daemon()
        self.pid = pid
        self.id = self.daemon.request("POST", "/v1/targets", {"pid": pid}, expect=201)["id"]

    def look(self):
        """A machine may be so busy that the daemon gives up for now, and says so."""
        answer = wait_until(self._ask, "an answer")
        check_counts(answer)
        return answer

    def _ask(self):
        answer = self.daemon.request("GET", f"/v1/targets/{self.id}/tasks", expect=None)
        assert "tasks" in answer or "now" in answer["error"], answer
        return answer if "tasks" in answer else None


def check_counts(answer):
    known = len(answer["tasks"]) + answer["changed"] + answer["unread"] + answer["ended"]
    assert known == answer["found"], {k: v for k, v in answer.items() if k not in ("tasks", "chains")}


def chain(answer, task):
    return [[f["function"], f["file"], f["line"]] for f in answer["chains"][task["chain"]]]


def shown(answer, name):
    """A task as stakeout shows its name."""
    [task] = [t for t in answer["tasks"] if t["name"] == name]
    return task


def name_as_shown(name):
    return name.encode()[:127].decode(errors="ignore").replace("\n", "?")


def compare(told, answer):
    """All but what asks in the program: that one waits for a line while it is looked at."""
    seen = [t for t in answer["tasks"] if t["name"] != "asker"]
    assert len(seen) == len(told), ([t["name"] for t in seen], [t["name"] for t in told])
    for truth in told:
        task = shown(answer, name_as_shown(truth["name"]))
        assert task["state"] == "waiting" and not task["cut"], task
        assert chain(answer, task) == truth["frames"], (truth, chain(answer, task))
        waiters = sorted(answer["tasks"][i]["name"] for i in task["awaited_by"])
        assert waiters == truth["awaited_by"], (truth, waiters)


def test_as_asyncio_tells(version):
    """Names, coroutines, lines and who awaits whom; generators, groups, tasks that begin at once, two loops."""
    target = tasks_of(version, "shapes")
    looks = Looks(target.pid)
    # The one that asks has to be at its place again.
    answer = wait_until(lambda: (a := looks.look())["changed"] == 0 and a, "tasks at rest")
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    told = json.loads(target.process.stdout.readline())
    assert len(told) > 20 and max(len(t["frames"]) for t in told) == 8, told
    compare(told, answer)
    assert answer["python"] == version and len(answer["loops"]) == 2 and not answer["list_changed"], answer["loops"]
    assert len({t["thread"] for t in answer["tasks"]}) == 2
    wrong = errors_of(schema(), {"$ref": "#/components/schemas/Tasks"}, answer)
    assert not wrong, wrong
    looks.daemon.stop()
    assert target.process.poll() is None


def test_many(version):
    """10,000 tasks that are alike are one group."""
    target = tasks_of(version, "many", "10000")
    looks = Looks(target.pid)
    # A machine that does other work may have no time for all of them.
    answer = wait_until(lambda: (a := looks.look())["unread"] == 0 and a, "a look at all tasks", step=1)
    assert answer["found"] == 10001 and not answer["changed"] and not answer["list_changed"], answer["found"]
    assert {len(chain(answer, t)) for t in answer["tasks"]} == {1, 4}
    main = next(i for i, t in enumerate(answer["tasks"]) if len(chain(answer, t)) == 1)
    assert sum(t["awaited_by"] == [main] for t in answer["tasks"]) == 10000
    text = looks.daemon.client("tasks", "-p", target.pid).stdout
    assert "10001 tasks: 10001 waiting\n" in text, text
    assert "\n10000 tasks waiting for a sleep: Task-2, Task-3, Task-4, Task-5, and 9996 more\n    sleep (tasks.py:" in text, text
    assert "    awaited by Task-1 in many (py_tasks.py:" in text, text


def letters(frames):
    """Those of a chain's functions, but for what is not the program's."""
    return {function[0] for function, _, _ in frames if function[1:] in ("_outer", "_middle", "_inner")}


def is_whole(frames):
    """An order in which they call each other, without a gap, from the outermost."""
    names = [function.split("_", 1)[-1] for function, _, _ in frames]
    expected = ["turns", "outer", "middle", "inner"]
    own = [n for n in names if n in expected]
    return own == expected[: len(own)] and names[: len(own)] == own


def test_switching(version):
    """Tasks that take turns as fast as they can: what is shown was so at one moment."""
    target = tasks_of(version, "switch", "40")
    looks = Looks(target.pid)
    n_looks, n_chains, different = 0, 0, set()
    end = time.monotonic() + SWITCH_S
    while time.monotonic() < end or n_chains < 100:
        answer = looks.look()
        n_looks += 1
        assert n_looks < 10000, "hardly any task is ever seen"
        for task in answer["tasks"]:
            frames = chain(answer, task)
            assert is_whole(frames) or task["cut"], frames
            assert len(letters(frames)) <= 1, frames
            n_chains += 1
            different |= letters(frames)
    print(f"{n_looks} looks, {n_chains} chains, none mixed")
    assert different <= set("abcd") and different
    assert target.process.poll() is None


def test_a_coroutine_that_blocks_its_loop(version):
    """Where it does: among the frames of the running task."""
    target = tasks_of(version, "blocked")
    looks = Looks(target.pid)
    answer = wait_until(lambda: (a := looks.look())["changed"] == 0 and a, "tasks at rest")
    running = shown(answer, "blocker")
    assert running["state"] == "running" and not running["cut"], running
    [[function, file, line]] = chain(answer, running)
    assert function == "blocked" and file.endswith("/py_tasks.py") and line > 100, (function, line)
    assert shown(answer, "other")["state"] == "waiting"
    text = looks.daemon.client("tasks", "-p", target.pid).stdout
    assert "\n1 task running: blocker\n    blocked (py_tasks.py:" in text, text


def test_damaged_lists(version):
    """A process that overwrites its own tasks harms neither the daemon nor the others' answers."""
    if is_free_threaded(version):
        raise Skip("the place of a task's fields is looked for in builds with a GIL")
    daemon = Daemon()
    for kind in ("circle", "wild", "kernel", "odd", "names", "garbage"):
        target = tasks_of(version, "broken", kind)
        made = daemon.request("POST", "/v1/targets", {"pid": target.pid}, expect=201)
        answer = daemon.request("GET", f"/v1/targets/{made['id']}/tasks")
        check_counts(answer)
        names = {t["name"] for t in answer["tasks"]}
        if kind in ("names", "garbage"):
            assert answer["changed"] and {"n-0", "n-1", "n-3", "n-4", "n-5"} <= names and "n-2" not in names, (kind, names)
        else:
            assert answer["list_changed"] and len(names) < 7, (kind, names)
        daemon.request("DELETE", f"/v1/targets/{made['id']}")
        assert target.process.poll() is None
    assert daemon.process.poll() is None


def test_imports_no_asyncio(version):
    target = Target([interpreter(version), "-c", "import time; print('ready', flush=True); time.sleep(600)"])
    result = run([STAKEOUT, "tasks", "-p", target.pid])
    if result.returncode:
        assert "has not imported asyncio" in one_clear_line(result.stderr), result.stderr
    else:
        assert "0 running event loops: 0 tasks\nasyncio has no tasks there\n" in result.stdout, result.stdout


def test_refusals():
    """What has no tasks that are known is refused by name; what is another user's, as for a dump."""
    daemon = Daemon()
    old = Target([PYTHON, "-c", "import asyncio; print('ready', flush=True); input()"], stdin=subprocess.PIPE)
    native = start("split", 600)
    words = one_clear_line(daemon.client("tasks", "-p", native.pid, expect=1).stderr)
    assert "has no Python interpreter" in words, words
    result = daemon.client("tasks", "-p", old.pid, expect=None)
    version = run([PYTHON, "-c", "import sys; print(sys.version_info[1])"]).stdout.strip()
    if int(version) < 14:
        assert result.returncode == 1 and f"CPython 3.{version}: tasks" in one_clear_line(result.stderr), result
    made = daemon.request("POST", "/v1/targets", {"pid": old.pid, "keep": True}, expect=201)
    [(status, text)] = ask_as(daemon, [("GET", f"/v1/targets/{made['id']}/tasks", None)])
    assert status in (0, 403), (status, text)
    assert daemon.request("GET", "/v1/targets/424242/tasks", expect=404)
    assert run([STAKEOUT, "tasks"]).returncode == 2


def _of_each(test):
    for version in VERSIONS:
        name = f"{test.__name__}_{version.replace('.', '_')}"
        function = functools.partial(test, version)
        function.__name__, function.__doc__, function.__module__ = name, test.__doc__, __name__
        globals()[name] = function
    del globals()[test.__name__]


for _test in (
    test_as_asyncio_tells,
    test_many,
    test_switching,
    test_a_coroutine_that_blocks_its_loop,
    test_damaged_lists,
    test_imports_no_asyncio,
):
    _of_each(_test)
