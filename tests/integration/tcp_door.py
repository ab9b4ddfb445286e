# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon that also listens on TCP, and requests to it."""
import http.client
import os
import re

from harness import Daemon, temporary_dir, wait_until

TOKEN = "0123456789abcdef-test"


def token_file(mode=0o600):
    path = os.path.join(temporary_dir(), "token")
    with open(path, "w", encoding="ascii") as f:
        f.write(TOKEN + "\n")
    os.chmod(path, mode)
    return path


def tcp_daemon(*arguments, **options):
    daemon = Daemon("--listen", "127.0.0.1:0", "--token-file", token_file(), *arguments, **options)
    daemon.port = int(wait_until(lambda: re.search(r"listens on 127\.0\.0\.1:(\d+),", daemon.log()), "the door").group(1))
    return daemon


def ask(daemon, path, token=TOKEN, method="GET", body=None):
    """(status, headers, body) over TCP."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode(errors="surrogateescape")
    finally:
        connection.close()
