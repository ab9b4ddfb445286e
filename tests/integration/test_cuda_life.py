# SPDX-License-Identifier: GPL-2.0-or-later
"""CUDA calls of processes that come and go, of static and real runtimes, on a budget; and what a person sees."""
import json
import os
import re
import signal
import subprocess
import time

from cuda_targets import (
    ALL,
    DRIVER,
    FOLDER,
    RUNTIME,
    Watch,
    check_against,
    counted,
    finish,
    go,
    launches,
    outermost,
    program,
    python_program,
    summary_of,
    watch_all,
)
from harness import (
    STAKEOUT,
    Daemon,
    Skip,
    Target,
    long,
    need_bpf,
    need_tool,
    one_clear_line,
    quiet,
    run,
    spawn,
    start,
    temporary_dir,
    timeout,
    wait_until,
    workload,
)
from strangers import readable_client

# Attaching and detaching.


@timeout(120)
def test_attach_before_the_library_is_loaded():
    daemon = Daemon()
    target = program("cuda_dlopen", workload(os.path.join(FOLDER, RUNTIME)), "stdin", 300)
    watch = watch_all(daemon, target, libraries=0)
    before = watch.answer()
    assert not before["available"] and not before["calls"], before
    go(target)
    truth, answer = finish(target), watch.at_end()
    seen, true = counted(answer), outermost(truth)
    assert set(seen) == set(true), (seen, true)
    for key, entry in seen.items():
        # Mappings are noticed by the samples that fall into them, or when they are next read: within a second.
        assert true[key]["calls"] * 2 / 3 <= entry["calls"] <= true[key]["calls"], (key, entry, true[key])


def survives(target, calls):
    """It ends well, and has done what it was to do."""
    truth = finish(target)
    true = sum(entry["calls"] for entry in outermost(truth).values())
    assert true == calls, (true, calls)


def test_detach_in_the_middle_of_a_call():
    """The return addresses that the probes replaced still lead home."""
    daemon = Daemon()
    target = program("cuda_calls", "-t", 3, "-n", 1, "-m", "stream_sync", rules="cudaStreamSynchronize=1500ms")
    watch = watch_all(daemon, target)
    go(target)
    wait_until(lambda: watch.answer()["probes"]["hits"] >= 3, "the calls' begin")
    daemon.request("DELETE", watch.path)
    assert target.process.poll() is None
    survives(target, 3)


def test_calls_under_way_are_named():
    """Of a job that hangs in a call: which thread, in which call, for how long."""
    daemon = Daemon()
    target = program("cuda_calls", "-t", 2, "-n", 1, "-m", "stream_sync", rules="cudaStreamSynchronize=6s")
    watch = watch_all(daemon, target)
    assert watch.answer()["in_progress"] == []
    go(target)
    wait_until(lambda: len(watch.answer()["in_progress"]) == 2, "the calls' begin")
    time.sleep(1.2)
    under_way = watch.answer()["in_progress"]
    threads = {int(tid) for tid in os.listdir(f"/proc/{target.pid}/task")}
    assert {row["tid"] for row in under_way} <= threads and len({row["tid"] for row in under_way}) == 2, under_way
    for row in under_way:
        assert row["api"] == "cudaStreamSynchronize" and row["pid"] == target.pid, row
        assert 1.2e9 <= row["since_ns"] < 6e9, row
    shown = daemon.client("cuda", "-p", str(target.pid), "-d", "0.5", "-q").stdout
    for row in under_way:
        assert re.search(rf"not returned yet.*: cudaStreamSynchronize in thread {row['tid']}, for [\d.]+ s", shown), shown
    survives(target, 2)
    assert watch.at_end()["in_progress"] == []


def test_attach_in_the_middle_of_a_call():
    """A call that had begun before is not counted, and nothing is lost by that."""
    daemon = Daemon()
    target = program("cuda_blocked", 2)
    watch = watch_all(daemon, target)
    truth, answer = finish(target), watch.at_end()
    assert truth["images"][RUNTIME]["cudaStreamSynchronize"]["calls"] == 1
    # The driver's part of it may begin later than the probes.
    assert sum(row["calls"] for row in answer["calls"]) <= 1, answer["calls"]
    assert not any(answer["lost"].values()), answer["lost"]


@timeout(120)
def test_daemon_killed_in_the_middle_of_calls():
    daemon, rounds = Daemon(), 60000
    rules = "cudaStreamSynchronize=50us,cudaLaunchKernel=5us"
    target = program("cuda_calls", "-t", 4, "-n", rounds, "-m", "launch,stream_sync", rules=rules)
    watch = watch_all(daemon, target)
    go(target)
    wait_until(lambda: watch.answer()["probes"]["hits"] > 1000, "calls")
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    assert target.process.poll() is None, "it had ended already"
    survives(target, 4 * rounds)


@long
@timeout(120)
def test_attach_and_detach_again_and_again():
    """Calls are always under way when the probes come and go; the target does not care, and no count exceeds the truth."""
    daemon, rounds = Daemon(), 400000
    target = program("cuda_calls", "-t", 4, "-n", rounds, "-m", "launch,stream_sync", rules="cudaStreamSynchronize=20us")
    go(target)
    seen = 0
    for _ in range(8):
        watch = watch_all(daemon, target)
        time.sleep(0.1)
        answer = watch.answer()
        seen += sum(entry["calls"] for (file, _), entry in counted(answer).items() if file == RUNTIME)
        daemon.request("DELETE", watch.path)
    assert target.process.poll() is None, "it had ended already"
    survives(target, 4 * rounds)
    assert 0 < seen < 4 * rounds, seen


def launches_by_pid(answer):
    sums = {}
    for row in answer["calls"]:
        if row["kind"] == "launch":
            sums[row["pid"]] = sums.get(row["pid"], 0) + row["calls"]
    return sums


def test_a_forked_child():
    """It has its parent's mappings, and no event tells of them."""
    daemon = Daemon()
    target = python_program("py_cuda_processes.py", "fork")
    watch = watch_all(daemon, target)
    go(target)
    target.finish()
    by_pid = launches_by_pid(watch.at_end())
    assert by_pid.pop(target.pid) == 10 and list(by_pid.values()) == [50], by_pid


def test_children_without_calls_are_forgotten():
    """A loader's workers map the libraries and use none: however many there were, the answer does not grow."""
    daemon = Daemon()
    target = python_program("py_cuda_processes.py", "workers")
    watch = watch_all(daemon, target)
    go(target)
    wait_until(lambda: len({row["pid"] for row in watch.answer()["libraries"]}) > 1, "a child's probes")
    target.finish()
    answer = watch.at_end()
    assert {row["pid"] for row in answer["libraries"]} == {target.pid}, answer["libraries"]
    assert launches_by_pid(answer) == {target.pid: 10}, launches_by_pid(answer)


@timeout(60)
def test_a_program_that_becomes_another():
    daemon = Daemon()
    calls = workload("cuda/cuda_calls")
    target = python_program("py_cuda_processes.py", "exec", calls, "-n", 300, "-w", "stdin", "-m", "launch")
    watch = watch_all(daemon, target)
    go(target)
    assert target.process.stdout.readline() == b"ready\n"
    time.sleep(1)
    # The same libraries are mapped anew, and have numbers of their own.
    assert len(watch.answer()["libraries"]) == 4, watch.answer()["libraries"]
    go(target)
    target.finish()
    answer = watch.at_end()
    assert launches_by_pid(answer) == {target.pid: 320}, launches_by_pid(answer)
    assert sorted(launches(answer).items(), key=str) == [("scale_kernel", 300), (None, 20)], launches(answer)


def test_names_end_with_the_watch():
    """What becomes of a kernel's host function while nobody watches is not known: no name is better than a wrong one."""
    daemon = Daemon()
    # With nothing left to watch all names would go.
    daemon.request("POST", "/v1/targets", {"pid": start("sleeper", 600).pid, "keep": True}, expect=201)
    target = python_program("py_cuda_processes.py", "rename")
    watch = watch_all(daemon, target)
    go(target)
    assert target.process.stdout.readline() == b"paused\n"
    assert launches(watch.answer()) == {"former_owner": 20}, launches(watch.answer())
    daemon.request("POST", watch.path + "/stop")
    daemon.request("DELETE", watch.path)
    time.sleep(0.5)
    go(target)
    assert target.process.stdout.readline() == b"paused\n"
    watch = watch_all(daemon, target)
    go(target)
    target.finish()
    assert launches(watch.at_end()) == {None: 30}, launches(watch.answer())


# Static runtimes.


def two_runtimes(name):
    daemon = Daemon()
    target = program(name, 2000, "shared")
    watch = watch_all(daemon, target)
    go(target)
    truth, answer = finish(target), watch.at_end()
    check_against(answer, truth, static=name)
    own = {os.path.basename(library["path"]): library["static"] for library in answer["libraries"]}
    # A runtime loads the driver when it is first called.
    own.pop(DRIVER, None)
    assert own == {name: True, RUNTIME: False}, own
    assert counted(answer)[(name, "cudaMalloc")]["calls"] == 2000
    assert counted(answer)[(RUNTIME, "cudaMalloc")]["calls"] == 4000


@timeout(120)
def test_a_static_and_a_shared_runtime_in_one_process():
    two_runtimes("cuda_static")
    two_runtimes("cuda_static_hidden")


def test_a_stripped_static_runtime_is_said():
    """By NVIDIA's own: the stand-in has no device code, by which such a program is known."""
    need_bpf()
    path = os.path.join(temporary_dir(), "stripped_loop")
    subprocess.run([need_tool("strip"), "-o", path, workload("cuda/nvcc_loop")], check=True)
    daemon = Daemon()
    target = Target([path, 100], stdin=subprocess.PIPE)
    watch = watch_all(daemon, target, libraries=0)
    wait_until(lambda: watch.answer()["problems"], "what is wrong with the program")
    [problem] = watch.answer()["problems"]
    assert path in problem and "\n" not in problem and "without symbols" in problem, problem
    shown = daemon.client("cuda", "-p", str(target.pid), "-d", "0.2", "-q").stdout
    assert path in shown and "without symbols" in shown, shown


@long
def test_the_driver_of_a_stripped_static_runtime():
    """Its calls are counted in the runtime's stead, as soon as they are seen."""
    daemon = Daemon()
    target = program("cuda_static_stripped", 400000, "alone", rules="cudaStreamSynchronize=5us")
    watch = watch_all(daemon, target, libraries=0)
    go(target)
    truth, answer = finish(target), watch.at_end()
    driver, seen = truth["images"][DRIVER], counted(answer)
    assert seen and {file for file, _ in seen} == {DRIVER}, (seen, answer["libraries"])
    for (_, api), entry in seen.items():
        assert driver[api]["calls"] / 2 < entry["calls"] <= driver[api]["calls"], (api, entry, driver[api])


# NVIDIA's own runtime, which finds no GPU here.


@timeout(120)
def test_the_real_runtime():
    need_bpf()
    probe = run([workload("cuda/cuda_real"), 1, "no"])
    if probe.returncode == 77:
        raise Skip(f"there is no libcudart: {probe.stderr.strip() or 'not found'}")
    daemon = Daemon()
    target = Target([workload("cuda/cuda_real"), 500], stdin=subprocess.PIPE)
    watch = watch_all(daemon, target, libraries=1)
    go(target)
    real_counts(watch, json.loads(target.finish().splitlines()[-1]))


@timeout(120)
def test_the_real_static_runtime():
    need_bpf()
    daemon = Daemon()
    target = Target([workload("cuda/nvcc_loop"), 500], stdin=subprocess.PIPE)
    watch = watch_all(daemon, target, libraries=1)
    go(target)
    answer = real_counts(watch, json.loads(target.finish().splitlines()[-1]))
    assert any(library["static"] for library in answer["libraries"]), answer["libraries"]


def real_counts(watch, truth):
    answer = watch.at_end()
    sums = {}
    for (_, api), entry in counted(answer).items():
        calls, errors = sums.get(api, (0, 0))
        sums[api] = (calls + entry["calls"], errors + entry["errors"])
    for api, calls in truth["calls"].items():
        assert sums[api][0] == calls, (api, sums, truth)
    by_code = {}
    for entry in answer["errors"]:
        by_code[entry["api"]] = by_code.get(entry["api"], 0) + entry["count"]
        assert entry["code"], entry
    assert by_code == {api: errors for api, (_, errors) in sums.items() if errors}, (by_code, sums)
    return answer


# The budget.


# As on Linux 6.6 to 6.12: an entry and a return have links of their own.
MULTI = {"STAKEOUT_CUDA_PROBES": "multi"}


def need_multi(watch):
    kind = watch.answer()["probes"]["kind"]
    if kind != "multi":
        raise Skip(f"this kernel has no links of many uprobes, but {kind}")


@timeout(120)
def test_multi_links_count_as_sessions_do():
    daemon = Daemon(env=MULTI)
    target = program("cuda_calls", "-t", 2, "-n", 3000, "-m", "launch,htod,stream_sync,malloc,launch_ex")
    watch = watch_all(daemon, target)
    need_multi(watch)
    go(target)
    check_against(watch.at_end(), finish(target))


@quiet
@timeout(200)
def test_the_rare_among_many_that_do_the_same_are_exact():
    """Calls that do the same are of several kinds: those of which there are many go down the ladder, and no others."""
    for mix, many, few in (
        ("event_sync*100,device_sync", "cudaEventSynchronize", "cudaDeviceSynchronize"),
        ("event_query*100,event_record", "cudaEventQuery", "cudaEventRecord"),
        ("malloc_async*200,host_alloc", "cudaMallocAsync", "cudaHostAlloc"),
    ):
        rare_among_many(mix, many, few)


def rare_among_many(mix, many, few):
    daemon = Daemon()
    target = program("cuda_calls", "-d", 7, "-r", 40000, "-m", mix, rules="cudaDeviceSynchronize=300us,cudaHostAlloc=200us")
    watch = Watch(daemon, target)
    go(target)
    truth, answer = finish(target)["images"][RUNTIME], watch.at_end()
    calls = {api: (entry["calls"], truth[api]["calls"]) for (_, api), entry in counted(answer).items()}
    print(mix, calls, answer["probes"]["rungs"], answer["estimate"])
    assert calls[few][0] == calls[few][1] > 100, calls
    assert calls[many][1] > 100 * (calls[few][1] - 1), calls
    estimated = answer["estimate"]["by_api"]
    assert many in estimated and few not in estimated, answer["estimate"]
    assert all(truth[api]["calls"] > 100 * (calls[few][1] - 1) for api in estimated), (estimated.keys(), truth)
    assert not answer["lost"]["unfinished"], answer["lost"]
    lines = [row for row in answer["lines"] if row["api"] == few]
    assert sum(row["calls"] for row in lines) == calls[few][0], lines
    # What waits has its stacks taken; of the others a bounded number a second is enough.
    if few != "cudaEventRecord":
        assert sum(row["stacks"] for row in lines) > 0.25 * calls[few][0], lines


@quiet
def test_what_is_under_way_when_probes_go_hides_no_other_call():
    """Nearly always a long launch is under way when launches go. A copy from further up the stack is not inside of it."""
    daemon = Daemon()
    target = program("cuda_calls", "-d", 6, "-m", "launch*100,deep_htod", rules="cudaLaunchKernel=2000*99/10000000*1")
    watch = Watch(daemon, target)
    go(target)
    truth, answer = finish(target), watch.at_end()
    assert list(answer["estimate"]["by_api"]) == ["cudaLaunchKernel"], answer["estimate"]
    assert not answer["lost"]["unfinished"], answer["lost"]
    calls, true = counted(answer)[RUNTIME, "cudaMemcpy"]["calls"], truth["images"][RUNTIME]["cudaMemcpy"]["calls"]
    assert calls == true > 100, (calls, true)


# What a person sees.


def test_no_cuda():
    daemon = Daemon()
    target = start("split", 600)
    result = daemon.client("cuda", "-p", str(target.pid), "-d", "0.3", "-q")
    assert "CUDA is not loaded in this process" in result.stdout.splitlines()[0], result.stdout
    assert str(target.pid) in result.stdout.splitlines()[0], result.stdout
    assert not result.stderr, result.stderr
    answer = summary_of(daemon, target, 0.3)
    assert not answer["available"] and not answer["calls"], answer


def test_what_cannot_be_watched():
    need_bpf()
    result = run([STAKEOUT, "cuda", "-p", "999999999", "-d", "1"])
    assert result.returncode in (1, 2) and not result.stdout, result
    assert "999999999" in one_clear_line(result.stderr)
    daemon = Daemon()
    gone = subprocess.Popen(["true"])
    gone.wait()
    result = daemon.client("cuda", "-p", str(gone.pid), "-d", "1", expect=1)
    assert str(gone.pid) in one_clear_line(result.stderr) and not result.stdout
    for arguments in (("--budget", "0"), ("--budget", "x"), ("-d", "-1"), ("--nonsense",)):
        result = daemon.client("cuda", "-p", str(os.getpid()), *arguments, expect=2)
        assert result.stderr.startswith("stakeout") and not result.stdout, result
    for arguments in (("-p", str(os.getpid()), "--budget", "5"), ("--match", "x", "--cuda"), ("-p", "1", "--cuda", "--budget", "200")):
        result = daemon.client("attach", *arguments, expect=2)
        assert result.stderr.startswith("stakeout") and not result.stdout, result
    result = daemon.client("cuda", expect=2)
    assert result.stderr.startswith("stakeout"), result.stderr


def test_someone_else_s_process():
    """Without privileges one clear line; the process is left alone."""
    need_bpf()
    target = program("cuda_calls", "-n", 10)
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    need_tool("setpriv")
    result = run([*as_nobody, readable_client(), "cuda", "-p", target.pid, "-d", "1"])
    assert result.returncode == 1 and not result.stdout, result
    one_clear_line(result.stderr)
    go(target)
    survives(target, 10)


def test_interrupted():
    """Ctrl-C ends it early, and what was taken is shown."""
    daemon = Daemon()
    target = program("cuda_calls", "-d", 30, "-r", 1000, "-m", "launch,stream_sync")
    go(target)
    began = time.monotonic()
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "cuda", "-p", target.pid, "-d", "25", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: daemon.request("GET", "/v1/targets"), "the attaching")
    time.sleep(1.5)
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=20)
    assert client.returncode == 0, err
    assert time.monotonic() - began < 15
    answer = json.loads(out)
    assert 1 < answer["duration_s"] < 12 and answer["summary"]["calls"] > 300, answer["summary"]["calls"]
    assert not daemon.request("GET", "/v1/targets")


def test_the_target_ends_early():
    daemon = Daemon()
    target = program("cuda_calls", "-n", 500, "-r", 500, "-m", "launch,stream_sync")
    client = spawn(
        [STAKEOUT, "--socket", daemon.socket, "cuda", "-p", target.pid, "-d", "60", "--json", "--budget", str(ALL)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: daemon.request("GET", "/v1/targets"), "the attaching")
    time.sleep(1)
    go(target)
    truth = finish(target)
    out, err = client.communicate(timeout=30)
    assert client.returncode == 0 and re.fullmatch(r"process \d+ ended after [\d.]+ s\n", err), err
    check_against(json.loads(out), truth)


def test_the_probes_are_listed():
    daemon = Daemon()
    for variant in ("plain", "ibt"):
        target = program("cuda_calls", variant=variant)
        shown = daemon.client("cuda", "-p", str(target.pid), "-d", "0.3", "-q", "--probes").stdout
        line = next(text for text in shown.splitlines() if re.search(r"\bcudaLaunchKernel\b", text))
        # Never the entry's endbr64, which the kernel would have to single-step.
        assert "endbr64" not in line.split("(")[0], line
        assert "single-stepped" not in line, line


@timeout(60)
def test_stacks_go_through_return_probes():
    """Of a thread in a CUDA call the return address on its stack is the kernel's trampoline."""
    daemon = Daemon()
    target = program("cuda_calls", "-d", 4, "-r", 2000, "-m", "launch*5", rules="cudaLaunchKernel=50us")
    watch = watch_all(daemon, target, rate_hz=999)
    go(target)
    finish(target)
    watch.at_end()
    stats = daemon.request("GET", watch.path + "/stats")
    # What is left are instructions that the kernel runs in a place of its own.
    assert stats["samples"] > 200 and stats["truncated"].get("no-mapping", 0) <= 0.02 * stats["samples"], stats
