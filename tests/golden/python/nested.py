# SPDX-License-Identifier: GPL-2.0-or-later
"""Four threads that stand still in frames of every kind, and what the interpreter itself says of them; never ends.

tests/golden/python/capture runs it by exec() from its own folder, under a name without a path, and reads:
    thread IDENT NATIVE_ID held|released      the lock, which nobody has where there is none; then its frames, innermost
                                              first, fields between tabs:
    frame FUNCTION FILE LINE OFFSET entry|inner
    end
OFFSET: f_lasti in bytes, "-" for the frame that was at work. entry: the first frame of its call of the interpreter's
loop. The interpreter does not say that, but here it is known: BY_C has the code that C calls, and before 3.11 each
frame is one. Calls of which it is not sure are avoided: but for nap() and recurse() nothing runs twice, so that no
instruction is specialised. capture compares the number of entries with that of the native calls of the loop.
"""
import _thread
import ctypes
import os
import sys
import time

VERSION = sys.version_info
LIBC, HOLDING = ctypes.CDLL(None), ctypes.PyDLL(None)  # a call of the latter keeps the lock
HOLD = HOLDING.sleep
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
BY_C, NATIVE = set(), {}
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()  # False: a free-threaded build


def by_c(function):
    BY_C.add(id(function.__code__))
    return function


# Since 3.12 the loop goes without a call of its own into the generators of "yield from" and "await" (SEND), and into
# what is called with *arguments (CALL_FUNCTION_EX).
by_loop = by_c if VERSION < (3, 12) else lambda function: function
# Since 3.13 a constructor that has been called often is run by the loop, too, below a frame of the interpreter's own
# that it does not tell of (_Py_InitCleanup). Free-threaded, 3.13 specialises nothing.
by_init = by_c if VERSION < (3, 13) or (VERSION < (3, 14) and not HAS_LOCK) else lambda function: function


def begins_call(code):
    """A module's or class's body runs by exec() and the like; sum() asks the only generator expression here."""
    body = not code.co_flags & 1  # CO_OPTIMIZED
    return VERSION < (3, 11) or body or id(code) in BY_C or code.co_name == "<genexpr>"


# Lines and offsets that do not fit a byte, and calls on lines before those of their arguments.
LONG = "\n" * 400 + "def long_function(below):\n    x = 0\n"
LONG += "    x = " + " + ".join(["x"] * 300) + "\n" + "    x += 1\n" * 300 + "\n" * 300
LONG += "    return below(\n" + "\n" * 200 + "        str(x),\n" + "\n" * 10 + "        key=x)\n"
exec(compile(LONG, "länge_長.py", "exec"))


def leaf(pipe):
    """The first thread sleeps here."""
    return os.read(pipe, 1)


def 𐐀(text, key):
    try:
        return 1 // (key - key)
    except ZeroDivisionError:
        return leaf(os.pipe()[0]) or text


@by_loop
def inner_generator():
    yield long_function(𐐀)


@by_c
def generator():
    yield 0
    yield from inner_generator()


def in_class():
    class Body:
        steps = generator()
        state = next(steps), next(steps)

    return Body


@by_c
def compare(a, b):
    in_class()
    return 0


@by_c
def by_key(value):
    LIBC.qsort((ctypes.c_int * 2)(2, 1), 2, 4, COMPARE(compare))
    return value


def decorated(function):
    def inside(*args):
        return function(*args)

    return inside


@decorated
@by_loop
def größe(values):
    return sorted(values, key=by_key)


def 变数(values):
    return [größe([value]) for value in values]


def recurse(n):
    if n:
        return recurse(n - 1)
    return sum((lambda: 变数(values))() for values in [[1]])


class Simulator:
    @by_c
    def __init__(self, depth):
        self.step(depth)

    def step(self, depth):
        self.reset(depth)

    @staticmethod
    def reset(depth):
        recurse(depth)

    @classmethod
    def make(cls):
        return cls(39)


def begin(function):
    @by_c
    def run():
        NATIVE[_thread.get_ident()] = _thread.get_native_id()
        function()

    _thread.start_new_thread(run, ())


class Nap:
    @by_init
    def __init__(self, seconds):
        if seconds:
            time.sleep(seconds)


def nap():
    for seconds in [0] * 3000 + [3600]:
        Nap(seconds)


@by_loop
async def inner_coroutine(lock):
    lock.acquire()


@by_c
async def coroutine():
    lock = _thread.allocate_lock()
    lock.acquire()
    await inner_coroutine(lock)


def wait():
    coroutine().send(None)


def describe(frame, at_work):
    while frame:
        code = frame.f_code
        entry = "entry" if begins_call(code) else "inner"
        offset = "-" if at_work else str(frame.f_lasti)
        fields = getattr(code, "co_qualname", code.co_name), code.co_filename, str(frame.f_lineno), offset, entry
        yield "\t".join(("frame", *fields))
        frame, at_work = frame.f_back, False


def report():
    own = _thread.get_ident()
    for ident, frame in sys._current_frames().items():
        if ident == own:
            frame = sys._getframe(1)  # the caller's
        yield "\t".join(("thread", str(ident), str(NATIVE[ident]), "held" if ident == own and HAS_LOCK else "released"))
        yield from describe(frame, ident == own)
    yield "end\n"


def write(text):
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def say():
    time.sleep(0.5)  # until the others stand
    write("\n".join(report())), HOLD(3600)  # one line, so that it is right in both calls


def main():
    NATIVE[_thread.get_ident()] = _thread.get_native_id()
    for function in (nap, wait, say):
        begin(function)
    Simulator.make()


main()
