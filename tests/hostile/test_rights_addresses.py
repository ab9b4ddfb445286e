# SPDX-License-Identifier: GPL-2.0-or-later
"""Addresses that a user may not learn: of the kernel, and of programs with rights of their own."""
import contextlib
import gzip
import json
import os
import signal
import time

from harness import Daemon, Skip, comm_of, descendant, parse_folded, status_of, temporary_dir, wait_until
from strangers import ask_as
from users import MALLORY, program, start_as

KERNEL_HALF = 1 << 63


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protobuf message's fields."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        yield key >> 3, value


def addresses(profile):
    """Of the locations of a pprof message."""
    locations = [value for number, value in fields(gzip.decompress(profile)) if number == 4]
    return [value for location in locations for number, value in fields(location) if number == 3]


def open_daemon(*options):
    return Daemon("--socket-mode", "0666", "--group", "", *options)


def ask(daemon, method, path, body=None):
    [(code, text)] = ask_as(daemon, [(method, path, body)], uid=MALLORY, gid=MALLORY)
    assert code in (200, 201), text
    return text.encode("latin-1")


def test_no_kernel_address():
    daemon = open_daemon("--store", temporary_dir(), "--window", "1")
    target = start_as(MALLORY, ["sh", "-c", "echo ready; exec dd if=/dev/zero of=/dev/null bs=1M"])
    made = json.loads(ask(daemon, "POST", "/v1/targets", {"pid": target.pid, "rate_hz": 999, "keep": True}))
    path = f"/v1/targets/{made['id']}"
    wait_until(lambda: daemon.request("GET", path)["samples"] > 500, "samples")
    folded = daemon.client("folded", "-p", str(target.pid)).stdout
    assert "_[k]" in folded, folded
    wait_until(lambda: daemon.request("GET", "/v1/history")["targets"][0]["samples"], "its history", step=0.2)
    key = daemon.request("GET", "/v1/history")["targets"][0]["key"]
    pull, past = f"/debug/pprof/profile?pid={target.pid}&seconds=1", f"/v1/history/{key}/profile?from=0"
    for route in (path + "/profile", path + "/threads", pull, past):
        shown = [hex(a) for a in addresses(ask(daemon, "GET", route)) if a >= KERNEL_HALF]
        assert not shown, (route, shown)


@contextlib.contextmanager
def stopped(daemon):
    """The daemon sees nothing of what happens meanwhile until it is over."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


def check_not_seen(mode, owner):
    path = program("threads")
    os.chown(path, *owner)
    os.chmod(path, mode)
    daemon = open_daemon()
    wait = f"while ! [ -e {path}.go ]; do :; done"
    target = start_as(MALLORY, ["sh", "-c", f"echo ready; {wait}; {path} 600 >/dev/null; true"])
    made = json.loads(ask(daemon, "POST", "/v1/targets", {"pid": target.pid, "rate_hz": 999, "keep": True}))
    wait_until(lambda: daemon.request("GET", f"/v1/targets/{made['id']}")["samples"] > 20, "samples of the shell")
    with stopped(daemon):
        with open(path + ".go", "wb"):
            pass
        child = descendant(target.pid, "threads")
        ids = status_of(child)
        if len(set((ids["Uid"] + "\t" + ids["Gid"]).split())) == 1:
            raise Skip("the bit has no effect here")
        wait_until(lambda: comm_of(child) == "threads", "the program")
        time.sleep(0.3)
    wait_until(lambda: "is not followed any more" in daemon.log(), "the daemon to let go of it")
    stacks = parse_folded(daemon.client("folded", "-p", str(target.pid)).stdout)
    assert {stack[0] for stack in stacks} == {"sh"}, [stack for stack in stacks if stack[0] != "sh"][:5]
    seen = daemon.request("GET", f"/v1/targets/{made['id']}")
    assert seen["processes"] == 1, seen
    # What was not looked at is counted, not passed over.
    assert seen["lost"] > 50, seen


def test_set_user_id_child_before_it_is_looked_at():
    check_not_seen(0o4755, (0, 0))


def test_set_group_id_child_before_it_is_looked_at():
    check_not_seen(0o2755, (0, 65531))
