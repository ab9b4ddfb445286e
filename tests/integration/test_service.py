# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeoutd as a service: the TCP door, metrics, a service manager, the configuration file, what is installed beside it."""
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

from harness import (
    SOURCE_DIR,
    STAKEOUT,
    STAKEOUTD,
    Daemon,
    Target,
    cpu_seconds,
    long,
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
from metrics_text import parse_metrics
from tcp_door import TOKEN, ask, tcp_daemon, token_file

def refused(*arguments):
    """What stakeoutd says when it does not start; its exit status."""
    path = os.path.join(temporary_dir(), "socket")
    result = run([STAKEOUTD, "--socket", path, *arguments], seconds=20)
    assert result.returncode != 0 and not os.path.exists(path), result
    return one_clear_line(result.stderr), result.returncode


def test_tcp_needs_the_token():
    daemon = tcp_daemon()
    status, _, body = ask(daemon, "/v1/status")
    assert status == 200 and json.loads(body)["pid"] == daemon.process.pid
    for token in (None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper()):
        status, headers, body = ask(daemon, "/v1/status", token)
        assert status == 401, (token, status)
        assert headers["WWW-Authenticate"].startswith("Bearer")
        assert body.count("\n") == 1 and "token" in json.loads(body)["error"] and TOKEN not in body
    assert ask(daemon, "/v1/targets", "wrong", "POST", "x" * 200000)[0] == 401
    assert TOKEN not in daemon.log()
    assert daemon.stop() == 0


def test_tcp_with_curl():
    curl = need_tool("curl")
    daemon = tcp_daemon()
    url = f"http://127.0.0.1:{daemon.port}/v1/status"
    result = run([curl, "-sSf", "-H", f"Authorization: Bearer {TOKEN}", url])
    assert json.loads(result.stdout)["pid"] == daemon.process.pid
    assert run([curl, "-sf", url]).returncode == 22


def test_tcp_only_reads():
    daemon = tcp_daemon()
    target = start("split", 600)
    for method, path, body in (
        ("POST", "/v1/targets", json.dumps({"pid": target.pid})),
    ):
        status, _, answer = ask(daemon, path, method=method, body=body)
        assert status == 403 and "Unix socket" in json.loads(answer)["error"], answer
    status, _, answer = ask(daemon, f"/debug/pprof/profile?pid={target.pid}&seconds=1")
    assert status == 403 and "not watched" in json.loads(answer)["error"], answer
    assert daemon.request("GET", "/v1/targets") == []
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid}, expect=201)
    assert [t["pid"] for t in json.loads(ask(daemon, "/v1/targets")[2])] == [target.pid]
    for method, path in (("DELETE", ""), ("POST", "/stop")):
        assert ask(daemon, f"/v1/targets/{made['id']}{path}", method=method)[0] == 403
    assert daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "sampling"


def pull(daemon, arguments):
    """Samples by process of a pulled profile."""
    status, headers, answer = ask(daemon, "/debug/pprof/profile?" + arguments)
    assert status == 200, (status, answer)
    assert headers["Content-Type"] == "application/octet-stream", headers  # or Alloy refuses it
    path = os.path.join(temporary_dir(), "pulled.pb.gz")
    with open(path, "wb") as f:
        f.write(answer.encode(errors="surrogateescape"))
    samples = {}
    rendered = run([STAKEOUT, "render", "-t", path])
    assert rendered.returncode == 0, rendered.stderr
    for line in rendered.stdout.splitlines():
        pid = int(re.match(r"[^;]*-(\d+)/\d+;", line).group(1))
        samples[pid] = samples.get(pid, 0) + int(line.rsplit(" ", 1)[1])
    return samples


def test_pullers_of_all_get_who_comes_meanwhile():
    """From the moment that it is watched; who goes meanwhile, too; and nothing is no failure."""
    daemon = tcp_daemon()
    begun = time.monotonic()
    assert pull(daemon, "seconds=1") == {}
    assert time.monotonic() - begun >= 1
    first, second = start("split", 600), start("split", 600)
    daemon.request("POST", "/v1/targets", {"pid": first.pid, "rate_hz": 499, "keep": True}, expect=201)
    result = {}
    puller = threading.Thread(target=lambda: result.update(pull(daemon, "seconds=6")))
    begun = time.monotonic()
    puller.start()
    wait_until(lambda: limit(daemon, "views")["now"] > 0, "the pull's recording")
    time.sleep(1)
    first.process.kill()
    first.process.wait()
    daemon.request("POST", "/v1/targets", {"pid": second.pid, "rate_hz": 499, "keep": True}, expect=201)
    puller.join()
    assert time.monotonic() - begun >= 6, "it ended with the first process"
    assert set(result) == {first.pid, second.pid}, result
    assert result[first.pid] > 10 and result[second.pid] > 10, result
    assert {t["pid"] for t in daemon.request("GET", "/v1/targets")} == {first.pid, second.pid}


def limit(daemon, name):
    return {entry["name"]: entry for entry in daemon.request("GET", "/v1/status")["limits"]}[name]


def test_pullers_of_as_many_as_can_be_watched():
    """Two engines pull all of 64 targets at once; a 65th target is refused, and a recording is not."""
    daemon = tcp_daemon()
    workers = [start("sleeper", 600) for _ in range(63)]
    busy, further = start("split", 600), start("split", 600)
    for worker in (*workers, busy):
        daemon.request("POST", "/v1/targets", {"pid": worker.pid, "keep": True}, expect=201)
    answer = daemon.request("POST", "/v1/targets", {"pid": further.pid, "keep": True}, expect=503)
    assert "64 targets are watched already" in answer["error"], answer
    results = [{}, {}]
    pullers = [threading.Thread(target=lambda result=r: result.update(pull(daemon, "seconds=8"))) for r in results]
    for puller in pullers:
        puller.start()
    wait_until(lambda: limit(daemon, "views")["now"] == 128, "two recordings of each")
    assert limit(daemon, "targets")["now"] == 64
    assert daemon.record(busy.pid, duration=1, rate=99).samples > 0
    for puller in pullers:
        puller.join()
    assert all(result.get(busy.pid, 0) > 0 for result in results), results
    assert limit(daemon, "views")["now"] == limit(daemon, "views")["hit"] == 0


@long
def test_pullers_of_jobs_that_are_restarted():
    """More of them in one pull than there may be targets: each counts, once, and none stays."""
    daemon = tcp_daemon()
    result, jobs = {}, []
    puller = threading.Thread(target=lambda: result.update(pull(daemon, "seconds=25")))
    puller.start()
    end = time.monotonic() + 22
    while time.monotonic() < end:
        jobs.append(start("split", 0.25))
        daemon.request("POST", "/v1/targets", {"pid": jobs[-1].pid, "keep": True, "rate_hz": 997}, expect=None)
        jobs[-1].finish()
    puller.join()
    seen = [job for job in jobs if result.get(job.pid, 0) > 0]
    assert len(jobs) > 20 and len(seen) >= 0.9 * len(jobs), (len(jobs), len(seen))
    assert max(result.values()) < 997, "a process counted more than once"
    assert limit(daemon, "views")["now"] == limit(daemon, "views")["hit"] == 0


def test_pullers_get_what_is_watched_over_tcp():
    """One process, and all that are watched, added up: at their own rates, without anything being attached."""
    daemon = tcp_daemon()
    first, second, other = start("split", 600), start("split", 600), start("split", 600)
    for target, rate in ((first, 499), (second, 251)):
        daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": rate, "keep": True}, expect=201)
    daemon.request("POST", "/v1/targets", {"pid": other.pid}, expect=201)  # a recording of somebody's

    alone = pull(daemon, f"seconds=2&pid={second.pid}")
    assert set(alone) == {second.pid} and 20 < alone[second.pid] <= 520, alone
    before = {pid: cpu_seconds(pid) for pid in (first.pid, second.pid)}
    both = pull(daemon, "seconds=2")
    assert set(both) == {first.pid, second.pid}, both
    for pid, rate in ((first.pid, 499), (second.pid, 251)):
        # The pull is within the time that is measured here, and how much of a CPU each gets is the machine's affair.
        most = rate * (cpu_seconds(pid) - before[pid])
        assert 0.7 * most - 4 * most**0.5 < both[pid] < most + 4 * most**0.5, (both, most)
    assert len(daemon.request("GET", "/v1/targets")) == 3, "the pulls' own recordings are still there"


def test_tcp_is_refused_without_care():
    token = token_file()
    assert "--token-file" in refused("--listen", "127.0.0.1:0")[0]
    assert "--listen-anywhere" in refused("--listen", "0.0.0.0:0", "--token-file", token)[0]
    assert "chmod 600" in refused("--listen", "127.0.0.1:0", "--token-file", token_file(0o644))[0]
    assert "no address" in refused("--listen", "localhost:80", "--token-file", token)[0]
    assert "token file" in refused("--listen", "127.0.0.1:0", "--token-file", "/nonexistent")[0]
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        where = f"127.0.0.1:{busy.getsockname()[1]}"
        assert where in refused("--listen", where, "--token-file", token)[0]


def test_metrics():
    daemon = tcp_daemon()
    target = start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "cuda": True}, expect=201)
    labels = f'id="{made["id"]}",pid="{target.pid}",comm="split"'

    def scrape():
        status, headers, text = ask(daemon, "/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
        return parse_metrics(text)

    def sampled():
        found = scrape()
        return found if found["stakeout_target_samples_total"][labels] >= 20 else None

    first = wait_until(sampled, "samples in the metrics", step=0.2)
    daemon.request("POST", f"/v1/targets/{made['id']}/stop")
    last = scrape()
    stats = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    assert last["stakeout_target_samples_total"][labels] == stats["samples"]
    assert last["stakeout_target_complete_samples_total"][labels] == stats["complete"]
    for kind in ("lost", "truncated"):
        series = last[f"stakeout_target_{kind}_samples_total"]
        assert sum(series.values()) == sum(stats[kind].values())
    # Every sample is complete, truncated or lost.
    assert stats["samples"] == sum(
        sum(last[f"stakeout_target_{kind}_samples_total"].values()) for kind in ("complete", "truncated", "lost")
    )
    for name, series in first.items():
        if name.endswith("_total"):
            assert all(last[name][key] >= value for key, value in series.items()), name
    assert last["stakeout_targets"] == {'state="attaching"': 0, 'state="sampling"': 0, 'state="ended"': 1}
    assert labels in last["stakeout_cuda_apis_under_other"]
    assert parse_metrics(daemon.request("GET", "/metrics").decode()).keys() == last.keys()
    daemon.request("DELETE", f"/v1/targets/{made['id']}")
    assert "stakeout_target_samples_total" not in scrape()


def test_metrics_count_cuda_calls():
    """What the stand-in runtime counted itself is what the histogram has."""
    folder = os.path.join(workload("cuda"), "ibt")
    daemon = Daemon(env={"LD_LIBRARY_PATH": folder})  # its libnvidia-ml
    target = start_script("py_cuda_launches.py", folder, 500, 3, 1, "stdin", stdin=subprocess.PIPE)
    body = {"pid": target.pid, "cuda": True, "cuda_budget_percent": 100}
    made = daemon.request("POST", "/v1/targets", body, expect=201)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    truth = json.loads(target.finish().splitlines()[-1])["images"]["libcudart.so.12"]["cudaLaunchKernel"]["calls"]
    wait_until(
        lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "ended", "the end of the target"
    )
    text = daemon.request("GET", "/metrics").decode()
    found = parse_metrics(text)
    labels = f'id="{made["id"]}",pid="{target.pid}",comm="{comm_in(text)}"'
    launches = f'{labels},api="cudaLaunchKernel"'
    name = "stakeout_cuda_call_duration_seconds"
    calls = daemon.request("GET", f"/v1/targets/{made['id']}/cuda")["calls"]
    rows = [row for row in calls if row["api"] == "cudaLaunchKernel"]
    assert found[f"{name}_count"][launches] == sum(row["calls"] for row in rows) == truth == 1500, (rows, truth)
    assert abs(found[f"{name}_sum"][launches] - sum(row["total_ns"] for row in rows) / 1e9) < 1e-9
    buckets = [v for k, v in found[f"{name}_bucket"].items() if k.startswith(launches + ",")]
    assert len(buckets) == 16 and buckets == sorted(buckets) and buckets[-1] == truth, buckets
    assert found["stakeout_cuda_call_errors_total"][launches] == 0
    assert any(key.startswith(labels + ",gpu=") for key in found["stakeout_gpu_utilisation_ratio"]), text
    if shutil.which("promtool"):
        check_with_promtool("promtool", text)


def comm_in(text):
    return re.search(r'stakeout_target_samples_total\{.*comm="([^"]*)"', text).group(1)


def check_with_promtool(promtool, text):
    result = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_metrics_please_promtool():
    promtool = need_tool("promtool")
    daemon = Daemon()
    target = start("split", 600)
    daemon.request("POST", "/v1/targets", {"pid": target.pid, "cuda": True}, expect=201)
    check_with_promtool(promtool, daemon.request("GET", "/metrics").decode())


def test_service_manager_is_told():
    name = f"@stakeout-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:])
        manager.settimeout(30)
        daemon = Daemon(wait=False, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "500000"})
        assert manager.recv(256) == b"READY=1"
        daemon.request("GET", "/v1/status")  # ready means that it answers
        began = time.monotonic()
        for _ in range(8):  # some of them may have waited to be read
            assert manager.recv(256) == b"WATCHDOG=1"
        assert time.monotonic() - began > 0.3, "not at intervals"
        daemon.process.terminate()
        while True:
            word = manager.recv(256)
            if word != b"WATCHDOG=1":
                break
        assert word == b"STOPPING=1"
        assert daemon.process.wait(timeout=20) == 0


def test_configuration_file():
    where = temporary_dir()
    config = os.path.join(where, "conf")

    def write(text):
        with open(config, "w", encoding="utf-8") as f:
            f.write(text)

    write(f"# a test\nlisten = 127.0.0.1:0\ntoken-file = {token_file()}\nsocket-mode = 0666\nsocket = /nonexistent/s\n")
    daemon = Daemon("--config", config)  # its --socket wins
    assert os.stat(daemon.socket).st_mode & 0o777 == 0o666
    wait_until(lambda: "listens on 127.0.0.1:" in daemon.log(), "the door")
    write("no-cache = yes\n\nsocket-mode = 9\n")
    line, status = refused("--config", config)
    assert status == 2 and f"{config}:3: " in line, line
    assert refused("--config", os.path.join(where, "none"))[1] == 2


def test_directories_of_a_service():
    """Of systemd's variables; what options say wins."""
    state, cache, other = temporary_dir(), temporary_dir(), temporary_dir()
    env = {"STATE_DIRECTORY": f"{state}:{other}", "CACHE_DIRECTORY": f"{cache}:{other}", "STAKEOUT_CACHE_DIR": ""}

    def history(*arguments):
        daemon = Daemon(*arguments, env=env)
        target = start("split", 600)
        daemon.record(target.pid, duration=1).check_complete()
        found = daemon.request("GET", "/v1/status").get("history")
        assert daemon.stop() == 0
        return found

    assert history("--no-store", "--no-cache") is None
    assert not os.listdir(state) and not os.listdir(cache)
    assert history()["path"] == state
    assert "history.sqlite" in os.listdir(state) and os.listdir(cache)
    assert history("--store", os.path.join(other, "store"))["path"] == os.path.join(other, "store")
    assert os.listdir(other) == ["store"]


MAN_PAGES = ("client/stakeout.1", "client/stakeout-cuda.1", "client/stakeout-summary.1", "daemon/stakeoutd.8")


def pages():
    for program, page in ((STAKEOUT, "client/stakeout.1"), (STAKEOUTD, "daemon/stakeoutd.8")):
        with open(os.path.join(SOURCE_DIR, page), encoding="utf-8") as f:
            yield program, f.read()


def options_in(help_text):
    found = set()
    for line in help_text.splitlines():
        match = re.match(r" +(-\w)?(?:, )?(--[a-z-]+)?", line)
        found.update(option for option in match.groups() if option) if match else None
    return found


def commands():
    text = run([STAKEOUT, "--help"]).stdout
    return re.findall(r"^  ([a-z]+) ", text.split("Commands")[1].split("\n\n")[0], re.MULTILINE)


def test_man_pages_have_all_options():
    (client, client_page), (daemon, daemon_page) = pages()
    helps = [(daemon_page, run([daemon, "--help"]).stdout), (client_page, run([client, "--help"]).stdout)]
    sections = {s.split()[1]: s for s in client_page.split("\n.Ss ")[1:]}
    assert list(sections) == commands()
    helps += [(sections[c], run([client, c, "--help"]).stdout) for c in sections]
    for page, text in helps:
        options = options_in(text)
        assert {"--help"} < options, text
        items = [line for line in page.splitlines() if line.startswith(".It ")]
        documented = {"-" + word for line in items for word in re.findall(r"Fl (\S+)", line)}
        assert options <= documented, f"not in the page: {options - documented}"
        if page != client_page:  # all sections together
            assert documented <= options, f"only in the page: {documented - options}"


def test_man_pages_are_well_formed():
    man = need_tool("man")
    for page in MAN_PAGES:
        result = run([man, "--warnings", "-l", os.path.join(SOURCE_DIR, page)], env={**os.environ, "MANPAGER": "cat"})
        assert result.returncode == 0 and not result.stderr, result.stderr
        assert "SEE ALSO" in result.stdout
    mandoc = shutil.which("mandoc")
    if mandoc:
        for page in MAN_PAGES:
            result = run([mandoc, "-T", "lint", "-W", "warning", os.path.join(SOURCE_DIR, page)])
            assert result.returncode == 0, result.stdout


def complete(*words):
    text = f"""
        source {SOURCE_DIR}/client/stakeout.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _stakeout
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    result = run([need_tool("bash"), "-c", text, "bash", STAKEOUT, *words])
    assert result.returncode == 0 and not result.stderr, result.stderr
    return set(result.stdout.split())


def test_completion():
    assert complete("") == set(commands())
    assert complete("re") == {"record", "render"}
    assert complete("--v") == {"--version"}
    for command in commands():
        assert complete(command, "-") == options_in(run([STAKEOUT, command, "--help"]).stdout), command
    pid = str(os.getpid())
    for words in (("record", "-p", pid), ("record", "--pid", pid), ("--socket", "x", "dump", "-t", "-p", pid)):
        assert pid in complete(*words), words
    assert complete("record", "-f", "p") == {"pprof"}
    assert complete("record", "-f", "") == {"folded", "html", "speedscope", "firefox", "trace", "pprof"}
    assert complete("render", "-f", "h") == {"html"}
    assert os.path.join(SOURCE_DIR, "README.md") in complete("render", os.path.join(SOURCE_DIR, "READ"))


def test_versions_name_the_build():
    for program in (STAKEOUT, STAKEOUTD):
        said = run([program, "--version"]).stdout
        match = re.fullmatch(os.path.basename(program) + r" \S+ \(build-id ([0-9a-f]+|none)\)\n", said)
        assert match, said
        notes = run([need_tool("readelf"), "-n", program]).stdout
        expected = re.search(r"Build ID: ([0-9a-f]+)", notes)
        assert match.group(1) == (expected.group(1) if expected else "none")


def test_the_units_capabilities_suffice():
    """With what the unit leaves, and nothing else: another user's process is sampled, timed and has names."""
    with open(os.path.join(SOURCE_DIR, "daemon", "stakeoutd.service"), encoding="utf-8") as f:
        words = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.MULTILINE).group(1).split()
    keep = ",".join(["-all"] + ["+" + word.removeprefix("CAP_").lower() for word in words])
    daemon = Daemon(prefix=(need_tool("setpriv"), "--bounding-set", keep, "--no-new-privs"))
    assert status_of(daemon.process.pid)["NoNewPrivs"] == "1"
    assert not daemon.request("GET", "/v1/status")["privileges"]["missing"]
    where = temporary_dir()
    program = shutil.copy(workload("split"), where)
    target = Target([program, "600"], before_exec=lambda: os.setuid(65534))
    daemon.client("attach", "-p", str(target.pid), "-r", "499")

    def named():
        stacks = parse_folded(daemon.client("folded", "-p", str(target.pid)).stdout)
        return sum(n for s, n in stacks.items() if "split_kernel" in s) > 100

    wait_until(named, "samples with names", step=0.3)
    programs = daemon.request("GET", "/v1/status")["bpf"]["programs"]
    assert programs["sample"]["run_ns"] > 0, programs
    required = [c for c in daemon.request("GET", "/v1/check") if not c["found"] and c["required"]]
    assert not required, required


def test_unit_file():
    analyze = need_tool("systemd-analyze")
    where = temporary_dir()
    with open(os.path.join(SOURCE_DIR, "daemon", "stakeoutd.service"), encoding="utf-8") as f:
        text = f.read()
    unit = os.path.join(where, "stakeoutd.service")
    assert text.count("@BINDIR@") == 1
    with open(unit, "w", encoding="utf-8") as f:
        f.write(text.replace("@BINDIR@", os.path.dirname(STAKEOUTD)))
    result = run([analyze, "--man=no", "verify", unit])
    ours = [line for line in result.stderr.splitlines() if "stakeoutd" in line]
    assert not ours, ours
