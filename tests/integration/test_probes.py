# SPDX-License-Identifier: GPL-2.0-or-later
"""What samples show while probes are at work: the program is where it would be without them, and what stakeout's own
probes take is no time of the program's lines."""
import os

from harness import STAKEOUT, Skip, need_bpf, record, run, start, temporary_dir
from pprof_message import Message

OWN = "[stakeout probes]"


def probed(*arguments):
    if not os.path.exists("/sys/bus/event_source/devices/uprobe/type"):
        raise Skip("this kernel has no uprobes")
    return start("probed", 600, *arguments)


def test_probes_of_others():
    """On functions whose first instruction is run as a copy, is emulated, or becomes a call, and on their returns. In a few
    samples the kernel is just replacing a return address, or has just emulated an instruction."""
    recording = record(probed("self").pid, duration=2).check_complete(0.9)
    assert recording.count("main", "probed_loop") > 0.9 * recording.samples, recording.examples("")
    for function in ("probed_stepped", "probed_nop"):
        assert recording.count("probed_pushed", function) > 0.05 * recording.samples, recording.examples("")
    assert not recording.count("[jit]") and not recording.count(OWN), recording.examples("")
    assert "jit" not in recording.stderr, recording.stderr


def test_probes_of_stakeout():
    """A mark on a function that does hardly anything: nearly all is the mark's cost."""
    need_bpf()
    path = os.path.join(temporary_dir(), "x.pb.gz")
    steps = ["--timeline", "--step", "probed_stepped"]
    target = probed()
    run([STAKEOUT, "record", "-p", target.pid, "-d", 2, "-r", 999, *steps, "-o", path, "-q"])
    stacks = [sample.names() for sample in Message(path).samples if sample.values[0]]
    own = [names for names in stacks if OWN in names]
    others = [names for names in stacks if OWN not in names]
    assert len(own) > len(stacks) / 2 and any("asm_exc_debug" in names for names in own), (len(own), len(stacks))
    assert all(names[-1] == OWN for names in own), own
    assert not any("uprobe_notify_resume" in names or "asm_exc_debug" in names for names in others), others
    assert sum("main" in names and "probed_loop" in names for names in others) >= len(others) - 1, others
    said = run([STAKEOUT, "summary", path]).stdout
    assert said.startswith("largest: stakeout probes, "), said


def test_threads_that_wait_in_probes():
    """The same of threads that are looked at from outside: they may have been put aside within a probe."""
    targets = [probed("self") for _ in range(1 + (os.cpu_count() or 1))]
    path = os.path.join(temporary_dir(), "x.pb.gz")
    need_bpf()
    run([STAKEOUT, "record", "-p", targets[0].pid, "-d", 1, "--wall", "-o", path, "-q"])
    stacks = [(sample.wall_ns, sample.names()) for sample in Message(path).samples if sample.state == "runnable"]
    assert not any("[jit]" in names for _, names in stacks), stacks
    whole = sum(ns for ns, names in stacks if names[-1] == "_start" and "probed_loop" in names)
    assert whole > 0.8 * sum(ns for ns, _ in stacks), stacks
