# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs one test function: one_test.py FILE FUNCTION. Exit status 0 passed, 1 failed, 77 skipped (the reason is the
last line of standard error)."""
import ctypes
import importlib.util
import os
import signal
import sys
import traceback

import harness


def main():
    path, name = sys.argv[1:3]
    sys.path.append(os.path.dirname(path))  # for what the other tests of its folder share with it
    # Orphans become children of this process, so that cleanup() finds them.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(TimeoutError("the test took too long")))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        getattr(module, name)()
    except harness.Skip as skip:
        print(skip, file=sys.stderr)
        return 77
    except BaseException:  # pylint: disable=W0718
        traceback.print_exc()
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        harness.cleanup()
    return 0


if __name__ == "__main__":
    sys.exit(main())
