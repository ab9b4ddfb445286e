# SPDX-License-Identifier: GPL-2.0-or-later
"""A user without rights who does nothing wrong is served."""
from harness import Daemon
from users import MALLORY, program, start_as


def test_is_served():
    daemon = Daemon()
    target = start_as(MALLORY, [program("threads"), "600"])
    recording = daemon.record(target.pid).check_complete()
    assert recording.comms(), recording.stats
    assert daemon.stop() == 0
