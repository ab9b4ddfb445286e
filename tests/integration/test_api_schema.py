# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeoutd --api-schema, and whether the API's real answers are as it says."""
import contextlib
import json
import os
import subprocess
import time

from api_schema import errors_of
from harness import Daemon, Target, UnixConnection, start, start_script, temporary_dir, wait_until, workload, PYTHON
from strangers import fill, operations, query, schema


def ask(daemon, method, path, body=None):
    """(status, content type, headers, body)"""
    with contextlib.closing(UnixConnection(daemon.socket, 60)) as connection:
        # A body that is too large is answered before it has been read.
        with contextlib.suppress(BrokenPipeError):
            connection.request(method, path, body=json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", "").split(";")[0], answer.headers, answer.read()


def check(document, operation, method, path, answer):
    """The status, the type and the content are among those of the operation."""
    status, content_type, headers, body = answer
    told = operation["responses"].get(str(status))
    assert told, f"{method} {path}: the schema knows no answer {status}: {body[:300]!r}"
    assert content_type in told["content"], f"{method} {path}: {status} of type {content_type}"
    for name in told.get("headers", ()):
        assert headers[name], f"{method} {path}: no header {name}"
    if content_type == "application/json":
        wrong = errors_of(document, told["content"][content_type]["schema"], json.loads(body))
        assert not wrong, f"{method} {path} {status}: {wrong[:10]}"
    return status


def test_the_validator_finds_what_is_wrong():
    document = {"a": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"], "additionalProperties": False}}
    ref = {"$ref": "#/a"}
    assert errors_of(document, ref, {"n": 1}) == []
    for wrong in ({}, {"n": 0}, {"n": True}, {"n": 1.5}, {"n": None}, {"n": 1, "m": 1}, [], None, "x"):
        assert errors_of(document, ref, wrong), wrong
    assert not errors_of({}, {"type": "array", "items": {"enum": ["a"]}}, ["a"])
    assert errors_of({}, {"type": "array", "items": {"enum": ["a"]}}, ["a", "b"])
    assert errors_of({}, {"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1), "as two say"


def test_the_schema_is_whole():
    document = schema()
    assert document["openapi"].startswith("3.0.") and document["info"]["version"]
    names = {(method, path) for method, path, _ in operations()}
    assert {("GET", "/v1/status"), ("POST", "/v1/targets"), ("GET", "/metrics")} <= names


def test_real_answers_of_every_route():
    """Every GET and POST of the schema on a target with Python, CUDA and a history; then what deletes; then errors."""
    document = schema()
    folder = os.path.join(workload("cuda"), "ibt")
    daemon = Daemon("--store", temporary_dir(), "--window", "1", env={"LD_LIBRARY_PATH": folder})
    target = start_script("py_cuda_launches.py", folder, 500, 20, 1, "stdin", stdin=subprocess.PIPE)
    native, pulled = start("split", 600), start("split", 600)
    made = daemon.request("POST", "/v1/targets", {"pid": target.pid, "cuda": True, "keep": True, "timed": True, "memory": True, "gpu_memory": True, "allocations": True}, expect=201)
    other = daemon.request("POST", "/v1/targets", {"pid": native.pid, "rate_hz": 499, "keep": True}, expect=201)
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()

    def ready():
        history = daemon.request("GET", "/v1/history")["targets"]
        calls = daemon.request("GET", f"/v1/targets/{made['id']}/cuda")["lines"]
        samples = [daemon.request("GET", f"/v1/targets/{i}/stats")["samples"] for i in (made["id"], other["id"])]
        return len(history) == 2 and all(t["samples"] for t in history) and calls and all(samples)

    wait_until(ready, "samples, calls and a history", step=0.3)
    keys = {t["pid"]: t["key"] for t in daemon.request("GET", "/v1/history")["targets"]}
    done = set()
    rules = [daemon.request("POST", "/v1/rules", {"match": "nothing.*at all"}, expect=201)["id"]]

    def go(method, path, operation, process, number, body=None):
        if path.startswith("/v1/rules"):
            number = rules[-1] if process is target else 424242
            body = {"match": "cmd=never user=root"} if method == "POST" else None
        if path.startswith("/v1/incidents"):
            number = 1 if process is target else 424242
        where = fill(path, id=number, key=keys.get(process.pid, 1)) + query(operation, pid=pulled.pid, from_ns=0, to_ns=time.time_ns())
        where += f"?pid={pulled.pid}&seconds=1" if "debug" in path else ""
        status = check(document, operation, method, path, ask(daemon, method, where, body))
        if 200 <= status < 300:
            done.add((method, path))

    late = [(m, p, o) for m, p, o in operations() if m == "DELETE" or p.endswith("/stop")]
    for method, path, operation in operations():
        if (method, path) in {(m, p) for m, p, _ in late}:
            continue
        body = {"pid": Target([PYTHON, "-c", "print('ready', flush=True); input()"], stdin=subprocess.PIPE).pid} if method == "POST" else None
        go(method, path, operation, target, made["id"], body)
        if "{" in path:
            go(method, path, operation, native, other["id"], body)
    for method, path, operation in sorted(late, key=lambda x: x[0], reverse=True):  # POST before DELETE
        go(method, path, operation, target, made["id"])
    # Of the ended one there is less; and of one that is not there, only errors.
    for method, path, operation in operations():
        if "{" in path:
            go(method, path, operation, native, 424242)
    go_bad(document, daemon)
    # Its target is of a Python whose tasks are not known; test_tasks.py looks at those of one.
    done.add(("GET", "/v1/targets/{id}/tasks"))
    missing = {(m, p) for m, p, _ in operations()} - done
    assert not missing, f"never answered well: {missing}"


def go_bad(document, daemon):
    """Errors have the form of errors."""
    paths = document["paths"]
    for body in ([], {}, {"pid": "x"}, {"pid": os.getpid(), "x": 1}, {"pid": 2}, {"pid": 4194304}, {"pid": "x" * 70000}):
        status = check(document, paths["/v1/targets"]["post"], "POST", "/v1/targets", ask(daemon, "POST", "/v1/targets", body))
        assert status >= 400, body
    pull = paths["/debug/pprof/profile"]["get"]
    for words in ("?pid=", "?pid=x", f"?pid={os.getpid()}&seconds=x", "?pid=4194304"):
        assert check(document, pull, "GET", "pull", ask(daemon, "GET", "/debug/pprof/profile" + words)) >= 400


def test_no_history_is_an_answer():
    document, daemon = schema(), Daemon()
    for method, path, operation in operations():
        if path.startswith("/v1/history"):
            assert check(document, operation, method, path, ask(daemon, method, fill(path, key=1) + query(operation, from_ns=1, to_ns=2))) == 409
