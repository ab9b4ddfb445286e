# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeout memory against programs that count themselves, and against /proc/PID/smaps_rollup."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from harness import (
    LONG,
    PYTHON,
    STAKEOUT,
    Daemon,
    Target,
    long,
    need_module,
    need_tool,
    parse_folded,
    run,
    spawn,
    start,
    start_script,
    temporary_dir,
    timeout,
    uses,
    wait_until,
    workload,
)
from pprof_message import Message
from strangers import NOBODY, ask_as, become
from test_safety import Leftovers, bpf_objects, held_by
from test_stuck import hang, hanging, tell

# What a fresh program needs once, as its first blocks of memory, is over then.
SETTLED_S = 1.0
LEAK_S = 60 if LONG else 12


class Grower:
    """A program that says on request how many bytes it has kept, and what the kernel says of it."""

    def __init__(self, begin, *arguments):
        self.target = begin(*arguments, stdin=subprocess.PIPE)
        self.pid = self.target.pid

    def kept(self):
        self.target.process.stdin.write(b"\n")
        self.target.process.stdin.flush()
        return int(self.target.process.stdout.readline())

    def anonymous(self):
        """Bytes, by smaps_rollup, which counts pages one by one."""
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as f:
            return 1024 * int(re.search(r"^Anonymous:\s+(\d+) kB", f.read(), re.M).group(1))

    def end(self):
        assert self.target.process.poll() is None, "the target has died"
        self.target.process.kill()
        self.target.process.wait()


def cpp(mode, rate):
    return Grower(start, "mem_grow", mode, rate)


def python(mode, rate):
    return Grower(start_script, "py_memory.py", mode, rate)


def look(growers, seconds, *arguments):
    """What is said of each, and its true rates meanwhile in bytes a second: what it kept, and what became resident."""
    time.sleep(SETTLED_S)
    daemon = Daemon()
    argv = [STAKEOUT, "--socket", daemon.socket, "memory", "-d", seconds, "--json", *arguments]
    clients = [
        spawn([*argv, "-p", grower.pid], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for grower in growers
    ]
    wait_until(lambda: len(daemon.request("GET", "/v1/targets")) == len(growers), "all to be watched")
    begun = [(time.monotonic(), grower.kept(), grower.anonymous()) for grower in growers]
    time.sleep(seconds * 0.9)
    ended = [(time.monotonic(), grower.kept(), grower.anonymous()) for grower in growers]
    found = []
    for client, before, after in zip(clients, begun, ended):
        out, err = client.communicate(timeout=60)
        assert client.returncode == 0, err
        elapsed = after[0] - before[0]
        found.append((json.loads(out), [(y - x) / elapsed for x, y in zip(before[1:], after[1:])]))
    for grower in growers:
        grower.end()
    return found


def assert_near(value, truth, share, what):
    assert abs(value - truth) <= share * truth, f"{what}: {value} is not within {100 * share:.0f} % of {truth}"


def check_leak(answer, truth, line, share=0.1):
    """The verdict, the rate and the line; the lines' own rate within its interval and 10 %, as samples have it."""
    kept, resident = truth
    assert answer["verdict"] == "growing", answer
    assert re.search(line, answer["line"] or ""), (answer["line"], answer["lines"][:3])
    assert_near(answer["growth_bytes_per_s"], resident, share, "growth by what is resident")
    assert_near(answer["growth_bytes_per_s"], kept, share, "growth by what the program kept")
    assert answer["growth_bytes_per_s_low"] <= answer["growth_bytes_per_s"] <= answer["growth_bytes_per_s_high"]
    first = answer["lines"][0]
    low = first["function_kept_bytes_per_s"] * first["kept_bytes_per_s_low"] / first["kept_bytes_per_s"]
    high = first["function_kept_bytes_per_s"] * first["kept_bytes_per_s_high"] / first["kept_bytes_per_s"]
    # Twice the interval: one of twenty lies beyond the interval itself.
    middle = first["function_kept_bytes_per_s"]
    assert middle - 2 * (middle - low) - share * kept <= kept <= middle + 2 * (high - middle) + share * kept, first
    # The budget; where nothing else wants the CPUs it is a twentieth of a percent.
    assert answer["cost_percent"] < 3, answer["cost_percent"]
    assert answer["lost"] == 0 and answer["paused_s"] == 0 and answer["unread_processes"] == 0, answer


def check_no_leak(answer):
    assert answer["verdict"] in ("not growing", "grew once"), answer
    assert answer["line"] is None, answer["line"]


@timeout(200)
def test_leaks_of_a_megabyte_a_second():
    need_module("numpy")
    growers = [cpp("leak", 1), python("objects", 1), python("numpy", 1)]
    native, objects, numpy = look(growers, LEAK_S)
    check_leak(*native, r"^leak_record \(mem_grow\.cpp:\d+ in mem_grow\)$")
    check_leak(*objects, r"^keep_records \(py_memory\.py:\d+\)$")
    check_leak(*numpy, r"^keep_array \(py_memory\.py:\d+\)$")


@timeout(200)
def test_who_keeps_nothing_is_not_accused():
    growers = [cpp("churn", 50), cpp("steady", 5), python("churn", 20), cpp("churn", 20)]
    answers = [answer for answer, _ in look(growers, 10)]
    for answer in answers:
        check_no_leak(answer)
    churn = answers[-1]
    # It touches 20 MB a second again and again, in the same 128 pages. Four standard errors of 150 stacks, the fewest.
    assert_near(churn["allocated_bytes"], 20e6 * 10, 0.35, "what a program that keeps nothing touched")
    assert churn["in_use_bytes"] < 2e6, churn["in_use_bytes"]


@timeout(200)
def test_the_budget():
    """A program that does nothing but touch new memory loses no more than that, and what it may have used up at once."""
    answer, _ = look([cpp("churn", 5000)], 10)[0]
    check_no_leak(answer)
    assert answer["cost_percent"] < 3 + 100 * 0.1 / 10 + 1, (answer["cost_percent"], answer["paused_s"])


@long
@timeout(600)
def test_who_keeps_nothing_is_not_accused_in_20_runs():
    for _ in range(20):
        for answer, _ in look([cpp("churn", 20), python("churn", 20), cpp("steady", 2)], 10):
            check_no_leak(answer)


@timeout(200)
def test_a_leak_beside_a_program_that_churns():
    """A hundred times as much is touched and given back."""
    answer, truth = look([cpp("both", 20)], LEAK_S)[0]
    check_leak(answer, truth, r"^leak_record ", share=0.3)
    churn = next(line for line in answer["lines"] if line["line"].startswith("churn_buffer"))
    assert not churn["keeps"] and churn["allocated_bytes"] > 20 * truth[0], churn


@timeout(200)
def test_sums_are_those_of_smaps():
    """Also where one fault makes 2 MiB resident."""
    growers = [cpp("large", 20), cpp("leak", 10)]
    time.sleep(SETTLED_S)
    daemon = Daemon()
    ids = [
        daemon.request("POST", "/v1/targets", {"pid": g.pid, "rate_hz": 19, "memory": True}, expect=201)["id"]
        for g in growers
    ]
    before = [g.anonymous() for g in growers]
    time.sleep(5)
    after = [g.anonymous() for g in growers]
    for grower, target, first, last in zip(growers, ids, before, after):
        path = os.path.join(temporary_dir(), "memory.pb.gz")
        with open(path, "wb") as f:
            f.write(daemon.request("GET", f"/v1/targets/{target}/memory"))
        message = Message(path)
        assert message.types == [("alloc_space", "bytes"), ("inuse_space", "bytes")], message.types
        in_use = sum(sample.values[1] for sample in message.samples)
        # What was touched while this asked belongs to it, and the sample's own error to either.
        page = int(message.comments["memory.page_bytes"])
        error = 4 * (page * (last - first)) ** 0.5 + 25e6
        assert abs(in_use - (last - first)) < error, (in_use, last - first, page)
        grower.end()


@timeout(200)
def test_files_and_shared_memory_are_told_apart():
    shared, file = look([python("shared", 2), python("file", 2)], 6)
    for (answer, truth), which in ((shared, "shared"), (file, "file")):
        check_no_leak(answer)
        assert_near(answer[f"{which}_bytes_per_s"], truth[0], 0.15, which)
        other = "file" if which == "shared" else "shared"
        assert answer[f"{other}_bytes_per_s"] < truth[0] / 10, answer
        assert answer["in_use_bytes"] < 1e6, answer["in_use_bytes"]


@timeout(200)
def test_children_are_followed():
    target = start_script("py_memory.py", "child", 1, stdin=subprocess.PIPE)
    time.sleep(SETTLED_S)
    answer = json.loads(Daemon().client("memory", "-p", target.pid, "-d", 5, "--json").stdout)
    assert answer["verdict"] == "growing", answer
    assert answer["line"].startswith("keep_records (py_memory.py:"), answer["line"]
    target.process.kill()


@timeout(200)
def test_the_forms_agree():
    """pprof, folded stacks and a flame graph of one recording; go tool pprof reads the first one."""
    grower, where = cpp("leak", 5), temporary_dir()
    time.sleep(SETTLED_S)
    daemon = Daemon()
    path = os.path.join(where, "memory.pb.gz")
    said = daemon.client("memory", "-p", grower.pid, "-d", 6, "-o", path).stdout
    assert re.search(r"^growing: \+\d+\.\d MB a minute \[.*\], \d+\.\d of it kept by leak_record ", said, re.M), said
    assert daemon.client("memory", path).stdout == said
    message = Message(path)
    in_use = sum(sample.values[1] for sample in message.samples)
    for command in ("summary", "render", "steps"):
        refused = run([STAKEOUT, command, path])
        assert refused.returncode == 1 and "is a profile of memory, not of time" in refused.stderr, refused
    folded = run([STAKEOUT, "render", path, "--value", "inuse_space"])
    assert folded.returncode == 0, folded.stderr
    assert sum(parse_folded(folded.stdout).values()) == in_use
    out = os.path.join(where, "memory.folded")
    assert run([STAKEOUT, "memory", path, "-o", out]).returncode == 0
    with open(out, encoding="utf-8") as f:
        assert f.read() == folded.stdout
    page = os.path.join(where, "memory.html")
    assert run([STAKEOUT, "memory", path, "-o", page]).returncode == 0
    with open(page, encoding="utf-8") as f:
        text = f.read()
    assert "leak_record" in text and '"value":"inuse_space"' in text
    go = run([need_tool("go"), "tool", "pprof", "-top", "-inuse_space", "-unit=B", "-nodefraction=0", path])
    assert go.returncode == 0, go.stderr
    assert "Type: inuse_space" in go.stdout
    assert re.search(r"leak_record$", go.stdout, re.M), go.stdout
    total = re.search(r"of (\d+)B total", go.stdout)
    assert total and int(total.group(1)) == in_use, go.stdout
    grower.end()


def test_a_process_that_ends_meanwhile():
    grower = cpp("leak", 5)
    daemon = Daemon()
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "memory", "-p", grower.pid, "-d", 60],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: daemon.request("GET", "/v1/targets"), "it to be watched")
    time.sleep(3)
    grower.end()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    assert "the recording has ended: what of its memory is in use is not known any more\n" in out, out


def test_populated_pages_are_nobodys():
    """What mmap() itself makes resident (MAP_POPULATE) does not take the place of a page that was touched before."""
    grower = cpp("populate", 8)
    time.sleep(SETTLED_S)
    daemon = Daemon()
    daemon.client("attach", "-p", grower.pid, "--memory")
    before = grower.kept()
    time.sleep(6)
    said = json.loads(daemon.client("memory", "-p", grower.pid, "--so-far", "--json").stdout)
    touched = grower.kept() - before
    lines = {line["line"].split(" ")[0]: line["in_use_bytes"] for line in said["lines"]}
    assert set(lines) <= {"touch_one"}, lines
    # Pages of which one in four is chosen: five standard errors, and a second more than was counted.
    error = 5 * (4 * 4096 * touched) ** 0.5
    assert touched - error < lines["touch_one"] < touched * 2 + error, (touched, lines)
    grower.end()


FORKS = """
import os, resource, select
def faults():
    return sum(resource.getrusage(who).ru_minflt + resource.getrusage(who).ru_majflt
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print("ready", flush=True)
while True:
    pid = os.fork()
    if not pid:
        bytes(1 << 20)
        os._exit(0)
    os.waitpid(pid, 0)
    if select.select([0], [], [], 0)[0] and os.read(0, 100):
        print(faults(), flush=True)
"""


def test_faults_of_children():
    """Also those of children that live for less than the time between two readings."""
    path = os.path.join(temporary_dir(), "forks.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write(FORKS)
    grower = Grower(lambda **pipes: Target([PYTHON, path], **pipes))
    daemon = Daemon()
    before = grower.kept()
    daemon.client("attach", "-p", grower.pid, "--memory")
    time.sleep(1)
    begun = grower.kept()
    time.sleep(4)
    ended = grower.kept()
    profile = os.path.join(temporary_dir(), "memory.pb.gz")
    wait_until(lambda: daemon.client("memory", "-p", grower.pid, "--so-far", "-o", profile).returncode == 0, "a file")
    after = grower.kept()
    seen = int(Message(profile).comments["memory.faults"])
    # The first reading is some time after the process was attached.
    assert 0.5 * (ended - begun) < seen <= 1.02 * (after - before), (seen, before, begun, ended, after)
    grower.end()


def test_a_process_in_many_groups():
    """Whose /proc/PID/status is as long as a book."""
    grower = Grower(
        lambda **pipes: Target(
            [workload("mem_grow"), "leak", "5"],
            before_exec=lambda: os.setgroups(range(1000000, 1060000)),
            **pipes,
        )
    )
    said = json.loads(Daemon().client("memory", "-p", grower.pid, "-d", 4, "--json").stdout)
    assert said["verdict"] == "growing" and said["anonymous_bytes"] > 1e6, said
    grower.end()


def test_a_view_whose_target_has_ended():
    """What was known of its growth until then is the view's."""
    grower, daemon = cpp("leak", 5), Daemon()
    daemon.client("attach", "-p", grower.pid, "--memory")
    view = daemon.request("POST", "/v1/targets", {"pid": grower.pid, "memory": True}, expect=201)["id"]
    time.sleep(4)
    grower.end()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{view}")["state"] == "ended", "the end of the view")
    path = os.path.join(temporary_dir(), "memory.pb.gz")
    with open(path, "wb") as f:
        f.write(daemon.request("GET", f"/v1/targets/{view}/memory"))
    said = json.loads(run([STAKEOUT, "memory", path, "--json"]).stdout)
    assert said["ended"] and said["verdict"] == "growing", said
    assert 4e6 < said["growth_bytes_per_s"] < 6e6 and not said["in_use_bytes"], said


def test_a_target_of_the_daemon_is_looked_at():
    """A recording of a process that is watched already; and what is said of one that is not watched so."""
    grower = cpp("leak", 5)
    daemon = Daemon()
    daemon.client("attach", "-p", grower.pid)
    kept = daemon.request("GET", "/v1/targets")[0]["id"]
    answer = daemon.request("GET", f"/v1/targets/{kept}/memory", expect=409)
    assert "without" in answer["error"], answer
    answer = json.loads(daemon.client("memory", "-p", grower.pid, "-d", 6, "--json").stdout)
    assert answer["verdict"] == "growing" and answer["line"].startswith("leak_record "), answer
    daemon.request("GET", f"/v1/targets/{kept}/memory", expect=409)
    grower.end()


def test_a_process_that_is_attached_for_it():
    """Its growth at any moment, and its memory in what Prometheus scrapes."""
    grower = cpp("leak", 5)
    time.sleep(SETTLED_S)
    daemon = Daemon()
    daemon.client("attach", "-p", grower.pid, "--memory")
    before = grower.anonymous()
    first = wait_until(
        lambda: (said := json.loads(daemon.client("memory", "-p", grower.pid, "--so-far", "--json").stdout))["verdict"]
        == "growing"
        and said,
        "growth",
        step=1,
    )
    assert first["line"].startswith("leak_record "), first["line"]
    time.sleep(4)
    second = json.loads(daemon.client("memory", "-p", grower.pid, "--so-far", "--json").stdout)
    grown = grower.anonymous() - before
    assert second["in_use_bytes"] > first["in_use_bytes"] + 10e6, (first["in_use_bytes"], second["in_use_bytes"])
    assert_near(second["in_use_bytes"], grown, 0.2, "what is in use of all that was touched")
    metrics = daemon.request("GET", "/metrics").decode()
    found = dict(re.findall(r'^stakeout_target_memory_bytes\{.*kind="(\w+)"\} (\S+)$', metrics, re.M))
    assert set(found) == {"anonymous", "file", "shared", "swapped"}, metrics
    assert_near(float(found["anonymous"]), grower.anonymous(), 0.2, "anonymous memory in the metrics")
    grower.end()


def test_two_moments():
    """By line what came between two looks at a process that is attached; and by two files alone."""
    grower, daemon, where = cpp("leak", 5), Daemon(), temporary_dir()
    first, second = os.path.join(where, "1.pb.gz"), os.path.join(where, "2.pb.gz")
    daemon.client("attach", "-p", grower.pid, "--memory")
    time.sleep(2)
    daemon.client("memory", "-p", grower.pid, "--so-far", "-o", first)
    before = grower.anonymous()
    time.sleep(4)
    text = daemon.client("memory", "-p", grower.pid, "--so-far", "-o", second, "--base", first).stdout
    grown = grower.anonymous() - before
    said = json.loads(run([STAKEOUT, "memory", second, "--base", first, "--json"]).stdout)
    line = said["lines"][0]
    assert line["line"].startswith("leak_record ") and said["all"]["line"] is None, said
    assert_near(line["change_bytes"], grown, 0.35, "what came between the moments")
    assert line["change_bytes_low"] < line["change_bytes"] < line["change_bytes_high"], line
    assert abs(line["now_bytes"] - line["before_bytes"] - line["change_bytes"]) < 1, line
    shown = re.search(r"^ +\+([0-9.]+)  \[\+[0-9.]+, \+[0-9.]+\] +[0-9.]+ +[0-9.]+  leak_record ", text, re.M)
    assert shown and abs(float(shown.group(1)) - line["change_bytes"] / 1e6) < 0.06, text
    same = json.loads(run([STAKEOUT, "memory", second, "--base", second, "--json"]).stdout)
    assert same["all"]["change_bytes"] == 0 and same["all"]["change_bytes_low"] < 0, same["all"]
    refused = run([STAKEOUT, "memory", second, "--base", "/dev/null"])
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1, refused
    grower.end()


def test_rights():
    """A user sees the memory of their own processes alone; few of them at a time."""
    roots, daemon = cpp("leak", 1), Daemon("--socket-mode", "0666", "--group", "")
    target = daemon.request("POST", "/v1/targets", {"pid": roots.pid, "rate_hz": 19, "memory": True}, expect=201)["id"]
    program = shutil.copy(workload("mem_grow"), temporary_dir())
    own = [
        Target([program, "leak", "2"], before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/", stdin=subprocess.PIPE)
        for _ in range(5)
    ]
    attach = [("POST", "/v1/targets", {"pid": t.pid, "rate_hz": 19, "memory": True}) for t in own]
    refused, others, *answers = ask_as(
        daemon,
        [
            ("GET", f"/v1/targets/{target}/memory", None),
            ("POST", "/v1/targets", {"pid": roots.pid, "memory": True}),
            *attach,
        ],
    )
    assert refused[0] == others[0] == 403, (refused, others)
    assert [status for status, _ in answers] == [201] * 4 + [503], answers
    assert "memory" in json.loads(answers[4][1])["error"], answers[4]
    time.sleep(2)
    first = json.loads(answers[0][1])["id"]
    (status, _), (ended, _), (again, _) = ask_as(
        daemon,
        [("GET", f"/v1/targets/{first}/memory", None), ("DELETE", f"/v1/targets/{first}", None), attach[4]],
    )
    assert (status, ended, again) == (200, 200, 201)
    roots.end()


@uses("a process that hangs")
def test_a_process_that_hangs():
    """Whose memory nobody can read, while readings of how much it has go on, and so do other targets."""
    grower, daemon = cpp("leak", 5), Daemon()
    with hanging() as target:
        ids = [
            daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": 19, "memory": True}, expect=201)["id"]
            for pid in (target.pid, grower.pid)
        ]

        def ask(number):
            path, began = os.path.join(temporary_dir(), "memory.pb.gz"), time.monotonic()
            with open(path, "wb") as f:
                f.write(daemon.request("GET", f"/v1/targets/{ids[number]}/memory"))
            assert time.monotonic() - began < 15, time.monotonic() - began
            return Message(path)

        def readings(message):
            return message.comments["memory.series"].split(",")

        hang(target)
        stuck = ask(0)
        assert int(stuck.comments["memory.unread_processes"]) <= 1, stuck.comments
        assert int(ask(1).comments["memory.unread_processes"]) == 0
        time.sleep(2)
        assert len(readings(ask(0))) >= len(readings(stuck)) + 4
        assert sum(sample.values[1] for sample in ask(1).samples) > 5e6
        tell(target, b"free\n")
        wait_until(lambda: int(ask(0).comments["memory.unread_processes"]) == 0, "its pages to be looked up", step=0.5)
    grower.end()


def test_kill_9_leaves_nothing():
    grower = cpp("leak", 5)
    leftovers = Leftovers()
    daemon = Daemon()
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "memory", "-p", grower.pid, "-d", 60],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(t["state"] == "sampling" for t in daemon.request("GET", "/v1/targets")), "sampling")
    leftovers.look(daemon.process.pid)
    assert leftovers.brought["link"], "nothing was attached"
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    leftovers.check_gone()
    assert client.wait(timeout=60) == 1
    kept = grower.kept()
    time.sleep(0.5)
    assert grower.kept() > kept
    grower.end()


def test_nothing_runs_when_nobody_asks():
    """The tracepoints are taken away with the last target that is watched so."""
    grower = cpp("leak", 5)
    daemon = Daemon()
    need_tool("bpftool")
    pid = daemon.process.pid
    before = held_by(pid)["link"]
    target = daemon.request("POST", "/v1/targets", {"pid": grower.pid, "rate_hz": 19}, expect=201)["id"]
    links = held_by(pid)["link"] - before
    daemon.request("DELETE", f"/v1/targets/{target}")
    target = daemon.request("POST", "/v1/targets", {"pid": grower.pid, "rate_hz": 19, "memory": True}, expect=201)["id"]
    more = held_by(pid)["link"] - before
    # Three tracepoints: page faults of either mode, and pages.
    assert len(more) == len(links) + 3, (links, more)
    daemon.request("DELETE", f"/v1/targets/{target}")
    wait_until(lambda: held_by(pid)["link"] <= before and not more & bpf_objects("link"), "the links to go")
    grower.end()
