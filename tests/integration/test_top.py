# SPDX-License-Identifier: GPL-2.0-or-later
"""`stakeout top`: what it shows of programs whose threads do known things, and that the terminal is given back."""
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time

from cuda_targets import go, python_program
from harness import PYTHON, STAKEOUT, Daemon, Target, at_exit, children_of, need_bpf, one_clear_line, run, wait_until

PROGRAM = r"""
import ctypes, subprocess, sys, threading, time
prctl = ctypes.CDLL(None).prctl

def named(name, function):
    def begin():
        prctl(15, name, 0, 0, 0)  # PR_SET_NAME
        function()
    threading.Thread(target=begin, daemon=True).start()

def nap():
    while True:
        time.sleep(600)

def spin():
    while True:
        for i in range(100000):
            pass
        time.sleep(1e-4)

named(b"napper", nap)
named(b"spinner", spin)
named(b"\x1b[31m\xe6\xbc\xa2\xff\n", nap)
child = subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
sys.stdin.read()
child.kill()
"""


def start_program():
    need_bpf()
    read_end, write_end = os.pipe()
    target = Target([PYTHON, "-c", PROGRAM], stdin=read_end)
    os.close(read_end)
    at_exit(os.close, write_end)
    return target


class Screen:
    """`stakeout top` in a terminal of its own, and what is on its screen."""

    def __init__(self, *arguments, rows=24, columns=80):
        self.rows, self.columns, self.raw = rows, columns, b""
        master, slave = os.openpty()
        self.fd = master
        self.resize(rows, columns)
        self.before = termios.tcgetattr(master)
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                self._login(slave)
                os.execv(STAKEOUT, ["stakeout", *map(str, arguments)])
            os._exit(99)
        os.close(slave)
        self.status = None
        at_exit(self._kill)

    @staticmethod
    def _login(slave):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, or what runs the tests, may have it ignored
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(slave, fd)

    def _kill(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys)

    def read(self, seconds=0.1):
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                self.raw += os.read(self.fd, 65536)
            except OSError:
                return
            seconds = 0

    def lines(self):
        """The last whole screen: what was written from the upper left corner to the end."""
        self.read()
        screens = re.findall(rb"\x1b\[H((?:(?!\x1b\[H)[\s\S])*)\x1b\[J", self.raw)
        text = screens[-1].decode() if screens else ""
        return re.split(r"\r+\n", re.sub(r"\x1b\[[0-9;]*[mK]", "", text))

    def text(self):
        return "\n".join(self.lines())

    def fits(self, rows, columns):
        """As wide as the terminal, and no longer."""
        lines = self.lines()
        return max(map(len, lines)) == columns and len(lines) <= rows

    def wait_for(self, *words):
        try:
            wait_until(lambda: all(word in self.text() for word in words), f"{words} on the screen")
        except AssertionError as late:
            raise AssertionError(f"{late}; it has: {self.text()}; in all {self.raw[-2000:]!r}") from late

    def end(self):
        """Its exit status, and what it said after the screen. The terminal is as it was."""

        def ended():
            self.read()
            pid, self.status = os.waitpid(self.pid, os.WNOHANG)
            self.status = None if not pid else self.status
            return pid

        wait_until(ended, "the end of stakeout top")
        self.read(0.01)
        assert termios.tcgetattr(self.fd) == self.before, "the terminal's settings are not restored"
        assert self.raw.count(b"\x1b[?1049h") == self.raw.count(b"\x1b[?1049l") == 1, self.raw[-500:]
        after = self.raw.split(b"\x1b[?1049l")[1].decode()
        assert b"\x1b[?25h" in self.raw and "\x1b" not in after, self.raw[-500:]
        return os.waitstatus_to_exitcode(self.status), after


def rows_of(text):
    """[figures, name] of each row."""
    found = re.findall(r"^ *([0-9.]+) +([0-9.]+|-) +([0-9.]+|-)  +(.*)$", text, re.MULTILINE)
    return [[[0 if f == "-" else float(f) for f in row[:3]], row[3].strip()] for row in found]


def check_program(text, pid):
    """What is known of the program's threads, under any load."""
    rows = {name: figures for figures, name in rows_of(text)}
    napper = next(f for name, f in rows.items() if " napper " in name)
    spinner = next(f for name, f in rows.items() if " spinner " in name)
    assert napper[2] > napper[0] + napper[1], text
    assert spinner[0] > 0 and spinner[0] + spinner[1] > 0, text
    assert re.search(r"\d+ napper \(Thread-\d+ \(begin\)\)  sleep in nap \(<string>:13\)", text), text
    assert re.search(rf"{pid} python3", text) and re.search(r"^.*  {4}\d+ sleep  sleep in ", text, re.MULTILINE), text
    assert "\x1b" not in text and "?[31m漢??" in text, text


def test_one_screen_as_text():
    target, daemon = start_program(), Daemon()
    text = daemon.client("top", "-p", str(target.pid), "--once", "-d", "3").stdout
    tables = text.split("\n\n")
    assert len(tables) == 3, text
    assert text.startswith(f"stakeout top   {target.pid}  {PYTHON} -c "), text
    assert re.search(r"^last [0-9.]+ s: CPU [0-9.]+ %, \d+ samples, complete [0-9.]+ %, lost \d+,", text, re.MULTILINE)
    check_program(tables[0], target.pid)
    assert any(name == "spin (<string>)" and f[0] > 0 for f, name in rows_of(tables[1])), tables[1]
    assert any(re.match(r"spin \(<string>:1[6-9]\)", name) for f, name in rows_of(tables[2])), tables[2]
    # Nothing of it stays.
    assert daemon.request("GET", "/v1/targets") == []


def test_a_process_that_is_watched_stays_so():
    target, daemon = start_program(), Daemon()
    daemon.client("attach", "-p", str(target.pid))
    check_program(daemon.client("top", str(target.pid), "--once", "-d", "2").stdout.split("\n\n")[0], target.pid)
    watched = daemon.request("GET", "/v1/targets")
    assert [(t["pid"], t["keep"], t["state"]) for t in watched] == [(target.pid, True, "sampling")], watched


def test_all_that_is_watched():
    first, second, daemon = start_program(), start_program(), Daemon()
    text = daemon.client("top", "--once", "-d", "1").stdout
    assert "the daemon watches nothing" in text and "0 watched targets" in text, text
    for target in (first, second):
        daemon.client("attach", "-p", str(target.pid))
    text = daemon.client("top", "--once", "-d", "2").stdout
    assert "2 watched targets" in text, text
    for target in (first, second):
        assert re.search(rf"^.* {target.pid} python3$", text, re.MULTILINE), text


def test_without_a_daemon():
    target = start_program()
    result = run([STAKEOUT, "top", "-p", str(target.pid), "--once", "-d", "2"])
    assert result.returncode == 0, result.stderr
    check_program(result.stdout.split("\n\n")[0], target.pid)


def test_no_terminal():
    result = run([STAKEOUT, "top", "-p", str(os.getpid())])
    assert result.returncode == 2 and result.stdout == "", result
    assert one_clear_line(result.stderr) and "--once" in result.stderr, result.stderr


def test_keys():
    target, daemon = start_program(), Daemon()
    screen = Screen("--socket", daemon.socket, "top", "-p", target.pid)
    screen.wait_for("threads by running", " napper ", " spinner ", f"{target.pid} python3")
    screen.press(b"f")
    screen.wait_for("functions by self", "spin (<string>)")
    screen.press(b"s")
    screen.wait_for("functions by total")
    screen.press(b"l")
    screen.wait_for("lines by self")
    screen.press(b"t/napp")
    screen.wait_for("/napp_", " napper ")
    screen.press(b"\r")
    screen.wait_for("/napp ")
    assert " spinner " not in screen.text() and f"{target.pid} python3" in screen.text()
    screen.press(b"\x1b")
    screen.wait_for(" spinner ")
    screen.press(b"?")
    screen.wait_for("q  quit")
    screen.press(b"?")
    screen.wait_for(" napper ")
    screen.press(b" ")
    screen.wait_for("FROZEN")
    frozen = [line for line in screen.lines() if " spinner " in line]
    time.sleep(3)
    assert [line for line in screen.lines() if " spinner " in line] == frozen
    screen.press(b" \x1b[6~\x1b[5~\x1b[B\x1b[A")
    screen.press(b"q")
    assert screen.end() == (0, "")
    assert daemon.request("GET", "/v1/targets") == []


def test_any_size():
    target, daemon = start_program(), Daemon()
    screen = Screen("--socket", daemon.socket, "top", "-p", target.pid)
    screen.wait_for(" napper ")
    for rows, columns in ((50, 200), (24, 80), (8, 40), (3, 10)):
        screen.resize(rows, columns)
        wait_until(lambda: screen.fits(rows, columns), f"a screen of {rows} x {columns}")
    screen.press(b"q")
    assert screen.end() == (0, "")


LEAKER = r"""
import time
keep = []
while True:
    keep.append(bytearray(b"x" * 500000))
    time.sleep(0.1)
"""


def test_memory():
    """Of each process its own, and that it grows: where there is room, and where it is asked for."""
    need_bpf()
    target, daemon = Target([PYTHON, "-c", LEAKER], ready=False), Daemon()
    screen = Screen("--socket", daemon.socket, "top", "-p", target.pid, columns=140, rows=40)
    found = re.compile(rf"^ *[\d.]+ +[\d.-]+ +[\d.-]* +([\d.]+) +(-|[+]?[\d.]+|[+-][\d.]+)  {target.pid} python3", re.M)
    screen.wait_for("MB   MB/min  process")
    before = own_mb(target.pid)
    wait_until(lambda: (f := found.search(screen.text())) and float(f[1]) >= before, "what it has now")
    assert float(found.search(screen.text())[1]) <= own_mb(target.pid) + 0.1
    # After eight seconds; 300 MB a minute where the machine has time for it.
    wait_until(lambda: (f := found.search(screen.text())) and f[2] != "-" and float(f[2]) > 10, "its growth")
    screen.resize(24, 80)
    wait_until(lambda: screen.fits(24, 80) and "MB/min" not in screen.text(), "a smaller screen")
    screen.press(b"m")
    screen.wait_for("threads by MB,", "*MB   MB/min")
    assert screen.fits(24, 80) and found.search(screen.text()), screen.text()
    screen.press(b"fm")
    screen.wait_for("threads by MB,")
    screen.press(b"m")
    screen.wait_for("threads by MB/min", "MB  *MB/min")
    screen.press(b"q")
    assert screen.end() == (0, "")


def own_mb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        return sum(int(kib) for kib in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB", f.read(), re.M)) * 1024 / 1e6


def test_signals():
    target, daemon = start_program(), Daemon()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        screen = Screen("--socket", daemon.socket, "top", "-p", target.pid)
        screen.wait_for(" napper ")
        if number == signal.SIGINT:
            screen.press(b"\x03")
        else:
            os.kill(screen.pid, number)
        assert screen.end() == (0, ""), number
    # The daemon does not answer: the second signal ends it, and the terminal is given back as well.
    screen = Screen("--socket", daemon.socket, "top", "-p", target.pid)
    screen.wait_for(" napper ")
    os.kill(daemon.process.pid, signal.SIGSTOP)
    time.sleep(2)
    wait_until(lambda: os.kill(screen.pid, signal.SIGINT) or os.waitid(
        os.P_PID, screen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), "its end", step=0.2)
    assert screen.end() == (1, "")
    os.kill(daemon.process.pid, signal.SIGCONT)


def test_the_process_ends():
    target, daemon = start_program(), Daemon()
    screen = Screen("--socket", daemon.socket, "top", "-p", target.pid)
    screen.wait_for(" napper ")
    for child in children_of(target.pid):
        os.kill(child, signal.SIGKILL)
    target.process.kill()
    assert screen.end() == (0, f"process {target.pid} has ended\r\n")


def test_the_daemon_ends():
    target, daemon = start_program(), Daemon()
    screen = Screen("--socket", daemon.socket, "top", "-p", target.pid)
    screen.wait_for(" napper ")
    daemon.process.kill()
    status, words = screen.end()
    assert status == 1 and words.startswith("stakeout: ") and words.count("\n") == 1, (status, words)


def test_cuda_calls():
    need_bpf()
    target, daemon = python_program("py_cuda_training.py", 10000000), Daemon()
    go(target)
    text = daemon.client("top", str(target.pid), "--cuda", "--once", "-d", "6").stdout
    line = re.search(r"^CUDA (\d+) calls/s, waits ([0-9.]+) %: (.*)$", text, re.MULTILINE)
    assert line and int(line[1]) > 0 and float(line[2]) > 0, text
    # Nearly all of the waiting is in the one call for it, and most calls launch.
    assert re.match(r"cudaStreamSynchronize \d+/s [0-9.]+ %, ", line[3]) and "cudaLaunchKernel" in line[3], text
