# SPDX-License-Identifier: GPL-2.0-or-later
"""Users without rights beside a daemon of root's: their targets, their files, their questions.

What a test does in their name runs in a child; the test itself stays root, and looks at what the daemon did.
"""
import os
import shutil

from harness import Target, need_bpf, temporary_dir, workload
from strangers import NOBODY, become

MALLORY = 65533  # the attacker
ALICE = NOBODY  # another user, to whom nothing may happen


def as_user(uid):
    """For spawn(before_exec=…): the child is this user, in the user's own group and no other."""
    return lambda: become(uid, uid, [])


def program(name):
    """A copy of a workload, which every user may run."""
    return shutil.copy(workload(name), temporary_dir())


def start_as(uid, argv, **options):
    """A target of this user's."""
    need_bpf()
    return Target(argv, before_exec=as_user(uid), cwd="/", **options)


def folder_of(uid):
    """A folder of the test's that belongs to this user."""
    path = temporary_dir()
    os.chown(path, uid, uid)
    return path


def file_of(uid, path, content=b"", mode=0o644):
    """Writes a file that belongs to this user."""
    with open(path, "wb") as f:
        f.write(content)
    os.chown(path, uid, uid)
    os.chmod(path, mode)
    return path
