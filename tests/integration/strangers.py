# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests in the name of other users, and what the API's schema says of its routes."""
import contextlib
import json
import os
import re
import shutil

from harness import STAKEOUT, STAKEOUTD, UnixConnection, run, temporary_dir

NOBODY = 65534


def in_child(function):
    """What the function returns, as JSON can carry it, called in a child of this process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        with contextlib.suppress(BaseException):
            os.close(reading)
            answer = json.dumps(function()).encode()
            with os.fdopen(writing, "wb") as f:
                f.write(answer)
            status = 0
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as f:
        text = f.read()
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
    return json.loads(text)


def readable_client():
    """A copy of the client, beside one of the daemon, where every user reaches them."""
    where = temporary_dir()
    for path in (STAKEOUT, STAKEOUTD):
        shutil.copy(path, where)
    return os.path.join(where, "stakeout")


def become(uid, gid, groups):
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)


def ask_as(daemon, requests, uid=NOBODY, gid=NOBODY, groups=()):
    """[(status, text)] of these (method, path, body); a refused connection is (0, the error)."""

    def ask_all():
        become(uid, gid, list(groups))
        answers = []
        for method, path, body in requests:
            with contextlib.closing(UnixConnection(daemon.socket, 60)) as connection:
                try:
                    connection.request(method, path, body=json.dumps(body) if body is not None else None)
                    answer = connection.getresponse()
                    answers.append((answer.status, answer.read().decode("latin-1")))
                except OSError as why:
                    answers.append((0, os.strerror(why.errno)))
        return answers

    return in_child(ask_all)


def schema():
    result = run([STAKEOUTD, "--api-schema"])
    assert result.returncode == 0 and not result.stderr, result
    return json.loads(result.stdout)


def operations():
    """(METHOD, path, operation) of every route of the schema."""
    for path, item in schema()["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def fill(path, **values):
    """The path with its {names} replaced."""
    return re.sub(r"\{(\w+)\}", lambda m: str(values[m.group(1)]), path)


def query(operation, **values):
    """What the operation's required parameters make of these values, as "?name=value&…"; each must be among them."""
    words = [
        f"{p['name']}={values[p['name']]}" for p in operation.get("parameters", ()) if p["in"] == "query" and p.get("required")
    ]
    return "?" + "&".join(words) if words else ""
