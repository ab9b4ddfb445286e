# SPDX-License-Identifier: GPL-2.0-or-later
"""A thread that goes through several thread states, each from within the one before: top, middle, deep.
Usage: py_nested.py SECONDS, or, with top and deep alone, py_nested.py SECONDS made-before: the main thread makes the
interpreter; or py_nested.py SECONDS LIBRARY FUNCTION (py_states.c)"""
import ctypes
import sys
import threading

INTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
def within(code):
    (getattr(interpreters, 'exec', None) or interpreters.run_string)(interpreters.create(), code)
"""
DEEP = """
import time
def spin():
    return sum(range(3000))
def deep():
    print("ready", flush=True)
    end = time.monotonic() + %f
    while time.monotonic() < end:
        spin()
deep()
"""
MIDDLE = """
def middle():
    within(%r)
middle()
"""


def top():
    within(MIDDLE_CODE)


def middle():
    within(DEEP_CODE)


SECONDS = float(sys.argv[1])
DEEP_CODE = DEEP % SECONDS
if len(sys.argv) > 3:
    FUNCTION = getattr(ctypes.PyDLL(sys.argv[2]), sys.argv[3])
    # Another thread state of this interpreter has the same modules. Other interpreters cannot load ctypes.
    MIDDLE_CODE = "import __main__\n__main__.middle()\n" if sys.argv[3] == "run_in_state" else DEEP_CODE

    def within(code):
        FUNCTION(code.encode())
else:
    exec(INTERPRETERS)
    MIDDLE_CODE = INTERPRETERS + MIDDLE % DEEP_CODE
if sys.argv[2:] == ["made-before"]:
    MIDDLE_CODE, MADE = DEEP_CODE, interpreters.create()

    def within(code):
        (getattr(interpreters, "exec", None) or interpreters.run_string)(MADE, code)

THREAD = threading.Thread(target=top)
THREAD.start()
THREAD.join()
