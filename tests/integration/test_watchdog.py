# SPDX-License-Identifier: GPL-2.0-or-later
"""The service manager's watchdog hears from a daemon only while it collects and serves.

Single threads of the daemon are stopped by ptrace, all others go on: a timer that merely runs would be seen.
"""
import contextlib
import ctypes
import os
import socket
import time

from harness import Daemon, Skip, comm_of, start, wait_until

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
WATCHDOG_US = 800000
PING = b"WATCHDOG=1"

_libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, tid):
    if _libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), None, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextlib.contextmanager
def stopped(pid, name):
    """The process's thread of that name does not run."""
    threads = [int(t) for t in os.listdir(f"/proc/{pid}/task") if comm_of(f"{pid}/task/{t}") == name]
    assert len(threads) == 1, (name, threads)
    try:
        ptrace(PTRACE_SEIZE, threads[0])
    except PermissionError as why:
        raise Skip("ptrace is not permitted here") from why
    ptrace(PTRACE_INTERRUPT, threads[0])
    os.waitpid(threads[0], WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, threads[0])


class Manager:
    """What a service manager hears."""

    def __init__(self):
        self.name = f"@stakeout-test-watchdog-{os.getpid()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:])
        self.socket.settimeout(30)

    def pings(self, seconds):
        """How many in that time, from now on."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.recv(256)
        n, until = 0, time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                n += self.socket.recv(256) == PING
        return n

    def wait(self):
        """For the next one."""
        wait_until(lambda: self.pings(0.5), "the watchdog's ping")


def watched(*arguments):
    manager = Manager()
    daemon = Daemon(*arguments, wait=False, env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": str(WATCHDOG_US)})
    assert manager.socket.recv(256) == b"READY=1"
    manager.wait()
    return manager, daemon


def silent_without(name, target):
    manager, daemon = watched()
    if target:
        daemon.request("POST", "/v1/targets", {"pid": target.pid}, expect=201)
        manager.wait()
    with stopped(daemon.process.pid, name):
        time.sleep(WATCHDOG_US / 1e6)  # a ping may have been under way
        assert manager.pings(2) == 0, f"pings come while {name} does not run"
    manager.wait()
    assert daemon.stop() == 0


def test_no_ping_while_nothing_is_collected():
    silent_without("collector", start("split", 600))


def test_no_ping_while_an_idle_collector_hangs():
    silent_without("collector", None)


def test_no_ping_while_nothing_is_accepted():
    silent_without("MHD-listen", None)


def test_pings_go_on_while_connections_are_used_up():
    """Others that take all connections must not get the daemon killed."""
    manager, daemon = watched()
    limit = next(x for x in daemon.request("GET", "/v1/status")["limits"] if x["name"] == "connections")["limit"]
    peers = []
    for _ in range(limit + 10):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.connect(daemon.socket)
        peers.append(peer)
    for _ in range(3):
        manager.wait()
    for peer in peers:
        peer.close()
    entry = next(x for x in wait_until(lambda: asked(daemon), "an answer")["limits"] if x["name"] == "connections")
    assert entry["hit"] > 0, entry


def asked(daemon):
    with contextlib.suppress(AssertionError, OSError):
        return daemon.request("GET", "/v1/status")
    return None
