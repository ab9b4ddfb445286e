# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's live page, over TCP and by `stakeout open`, in a browser."""
import contextlib
import gzip
import http.client
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import time

from browser import SHIFT, Browser
from harness import STAKEOUT, Daemon, UnixConnection, need_bpf, spawn, start, start_script, temporary_dir, wait_until, workload
from pprof_message import fields, packed
from strangers import NOBODY, become
from tcp_door import TOKEN, ask, tcp_daemon

WRONG = "fedcba9876543210-test"
PICTURES = os.environ.get("STAKEOUT_PICTURES", "")


def watch(daemon, target, **options):
    daemon.request("POST", "/v1/targets", {"pid": target.pid, "keep": True, **options}, expect=201)


def history_of(daemon, target):
    return next(t for t in daemon.request("GET", "/v1/history")["targets"] if t["pid"] == target.pid)


def get(daemon, path):
    with contextlib.closing(UnixConnection(daemon.socket, 60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, body)
        return body


def sums_of(daemon, path):
    """The profile's values, each added up."""
    values = [packed(v) for field, sample in fields(gzip.decompress(get(daemon, path))) if field == 2 for f, v in fields(sample) if f == 2]
    return [sum(column) for column in zip(*values)]


def covered_ns(history):
    """Time from a target's first window to its last one; 0 before there is one."""
    return history["last_ns"] - history["first_ns"] if history["first_ns"] else 0


def watched():
    """A daemon with a history of a Python program in wall time and of one with CUDA calls, both ended; and one that runs."""
    folder = os.path.join(workload("cuda"), "ibt")
    daemon = tcp_daemon("--store", temporary_dir(), "--window", "1", env={"LD_LIBRARY_PATH": folder})
    waits = start_script("py_waits.py", "convoy", stdin=subprocess.PIPE)
    calls = start_script("py_cuda_training.py", folder, 1000000, stdin=subprocess.PIPE)
    lives = start("split", 600)
    watch(daemon, waits, wall=True, rate_hz=499)
    watch(daemon, calls, cuda=True, rate_hz=499)
    watch(daemon, lives)
    calls.process.stdin.write(b"\n")
    calls.process.stdin.flush()
    wait_until(lambda: covered_ns(history_of(daemon, waits)) > 6e9, "six windows", step=0.3)
    key = history_of(daemon, calls)["key"]

    def has_calls():
        status, _, text = ask(daemon, f"/v1/history/{key}/cuda")
        return status == 200 and json.loads(text)["calls"]

    wait_until(has_calls, "CUDA calls in the history", step=0.5)
    for target in (waits, calls):
        target.process.kill()
    wait_until(lambda: all(history_of(daemon, t)["end"] == "ended" for t in (waits, calls)), "their ends", step=0.3)
    return daemon, waits, calls, lives


def look_at_sign_in(browser):
    """Nothing is asked for without a token, and nothing shown with a wrong one."""
    assert browser.evaluate("element('main').hidden && !element('sign-in').hidden")
    assert not browser.requests and not browser.problems, (browser.requests, browser.problems)
    browser.evaluate("element('token').focus()")
    browser.type(WRONG)
    browser.evaluate("document.querySelector('#sign-in button').click()")
    browser.wait_for("element('sign-in-why').textContent.includes('refuses this token')")
    assert browser.evaluate("element('main').hidden") and browser.evaluate("sessionStorage.getItem('token')") is None
    # The browser itself says so of each answer that is none.
    assert [p.get("text", "").count("401") for p in browser.problems] == [1], browser.problems
    browser.problems.clear()
    browser.evaluate("element('token').focus()")
    browser.type(TOKEN)
    browser.evaluate("document.querySelector('#sign-in button').click()")
    browser.wait_for("!element('main').hidden && entries.length === 3")


def choose(browser, key):
    browser.evaluate(f"document.querySelector('[data-key=\"h{key}\"]').click()")
    browser.wait_for("series && shown && series.key === chosen && element('flame-state').textContent === shown.title")


def shown_range(browser):
    """(begin, end) of what is selected, ns."""
    return [int(n) for n in browser.evaluate("(({ from, to }) => [String(from), String(to)])(spanOf(chosenSlices()))")]


def look_at_totals(browser, daemon, path):
    """What is drawn, what is selected and the flame graph add up to what the API says of that time."""
    begin, end = shown_range(browser)
    _, cpu_ns, wall_ns = sums_of(daemon, f"{path}/profile?from_ns={begin}&to_ns={end}")
    drawn = browser.evaluate("['cpu_ns', 'wall_ns', 'state_ns'].map(kind => sum(chosenSlices().map(slice => sum(slice[kind]))))")
    assert drawn == [cpu_ns, wall_ns, wall_ns], (drawn, cpu_ns, wall_ns)
    # The graph counts whole microseconds of each stack.
    flame = browser.evaluate("shown.ns")
    assert abs(flame - wall_ns) <= 1000 * browser.evaluate("shown.cells"), (flame, wall_ns)
    return begin, end


def chart_at(browser, share):
    left, top, width, height = browser.evaluate("(r => [r.left, r.top, r.width, r.height])(chart.getBoundingClientRect())")
    inner = width - browser.evaluate("LEFT + RIGHT")
    return left + browser.evaluate("LEFT") + share * inner, top + height / 2


def look_at_ranges(browser, daemon, path):
    """By the mouse and by keys."""
    whole = look_at_totals(browser, daemon, path)
    browser.evaluate("chart.scrollIntoView({ block: 'center' })")
    browser.drawn()
    (from_x, y), (to_x, _) = chart_at(browser, 0.3), chart_at(browser, 0.6)
    before = browser.evaluate("shown.title")
    browser.drag(from_x, to_x, y)
    browser.wait_for(f"shown.title !== {json.dumps(before)} && element('flame-state').textContent === shown.title")
    begin, end = look_at_totals(browser, daemon, path)
    assert whole[0] <= begin < end <= whole[1] and end - begin < whole[1] - whole[0], (whole, begin, end)
    assert browser.evaluate("document.activeElement.id") == "chart"
    browser.press("Home")
    browser.press("ArrowRight", "ArrowRight", modifiers=SHIFT)
    assert browser.evaluate("selection[1] - selection[0]") == 2 and browser.evaluate("selection[0] === series.first")
    assert browser.text("#chosen").startswith("Selected: "), browser.text("#chosen")
    # However narrow the selection, whatever window reaches into it is in it.
    empty = """(() => {
        const { from, to } = spanOf(series.slices), empty = [];
        for (let n = series.first; n <= series.last; n++) {
            select(n, n);
            const within = 1000 * (n + 1) * series.length > toMs(from) && 1000 * n * series.length < toMs(to);
            if (within !== chosenSlices().length > 0)
                empty.push(n - series.first);
        }
        return empty;
    })()"""
    assert browser.evaluate(empty) == []
    browser.press("Escape")
    assert browser.evaluate("selection") is None and browser.text("#chosen").startswith("All: ")
    browser.press("Enter")
    browser.wait_for("element('flame-state').textContent === shown.title")
    assert look_at_totals(browser, daemon, path) == whole


def look_at_long_ranges(browser):
    """What is asked for in parts is what is there at once; what the daemon does not add up is asked for once."""
    figures = "slices => slices.map(slice => `${slice.number} ${sum(slice.cpu_ns)} ${slice.windows}`)"
    parts = "askSlices(chosenEntry(), series.length, series.first - AT_ONCE + 4, series.last).then(({ found }) => found)"
    assert browser.evaluate(f"{parts}.then({figures})") == browser.evaluate(f"({figures})(series.slices)")
    browser.evaluate("""(() => {
        window.askWell = askJson;
        window.asked = 0;
        askJson = path => path.includes("/series?") ? (asked++, Promise.reject(new Refused(500, "too much"))) : askWell(path);
    })()""")
    browser.choose("#span", "0")
    browser.wait_for("element('chosen').textContent === 'The daemon refuses: too much' && element('load').disabled")
    browser.evaluate("refresh().then(refresh)")
    assert browser.evaluate("asked") == 1 and browser.evaluate("element('sums').hidden && element('slices').hidden")
    browser.evaluate("askJson = askWell")
    browser.choose("#span", "900")
    browser.wait_for("series && !element('load').disabled && element('flame-state').textContent === shown.title")


def look_at_flame_graph(browser):
    browser.evaluate("document.querySelector('iframe').scrollIntoView()")
    with browser.frame():
        browser.wait_for("typeof view === 'object' && Boolean(view.root)")
        assert browser.text("#title").endswith(": wall time")
        browser.evaluate("(box => { box.value = 'queues_up'; search(); })(document.getElementById('search'))")
        assert re.match(r"found in [1-9]", browser.text("#found")), browser.text("#found")
        browser.evaluate("setZoom(expand(view.root)[0])")
        browser.drawn()
        assert browser.evaluate("document.getElementById('reset').disabled") is False
        # It is of an origin of its own, and may ask for nothing.
        assert browser.evaluate("(() => { try { return parent.document && true; } catch { return false; } })()") is False
        seen = len(browser.requests)
        assert browser.evaluate("fetch('/v1/status').then(() => 'sent', () => 'refused')") == "refused"
        assert "Content Security Policy" in str(browser.problems) and len(browser.requests) <= seen + 1, browser.problems
    browser.problems.clear()


def look_at_cuda(browser, daemon, target):
    key = history_of(daemon, target)["key"]
    choose(browser, key)
    browser.wait_for("!element('cuda').hidden")
    begin, end = shown_range(browser)
    answer = json.loads(get(daemon, f"/v1/history/{key}/cuda?from_ns={begin}&to_ns={end}&summary=1"))
    launches = sum(row["calls"] for row in answer["calls"] if row["api"] == "cudaLaunchKernel")
    rows = {row["api"]: row for row in answer["summary"]["by_api"]}
    shown, titles = browser.text("#cuda-tables"), browser.evaluate("[...document.querySelectorAll('#cuda h3')].map(it => it.textContent)")
    assert launches and rows["cudaLaunchKernel"]["calls"] == launches
    for api, row in rows.items():
        assert re.search(rf"^{api}\t[<\d. %]+\t~?{row['calls']:,}\t", shown, re.MULTILINE), (row, shown)
    findings = answer["summary"]["findings"]
    assert any("item (py_cuda_training.py:" in (finding["line"] or "") for finding in findings), findings
    assert browser.evaluate("document.querySelectorAll('#cuda li').length") == len(findings)
    for finding in findings:
        assert finding["title"] in shown and finding["measured"] in shown, (finding, shown)
    for title, rows_name in (("Launches by kernel", "by_kernel"), ("Waits of the host by source line", "waits")):
        assert (title in titles) == bool(answer["summary"][rows_name]), titles


def take_pictures(browser, name):
    for width, scheme in ((1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")):
        browser.look(width, 800, scheme)
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"wider than {width} px"
        if PICTURES:
            browser.look(width, browser.evaluate("document.documentElement.scrollHeight"), scheme)
            time.sleep(1)
            browser.screenshot(os.path.join(PICTURES, f"{name}-{width}-{scheme}.png"))
    browser.look(1280, 800, "light")


def look_at_a_lost_daemon(browser, daemon):
    """Whoever takes its port gets the token only when the user asks for that."""
    daemon.process.kill()
    daemon.process.wait()
    browser.wait_for("element('state').textContent.startsWith('The daemon does not answer') && !running")
    with contextlib.closing(socket.create_server(("127.0.0.1", daemon.port))) as other:
        other.settimeout(60)
        browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        browser.evaluate("tick()")
        browser.evaluate("element('load').click()")
        browser.wait_for("element('flame-state').textContent.includes('does not answer')")
        assert select.select([other], [], [], 0)[0] == [], "something was sent"
        browser.evaluate("element('try-again').click()")
        with contextlib.closing(other.accept()[0]) as connection:
            assert TOKEN in connection.recv(65536).decode()
    browser.wait_for("!element('try-again').hidden")


def look_at_memory(browser, daemon, key):
    """Of a target in CPU time there is this kind beside: means over the time, as the history has them."""
    browser.wait_for("!element('kind-label').hidden")
    assert browser.evaluate("[...element('kind').options].filter(o => !o.hidden).map(o => o.value)") == ["cpu_ns", "memory_bytes"]
    browser.choose("#kind", "memory_bytes")
    browser.wait_for("element('chosen').textContent.includes('of memory, at most')")
    begin, end, drawn, most = browser.evaluate(
        "(slices => [...Object.values(spanOf(slices)).map(String), totals(slices),"
        " Math.max(...slices.map(slice => slice.memory_most_bytes))])(chosenSlices())"
    )
    rows = json.loads(get(daemon, f"/v1/history/{key}/memory?from_ns={begin}&to_ns={end}"))["rows"]
    rows = [row for row in rows if row["most_bytes"] is not None]
    covered = sum(row["covered_s"] for row in rows)
    for value, name in zip(drawn, ("anonymous", "file", "shared", "swapped")):
        mean = sum(row["covered_s"] * row[f"{name}_bytes"] for row in rows) / covered
        assert abs(value - mean) <= 2 + 1e-6 * mean, (name, value, mean)
    assert most == max(row["most_bytes"] for row in rows) > 0
    assert browser.evaluate("element('sums').tHead.textContent") == "MemoryMeanShare"


def test_page():
    need_bpf()
    browser = Browser(1280, 800)
    daemon, waits, calls, lives = watched()
    origin = f"http://127.0.0.1:{daemon.port}/"
    browser.visit(origin)
    look_at_sign_in(browser)
    key = history_of(daemon, waits)["key"]
    choose(browser, key)
    take_pictures(browser, "wall")
    look_at_ranges(browser, daemon, f"/v1/history/{key}")
    look_at_long_ranges(browser)
    look_at_flame_graph(browser)
    look_at_cuda(browser, daemon, calls)
    take_pictures(browser, "cuda")
    choose(browser, history_of(daemon, lives)["key"])
    assert browser.evaluate("chosenEntry().running && element('cuda').hidden")
    look_at_memory(browser, daemon, history_of(daemon, lives)["key"])
    take_pictures(browser, "memory")
    assert browser.evaluate("element('targets').tBodies[0].rows.length") == 3
    assert not browser.problems, browser.problems
    # One request may be the one that the flame graph was refused.
    assert all(url.startswith(origin) for url in browser.requests), browser.requests
    assert not any(TOKEN in url for url in browser.requests)
    look_at_a_lost_daemon(browser, daemon)


def test_series():
    """Whatever the number of slices: they add up to the profile, in order, and each is of the windows that begin in it."""
    daemon, target = Daemon("--store", temporary_dir(), "--window", "1"), start("split", 600)
    watch(daemon, target, rate_hz=499)
    wait_until(lambda: (t := history_of(daemon, target))["first_ns"] and t["last_ns"] - t["first_ns"] > 4e9, "four windows", step=0.3)
    one = history_of(daemon, target)
    path, first, last = f"/v1/history/{one['key']}", one["first_ns"], one["last_ns"]
    samples, cpu_ns = sums_of(daemon, f"{path}/profile?from_ns={first}&to_ns={last}")
    for slices in (1, 2, 7, 240):
        series = json.loads(get(daemon, f"{path}/series?from_ns={first}&to_ns={last}&slices={slices}"))
        found, length = series["slices"], series["slice_ns"]
        assert sum(sum(s["cpu_ns"]) for s in found) == cpu_ns and sum(s["samples"] - s["lost"] for s in found) == samples
        assert not series["wall"] and not series["cuda"] and series["damaged"] == 0 and length == -(-(last - first) // slices)
        assert all(len(s["cpu_ns"]) == len(series["categories"]) and s["wall_ns"] is None for s in found)
        known = [s for s in found if s["memory_bytes"]]
        assert series["memory"] and known and all(len(s["memory_bytes"]) == len(series["memories"]) for s in known)
        assert all(sum(s["memory_bytes"]) <= s["memory_most_bytes"] + 4 for s in known), known
        numbers = [s["slice"] for s in found]
        assert numbers == sorted(set(numbers)) and numbers[-1] < slices
        for s in found:
            assert first + s["slice"] * length <= s["begin_ns"] < first + (s["slice"] + 1) * length
    for words in ("", f"?from_ns={first}", f"?to_ns={last}", f"?from_ns={last}&to_ns={first}") + tuple(
        f"?from_ns={first}&to_ns={last}&slices={n}" for n in ("0", "241", "-1", "x", "1x", "")
    ):
        assert "error" in daemon.request("GET", f"{path}/series{words}", expect=400), words
    assert "error" in daemon.request("GET", f"/v1/history/999/series?from_ns={first}&to_ns={last}", expect=404)
    assert "error" in daemon.request("GET", f"{path}/series?from_ns=1&to_ns=2", expect=409)


def request(port, path, method="GET", **headers):
    """(status, body) of the page's server; None for a header leaves it out."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def opened(daemon, *arguments, **options):
    """(process, port, secret) of `stakeout open`."""
    process = spawn([STAKEOUT, "--socket", daemon.socket, "open", *arguments], stdout=subprocess.PIPE, **options)
    match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#secret=([0-9a-f]{32})\n", process.stdout.readline().decode())
    assert match
    return process, int(match.group(1)), match.group(2)


def test_open_refuses():
    """Who has not the secret, who comes by another name or from another page, and what would change something."""
    daemon = Daemon()
    process, port, secret = opened(daemon, "--no-browser")
    key = {"Authorization": f"Bearer {secret}"}
    status, body = request(port, "/v1/targets", **key)
    assert (status, json.loads(body)) == (200, []), body
    assert request(port, "/v1/status?x=1", **key, Origin=f"http://localhost:{port}", Host=f"localhost:{port}")[0] == 200
    for page in ("/", "/flamegraph.html"):
        status, body = request(port, page)
        assert status == 200 and body.startswith("<!DOCTYPE html>") and secret not in body
    for wrong in (None, "", "Bearer", "Bearer ", f"Bearer {secret[:-1]}", f"Bearer {secret}0", f"Bearer {secret[:-1]}x", f"Basic {secret}", secret):
        assert request(port, "/v1/targets", Authorization=wrong)[0] == 401, wrong
    assert request(port, f"/v1/targets?secret={secret}")[0] == 401
    for path in ("/", "/v1/targets"):
        for host in (None, "", "evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1.evil.example:{port}"):
            assert request(port, path, **key, Host=host)[0] in (400, 403), host
        for origin in ("null", "http://evil.example", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}", "http://127.0.0.1"):
            assert request(port, path, **key, Origin=origin)[0] == 403, origin
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            assert request(port, path, method, **key)[0] == 405, method
    for path in ("/metrics", f"/debug/pprof/profile?pid={os.getpid()}&seconds=1", "/v1", "//v1/targets", "/x/../v1/targets"):
        assert request(port, path, **key)[0] == 404, path
    assert daemon.request("GET", "/v1/targets") == []
    daemon.process.kill()
    daemon.process.wait()
    assert request(port, "/v1/targets", **key)[0] == 502
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0


def test_open_in_a_browser():
    browser = Browser(1280, 800)
    daemon = Daemon()
    target = start("split", 600)
    watch(daemon, target)
    _, port, secret = opened(daemon, "--no-browser")
    browser.visit(f"http://127.0.0.1:{port}/#secret={secret}")
    browser.wait_for("!element('main').hidden && entries.length === 1 && shown && shown.total > 0")
    assert browser.evaluate("location.href") == f"http://127.0.0.1:{port}/"
    assert "keeps no history" in browser.text("#no-past")
    assert all(url.startswith(f"http://127.0.0.1:{port}/") and secret not in url for url in browser.requests), browser.requests


def test_open_starts_a_browser():
    """Not root's; and what every user may read of it, its command line, has no secret."""
    where, daemon = temporary_dir(), Daemon("--socket-mode", "0666", "--group", "")
    os.chmod(where, 0o777)
    tool, said = os.path.join(where, "xdg-open"), os.path.join(where, "said")
    with open(tool, "w", encoding="ascii") as f:
        f.write(f'#!/bin/sh\ncp -p "$1" {said}.tmp && mv {said}.tmp {said}\n')
    os.chmod(tool, 0o755)
    env = {**os.environ, "PATH": where + ":" + os.environ["PATH"], "DISPLAY": ":99", "XDG_RUNTIME_DIR": where}
    process, _, secret = opened(daemon, env=env, before_exec=lambda: become(NOBODY, NOBODY, []), cwd="/")
    wait_until(lambda: os.path.exists(said), "the browser")
    with open(said, encoding="ascii") as f:
        assert f"#secret={secret}" in f.read()
    assert stat.S_IMODE(os.stat(said).st_mode) == 0o600 and os.stat(said).st_uid == NOBODY
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert sorted(os.listdir(where)) == ["said", "xdg-open"]
