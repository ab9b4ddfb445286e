# SPDX-License-Identifier: GPL-2.0-or-later
"""A user cannot have the machine interrupted without bound: a rate has clocks on all CPUs that its target may use."""
import json

from harness import Daemon, spawn
from strangers import ask_as
from users import ALICE, MALLORY, as_user

MOST_HZ = 20000


def sleeper(uid):
    return spawn(["sleep", "60"], before_exec=as_user(uid), cwd="/").pid


def attach(daemon, uid, *rates):
    bodies = [{"pid": sleeper(uid), "rate_hz": rate, "keep": True} for rate in rates]
    return ask_as(daemon, [("POST", "/v1/targets", body) for body in bodies], uid=uid, gid=uid)


def test_rates_of_a_user_have_a_bound():
    daemon = Daemon("--socket-mode", "0666", "--group", "")
    rates = [9977 + i for i in range(23)]
    answers = attach(daemon, MALLORY, *rates)
    assert [code for code, _ in answers] == [201] * 2 + [503] * 21, answers
    error = json.loads(answers[2][1])["error"]
    assert f"{MOST_HZ} Hz is the most" in error and "lower rate" in error and "\n" not in error, error
    # Clocks that run already serve further targets; a place that is free again is free.
    assert attach(daemon, MALLORY, rates[0])[0][0] == 201
    first = json.loads(answers[0][1])["id"]
    second = json.loads(answers[1][1])["id"]
    path = f"/v1/targets/{second}"
    assert ask_as(daemon, [("DELETE", path, None)], uid=MALLORY, gid=MALLORY)[0][0] == 200
    assert attach(daemon, MALLORY, 9999)[0][0] == 201
    # Others have their own, and root has no bound.
    assert attach(daemon, ALICE, 99)[0][0] == 201
    for rate in (9001, 9002, 9003):
        daemon.request("POST", "/v1/targets", {"pid": sleeper(0), "rate_hz": rate}, expect=201)
    [limit] = [x for x in daemon.request("GET", "/v1/status")["limits"] if x["name"] == "rates_hz_of_a_user"]
    assert limit["limit"] == MOST_HZ and limit["hit"] == 21, limit
    assert daemon.request("GET", f"/v1/targets/{first}")["state"] == "sampling"
