# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages of other suites than the system's: downloaded from the archive that the system itself uses, with lists
of their own. Nothing is installed, and no script of a package runs."""
import os
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """Something that the run needs is not there; nothing was tested."""


def mirror():
    """The archive from which this system gets its own packages; other suites lie beside its own."""
    argv = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    sites = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()
    plain = [site for site in sites if not site.endswith("-security")]
    if not plain:
        raise Unavailable("apt knows no archive to take packages from")
    return plain[0]


def apt(options, *arguments, cwd=None):
    result = subprocess.run(
        [*arguments[:1], *options, *arguments[1:]], cwd=cwd, capture_output=True, text=True, check=False
    )
    if result.returncode:
        why = (result.stderr.strip() or result.stdout.strip() or "?").splitlines()[-1]
        raise Unavailable(f"{' '.join(arguments)}: {why}")
    return result.stdout


def apt_options(suite, where, kind="deb"):
    """Options that make apt use another suite than the system's, with lists of its own; none for the system's. The kind
    "deb-src": for sources."""
    if suite is None:
        return []
    root = os.path.join(where, "apt-" + suite + ("" if kind == "deb" else "-src"))
    for directory in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(root, directory), exist_ok=True)
    sources = os.path.join(root, "sources.list")
    with open(sources, "w", encoding="ascii") as f:
        f.write(f"{kind} [arch=amd64 signed-by={KEYRING}] {mirror()} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": os.path.join(root, "lists"),
        "Dir::Cache": os.path.join(root, "cache"),
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    apt(options, "apt-get", "update", "-q")
    return options
