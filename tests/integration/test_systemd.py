# SPDX-License-Identifier: GPL-2.0-or-later
"""stakeoutd.service under a real systemd: tests/systemd/run.py boots one under qemu's software emulation."""
import os
import subprocess
import sys

from harness import SOURCE_DIR, Skip, long, timeout, uses
from test_dist import make_dist


@long
@timeout(1800)
@uses("dist")
def test_service_in_debian_12():
    """Of it, up to two minutes are for downloads and for building, the first time."""
    archive = make_dist()
    script = os.path.join(SOURCE_DIR, "tests", "systemd", "run.py")
    result = subprocess.run([sys.executable, script, archive], capture_output=True, text=True, check=False)
    if result.returncode == 77:
        raise Skip((result.stderr.strip() or "?").splitlines()[-1])
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"
