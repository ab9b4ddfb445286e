# SPDX-License-Identifier: GPL-2.0-or-later
"""The flame graph as one HTML file."""
import os
import pty
import re

from browser import Browser
from harness import STAKEOUT, need_bpf, one_clear_line, run, start, temporary_dir
from made_pprof import Pprof

HOSTILE = [
    b"</script><script>window.hacked = 1</script>",
    b"<img src=x onerror='window.hacked = 1'>",
    b"<!--<script>",
    "line\u2028paragraph\u2029".encode(),
    b"\"'`${window.hacked = 1}\\",
    b"invalid \xff\xc3",
]
STEP, MATMUL, FUTEX = ("step", "/app/env.py", 42), ("matmul", "/usr/lib/libblas.so.3"), ("futex_wait", "[kernel.kallsyms]")


def render(profile):
    where = temporary_dir()
    pprof, page = os.path.join(where, "x.pb"), os.path.join(where, "x.html")
    profile.write(pprof)
    result = run([STAKEOUT, "render", pprof, "-o", page])
    assert result.returncode == 0 and not result.stderr, result
    return page


def made_page():
    """10 s of wall time: 4 s run in Python and below it, 3 s wait, 1 s of another process, 2 s with hostile names."""
    profile = Pprof("pid=7", "sample_hz=99", "wall_hz=10", "complete=10", "lost.map=3")
    profile.sample([MATMUL, STEP], 3, pid=7, tid=7, comm="train", state="running")
    profile.sample([STEP], 1, pid=7, tid=7, comm="train", state="running")
    profile.sample([FUTEX, MATMUL, STEP], 3, pid=7, tid=8, comm="train", state="gil")
    profile.sample([MATMUL], 1, pid=9, tid=9, comm="other", state="running")
    for i, name in enumerate(HOSTILE):
        profile.sample([(name, name, 3)], 0.5 if i < 2 else 0.25, pid=7, tid=7, comm=name, state=name)
    return render(profile)


def share(text):
    return float(re.search(r"([0-9.]+) % \[([0-9.]+), ([0-9.]+)\]", text).group(1))


def look_at_search(browser):
    browser.press("/")
    browser.type("env.py:42")
    assert share(browser.text("#found")) == 70, browser.text("#found")
    # 70 of 100 looks, by Wilson.
    assert "[60.4, 78.1]" in browser.text("#found"), browser.text("#found")
    browser.press("Escape")
    assert browser.text("#found") == "" and browser.evaluate("document.activeElement.id") == "graph"
    browser.choose("#regexp", True)
    browser.press("/")
    browser.type("^mat.*l$")
    assert share(browser.text("#found")) == 70, browser.text("#found")
    browser.press("Escape", "/")
    browser.type("(")
    assert browser.text("#found") == "not a regular expression"
    browser.press("Escape")


def look_at_zoom(browser):
    """By keys and by clicks: train, step, matmul below it."""
    browser.press("ArrowDown", "ArrowDown")
    details = browser.text("#details")
    assert details.startswith("step") and "/app/env.py:42" in details and share(details) == 70, details
    assert "7.000 s of wall time" in details and "itself 10.0 %" in details, details
    browser.press("Enter", "ArrowDown")
    assert browser.text("#details").startswith("matmul") and "/usr/lib/libblas.so.3" in browser.text("#details")
    assert browser.evaluate("document.getElementById('reset').disabled") is False
    browser.press("Escape")
    assert browser.text("#details").startswith("all") and browser.evaluate("document.getElementById('reset').disabled")
    left, top = browser.evaluate("(({ left, top }) => [left, top])(document.getElementById('graph').getBoundingClientRect())")
    browser.click(left + 20, top + 2 * 19 + 8)
    assert browser.text("#details").startswith("step"), browser.text("#details")
    assert browser.evaluate("zoom === focused && boxes.find(box => box.node === zoom).width === graph.clientWidth")
    browser.evaluate("document.getElementById('reset').click()")


def look_at_views(browser):
    """Whatever the view, the totals hold; leaf first, waiting states come first."""
    total = "100.0 % [96.3, 100.0]: 10.00 s of wall time"
    browser.choose("#inverted", True)
    assert total in browser.text("#details"), browser.text("#details")
    children = browser.evaluate("expand(view.root).map(node => [nameOf(node), node.value / 1e6])")
    assert children[:2] == [["matmul", 4], ["[gil]", 3]] and ["step", 1] in children, children
    browser.choose("#inverted", False)
    browser.choose("#python", True)
    assert total in browser.text("#details")
    names = browser.evaluate("path(expand(expand(expand(view.root)[0])[0])[0]).map(nameOf)")
    assert names == ["all", "train", "step", "[gil]"], names
    browser.choose("#python", False)
    browser.choose("#state", "gil")
    assert "3.000 s of wall time" in browser.text("#details")
    browser.choose("#state", "")
    browser.choose("#process", "9")
    assert "1.000 s of wall time" in browser.text("#details")
    browser.choose("#process", "")


def test_in_a_browser():
    browser = Browser()
    browser.open(made_page())
    assert browser.text("#title") == "Flame graph of train, PID 7: wall time"
    facts = browser.text("#facts")
    for fact in ("2.0 s", "99 Hz", "10 looks a second", "2023-11-14 22:13:20 UTC", "10.00 s of", "lost 3 (map 3)", "truncated 0"):
        assert fact in facts, (fact, facts)
    assert browser.evaluate("frames.map(frame => frame.name)")[2:].count("</script><script>window.hacked = 1</script>") > 0
    assert "line\u2028paragraph\u2029" in browser.evaluate("threads.map(thread => thread.comm)")
    look_at_search(browser)
    look_at_zoom(browser)
    look_at_views(browser)
    assert browser.evaluate("performance.getEntriesByName('draw').length") > 10
    assert browser.evaluate("'hacked' in window") is False
    browser.open(render(Pprof("complete=0")))
    assert browser.text("#details").startswith("No sample is of these"), browser.text("#details")
    assert not browser.problems and not browser.requests, (browser.problems, browser.requests)
    assert browser.evaluate("fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')") == "refused"
    assert "Content Security Policy" in str(browser.problems), browser.problems


def test_recording():
    need_bpf()
    target = start("split", 600)
    page = os.path.join(temporary_dir(), "out.html")
    result = run([STAKEOUT, "record", "-p", target.pid, "-d", "1", "-o", page])
    assert result.returncode == 0 and f"wrote {page} (" in result.stderr, result.stderr
    with open(page, encoding="utf-8") as f:
        text = f.read()
    assert text.startswith("<!DOCTYPE html>") and '"split_kernel"' in text and text.endswith("</html>\n")
    samples = int(re.search(r"^(?:stakeout: )?(\d+) samples in", result.stderr, re.MULTILINE).group(1))
    assert f'{{"total":{samples},' in text


def test_not_for_a_terminal():
    ours, terminal = pty.openpty()
    for arguments in (["render", made_page(), "-f", "html"], ["record", "-p", os.getpid(), "-f", "html", "-o", "-"]):
        result = run(["sh", "-c", f'exec "$@" >&{terminal}', "sh", STAKEOUT, *arguments], pass_fds=(terminal,))
        assert result.returncode == 2 and "a flame graph is not for a terminal" in one_clear_line(result.stderr), result
    os.close(terminal)
    os.close(ours)
