# SPDX-License-Identifier: GPL-2.0-or-later
"""A target of root's is of a user's process, and has processes of others below it: the user sees none of these."""
import gzip
import json
import os
import time

from harness import Daemon, Skip, descendant, status_of, temporary_dir, wait_until
from strangers import ask_as
from users import MALLORY, program, start_as
from test_rights_addresses import stopped

SECRET = b"thread_burn"  # a function of the program that is not the user's
OWN = b"sh"


class World:
    """Root watches a user's shell, which starts a set-user-ID program once it is told to."""

    def __init__(self, *options):
        self.roots = program("threads")
        os.chown(self.roots, 0, 0)
        os.chmod(self.roots, 0o4755)
        self.daemon = Daemon("--socket-mode", "0666", "--group", "", *options)
        wait = f"while ! [ -e {self.roots}.go ]; do :; done"
        commands = f"echo ready; {wait}; {self.roots} 600 >/dev/null & while :; do :; done"
        self.target = start_as(MALLORY, ["sh", "-c", commands])
        self.attach()

    def attach(self):
        body = {"pid": self.target.pid, "rate_hz": 999, "keep": True}
        self.path = f"/v1/targets/{self.daemon.request('POST', '/v1/targets', body, expect=201)['id']}"

    def go(self):
        with open(self.roots + ".go", "wb"):
            pass
        child = descendant(self.target.pid, "threads")
        if status_of(child)["Uid"].split()[1] != "0":
            raise Skip("the set-user-ID bit has no effect here")
        return child

    def ask(self, route, code=200):
        [(got, text)] = ask_as(self.daemon, [("GET", route, None)], uid=MALLORY, gid=MALLORY)
        assert got == code, (route, got, text[:300])
        return text.encode("latin-1")

    def strings(self, route):
        """What the user finds in a profile."""
        found = gzip.decompress(self.ask(route))
        assert OWN in found
        return found

    def wait_for_secret(self):
        """Root sees all."""
        def seen():
            return SECRET in gzip.decompress(self.daemon.request("GET", self.path + "/profile"))

        wait_until(seen, "samples of the other program", step=0.2)


def test_profile():
    world = World()
    child = world.go()
    world.wait_for_secret()
    assert SECRET not in world.strings(world.path + "/profile")
    assert SECRET not in world.strings(f"/debug/pprof/profile?pid={world.target.pid}&seconds=1")
    assert SECRET not in world.strings("/debug/pprof/profile?seconds=1")
    world.ask(f"{world.path}/threads?pid={child}", code=403)
    assert "is shown to root alone" in world.daemon.log()


def test_profile_before_the_program_is_looked_at():
    """What the kernel counted while the daemon did nothing is answered at once."""
    world = World()
    with stopped(world.daemon):
        world.go()
        time.sleep(0.5)
    assert b"threads" not in world.strings(world.path + "/profile")
    world.wait_for_secret()


def test_attached_when_it_ran_already():
    world = World()
    world.daemon.request("DELETE", world.path)
    world.go()
    world.attach()
    world.wait_for_secret()
    assert SECRET not in world.strings(world.path + "/profile")


def test_history_and_metrics():
    world = World("--store", temporary_dir(), "--window", "1")
    wait_until(lambda: json.loads(world.ask("/v1/history"))["targets"], "its history", step=0.2)
    key = json.loads(world.ask("/v1/history"))["targets"][0]["key"]
    route = f"/v1/history/{key}/profile?from=0"
    wait_until(lambda: json.loads(world.ask("/v1/history"))["targets"][0]["samples"], "a window", step=0.2)
    assert SECRET not in world.strings(route)
    world.go()
    world.wait_for_secret()

    def windows_have_it():
        return SECRET in gzip.decompress(world.daemon.request("GET", route))

    wait_until(windows_have_it, "a window with the other program", step=0.2)
    world.ask(route, code=403)
    assert json.loads(world.ask("/v1/history"))["targets"] == []
    assert f'pid="{world.target.pid}"'.encode() not in world.ask("/metrics")
    # Nor when the user attaches the shell, whose history it is.
    world.daemon.request("DELETE", world.path)
    body = {"pid": world.target.pid, "keep": True}
    [(code, text)] = ask_as(world.daemon, [("POST", "/v1/targets", body)], uid=MALLORY, gid=MALLORY)
    assert code == 201, text
    time.sleep(1.5)
    world.ask(route, code=403)
