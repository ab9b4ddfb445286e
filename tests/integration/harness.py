# SPDX-License-Identifier: GPL-2.0-or-later
"""What the integration tests share: targets, recordings, and what must hold for every recording.

Tests are functions named test_*; each runs in a process of its own (one_test.py), which is the parent of
everything that the test starts, so that nothing outlives it. Skip is raised with a reason where a machine cannot
run a test; AssertionError is a failure.
"""
import contextlib
import ctypes
import functools
import http.client
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD_DIR = os.path.abspath(os.environ.get("STAKEOUT_BUILD", os.path.join(SOURCE_DIR, "build")))
WORKLOAD_DIR = os.path.join(BUILD_DIR, "workloads")
STAKEOUT = os.path.join(BUILD_DIR, "stakeout")
STAKEOUTD = os.path.join(BUILD_DIR, "stakeoutd")
LONG = os.environ.get("STAKEOUT_LONG", "") not in ("", "0")
SANITIZED = os.environ.get("STAKEOUT_SANITIZE", "") not in ("", "0")

# Debian's own interpreter: the one its numpy and torch packages are for.
PYTHON = "/usr/bin/python3"

# These end what hangs, and measure nothing: a machine under load may take minutes for what is done in seconds.
DEFAULT_TIMEOUT_S = 300
PATIENCE_S = 60

_libc = ctypes.CDLL(None, use_errno=True)
_cleanup = contextlib.ExitStack()


class Skip(Exception):
    """The machine cannot run this test; the reason is shown."""


def timeout(seconds):
    """How long a test may take, where the default is not enough."""

    def mark(function):
        function.timeout_s = max(seconds, DEFAULT_TIMEOUT_S)
        return function

    return mark


def long(function):
    """Not in `make check`, but in `make check-long`."""
    function.long = True
    return function


def quiet(function):
    """Not in `make check`, and by itself: what it asserts holds only where nothing else wants the CPUs."""
    function.long = function.alone = True
    return function


def alone(function):
    """Nothing else may be tested meanwhile: it changes, or measures, what the whole machine has once."""
    function.alone = True
    return function


def uses(name):
    """Not beside another test that uses the same."""

    def mark(function):
        function.uses = name
        return function

    return mark


def cleanup():
    """Called when a test is over, however it ended."""
    _cleanup.close()
    # Whose parent is killed becomes a child of this process, until there is none left.
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in children_of(os.getpid()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def at_exit(function, *arguments):
    """Runs when the test is over, last registered first."""
    _cleanup.callback(function, *arguments)


def temporary_dir():
    """A directory for this test alone, which other users may enter."""
    path = tempfile.mkdtemp(prefix="stakeout-test-")
    at_exit(shutil.rmtree, path, True)
    os.chmod(path, 0o755)
    return path


def wait_until(condition, what, seconds=PATIENCE_S, step=0.02):
    """The condition's first true value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(step)


# What the machine can do.


def _bpf_loads():
    """Whether the bpf system call loads a program that returns 0."""
    program = bytes([0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0])
    instructions = ctypes.create_string_buffer(program)
    text = ctypes.create_string_buffer(b"GPL")
    attr = (ctypes.c_uint64 * 16)()
    attr[0] = 7 | 2 << 32  # BPF_PROG_TYPE_PERF_EVENT, two instructions
    attr[1] = ctypes.addressof(instructions)
    attr[2] = ctypes.addressof(text)
    fd = _libc.syscall(321, 5, ctypes.byref(attr), ctypes.sizeof(attr))  # bpf(BPF_PROG_LOAD, …)
    if fd < 0:
        return os.strerror(ctypes.get_errno())
    os.close(fd)
    return None


@functools.lru_cache(None)
def why_no_bpf():
    """The reason why this machine cannot sample by BPF, or None."""
    if platform.machine() != "x86_64":
        return f"not for {platform.machine()} yet"
    if os.geteuid() != 0:
        return "needs root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "the kernel has no BTF"
    problem = _bpf_loads()
    return f"BPF programs cannot be loaded: {problem}" if problem else None


def need_bpf():
    reason = why_no_bpf()
    if reason:
        raise Skip(reason)


def need_tool(name):
    """The tool's path."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise Skip(f"{name} is not installed")
    return path


def need_module(name):
    """A Python module of Debian's interpreter."""
    if subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode:
        raise Skip(f"{PYTHON} has no module {name}")


def need_namespaces():
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode:
        raise Skip("namespaces cannot be made here")


def workload(name):
    """Path of a program from tests/workloads."""
    path = os.path.join(WORKLOAD_DIR, name)
    if not os.path.exists(path):
        raise Skip(f"the workload {name} was not built")
    return path


def script(name):
    """Path of a Python program from tests/workloads."""
    return os.path.join(SOURCE_DIR, "tests", "workloads", name)


# Processes.


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _stop(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def everyone_may_use(path):
    """Whether each user may enter the folders above this file, and read and execute it as its owner may."""
    above, mode = os.path.dirname(path), os.stat(path).st_mode
    while above != os.path.dirname(above):
        if not os.stat(above).st_mode & 0o001:
            return False
        above = os.path.dirname(above)
    return mode & 0o004 and (mode & 0o001 or not mode & 0o100)


def for_everyone(path):
    """A file of the source or the build that each user may use: a copy, where these lie below a private home."""
    path = str(path)
    if not os.path.isfile(path) or everyone_may_use(path):
        return path
    copy = shutil.copy(path, temporary_dir())
    os.chmod(copy, 0o755)
    return copy


def _is_ours(argument):
    path = str(argument)
    return path.startswith((BUILD_DIR + "/", SOURCE_DIR + "/"))


def spawn(argv, **options):
    """A child that ends with the test at the latest. With user or before_exec, it may be one of another user."""
    options.setdefault("stdin", subprocess.DEVNULL)
    before = options.pop("before_exec", None)
    if before or options.get("user") is not None:
        argv = [for_everyone(a) if _is_ours(a) else a for a in argv]

    def prepare():
        _die_with_parent()
        if before:
            before()

    process = subprocess.Popen([str(a) for a in argv], preexec_fn=prepare, **options)  # pylint: disable=R1732
    at_exit(_stop, process)
    return process


def run(argv, seconds=60, **options):
    """A child that runs to its end; its output as text."""
    process = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **options)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as late:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{argv} still ran after {seconds} s; it said: {out}{err}") from late
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def children_of(pid):
    """PIDs of a process's children."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                found += [int(word) for word in f.read().split()]
    return found


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def descendant(pid, comm):
    """PID of the process named comm below pid; waits for it."""

    def look(below):
        for child in children_of(below):
            found = child if comm_of(child) == comm else look(child)
            if found:
                return found
        return 0

    return wait_until(lambda: look(pid), f"a process {comm} below {pid}")


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def cpu_seconds(pid):
    """CPU time of a process's living threads."""
    total_ns = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
            total_ns += int(f.read().split()[0])
    return total_ns / 1e9


def first_line(pipe):
    """Nothing behind it is read, which communicate() would not find in the pipe's buffer."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(pipe.fileno(), 1)):
        line += byte
    return line


class Target:
    """A running workload."""

    def __init__(self, argv, ready=True, comm=None, **options):
        self.process = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.pid = self.process.pid
        self.head = b""
        if ready:
            self.head = first_line(self.process.stdout)
            assert self.head == b"ready\n", f"{argv} said {self.head!r}: {self.process.stderr.read()!r}"
        if comm:
            self.pid = descendant(self.pid, comm)

    def finish(self, seconds=60):
        """Waits for its end; its output, standard output only."""
        out, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, f"the target ended with {self.process.returncode}: {err!r}"
        return (self.head + out).decode()

    def end(self):
        """Asks it to finish, as split does on SIGTERM; its output."""
        self.process.terminate()
        return self.finish()


def start(name, *arguments, **options):
    """Starts a workload by name and waits until it says that it is ready."""
    return Target([workload(name), *arguments], **options)


def start_script(name, *arguments, **options):
    """Starts a Python workload."""
    return Target([PYTHON, script(name), *arguments], **options)


# Recordings.


PYTHON_FRAME = re.compile(r" \(.*:\d+\)$|^\[python:")


def parse_folded(text):
    """Stacks as {(comm, outermost, …, innermost): count}. Nothing but folded lines, unique and sorted, may be there."""
    stacks, lines = {}, text.split("\n")
    assert lines.pop() == "", "the last line does not end"
    assert lines == sorted(lines, key=lambda line: line.encode()), "the lines are not sorted"
    for line in lines:
        match = re.fullmatch(r"(\S.*) ([1-9][0-9]*)", line)
        assert match, f"not a folded line: {line!r}"
        stack = tuple(match.group(1).split(";"))
        assert all(stack), f"an empty frame: {line!r}"
        assert " " not in stack[0], f"a blank in comm: {line!r}"
        assert stack not in stacks, f"twice the same stack: {line!r}"
        stacks[stack] = int(match.group(2))
    return stacks


class Recording:
    """What one `stakeout record` wrote and said."""

    def __init__(self, result, folded, stats, wall_s):
        self.rc, self.stdout, self.stderr = result.returncode, result.stdout, result.stderr
        self.stacks = parse_folded(folded) if folded is not None else None
        self.stats = stats
        self.wall_s = wall_s

    @property
    def samples(self):
        """Samples in the profile."""
        return sum(self.stacks.values())

    @property
    def lost(self):
        return sum(self.stats["lost"].values())

    def count(self, *names, comm=None):
        """Samples with all these functions in their stacks."""
        return sum(
            n for stack, n in self.stacks.items() if all(f in stack[1:] for f in names) and comm in (None, stack[0])
        )

    def comms(self):
        found = {}
        for stack, n in self.stacks.items():
            found[stack[0]] = found.get(stack[0], 0) + n
        return found

    def check_totals(self):
        """The promise: samples taken (counted in the kernel before anything else is done with them) = samples in the
        profile + samples lost, each under a cause."""
        stats = self.stats
        cut = sum(stats["truncated"].values())
        assert stats["taken"] == stats["samples"] == self.samples + self.lost, (
            f"taken {stats['taken']}, samples {stats['samples']} != profile {self.samples} + lost {self.lost} "
            f"{stats['lost']}"
        )
        assert self.samples == stats["complete"] + cut, (
            f"profile {self.samples} != complete {stats['complete']} + truncated {stats['truncated']}"
        )
        marked = {}
        for stack, n in self.stacks.items():
            for frame in stack:
                match = re.fullmatch(r"\[truncated:(.*)\]", frame)
                if match:
                    # Python frames beyond the cut are known all the same.
                    outer = [f for f in stack[1 : stack.index(frame)] if not PYTHON_FRAME.search(f)]
                    assert not outer, f"marked elsewhere than at the cut: {stack}"
                    marked[match.group(1)] = marked.get(match.group(1), 0) + n
        expected = {cause: n for cause, n in stats["truncated"].items() if n}
        assert marked == expected, f"marks {marked} != stats {expected}"
        return self

    def check_complete(self, share=0.999, least=50):
        """At least this share of the stacks reaches the outermost frame. Those cut where libgcc enters a handler are
        no failure ("Where a stack ends" in .design/unwinding.md): a program that throws has a few."""
        self.check_totals()
        assert self.samples >= least, f"only {self.samples} samples"
        enters = sum(n for stack, n in self.stacks.items() if enters_handler(stack))
        complete = (self.stats["complete"] + enters) / self.samples
        assert complete >= share, (
            f"complete {100 * complete:.2f} % of {self.samples}; {self.stats['truncated']}; "
            f"for example {self.examples('[truncated')}"
        )
        return self

    def examples(self, start_of_frame, n=5):
        """The most frequent stacks with a frame that starts so."""
        found = [(c, s) for s, c in self.stacks.items() if any(f.startswith(start_of_frame) for f in s)]
        return [f"{c} × {';'.join(s)[:1500]}" for c, s in sorted(found, reverse=True)[:n]]


def enters_handler(stack):
    """The stack is cut just outside of the one frame below a libgcc function that is about to enter a handler."""
    at = next((i for i, frame in enumerate(stack) if frame.startswith("[truncated:")), len(stack))
    return stack[at + 2 : at + 3] in (("_Unwind_RaiseException",), ("_Unwind_Resume",), ("_Unwind_ForcedUnwind",))


# What two seconds show, one mostly does.
RECORD_S = 2 if LONG else 1


def record_command(pid, duration=RECORD_S, rate=999, extra=(), global_options=()):
    """The command line and the paths of the folded and the stats file."""
    where = temporary_dir()
    folded, stats = os.path.join(where, "out.folded"), os.path.join(where, "stats.json")
    argv = [STAKEOUT, *global_options, "record", "-p", pid, "-d", duration, "-r", rate, "-o", folded, "--stats", stats]
    return [str(a) for a in [*argv, *extra]], folded, stats


def read_recording(result, folded, stats, wall_s):
    def read(path):
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as f:
            return f.read()

    text = read(stats)
    return Recording(result, read(folded), json.loads(text) if text else None, wall_s)


def record(pid, duration=RECORD_S, rate=999, extra=(), global_options=(), expect=0, **options):
    """Runs `stakeout record` to its end. It must end with the status `expect` (None: any)."""
    need_bpf()
    argv, folded, stats = record_command(pid, duration, rate, extra, global_options)
    began = time.monotonic()
    result = run(argv, seconds=duration + 60, **options)
    assert expect is None or result.returncode == expect, f"status {result.returncode}: {result.stderr}"
    return read_recording(result, folded, stats, time.monotonic() - began)


class Recorder:
    """A `stakeout record` in the background."""

    def __init__(self, pid, duration=30, rate=999, extra=(), global_options=()):
        need_bpf()
        argv, self.folded, self.stats = record_command(pid, duration, rate, extra, global_options)
        self.began = time.monotonic()
        self.process = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def wait(self, seconds=60, expect=0):
        out, err = self.process.communicate(timeout=seconds)
        assert expect is None or self.process.returncode == expect, f"status {self.process.returncode}: {err}"
        result = subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)
        return read_recording(result, self.folded, self.stats, time.monotonic() - self.began)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """A stakeoutd on a socket of its own, and clients that speak to it."""

    def __init__(self, *arguments, prefix=(), wait=True, env=None):
        need_bpf()
        self.dir = temporary_dir()
        self.socket = os.path.join(self.dir, "socket")
        self.log_path = os.path.join(self.dir, "log")
        with open(self.log_path, "wb") as log:
            self.process = spawn(
                [*prefix, STAKEOUTD, "--socket", self.socket, *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
            )
        if wait:
            wait_until(self._listens, "the daemon's socket")
            self.request("GET", "/v1/status")

    def _listens(self):
        assert self.process.poll() is None, f"stakeoutd ended with {self.process.returncode}: {self.log()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(self.socket) == 0

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def client(self, *arguments, expect=0, **options):
        """Runs the client against this daemon."""
        result = run([STAKEOUT, "--socket", self.socket, *arguments], **options)
        assert expect is None or result.returncode == expect, (
            f"{arguments}: status {result.returncode}: {result.stdout}{result.stderr}; daemon: {self.log()[-2000:]}"
        )
        return result

    def record(self, pid, **options):
        return record(pid, global_options=("--socket", self.socket), **options)

    def request(self, method, path, body=None, expect=200, seconds=60):
        """The answer's body: JSON as Python values, anything else as bytes."""
        connection = UnixConnection(self.socket, seconds)
        with contextlib.closing(connection):
            # What is too large is answered, and the connection closed, before all of it is read.
            with contextlib.suppress(BrokenPipeError):
                connection.request(method, path, body=json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            content = answer.read()
        assert expect in (None, answer.status), f"{method} {path}: {answer.status} {content[:500]!r}"
        is_json = answer.getheader("Content-Type", "").startswith("application/json")
        return json.loads(content) if is_json else content

    def stop(self, seconds=20):
        """Asks it to end; its exit status."""
        self.process.terminate()
        return self.process.wait(timeout=seconds)


def has_number(text, number):
    """Whether it is there by itself: a process's number may be a part of others."""
    return re.search(rf"(?<![\w.]){number}(?!\w|\.\d)", text) is not None


def one_clear_line(text):
    """A message for a person: one line that says something."""
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, f"not one line: {text!r}"
    assert len(lines[0]) > 15 and lines[0].startswith("stakeout"), f"not a clear line: {text!r}"
    return lines[0]


def has_lib_debug():
    """Whether separate symbols of the C library are installed (then its frames have names)."""
    return os.path.isdir("/usr/lib/debug/.build-id")
