# SPDX-License-Identifier: GPL-2.0-or-later
"""An independent reader of pprof messages, as far as tests need it."""
import gzip


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(field number, value) of a protobuf message: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def packed(data):
    """The numbers of a packed repeated field."""
    numbers, at = [], 0
    while at < len(data):
        number, at = varint(data, at)
        numbers.append(number)
    return numbers


class Sample:
    """One stack with its labels: frames are (function, file, line), leaf first."""

    def __init__(self, values, labels, frames):
        self.values, self.labels, self.frames = values, labels, frames

    @property
    def state(self):
        return self.labels.get("state")

    @property
    def wall_ns(self):
        return self.values[2]

    def names(self):
        return [frame[0] for frame in self.frames]


class Message:
    """types, comments as a dictionary, time_ns, duration_ns, samples."""

    def __init__(self, path):
        with gzip.open(path) as f:
            message = list(fields(f.read()))
        self.strings = [value.decode() for number, value in message if number == 6]
        one = {number: value for number, value in message if number in (9, 10, 12)}
        self.time_ns, self.duration_ns = one[9], one[10]
        self.types = [self._texts(value) for number, value in message if number == 1]
        comments = [self.strings[i] for number, value in message if number == 13 for i in packed(value)]
        self.comments = dict(c.removeprefix("stakeout.").split("=", 1) for c in comments)
        functions = {f[1]: f for f in (dict(fields(v)) for n, v in message if n == 5)}
        self.locations = {}
        for location in (list(fields(v)) for n, v in message if n == 4):
            lines = [dict(fields(v)) for n, v in location if n == 4]
            self.locations[dict(location)[1]] = [self._frame(functions[line[1]], line) for line in lines]
        self.samples = [self._sample(list(fields(v))) for n, v in message if n == 2]

    def _texts(self, value):
        found = dict(fields(value))
        return self.strings[found.get(1, 0)], self.strings[found.get(2, 0)]

    def _frame(self, function, line):
        return self.strings[function.get(2, 0)], self.strings[function.get(4, 0)], line.get(2, 0)

    def _sample(self, sample):
        labels = {}
        for label in (dict(fields(v)) for n, v in sample if n == 3):
            labels[self.strings[label[1]]] = self.strings[label[2]] if 2 in label else label.get(3, 0)
        found = dict(sample)
        frames = [frame for number in packed(found.get(1, b"")) for frame in self.locations[number]]
        return Sample(packed(found[2]), labels, frames)
