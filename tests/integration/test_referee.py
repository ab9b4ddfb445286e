# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames equal to the referee's, innermost to outermost, on targets that spin at a known place."""
from harness import long, need_bpf, need_tool, record, start, workload
from referee import compare, stack_with_leaf


def check(name, *arguments, leaf, share=0.3, several_callers=False):
    need_bpf()
    need_tool("eu-stack")
    target = start(name, *arguments)
    recording = record(target.pid, rate=499).check_totals()
    frames = stack_with_leaf(target, leaf)
    assert frames[-1].name.lstrip("_") in ("start", "clone3"), f"the referee's stack is cut: {frames}"
    matched = compare(recording, frames, leaf, several_callers)
    assert matched >= max(10, share * recording.samples), (
        f"{matched} of {recording.samples} samples have {leaf} innermost; {recording.examples('')}"
    )


def test_plain():
    check("split", 60, leaf="split_kernel", share=0.1, several_callers=True)


@long
def test_static():
    check("split-static", 60, leaf="split_kernel", share=0.1, several_callers=True)


@long
def test_deep():
    check("deep", 60, 100, leaf="deep_leaf")


def test_deep_600():
    check("deep", 60, 600, leaf="deep_leaf")


@long
def test_deep_static():
    check("deep-static", 60, 600, leaf="deep_leaf")


@long
def test_realign():
    check("realign", 60, leaf="realign_leaf")


@long
def test_signal_handler():
    check("signals", "stay", 60, leaf="handler_leaf")


def test_signal_handler_on_alternate_stack():
    check("signals", "stay-alt", 60, leaf="handler_leaf")


def test_plt():
    """Innermost in a tiny function behind the PLT."""
    check("plt_heavy", 60, leaf="tiny_rotate", share=0.05)


def test_threads():
    check("threads", 60, 2, leaf="thread_burn")


@long
def test_threads_static():
    check("threads-static", 60, 2, leaf="thread_burn")


def test_dlopened():
    check("dlopener", workload("plugin.so"), 60, 0, leaf="plugin_burn")


@long
def test_cpp():
    check("cpp_sim", 60, leaf="sim::Gravity::apply", share=0.05)
