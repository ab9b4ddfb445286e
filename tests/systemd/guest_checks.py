# SPDX-License-Identifier: GPL-2.0-or-later
"""What the machine that run.py boots does once it is up: looks at stakeoutd.service from all sides. One line a check
goes to standard output, the second serial line, and the journal at the end between two marks."""
import http.client
import json
import os
import pwd
import signal
import subprocess
import sys
import time

import guest_service as systemd
from guest_service import Service, command, journal, journal_lines, show, wait_active
from harness import (
    STAKEOUTD,
    cleanup,
    one_clear_line,
    parse_folded,
    record,
    run,
    spawn,
    start,
    start_script,
    status_of,
    wait_until,
)
from metrics_text import parse_metrics

TOKEN = os.environ["TEST_TOKEN"]
WATCHDOG_S = 10  # the drop-in's
STORE = "/var/lib/stakeout"

service = Service()
checks = []
kept = {}  # what later checks need


def check(function):
    checks.append(function)
    return function


def as_user(name):
    """Options that start a process as that user, with their groups."""
    user = pwd.getpwnam(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": os.getgrouplist(name, user.pw_gid)}


# The start.


@check
def ready_through_sd_notify():
    pid = wait_active()
    found = show("Type", "SubState", "NRestarts", "ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    assert (found["Type"], found["SubState"], found["NRestarts"]) == ("notify", "running", "0"), found
    took_ms = (int(found["ActiveEnterTimestampMonotonic"]) - int(found["ExecMainStartTimestampMonotonic"])) / 1000
    line = [e for e in journal() if "listens on " + systemd.SOCKET in str(e["MESSAGE"])]
    # Ready means that it answers: not before it listens.
    assert line and int(line[0]["__MONOTONIC_TIMESTAMP"]) <= int(found["ActiveEnterTimestampMonotonic"]) + 500000, line
    kept["pid"], kept["active_since"] = pid, time.monotonic()
    return f"after {took_ms:.0f} ms"


@check
def socket_and_directories():
    user = os.stat(systemd.SOCKET)
    assert (systemd.file_mode(systemd.SOCKET), user.st_uid, user.st_gid) == ("0660", 0, 2000), user
    modes = {path: systemd.file_mode(path) for path in ("/run/stakeout", "/var/lib/stakeout", "/var/cache/stakeout")}
    assert list(modes.values()) == ["0755", "0700", "0700"], modes
    assert service.request("GET", "/v1/status")["history"]["path"] == STORE
    return modes


@check
def what_it_may_write():
    """In the unit's mount namespace: its own directories, and nothing else."""
    its_own = ["/run/stakeout", "/var/lib/stakeout", "/var/cache/stakeout"]
    foreign = ["/etc", "/usr", "/var/lib", "/home", "/root", "/tmp", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
               "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup"]
    script = 'for path in "$@"; do test -e "$path" || exit 9; test ! -w "$path" || echo "$path"; done'
    argv = ["nsenter", "--target", str(kept["pid"]), "--mount", "sh", "-c", script, "sh", *its_own, *foreign]
    may = command(*argv).split()
    assert may == its_own, may
    return ", ".join(may)


@check
def status_and_check():
    text = service.client("status").stdout
    assert str(kept["pid"]) in text or "stakeoutd" in text, text
    found = service.client("check").stdout
    return found.strip().splitlines()[-1]


@check
def hardening_takes_nothing_away():
    """What the service finds on the machine is what the same program finds as plain root."""
    inside = {c["name"]: c["found"] for c in service.request("GET", "/v1/check")}
    outside = {c["name"]: c["found"] for c in json.loads(run([STAKEOUTD, "--check-json"]).stdout)}
    assert inside.keys() == outside.keys() and any(inside.values())
    lacks = [name for name, found in outside.items() if found and not inside[name]]
    assert not lacks, f"the service lacks {lacks}"
    return f"{sum(inside.values())} of {len(inside)}"


@check
def capabilities_that_it_says():
    kept_now = service.request("GET", "/v1/status")["privileges"]["kept"]
    (line,) = [words for _, _, words in journal_lines() if "keeps the capabilities" in words]
    said = set(line.split("capabilities ")[1].split("; ")[0].split(", "))
    assert "works without" not in line, line
    pid, expected = kept["pid"], set(kept_now)
    for task in os.listdir(f"/proc/{pid}/task"):
        status = status_of(f"{pid}/task/{task}")
        for name in ("CapEff", "CapPrm", "CapBnd"):
            assert systemd.names_of(status[name]) == expected == said, (task, name, status[name], expected, said)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status
    return ", ".join(sorted(kept_now))


@check
def nice_and_limits():
    with open(f"/proc/{kept['pid']}/stat", encoding="ascii") as f:
        nice = int(f.read().rsplit(")", 1)[1].split()[16])
    with open(f"/proc/{kept['pid']}/limits", encoding="ascii") as f:
        limits = {line[:26].strip(): line[26:].split() for line in f}
    assert nice == -10 and limits["Max locked memory"][:2] == ["unlimited"] * 2, (nice, limits)
    files = limits["Max open files"]
    assert files[0] == files[1] and int(files[0]) > 4096, files
    return f"nice {nice}, {files[0]} files"


# Stacks.


def check_recording(recording, *functions):
    recording.check_complete(0.999, 100)
    through = recording.count(*functions)
    assert through >= recording.samples / 3, f"{functions}: {through} of {recording.samples}; {recording.examples('')}"
    return f"{recording.samples} samples, {100 * recording.stats['complete'] / recording.samples:.2f} % complete"


@check
def stacks_of_threads():
    target = start("threads-static", 600)
    said = check_recording(record(target.pid, 3, 199), "thread_main", "thread_burn")
    target.process.kill()
    return said


@check
def stacks_of_python():
    target = start_script("py_threads.py", 600)
    recording = record(target.pid, 4, 199)
    target.process.kill()
    recording.check_complete(0.999, 100)
    frames = [f for stack in recording.stacks for f in stack if f.startswith("spin (") and "/py_threads.py:" not in f]
    assert frames, recording.examples("")
    python = recording.stats["python"]
    assert python["complete"] >= 0.99 * python["samples"] > 50, python
    return f"{recording.samples} samples, Python {python['complete']} of {python['samples']} complete"


@check
def stacks_with_kernel_frames():
    """Of a program that is in the kernel most of the time; its frames have names."""
    target = spawn(["dd", "if=/dev/zero", "of=/dev/null", "bs=4M"])
    recording = record(target.pid, 3, 199)
    target.kill()
    recording.check_complete(0.999, 100)
    frames = {}
    for stack, n in recording.stacks.items():
        for frame in stack[1:]:
            if frame.endswith("_[k]"):
                frames[frame] = frames.get(frame, 0) + n
    assert frames.get("ksys_read_[k]", 0) > recording.samples / 2, (frames, recording.examples(""))
    unnamed = [f for f in frames if f.startswith("[")]
    assert not unnamed, unnamed
    return f"{recording.samples} samples, ksys_read in {frames['ksys_read_[k]']}"


@check
def stacks_in_other_namespaces():
    """Of another service, whose program lies in a /tmp of its own."""
    command("systemd-run", "--unit=other", "-p", "PrivateTmp=yes", "-p", "DynamicUser=yes", "sh", "-c",
            "cp /build/workloads/threads-static /tmp/inside && exec /tmp/inside 600")
    pid = int(command("systemctl", "show", "other", "--property=MainPID").split("=")[1])
    wait_until(lambda: os.readlink(f"/proc/{pid}/exe").endswith("/inside"), "the other service", 20)
    said = check_recording(record(pid, 3, 199), "thread_main", "thread_burn")
    command("systemctl", "stop", "other")
    return said


# Who may.


@check
def a_member_of_the_group_may():
    target = kept["rule_target"] = start("split-static", 3600)
    service.wait_sampled(target.pid)
    text = command("stakeout", "list", env={"PATH": "/usr/local/bin"}, **as_user("member"))
    assert str(target.pid) in text, text
    result = run([systemd.STAKEOUT, "summary", "-p", str(target.pid)], **as_user("member"))
    assert result.returncode == 0 and "split_kernel" in result.stdout, result
    return "list, summary"


@check
def a_stranger_may_not():
    """Not even ask; and where all may ask, not about processes of others."""
    result = run([systemd.STAKEOUT, "list"], **as_user("stranger"))
    said = one_clear_line(result.stderr)
    assert result.returncode == 1 and not result.stdout and "you may not use" in said, result
    return said


# History and metrics.


@check
def rule_and_history():
    target = kept["rule_target"]
    assert service.target(target.pid), "the rule's target is not watched"

    def written():
        return service.request("GET", "/v1/status")["history"]["windows_written"] >= 2

    wait_until(written, "windows", 30, 0.5)
    text = service.client("summary", "-p", str(target.pid), "--since", "1m").stdout
    assert "split_kernel" in text, text
    mode = systemd.file_mode(STORE + "/history.sqlite")
    assert mode == "0600", mode
    assert not service.request("GET", "/v1/history")["problem"]
    return text.splitlines()[0]


@check
def unwind_tables_are_kept():
    tables = os.listdir("/var/cache/stakeout")
    assert tables, "the cache is empty"
    return f"{len(tables)} files"


def ask_tcp(path, token):
    connection = http.client.HTTPConnection("127.0.0.1", 9464, timeout=30)
    connection.request("GET", path, headers={"Authorization": "Bearer " + token})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@check
def metrics_over_tcp():
    status, text = ask_tcp("/metrics", TOKEN)
    assert status == 200, (status, text)
    pid = kept["rule_target"].pid
    series = parse_metrics(text)["stakeout_target_samples_total"]
    mine = [value for labels, value in series.items() if f'pid="{pid}"' in labels]
    assert mine and mine[0] > 0, series
    assert ask_tcp("/metrics", TOKEN[:-1] + "X")[0] == 401
    return f"{mine[0]:.0f} samples"


# Restarts.


@check
def the_watchdog_is_fed():
    """Checks so far took much longer than its time."""
    passed = time.monotonic() - kept["active_since"]
    if passed < 2.5 * WATCHDOG_S:
        time.sleep(2.5 * WATCHDOG_S - passed)
        passed = time.monotonic() - kept["active_since"]
    found = show("WatchdogUSec", "NRestarts", "MainPID")
    assert found == {"WatchdogUSec": f"{WATCHDOG_S}s", "NRestarts": "0", "MainPID": str(kept["pid"])}, found
    return f"{passed:.0f} s at {WATCHDOG_S} s"


def restarted(number, cause):
    """Waits for that restart; the rule's target is watched again."""
    kept["pid"] = wait_active(90, kept["pid"])
    assert show("NRestarts") == str(number), show("NRestarts")
    words = [text for who, _, text in journal_lines() if who == "systemd" and cause in text]
    assert words, f"systemd does not say '{cause}'"
    service.wait_sampled(kept["rule_target"].pid)


@check
def a_stopped_daemon_is_replaced():
    began = time.monotonic()
    os.kill(kept["pid"], signal.SIGSTOP)
    restarted(1, "Watchdog timeout")
    return f"after {time.monotonic() - began:.0f} s"


@check
def a_killed_daemon_is_replaced():
    """The history goes on, and tells what it lacks."""
    pid = kept["rule_target"].pid
    before = len(service.request("GET", "/v1/history")["gaps"])
    began = time.monotonic()
    os.kill(kept["pid"], signal.SIGKILL)
    restarted(2, "status=9/KILL")
    took = time.monotonic() - began
    history = service.request("GET", "/v1/history")
    (key,) = [t["key"] for t in history["targets"] if t["pid"] == pid]
    gaps = [g for g in history["gaps"] if g["key"] == key and g["cause"] == "open-window"]
    assert len(history["gaps"]) > before and gaps, history["gaps"]
    assert "the daemon was killed" in service.client("history").stdout
    assert "split_kernel" in service.client("summary", "-p", str(pid), "--since", "2m").stdout
    return f"sampled again after {took:.1f} s"


@check
def a_reload_is_refused():
    """There is none: it would end a daemon that takes SIGHUP for the end."""
    text = command("systemctl", "reload", systemd.UNIT, expect=None)
    assert "not applicable" in text, text
    assert wait_active() == kept["pid"]
    return text.strip().splitlines()[0]


@check
def status_for_a_person():
    text = command("systemctl", "status", "--no-pager", systemd.UNIT)
    assert "active (running)" in text and f"Main PID: {kept['pid']} (stakeoutd)" in text, text
    tasks = command("systemctl", "show", systemd.UNIT, "--property=ControlGroup").strip().split("=")[1]
    with open(f"/sys/fs/cgroup{tasks}/cgroup.procs", encoding="ascii") as f:
        assert f.read().split() == [str(kept["pid"])], "other processes are left in its control group"
    return [line.strip() for line in text.splitlines() if "Active:" in line][0]


@check
def stop_leaves_nothing():
    pid = kept["pid"]
    ours, loaded = systemd.bpf_of(pid), systemd.all_bpf()
    assert all(ours[kind] and ours[kind] <= loaded[kind] for kind in ("prog", "map")), (ours, loaded)
    began = time.monotonic()
    command("systemctl", "stop", systemd.UNIT)
    took = time.monotonic() - began
    found = show("ActiveState", "Result", "ExecMainCode", "ExecMainStatus", "MainPID")
    assert found == {"ActiveState": "inactive", "Result": "success", "ExecMainCode": "1", "ExecMainStatus": "0",
                     "MainPID": "0"}, found
    assert not os.path.exists(f"/proc/{pid}") and not os.path.exists("/run/stakeout"), "something is left"


    def freed():
        left = systemd.all_bpf()
        return not any(ours[kind] & left[kind] for kind in ours)

    wait_until(freed, "the end of its programs and maps", 20, 0.2)
    result = run([systemd.STAKEOUT, "list"])
    one_clear_line(result.stderr)
    assert result.returncode == 1, result
    return f"{len(ours['prog'])} programs, {len(ours['map'])} maps gone, {took:.1f} s"


@check
def a_wrong_configuration_is_said_once():
    """It does not heal by itself: no restarts."""
    before = systemd.configure(sockt="/x")
    command("systemctl", "start", systemd.UNIT, expect=1)
    found = show("ActiveState", "Result", "ExecMainStatus", "NRestarts")
    with open(systemd.CONFIG, "w", encoding="ascii") as f:
        f.write(before)
    assert found == {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "2", "NRestarts": "0"}, found
    lines = [(priority, words) for who, priority, words in journal_lines() if who == "stakeoutd" and "sockt" in words]
    assert len(lines) == 1 and lines[0][0] == 3 and f"{systemd.CONFIG}:" in lines[0][1], lines
    return lines[0][1]


@check
def all_may_ask_about_their_own():
    """After another start, with the history in another place of the service's."""
    systemd.configure(socket_mode="0666", store="/var/lib/stakeout/elsewhere")
    command("systemctl", "reset-failed", systemd.UNIT)
    command("systemctl", "start", systemd.UNIT)
    kept["pid"] = wait_active()
    pid = kept["rule_target"].pid
    service.wait_sampled(pid)
    stranger = as_user("stranger")
    assert str(pid) not in run([systemd.STAKEOUT, "list"], **stranger).stdout
    for argv in (["record", "-p", str(pid), "-d", "1", "-o", "-"], ["summary", "-p", str(pid)]):
        result = run([systemd.STAKEOUT, *argv], **stranger)
        assert result.returncode == 1 and not result.stdout, (argv, result)
    own = start("threads-static", 600, **stranger)
    result = run([systemd.STAKEOUT, "record", "-p", str(own.pid), "-d", "1", "-o", "-"], **stranger)
    own.process.kill()
    assert result.returncode == 0 and "thread_burn" in result.stdout, result
    assert parse_folded(result.stdout)
    path = service.request("GET", "/v1/status")["history"]["path"]
    assert path == STORE + "/elsewhere" and os.path.exists(path + "/history.sqlite"), path
    return one_clear_line(run([systemd.STAKEOUT, "summary", "-p", str(pid)], **stranger).stderr)


@check
def restart_without_a_history():
    systemd.configure(store=None, no_store="yes", no_cache="yes")
    command("systemctl", "restart", systemd.UNIT)
    kept["pid"] = wait_active(60, kept["pid"])
    service.wait_sampled(kept["rule_target"].pid)
    assert service.request("GET", "/v1/status").get("history") is None
    assert show("Result") == "success"
    return "no-store, no-cache"


@check
def cuda_calls():
    """Probes of calls, through the stand-in of the CUDA runtime. At the end: this kernel takes their removal's time, 20
    seconds of emulation, from whoever waits for the daemon's end."""
    folder = "/build/workloads/cuda"
    environment = {"LD_LIBRARY_PATH": f"{folder}/plain"}
    program = [f"{folder}/cuda_calls", "-d", "600", "-r", "200", "-m", "launch*2,malloc,htod", "-w", "no"]
    target = spawn(program, stdout=subprocess.PIPE, env=environment)
    wait_until(lambda: b"ready" in target.stdout.readline(), "the program to be ready", 30)
    result = run([systemd.STAKEOUT, "cuda", "-p", str(target.pid), "-d", "3", "-q", "--json"])
    target.kill()
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    launches = sum(row["calls"] for row in answer["calls"] if row["api"] == "cudaLaunchKernel")
    assert launches > 20 and not answer["problems"], (launches, answer["problems"])
    return f"{launches} launches, probes of kind {answer['probes']['kind']}"


# What was said meanwhile.


@check
def journal_lines_are_sane():
    entries = [e for e in journal() if e.get("SYSLOG_IDENTIFIER") == "stakeoutd"]
    assert len(entries) > 10, entries
    errors = [e["MESSAGE"] for e in entries if int(e["PRIORITY"]) < 6]
    assert [("sockt" in words) for words in errors] == [True], errors
    text = "\n".join(str(e["MESSAGE"]) for e in journal("-b"))
    assert TOKEN not in text and TOKEN not in command("systemctl", "status", "--no-pager", systemd.UNIT)
    said = [e["MESSAGE"] for e in entries]
    odd = [words for words in said if words.startswith(("<", "stakeoutd")) or "not permitted" in words]
    assert not odd, odd
    return f"{len(entries)} lines, {len(errors)} of them an error"


def killed_by_seccomp():
    """Who was, says the kernel's audit (type 1326, AUDIT_SECCOMP)."""
    lines = [words for _, _, words in journal_lines("-b") if "type=1326" in words or words.startswith("SECCOMP")]
    return [line for line in lines if "sig=0" not in line]


@check
def no_system_call_was_denied():
    """What a filter of the unit's kind kills is seen: one that deserves it; the service is not among them."""
    clock = "import time; time.clock_settime(time.CLOCK_REALTIME, time.time())"
    command("systemd-run", "--wait", "-p", "SystemCallFilter=~@clock", "/usr/bin/python3", "-c", clock, expect=None)
    wait_until(lambda: any("python3" in line for line in killed_by_seccomp()), "the kernel's word on it", 20, 0.5)
    ours = [line for line in killed_by_seccomp() if "stakeout" in line]
    assert not ours, ours
    return "a witness was, stakeoutd was not"


def one(function):
    what = function.__name__.replace("_", " ")
    began = time.monotonic()
    try:
        said = function()
        print(f"ok    systemd: {what}: {said} ({time.monotonic() - began:.1f} s)", flush=True)
    except Exception as error:  # pylint: disable=W0718
        text = str(error) or repr(error)
        print(f"FAIL  systemd: {what}\n      " + text.rstrip()[:3000].replace("\n", "\n      "), flush=True)


def main():
    for function in checks:
        one(function)
    cleanup()
    print("@@ journal")
    print(command("journalctl", "--no-pager", "-o", "short-monotonic", "-u", systemd.UNIT))
    print(command("journalctl", "--no-pager", "-k", "-p", "warning"))
    print("@@ end\n@@ done", flush=True)


if __name__ == "__main__":
    sys.exit(main())
