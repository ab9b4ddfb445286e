# SPDX-License-Identifier: GPL-2.0-or-later
"""A running daemon: its commands, its API, its cache."""
import gzip
import json
import os
import signal
import subprocess
import time

from harness import (
    SANITIZED,
    PYTHON,
    Daemon,
    Target,
    has_number,
    need_module,
    need_tool,
    one_clear_line,
    parse_folded,
    script,
    start,
    status_of,
    temporary_dir,
    wait_until,
)


def test_attach_list_folded_detach():
    daemon = Daemon()
    target = start("split", 600)
    daemon.client("attach", "-p", str(target.pid), "-r", "499")
    samples = lambda: sum(t["samples"] for t in daemon.request("GET", "/v1/targets"))
    wait_until(lambda: samples() > 200, "samples")
    listed = daemon.client("list").stdout
    assert str(target.pid) in listed and "split" in listed, listed
    stacks = parse_folded(daemon.client("folded", "-p", str(target.pid)).stdout)
    assert sum(n for s, n in stacks.items() if "split_kernel" in s) > 100, stacks
    later = parse_folded(daemon.client("folded", "-p", str(target.pid)).stdout)
    assert sum(later.values()) >= sum(stacks.values()), "samples went away"
    daemon.client("detach", "-p", str(target.pid))
    assert not has_number(daemon.client("list").stdout, target.pid)
    assert daemon.stop() == 0


def test_status():
    daemon = Daemon()
    text = daemon.client("status").stdout
    assert text.strip(), "status says nothing"
    status = daemon.request("GET", "/v1/status")
    assert isinstance(status, dict) and status, status


def test_the_cost_of_a_target_is_its_own():
    """What another target at a hundred times the rate costs is not among it, and an ended target's figure stays."""
    daemon = Daemon()
    slow, fast = start("split", 600), start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": slow.pid, "rate_hz": 49, "keep": True}, expect=201)
    stats = f"/v1/targets/{made['id']}/stats"
    wait_until(lambda: daemon.request("GET", stats)["samples"] >= 30, "samples")
    alone = daemon.request("GET", stats)["overhead_percent"]
    other = daemon.request("POST", "/v1/targets", {"pid": fast.pid, "rate_hz": 4999, "keep": True}, expect=201)
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{other['id']}/stats")["samples"] >= 5000, "samples")
    beside = daemon.request("GET", stats)["overhead_percent"]
    assert 0 < alone < 1 and 0 < beside < 5 * alone, (alone, beside)
    slow.process.kill()
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "ended", "its end")
    at_end = daemon.request("GET", stats)["overhead_percent"]
    time.sleep(1)
    assert daemon.request("GET", stats)["overhead_percent"] == at_end > 0, at_end


def test_attach_twice():
    daemon = Daemon()
    target = start("split", 600)
    daemon.client("attach", "-p", str(target.pid))
    result = daemon.client("attach", "-p", str(target.pid), expect=1)
    assert str(target.pid) in one_clear_line(result.stderr)


def test_detach_what_is_not_attached():
    daemon = Daemon()
    for command in ("detach", "folded"):
        assert "12345" in one_clear_line(daemon.client(command, "-p", "12345", expect=1).stderr)


def test_record_through_the_daemon():
    """Recordings beside a target that stays, and of that target itself, at its rate."""
    daemon = Daemon()
    stays, other = start("split", 600), start("cpp_sim", 600)
    daemon.client("attach", "-p", str(stays.pid))
    recording = daemon.record(other.pid, duration=2).check_complete()
    assert recording.count("sim::run_epoch") > 100, recording.examples("")
    daemon.client("detach", "-p", str(stays.pid))
    daemon.client("attach", "-p", str(stays.pid), "-r", "799")
    part = daemon.record(stays.pid, duration=2, rate=799).check_complete()
    assert 100 < part.samples < 799 * 2.5, part.samples
    refused = daemon.record(stays.pid, duration=2, rate=99, expect=1)
    assert str(stays.pid) in one_clear_line(refused.stderr)
    listed = daemon.client("list").stdout
    assert has_number(listed, stays.pid) and not has_number(listed, other.pid), listed


def test_targets_one_after_the_other():
    """What is known of files does not outlive the targets that use them, or outlives them intact."""
    daemon = Daemon()
    small = start("split", 600)
    large = Target([PYTHON, "-c", "import time\nprint('ready', flush=True)\nwhile True:\n time.monotonic()"])
    for _ in range(3):
        daemon.record(small.pid, duration=1).check_complete()
        recording = daemon.record(large.pid, duration=1).check_complete()
        assert recording.count("__vdso_clock_gettime") > 20, recording.examples("")


def test_curl_pulls_a_profile():
    daemon = Daemon()
    target = start("split", 600)
    url = f"http://localhost/debug/pprof/profile?pid={target.pid}&seconds=1"
    argv = [need_tool("curl"), "-sS", "--fail", "--unix-socket", daemon.socket, url]
    answer = subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout
    assert b"split_kernel" in gzip.decompress(answer)


def test_api_life_of_a_target():
    daemon = Daemon()
    target = start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": 999, "duration_s": 1}, expect=201)
    path = f"/v1/targets/{made['id']}"
    assert made["pid"] == target.pid and made["rate_hz"] == 999, made
    wait_until(lambda: daemon.request("GET", path)["state"] == "ended", "the end of its duration")
    info, stats = daemon.request("GET", path), daemon.request("GET", path + "/stats")
    assert info["end"] == "duration", info
    assert 100 < stats["samples"] < 1100, stats
    assert stats["samples"] == daemon.request("GET", path)["samples"]
    assert b"split_kernel" in gzip.decompress(daemon.request("GET", path + "/profile"))
    daemon.request("DELETE", path)
    daemon.request("GET", path, expect=404)
    assert daemon.request("GET", "/v1/targets") == []


def test_api_refuses_nonsense():
    daemon = Daemon()
    for body in ([], {}, {"pid": "one"}, {"pid": 1, "rate_hz": 0}, {"pid": 1, "rate_hz": 10**9}, {"pid": -1}, {"pid": 1, "x": 2}):
        answer = daemon.request("POST", "/v1/targets", body, expect=400)
        assert answer["error"], answer
    daemon.request("GET", "/v1/nothing", expect=404)
    daemon.request("DELETE", "/v1/status", expect=405)
    daemon.request("GET", "/v1/targets/99999999999999999999", expect=404)
    assert daemon.process.poll() is None


def test_sigterm_while_sampling():
    daemon = Daemon()
    daemon.client("attach", "-p", str(start("threads", 600, 20).pid))
    time.sleep(1)
    assert daemon.stop() == 0, daemon.log()
    assert not os.path.exists(daemon.socket), "the socket stayed"


def test_two_daemons_on_one_socket():
    daemon = Daemon()
    second = Daemon("--socket", daemon.socket, wait=False)
    assert second.process.wait(timeout=20) == 1
    assert daemon.socket in second.log(), second.log()
    daemon.client("status")


def test_socket_of_a_dead_daemon_is_taken_over():
    daemon = Daemon()
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    assert os.path.exists(daemon.socket)
    second = Daemon("--socket", daemon.socket, wait=False)
    wait_until(lambda: "listens" in second.log(), "the second daemon")
    daemon.client("status")


def test_target_ends_and_its_data_stay():
    daemon = Daemon()
    target = start("split", 2)
    daemon.client("attach", "-p", str(target.pid), "-r", "999")
    target.finish()
    time.sleep(0.5)
    stacks = parse_folded(daemon.client("folded", "-p", str(target.pid)).stdout)
    assert sum(stacks.values()) > 100, stacks


def attach(daemon, pid):
    """Attaches, and returns the figures; the time they tell cannot be longer than what the caller saw."""
    began = time.monotonic()
    made = daemon.request("POST", "/v1/targets", {"pid": pid, "rate_hz": 99}, expect=201)
    seen_ms = (time.monotonic() - began) * 1000
    stats = daemon.request("GET", f"/v1/targets/{made['id']}/stats")
    assert 0 < stats["attach_ms"] <= seen_ms + 1, f"{stats['attach_ms']} ms said, {seen_ms} ms seen"
    return stats


def cache_files(path):
    return sorted(os.path.join(base, f) for base, _, files in os.walk(path) for f in files)


def test_pytorch_comes_from_the_cache():
    """The first daemon compiles every table, the second not one; it stays within 64 MB. (Times: `make bench`.)"""
    need_module("torch")
    target = Target([PYTHON, script("train.py"), 200])
    cache = temporary_dir()
    first = Daemon("--cache-dir", cache)
    unwind = attach(first, target.pid)["unwind"]
    first.stop()
    assert unwind["compiled"] > 100 and unwind["from_cache"] == 0, unwind
    assert cache_files(cache), "no table was kept"
    second = Daemon("--cache-dir", cache)
    again = attach(second, target.pid)["unwind"]
    assert again["compiled"] == 0 and again["from_cache"] == unwind["compiled"], again
    assert again["rows"] == unwind["rows"] and again["bytes"] <= 8 * again["rows"], (unwind, again)
    rss_mb = int(status_of(second.process.pid)["VmRSS"].split()[0]) / 1024
    assert SANITIZED or rss_mb < 64, f"{rss_mb:.0f} MB resident"


def test_corrupt_cache_is_rebuilt():
    """Whatever lies in the cache: the stacks are right, and the file is good again."""
    target = start("split", 600)
    cache = temporary_dir()
    daemon = Daemon("--cache-dir", cache)
    daemon.record(target.pid, duration=1).check_complete()
    daemon.stop()
    files = cache_files(cache)
    assert files, "no table was kept"
    original = {path: open(path, "rb").read() for path in files}
    damages = (
        lambda b: b"",
        lambda b: b[: len(b) // 2],
        lambda b: b[: len(b) // 2] + bytes([b[len(b) // 2] ^ 0xFF]) + b[len(b) // 2 + 1 :],
        lambda b: os.urandom(len(b)),
        lambda b: b[:4] + os.urandom(max(len(b) - 4, 0)),
        lambda b: b + b"x" * 100,
    )
    for number, damage in enumerate(damages):
        for path, content in original.items():
            with open(path, "wb") as f:
                f.write(damage(content))
        daemon = Daemon("--cache-dir", cache)
        recording = daemon.record(target.pid, duration=0.4).check_complete(least=20)
        inside = recording.count("main", "split_bag", "split_kernel")
        assert inside > recording.samples / 2, f"damage {number}: {recording.examples('')}"
        assert daemon.stop() == 0, daemon.log()
    for path, content in original.items():
        with open(path, "rb") as f:
            assert len(f.read()) > 0 or not content, f"{path} was not rebuilt"


def test_cache_that_cannot_be_written():
    """No cache is no reason to fail."""
    target = start("split", 600)
    daemon = Daemon("--cache-dir", "/proc/nonexistent")
    daemon.record(target.pid, duration=1).check_complete()


def test_status_names_what_is_used():
    daemon = Daemon()
    text = json.dumps(daemon.request("GET", "/v1/status"))
    assert "bpf_loop" in text, text
    text = json.dumps(Daemon("--force-tail-calls").request("GET", "/v1/status"))
    assert "tail" in text, text
