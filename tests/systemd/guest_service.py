# SPDX-License-Identifier: GPL-2.0-or-later
"""The service as the machine's systemd, its journal and its kernel show it."""
import json
import os
import subprocess
import sys

sys.path.insert(0, "/tests/integration")
from harness import STAKEOUT, Daemon, run, wait_until  # noqa: E402  pylint: disable=C0413

UNIT = "stakeoutd.service"
SOCKET = "/run/stakeout/stakeoutd.sock"
BPF_KINDS = ("prog", "map", "link")
CONFIG = "/etc/stakeout/stakeoutd.conf"

# include/uapi/linux/capability.h
CAPABILITIES = {
    2: "CAP_DAC_READ_SEARCH",
    19: "CAP_SYS_PTRACE",
    21: "CAP_SYS_ADMIN",
    34: "CAP_SYSLOG",
    38: "CAP_PERFMON",
    39: "CAP_BPF",
    40: "CAP_CHECKPOINT_RESTORE",
}


def names_of(mask):
    """Names of a set of capabilities in hexadecimal."""
    return {CAPABILITIES.get(bit, str(bit)) for bit in range(64) if int(mask, 16) >> bit & 1}


def command(*argv, expect=0, **options):
    """Standard output and error of a command that ends with `expect`."""
    result = run(argv, seconds=60, **options)
    assert expect is None or result.returncode == expect, f"{argv}: {result.returncode}: {result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def show(*names):
    """Properties of the unit, as text; of one name its value."""
    text = command("systemctl", "show", UNIT, *(f"--property={name}" for name in names))
    found = dict(line.split("=", 1) for line in text.splitlines())
    return found[names[0]] if len(names) == 1 else found


def main_pid():
    return int(show("MainPID"))


def wait_active(seconds=60, other_than=0):
    """Its PID, once it is active, as another process than before."""

    def look():
        state = show("ActiveState", "SubState", "MainPID")
        assert state["ActiveState"] != "failed", command("systemctl", "status", UNIT, expect=None)
        pid = int(state["MainPID"])
        return pid if state["ActiveState"] == "active" and pid not in (0, other_than) else 0

    return wait_until(look, "the service to be active", seconds, 0.2)


def journal(*selection):
    """Entries of the journal, oldest first; of the unit where nothing else is selected."""
    subprocess.run(["journalctl", "--sync"], check=True)
    text = command("journalctl", "--no-pager", "-o", "json", *(selection or ("-u", UNIT)))
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def journal_lines(*selection):
    """The same as for a reader: (who, priority, words)."""
    return [
        (entry.get("SYSLOG_IDENTIFIER", entry["_TRANSPORT"]), int(entry.get("PRIORITY", 6)), str(entry.get("MESSAGE")))
        for entry in journal(*selection)
    ]


def all_bpf():
    """Numbers of what is loaded: {"prog": …, "map": …, "link": …}."""
    return {kind: {o["id"] for o in json.loads(command("bpftool", "--json", kind, "show"))} for kind in BPF_KINDS}


def bpf_of(pid):
    """The same of what a process has open, as the kernel tells of its descriptors; a link's program, too."""
    found = {kind: set() for kind in BPF_KINDS}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        for kind in BPF_KINDS:
            if f"{kind}_id" in fields:
                found[kind].add(int(fields[f"{kind}_id"]))
    return found


def configure(**settings):
    """Sets options of the configuration file, or takes them out where they are None; returns the old text."""
    with open(CONFIG, encoding="ascii") as f:
        before = f.read()
    names = {name.replace("_", "-"): value for name, value in settings.items()}
    lines = [line for line in before.splitlines() if line.split(" = ")[0] not in names]
    lines += [f"{name} = {value}" for name, value in names.items() if value is not None]
    with open(CONFIG, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    return before


class Service(Daemon):
    """The harness's daemon, but started by systemd; found where clients look."""

    def __init__(self):  # pylint: disable=W0231
        self.socket = SOCKET

    def log(self):
        return "\n".join(words for _, _, words in journal_lines())

    def client(self, *arguments, expect=0, **options):
        result = run([STAKEOUT, *arguments], **options)
        assert expect is None or result.returncode == expect, (
            f"{arguments}: status {result.returncode}: {result.stdout}{result.stderr}; journal: {self.log()[-2000:]}"
        )
        return result

    def target(self, pid):
        """What it tells of a process that it watches; None where it does not."""
        found = [t for t in self.request("GET", "/v1/targets") if t["pid"] == pid]
        return found[0] if found else None

    def wait_sampled(self, pid, samples=50, seconds=40):
        def look():
            target = self.target(pid)
            if not target:
                return None
            return self.request("GET", f"/v1/targets/{target['id']}/stats")["samples"] >= samples

        wait_until(look, f"{samples} samples of process {pid}", seconds, 0.3)


def file_mode(path):
    return f"{os.stat(path).st_mode & 0o7777:04o}"
