# SPDX-License-Identifier: GPL-2.0-or-later
"""The tools of others that read what the daemon serves: Prometheus, go tool pprof, curl."""
import collections
import json
import os
import re
import socket
import urllib.error
import urllib.parse
import urllib.request

from harness import PYTHON, SOURCE_DIR, STAKEOUT, Daemon, Target, need_tool, run, script, spawn, start, start_script
from harness import temporary_dir, wait_until, workload
from tcp_door import tcp_daemon, token_file

PROMETHEUS_YML = """
global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs:
  - job_name: stakeout
    authorization: {{ credentials_file: {token} }}
    static_configs: [{{ targets: ["127.0.0.1:{port}"] }}]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    def __init__(self, daemon):
        binary = need_tool("prometheus")
        where = temporary_dir()
        config, self.log = os.path.join(where, "prometheus.yml"), os.path.join(where, "log")
        with open(config, "w", encoding="ascii") as f:
            f.write(PROMETHEUS_YML.format(token=token_file(), port=daemon.port))
        self.address = f"127.0.0.1:{free_port()}"
        argv = [binary, f"--config.file={config}", f"--storage.tsdb.path={where}/data"]
        with open(self.log, "wb") as log:
            self.process = spawn([*argv, f"--web.listen-address={self.address}"], stdout=log, stderr=log)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:]

    def query(self, expression):
        """{labels as a sorted tuple: value}"""
        assert self.process.poll() is None, self.said()
        url = f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                document = json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            return {}  # not up yet
        assert document["status"] == "success", document
        found = document["data"]["result"]
        return {tuple(sorted(row["metric"].items())): float(row["value"][1]) for row in found}

    def one(self, expression):
        values = list(self.query(expression).values())
        return values[0] if len(values) == 1 else None


def test_prometheus_scrapes_and_answers_queries():
    need_tool("prometheus")
    folder = os.path.join(workload("cuda"), "ibt")
    daemon = tcp_daemon(env={"LD_LIBRARY_PATH": folder})
    target = start_script("py_cuda_launches.py", folder, 500, 60, 1, "no")
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": 199, "keep": True, "cuda": True}, expect=201)
    prometheus = Prometheus(daemon)
    wait_until(lambda: prometheus.one('up{job="stakeout"}') == 1, "a good scrape", step=0.5)
    selector = f'{{pid="{target.pid}",id="{made["id"]}"}}'
    launches = f'{{pid="{target.pid}",api="cudaLaunchKernel"}}'
    name = "stakeout_cuda_call_duration_seconds"

    def rates():
        calls = prometheus.one(f"rate({name}_count{launches}[5s])")
        return calls if calls and prometheus.one(f"stakeout_target_samples_total{selector}") else None

    calls = wait_until(rates, "two scrapes with calls", step=0.5)
    # The program launches 500 a second by its own clock; Prometheus extrapolates between scrapes.
    wait_until(lambda: 400 < (rates() or 0) < 600, f"a rate of 500 launches a second ({calls} first)", step=0.5)
    quantile = prometheus.one(f"histogram_quantile(0.5, sum by (le) (rate({name}_bucket{launches}[5s])))")
    assert quantile and 1e-7 < quantile < 1e-3, quantile
    seconds = prometheus.query(f"sum by (category) (stakeout_target_category_cpu_seconds_total{selector})")
    assert seconds and sum(seconds.values()) > 0, prometheus.query('{__name__=~"stakeout_.*category.*"}')
    before = daemon.request("GET", f"/v1/targets/{made['id']}/stats")["samples"]
    wait_until(lambda: prometheus.one(f"stakeout_target_samples_total{selector}") >= before, "all samples until then")
    after = daemon.request("GET", f"/v1/targets/{made['id']}/stats")["samples"]
    assert before <= prometheus.one(f"stakeout_target_samples_total{selector}") <= after + 199
    assert not prometheus.query('ALERTS') and prometheus.one("scrape_samples_scraped") > 50
    assert daemon.stop() == 0
    wait_until(lambda: prometheus.one('up{job="stakeout"}') == 0, "the scrapes to fail", step=0.5)


def go_top(path):
    """[(flat, cumulative, name)] in samples, of `go tool pprof -top`."""
    where = temporary_dir()
    argv = [need_tool("go"), "tool", "pprof", "-top", "-sample_index=samples", "-nodecount=1000000", "-nodefraction=0"]
    env = {**os.environ, "HOME": where, "PPROF_TMPDIR": where}
    result = run([*argv, "-edgefraction=0", path], env=env)
    assert result.returncode == 0, result.stderr
    rows = re.findall(r"^ +(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+%  (.*)$", result.stdout, re.M)
    # It says of functions that were inlined that they were, and of a mapping without names that it is one: [[vdso]].
    rows = [(flat, cumulative, re.sub(r" \((partial-)?inline\)$", "", name)) for flat, cumulative, name in rows]
    named = [(flat, cumulative, re.sub(r"^\[(\[\w+\])\]$", r"\1", name)) for flat, cumulative, name in rows]
    return [(int(flat), int(cumulative), name) for flat, cumulative, name in named], result.stdout


def our_top(path):
    """{name: (flat, cumulative)} of the functions whose names are their own, and {name: flat} of all."""
    functions = json.loads(run([STAKEOUT, "summary", path, "--json"]).stdout)["functions"]
    flat, seen, whole = collections.Counter(), collections.Counter(), {}
    for function in functions:
        name = re.sub(r" \([^()]*\)$", "", function["name"])
        flat[name] += function["self"]["samples"]
        seen[name] += 1
        whole[name] = function["total"]["samples"]
    return flat, {name: total for name, total in whole.items() if seen[name] == 1}


def test_go_tool_pprof_has_the_same_top():
    """A pulled profile: each function's own samples and those with what it calls, in both tools."""
    need_tool("go")
    daemon = Daemon()
    logging = [PYTHON, script("py_logging_training.py"), "600", "0.5"]
    for argv, watched in ((logging, False), ([workload("split"), "600"], True)):
        target = Target(argv)
        if watched:
            daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True}, expect=201)
        path = os.path.join(temporary_dir(), "pulled.pb.gz")
        url = f"http://localhost/debug/pprof/profile?pid={target.pid}&seconds=3"
        assert run([need_tool("curl"), "-sSf", "--unix-socket", daemon.socket, url, "-o", path]).returncode == 0
        rows, text = go_top(path)
        flat, whole = our_top(path)
        theirs = collections.Counter()
        for row_flat, _, name in rows:
            theirs[name] += row_flat
        assert sum(flat.values()) > 0 and +theirs == +flat, (theirs - flat, flat - theirs)
        names = [name for _, cumulative, name in rows if name in whole]
        assert len(names) > 3, rows
        wrong = [(name, cumulative, whole[name]) for _, cumulative, name in rows if name in whole and whole[name] != cumulative]
        assert not wrong, wrong
        # The program gives the profile its name, not the kernel or a library.
        assert re.search(rf"^File: {re.escape(os.path.basename(os.path.realpath(f'/proc/{target.pid}/exe')))}$", text, re.M), text[:300]
        tags = run(["go", "tool", "pprof", "-tags", path], env={**os.environ, "HOME": temporary_dir()}).stdout
        assert " pid: Total " in tags and str(target.pid) in tags, tags


def test_commands_of_the_api_documentation():
    """Each line of .design/api.md's first example, as it stands there but for the socket and the process."""
    need_tool("curl")
    with open(os.path.join(SOURCE_DIR, ".design", "api.md"), encoding="utf-8") as f:
        lines = re.search(r"^```\n(S=.*?)^```", f.read(), re.M | re.S).group(1).strip().split("\n")
    daemon = Daemon()
    target = start("split", 600)
    where = temporary_dir()
    setting = lines[0].replace("/run/stakeout/stakeoutd.sock", daemon.socket).replace('"curl -s ', '"curl -sSf ')
    answers = []
    for line in lines[1:]:
        line = line.replace("4242", str(target.pid)).replace("seconds=10", "seconds=1")
        result = run(["sh", "-c", f"{setting}\n{line}"], cwd=where)
        assert result.returncode == 0, (line, result.stderr)
        if " -o " in line:
            with open(os.path.join(where, "job.pb.gz"), "rb") as f:
                assert f.read(2) == b"\x1f\x8b", line
            os.unlink(os.path.join(where, "job.pb.gz"))
        else:
            answers.append(json.loads(result.stdout))
    status, made, target_now, detached = answers
    assert status["pid"] == daemon.process.pid and made["pid"] == target.pid
    assert target_now["id"] == made["id"] and detached == {"id": made["id"], "detached": True}
