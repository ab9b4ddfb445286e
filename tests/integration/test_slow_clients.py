# SPDX-License-Identifier: GPL-2.0-or-later
"""200 slow and broken clients at once; those who ask properly are answered all the same.

What fails the test is a request without an answer, or one that takes longer than GENEROUS_S. That limit is no measure of
speed, since the machine may be busy with anything: it is well below the 30 s after which the daemon closes an idle
connection, so that an answer within it cannot have waited for a bad client to be thrown out. The delays are printed.
"""
import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import threading
import time

from harness import Daemon, UnixConnection, at_exit, quiet, start, temporary_dir, wait_until
from strangers import NOBODY, become, in_child

TOKEN = "0123456789abcdef-slow"
GENEROUS_S = 10
UIDS = [NOBODY, 50001, 50002, 50003, 50004]  # and root
PER_USER = 20  # more than one user may have
OVER_TCP = 80
BAD_CLIENTS = PER_USER * (len(UIDS) + 1) + OVER_TCP
GOOD_REQUESTS = 100

HALF = [
    b"G",
    b"GET /v1/status HTTP/1.1\r\n",
    b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 3000,
    b"POST /v1/targets HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{",
    b"",
]
WHOLE = b"GET /v1/check HTTP/1.1\r\nHost: x\r\n%s\r\n"
SLOW_ANSWERS = 20  # that a slow reader asks for at once: more than the socket's buffers hold


class Bad:
    """One bad client: sends a half request bit by bit, or asks much and reads little, or hangs up in the middle and comes
    again a little later."""

    def __init__(self, address, number, header):
        self.address, self.header = address, header
        self.kind = number % 3
        whole = WHOLE % header
        self.text = (HALF[number // 3 % len(HALF)], whole * SLOW_ANSWERS, whole)[self.kind]
        self.random = random.Random(number)
        self.socket = None

    def connect(self):
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.settimeout(0.05)
        self.socket.connect(self.address)
        self.socket.sendall(self.text)

    def step(self):
        with contextlib.suppress(OSError):
            if self.socket is None:
                self.connect()
            elif self.kind == 0:
                self.socket.sendall(b"z")
            elif self.kind == 1:
                self.socket.recv(16)
            elif self.random.random() < 0.2:
                self.socket.close()
                self.socket = None
            return
        if self.socket:
            self.socket.close()
        self.socket = None


def be_bad(address, n, uid, header=b""):
    """A process with n bad clients; its pid."""
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            signal.alarm(100)
            if uid:
                become(uid, uid, [])
            clients = [Bad(address, i + uid, header) for i in range(n)]
            while True:
                for client in clients:
                    client.step()
                time.sleep(0.2)
        os._exit(0)
    at_exit(os.waitpid, pid, 0)
    at_exit(os.kill, pid, signal.SIGKILL)


def good_requests(connect, paths, headers):
    """Delays in seconds of requests one after the other, each on a connection of its own; each is answered 200."""
    delays = []
    for i in range(GOOD_REQUESTS):
        began = time.monotonic()
        with contextlib.closing(connect()) as connection:
            connection.request("GET", paths[i % len(paths)], headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        delays.append(time.monotonic() - began)
        assert answer.status == 200 and text, (answer.status, text[:200])
    return delays


def show(name, delays):
    median, most = statistics.median(delays) * 1000, max(delays) * 1000
    print(f"{name}: {len(delays)} requests, median {median:.1f} ms, longest {most:.1f} ms")
    assert max(delays) < GENEROUS_S, f"{name}: an answer took {max(delays):.1f} s"


@quiet
def test_good_clients_are_answered_beside_200_bad_ones():
    token = os.path.join(temporary_dir(), "token")
    with open(token, "w", encoding="ascii") as f:
        f.write(TOKEN + "\n")
    os.chmod(token, 0o600)
    daemon = Daemon("--socket-mode", "0666", "--group", "", "--listen", "127.0.0.1:0", "--token-file", token)
    port = int(wait_until(lambda: re.search(r"listens on 127\.0\.0\.1:(\d+),", daemon.log()), "the door").group(1))
    target = start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "rate_hz": 199, "keep": True}, expect=201)
    paths = ["/v1/status", "/v1/targets", f"/v1/targets/{made['id']}", f"/v1/targets/{made['id']}/profile", "/metrics"]
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    def unix():
        return UnixConnection(daemon.socket, 30)

    def tcp():
        return http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    alone = good_requests(unix, paths, {})
    assert BAD_CLIENTS == 200
    for uid in [0, *UIDS]:
        be_bad(daemon.socket, PER_USER, uid)
    be_bad(("127.0.0.1", port), OVER_TCP // 2, 0)
    be_bad(("127.0.0.1", port), OVER_TCP // 2, 1, f"Authorization: Bearer {TOKEN}\r\n".encode())
    time.sleep(3)
    busy = {x["name"]: x for x in daemon.request("GET", "/v1/status")["limits"]}
    print({name: busy[name] for name in ("connections", "connections_of_a_user", "tcp_connections")})
    assert busy["connections"]["now"] > 60 and busy["tcp_connections"]["now"] > 20, busy
    assert busy["connections_of_a_user"]["hit"] > 0, busy

    def as_user():
        become(60001, 60001, [])
        return good_requests(unix, ["/v1/status", "/v1/targets"], {})

    answers = {}
    over_tcp = threading.Thread(target=lambda: answers.update(tcp=good_requests(tcp, paths, bearer)))
    over_tcp.start()
    answers["root"] = good_requests(unix, paths, {})
    over_tcp.join()
    answers["user"] = in_child(as_user)
    show("nobody else there", alone)
    for name in ("root", "user", "tcp"):
        show(f"{name}, beside {BAD_CLIENTS} bad clients", answers[name])
    assert daemon.request("GET", f"/v1/targets/{made['id']}")["state"] == "sampling"
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as f:
        print(json.dumps(re.findall(r"(VmRSS|Threads):\s+(\d+)", f.read())))
    assert daemon.stop() == 0


def test_users_together_leave_connections_to_root():
    """Many users take what users may take; root is answered, a further user is told."""
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    limits = {x["name"]: x["limit"] for x in daemon.request("GET", "/v1/status")["limits"]}
    each = limits["connections_of_a_user"]
    users = limits["connections"] // each

    def hold(uid):
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                become(uid, uid, [])
                peers = []
                for _ in range(each):
                    peers.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                    peers[-1].connect(daemon.socket)
                signal.alarm(60)
                signal.pause()
            os._exit(0)
        at_exit(os.waitpid, pid, 0)
        at_exit(os.kill, pid, signal.SIGKILL)

    for i in range(users):
        hold(51000 + i)

    def counted():
        entry = next(x for x in daemon.request("GET", "/v1/status")["limits"] if x["name"] == "connections")
        return entry if entry["hit"] else None

    entry = wait_until(counted, "the limit to be met")
    assert entry["now"] < entry["limit"], entry

    def be_told():
        become(60001, 60001, [])
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(30)
            peer.connect(daemon.socket)
            return peer.recv(4096).decode()  # before it asks for anything

    told = in_child(be_told)
    assert told.startswith("HTTP/1.1 503 ") and '"too many connections"' in told, told
    assert daemon.request("GET", "/v1/targets") == []
