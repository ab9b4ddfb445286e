# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a program that is made up, so that what its functions take is known: `record --timeline` as it would be.

A program is [(stack, seconds a step)], where a stack has the leaf first. A step does each in turn, for as long as
it says on average. How long a step takes changes slowly (`drift`, for some seconds at a time) and by chance."""
import random

from made_pprof import message, varint


class Profile:
    """A pprof message of CPU time. A frame is (function, file, line) or (function, module)."""

    def __init__(self, *comments, seconds, hz):
        self.strings, self.frames, self.functions, self.mappings = {"": 0}, {}, {}, {}
        self.period = round(1e9 / hz)
        self.body = []
        for name, unit in (("samples", "count"), ("cpu", "nanoseconds")):
            self.body.append((1, message((1, self.string(name)), (2, self.string(unit)))))
        self.body += [(9, 1700000000 * 10**9), (10, round(seconds * 1e9)), (12, self.period)]
        self.body.append((11, message((1, self.string("cpu")), (2, self.string("nanoseconds")))))
        for text in ("sample_hz=%g" % hz, *comments):
            self.body.append((13, varint(self.string("stakeout." + text))))

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def location(self, frame):
        if frame in self.frames:
            return self.frames[frame]
        number = self.frames[frame] = len(self.frames) + 1
        file, line, mapping = (*frame[1:], 0) if len(frame) == 3 else ("", 0, self.mapping(frame[1]))
        key = (frame[0], file, mapping)
        if key not in self.functions:
            self.functions[key] = len(self.functions) + 1
            self.body.append((5, message((1, self.functions[key]), (2, self.string(frame[0])), (4, self.string(file)))))
        self.body.append((4, message((1, number), (2, mapping), (4, message((1, self.functions[key]), (2, line))))))
        return number

    def mapping(self, module):
        if module not in self.mappings:
            self.mappings[module] = len(self.mappings) + 1
            fields = (1, self.mappings[module]), (2, 4096), (3, 8192), (5, self.string(module))
            self.body.append((3, message(*fields)))
        return self.mappings[module]

    def sample(self, stack, time_ns, pid, count=1):
        locations = b"".join(varint(self.location(frame)) for frame in stack)
        fields = [(1, locations), (2, varint(count) + varint(count * self.period))]
        for key, value in (("pid", pid), ("tid", pid), ("time_ns", time_ns)):
            if value:
                fields.append((3, message((1, self.string(key)), (3, value))))
        fields.append((3, message((1, self.string("comm")), (2, self.string("train")))))
        self.body.append((2, message(*fields)))

    def write(self, path):
        strings = [(6, text.encode()) for text in self.strings]
        with open(path, "wb") as f:
            for field in strings + self.body:
                f.write(message(field) if field[1] else varint(field[0] << 3 | 2) + b"\0")


def run_program(program, seconds, rng, drift=0.0):
    """[(begin, stack)] of all that it does, in order, and when steps began."""
    parts, steps, now, factor, until = [], [], 0.0, 1.0, 0.0
    while now < seconds:
        if now >= until:
            factor, until = 1 + drift * rng.uniform(-1, 1), now + rng.uniform(0.5, 4)
        steps.append(now)
        for stack, takes in program:
            parts.append((now, stack))
            now += takes * factor * rng.uniform(0.8, 1.2)
    return parts, steps


def record(path, program, seconds=20.0, hz=199, seed=0, pid=100, times=True, steps=True, drift=0.0):
    """A recording of it, by a clock that is as regular as the daemon's and knows nothing of the program's steps. Returns
    [(moment, stack)]."""
    rng = random.Random(seed)
    parts, begins = run_program(program, seconds, rng, drift)
    comments, last, differences = [], 0, []
    for begin in (round(begin * 1e9) for begin in begins if begin < seconds):
        differences.append(begin - last)
        last = begin
    if steps:
        comments.append(f"steps={pid}/{pid}:" + ",".join(map(str, differences)))
    profile = Profile(*comments, seconds=seconds, hz=hz)
    phase = rng.random()
    moments = ((i + phase) / hz for i in range(round(seconds * hz)))
    at, counts, taken = 0, {}, []
    for moment in moments:
        while at + 1 < len(parts) and parts[at + 1][0] <= moment:
            at += 1
        taken.append((moment, parts[at][1]))
        if times:
            profile.sample(parts[at][1], max(1, round(moment * 1e9)), pid)
        else:
            counts[parts[at][1]] = counts.get(parts[at][1], 0) + 1
    for stack, count in counts.items():
        profile.sample(stack, 0, pid, count)
    profile.write(path)
    return taken


def make_program(shares, step_s=0.02, lines=None, module="train", file="/app/train.py"):
    """{function: share}. Each is a Python function with a line, called by main(), and calls a native one of its own."""
    program = []
    for i, (name, share) in enumerate(shares.items()):
        line = (lines or {}).get(name, 10 * i + 10)
        stack = ((f"native_{name}", module), (name, file, line), ("main", file, 5))
        program.append((stack, share * step_s))
    return program
