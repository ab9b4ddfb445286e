# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the peers' stacks are complete, from what they print.

stakeout marks each stack that did not reach its thread's outermost frame. The peers mark nothing, so theirs count as
complete when the outermost frame is one in which threads begin: _start, __libc_start_main or what it calls first,
clone, clone3, start_thread; or, since the C library's own functions have names only where its debug symbols are
installed, any nameless address in the C library or the loader. That is generous to them.
"""
import re

ROOT = re.compile(
    r"_*(start|libc_start_(main|call_main)(_impl|_alias_\d+)?|(GI_+)?clone3?|start_thread|dl_start(_user)?)"
)
BEGINNING_FILES = re.compile(r"/(libc[.-]|ld-linux|ld-2|ld\.so)[^/]*$")
HEX = re.compile(r"(0x)?[0-9a-f]{5,}")


def is_root(name, file):
    """Whether a thread begins in this frame."""
    name = re.sub(r"(\+0x[0-9a-f]+|\+\d+)$", "", name.split("@")[0])
    if name in ("[unknown]", "") or HEX.fullmatch(name):
        return bool(file and BEGINNING_FILES.search(file))
    return bool(ROOT.fullmatch(name))


def executable_files(pid):
    """[(start, end, path)] of a process's executable mappings."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
        for line in f:
            fields = line.split(None, 5)
            if "x" in fields[1] and len(fields) == 6:
                start, end = (int(x, 16) for x in fields[0].split("-"))
                found.append((start, end, fields[5].strip()))
    return found


class Count:
    """Samples, those that are complete, and user frames."""

    def __init__(self):
        self.samples = self.complete = self.frames = 0

    def add(self, complete, frames, times=1):
        self.samples += times
        self.complete += times * bool(complete)
        self.frames += times * frames


def count_perf_script(lines):
    """`perf script -F comm,tid,ip,sym,dso`: a line for the thread, then one a frame, leaf first, then an empty one."""
    count, frames, inside = Count(), [], False
    for line in [*lines, ""]:
        if line.strip() and not line[0].isspace():
            inside, frames = True, []
        elif line.strip():
            match = re.match(r"\s+([0-9a-f]+) (.*) \((.*)\)$", line.rstrip())
            if match:
                frames.append((int(match[1], 16), match[2], match[3]))
        elif inside:
            user = [f for f in frames if f[0] < 1 << 63]
            count.add(user and is_root(user[-1][1], user[-1][2]), len(user))
            inside = False
    return count


def count_bpftrace(text, files):
    """bpftrace's map @[ustack] = count(), with the process's executable mappings."""
    count = Count()

    def file_of(name):
        address = int(name, 16) if re.fullmatch(r"0x[0-9a-f]+", name) else 0
        return next((path for start, end, path in files if start <= address < end), None)

    for body, times in re.findall(r"^@\[(.*?)\]: (\d+)$", text, re.MULTILINE | re.DOTALL):
        frames = [line.strip() for line in body.splitlines() if line.strip()]
        complete = frames and is_root(frames[-1], file_of(frames[-1]))
        count.add(complete, len(frames), int(times))
    return count


def count_folded(text):
    """Folded lines, outermost first; frames have names only."""
    count = Count()
    for line in text.splitlines():
        stack, _, times = line.rpartition(" ")
        if not times.isdigit():
            continue
        frames = [f for f in stack.split(";")[1:] if not f.endswith("_[k]")]
        count.add(frames and is_root(frames[0], None), len(frames), int(times))
    return count


# Python's frames.

PYTHON_FRAME = re.compile(r"(.*) \(.*\.py(:\d+)?\)")


class PythonCount:
    """Samples, those whose Python frames are a stack that the program can have, and frames."""

    def __init__(self):
        self.samples = self.valid = self.frames = self.native = 0

    def add(self, functions, native, valid, times):
        """functions: outermost first; valid: the stacks that there are, or None where any will do."""
        self.samples += times
        self.valid += times * (valid is None or tuple(functions) in valid)
        self.frames += times * len(functions)
        self.native += times * native


def count_python_folded(text, valid):
    """Folded lines of stakeout and py-spy, whose Python frames read "function (file.py:line)"."""
    count = PythonCount()
    for line in text.splitlines():
        stack, _, times = line.rpartition(" ")
        if not times.isdigit():
            continue
        frames = [f for f in stack.split(";") if not f.endswith("_[k]")]
        python = [match[1].rpartition(".")[2] for match in map(PYTHON_FRAME.fullmatch, frames) if match]
        # The first is the thread's name.
        count.add(python, len(frames) - len(python) - 1, valid, int(times))
    return count


def count_austin(text, valid):
    """A line a sample: "Thread ID;function (file);Lnn;... MICROSECONDS", of austin 1."""
    count = PythonCount()
    for line in text.splitlines():
        stack, _, duration = line.rpartition(" ")
        if not stack.startswith(("Thread ", "Process ", "P")) or not duration.lstrip("-").isdigit():
            continue
        frames = [f for f in stack.split(";") if not re.fullmatch(r"L\d+|Thread .*|P(rocess )?\d+", f)]
        count.add([f.rpartition(" (")[0] for f in frames], 0, valid, 1)
    return count
