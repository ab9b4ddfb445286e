# SPDX-License-Identifier: GPL-2.0-or-later
"""Source lines and inlined functions of native code, from debug information, wherever that lies."""
import json
import os
import re
import shutil
import subprocess

import cuda_targets
from harness import (
    Daemon,
    STAKEOUT,
    Skip,
    Target,
    children_of,
    comm_of,
    need_tool,
    record,
    run,
    script,
    start,
    temporary_dir,
    wait_until,
    workload,
)


def lines_of(source):
    """The lines of a workload's source that say "LINE name"."""
    found = {}
    with open(script(source), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            match = re.search(r"// LINE (\w+)$", line)
            if match:
                found[match.group(1)] = number
    return found


def bare(frame):
    """Compilers name an inlined member function by its linkage name, or by its own."""
    return frame.rsplit("::", 1)[-1]


def share_of_cell(recording):
    """Of all samples, those whose innermost frames are main, sweep, relax and cell."""
    stacks = {stack: n for stack, n in recording.stacks.items() if not stack[-1].endswith("_[k]")}
    inlined = sum(n for stack, n in stacks.items() if [bare(f) for f in stack[-4:]] == ["main", "sweep", "relax", "cell"])
    return inlined / sum(stacks.values())


def dumped(pid):
    """The frames of a process with a single thread: {bare name: (file, line)}."""
    result = run([STAKEOUT, "dump", "-p", pid, "-j"])
    assert result.returncode == 0, result.stderr
    (thread,) = json.loads(result.stdout)
    return {bare(f["function"] or ""): (f["file"], f["line"]) for f in thread["frames"]}


def readers(above=None):
    """Processes that read debug information, below this process or this test, which inherits whose parents are gone."""
    found, below = [], children_of(above or os.getpid())
    for pid in below:
        found += [pid] * (comm_of(pid) == "stakeout-lines") + readers(pid)
    return found


def check_lines(pid):
    assert share_of_cell(record(pid).check_complete()) > 0.9
    lines = lines_of("cpp_lines.cpp")
    frames = dumped(pid)
    for name, line in lines.items():
        path, found = frames[name]
        assert path.endswith("tests/workloads/cpp_lines.cpp") and path.startswith("/"), path
        # The loop's own line is one more where its counter is counted.
        assert found - line in ((0, -1) if name == "cell" else (0,)), (name, found, line)


def test_inlined_functions_and_their_lines():
    check_lines(start("cpp_lines", 600).pid)
    wait_until(lambda: not readers(), "the end of the processes that read debug information")


def test_by_function_line_and_in_pprof():
    target = start("cpp_lines", 600)
    line = lines_of("cpp_lines.cpp")["cell"]
    path = os.path.join(temporary_dir(), "lines.pb.gz")
    result = run([STAKEOUT, "record", "-p", target.pid, "-d", 2, "-r", 999, "-o", path])
    assert result.returncode == 0, result.stderr
    text = run([STAKEOUT, "summary", "-v", path]).stdout.split("Innermost lines")[-1]
    # The loop's own line is one more where its counter is counted.
    shares = re.findall(rf"^ *([\d.]+) %.*cell \(cpp_lines.cpp:(?:{line}|{line - 1})\)$", text, re.M)
    assert 90 <= sum(float(share) for share in shares) <= 100.2, text
    need_tool("go")
    text = run(["go", "tool", "pprof", "-list", "sweep", path]).stdout
    # Its own time or none, and that of what was inlined in it.
    numbers = [int(n) for n in re.findall(r"^ +(?:[.]|[\d.]+m?s) +[\d.]+m?s +(\d+):", text, re.M)]
    assert lines_of("cpp_lines.cpp")["sweep"] in numbers, text


def test_a_separate_debug_file():
    folder = temporary_dir()
    program, debug = os.path.join(folder, "apart"), os.path.join(folder, "apart.debug")
    shutil.copy(workload("cpp_lines"), program)
    for command in (
        ["objcopy", "--only-keep-debug", program, debug],
        ["strip", "-s", program],
        ["objcopy", f"--add-gnu-debuglink={debug}", program],
    ):
        subprocess.run(command, check=True)
    check_lines(Target([program, "600"]).pid)


def test_compressed_debug_sections():
    for method in ("zlib", "zstd"):
        program = os.path.join(temporary_dir(), "packed")
        command = ["objcopy", f"--compress-debug-sections={method}", workload("cpp_lines"), program]
        if method == "zstd" and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skip("objcopy knows no zstd")
        subprocess.run(command, check=True)
        check_lines(Target([program, "600"]).pid)


def test_common_parts_in_a_file_of_their_own():
    """As Debian's debug packages have them (dwz)."""
    need_tool("dwz")
    folder = temporary_dir()
    program, other = os.path.join(folder, "one"), os.path.join(folder, "two")
    for path in (program, other):
        shutil.copy(workload("cpp_lines"), path)
    common = os.path.join(folder, "common.debug")
    subprocess.run(["dwz", "-m", common, program, other], check=True)
    assert os.path.exists(common)
    assert "gnu_debugaltlink" in run(["readelf", "-SW", program]).stdout
    check_lines(Target([program, "600"]).pid)


def test_none_where_they_are_not_wanted():
    target = start("cpp_lines", 600)
    daemon = Daemon("--no-source-lines", "--no-store")
    recording = daemon.record(target.pid).check_complete()
    assert recording.count("grid::sweep") > 0.9 * recording.samples
    assert not recording.count("relax") and not recording.count("grid::Field::relax")
    assert not readers(daemon.process.pid)
    assert "source_lines" not in daemon.request("GET", "/v1/status")


def test_a_reader_that_is_killed():
    target = start("cpp_lines", 600)
    daemon = Daemon("--no-store")
    assert share_of_cell(daemon.record(target.pid).check_complete()) > 0.9
    (reader,) = readers(daemon.process.pid)
    os.kill(reader, 9)
    # What is known stays known, and of another program another reader is asked.
    assert share_of_cell(daemon.record(target.pid).check_complete()) > 0.9
    program = os.path.join(temporary_dir(), "another")
    shutil.copy(workload("cpp_lines"), program)
    assert share_of_cell(daemon.record(Target([program, "600"]).pid).check_complete()) > 0.9
    status = daemon.request("GET", "/v1/status")["source_lines"]
    assert status["failed_files"] == 0 and status["addresses"] > 0 and status["cpu_s"] > 0, status
    assert daemon.stop() == 0
    wait_until(lambda: not readers(), "the end of the reader")


def test_damaged_debug_information():
    """Random bytes in it cost lines, and no sample."""
    program = os.path.join(temporary_dir(), "damaged")
    with open(workload("cpp_lines"), "rb") as f:
        image = bytearray(f.read())
    sections = run(["readelf", "-SW", workload("cpp_lines")]).stdout
    for name in ("debug_info", "debug_abbrev", "debug_line"):
        at, size = (int(n, 16) for n in re.search(rf"\.{name} +PROGBITS +\S+ (\S+) (\S+)", sections).groups())
        image[at : at + size] = os.urandom(size)
    with open(program, "wb") as f:
        f.write(image)
    os.chmod(program, 0o755)
    recording = record(Target([program, "600"]).pid).check_complete()
    assert recording.count("grid::sweep") > 0.9 * recording.samples


def test_lines_of_cuda_calls():
    """The line of a hidden wait in an inlined function of a C++ program is named first, and the copy's by its own."""
    target = cuda_targets.program("cuda_lines", 60, rules="cudaDeviceSynchronize=10ms,cudaMemcpy=1ms")
    lines = lines_of(os.path.join("cuda", "cuda_lines.cpp"))
    daemon = Daemon("--no-store")
    text = daemon.client("cuda", "-p", target.pid, "-d", 4).stdout
    wait = f"log_metrics (cuda_lines.cpp:{lines['wait']} in cuda_lines)"
    copy = rf"cudaMemcpy +Buffer::download \(cuda_lines.cpp:{lines['download']} in cuda_lines\)"
    assert re.search(rf"^ 1\. .*{re.escape(wait)}$", text, re.M), text
    assert re.search(copy.replace("Buffer::", r"(\S+::)?"), text), text
    answer = json.loads(daemon.client("cuda", "-p", target.pid, "-d", 2, "--json").stdout)
    (stack,) = {tuple(line["stack"]) for line in answer["lines"] if line["api"] == "cudaDeviceSynchronize"}
    assert f"cuda_lines.cpp:{lines['step']} in" in stack[-2] + stack[-3], stack
