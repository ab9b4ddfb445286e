# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes pprof messages, with any bytes as names."""


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(*fields):
    """(field number, integer or bytes) …"""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif value:
            out += varint(number << 3) + varint(value)
    return out


class Pprof:
    """Wall time. A frame is (function, file, line) or (function, module), or a list [(function, file, line), …, module] of native
    code, innermost inlined function first; a stack has the leaf first."""

    def __init__(self, *comments):
        self.strings, self.frames, self.mappings = {b"": 0}, {}, {}
        types = [("samples", "count"), ("cpu", "nanoseconds"), ("wall", "nanoseconds")]
        self.body = [(1, message((1, self.string(name)), (2, self.string(unit)))) for name, unit in types]
        self.body += [(9, 1700000000 * 10**9), (10, 2 * 10**9)]
        self.body += [(13, varint(self.string("stakeout." + text))) for text in comments]

    def string(self, text):
        text = text if isinstance(text, bytes) else text.encode()
        return self.strings.setdefault(text, len(self.strings))

    def _mapping(self, module):
        if module not in self.mappings:
            self.mappings[module] = len(self.mappings) + 1
            self.body.append((3, message((1, self.mappings[module]), (2, 4096), (3, 8192), (5, self.string(module)))))
        return self.mappings[module]

    def _native(self, parts, module, key):
        """A location of a module, at an address of its own, with a line for each inlined function."""
        number = self.frames[key] = len(self.frames) + 1
        lines = []
        for k, (function, file, line) in enumerate(parts):
            name = number * 100 + k
            self.body.append((5, message((1, name), (2, self.string(function)), (4, self.string(file)))))
            lines.append((4, message((1, name), (2, line))))
        self.body.append((4, message((1, number), (2, self._mapping(module)), (3, 4096 + number), *lines)))
        return number

    def _frame(self, frame):
        if isinstance(frame, list):
            key = repr(frame)
            return self.frames.get(key) or self._native(frame[:-1], frame[-1], key)
        if frame in self.frames:
            return self.frames[frame]
        number = self.frames[frame] = len(self.frames) + 1
        file, line = frame[1:] if len(frame) == 3 else ("", 0)
        self.body.append((5, message((1, number), (2, self.string(frame[0])), (4, self.string(file)))))
        mapping = self._mapping(frame[1]) if len(frame) == 2 else 0
        self.body.append((4, message((1, number), (2, mapping), (4, message((1, number), (2, line))))))
        return number

    def sample(self, stack, seconds, **labels):
        fields = [(1, b"".join(varint(self._frame(frame)) for frame in stack)), (2, b"\0\0" + varint(round(seconds * 1e9)))]
        for key, value in labels.items():
            kind = 3 if isinstance(value, int) else 2
            value = value if kind == 3 else self.string(value)
            fields.append((3, message((1, self.string(key)), (kind, value))))
        self.body.append((2, message(*fields)))

    def write(self, path):
        strings = [(6, text) for text in self.strings]
        with open(path, "wb") as f:
            for field in strings + self.body:
                # An empty string is a field as well.
                f.write(message(field) if field[1] else varint(field[0] << 3 | 2) + b"\0")
