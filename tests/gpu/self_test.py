#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the tests: what of tests/gpu works without a GPU. The traces are those of PyTorch's profiler for the CPU, where
PyTorch is installed, with CUDA calls added as Kineto writes them."""
import copy
import functools
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

GPU_DIR = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, GPU_DIR)
sys.dont_write_bytecode = True

import compare  # noqa: E402 pylint: disable=C0413

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
HAS_TORCH = not subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode
API = compare.Api()
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
GEMM = "ampere_sgemm_32x32_sliced1x4_nn"
STEPS = 10

CLIENT = """#!{python}
import json, signal, sys
signal.signal(signal.SIGINT, lambda *_: None)
open({socket!r} + ".pid", "w").write(sys.argv[sys.argv.index("-p") + 1])
signal.pause()
json.dump(json.load(open({report!r})), open(sys.argv[sys.argv.index("-o") + 1], "w"))
"""


def load_run():
    loader = importlib.machinery.SourceFileLoader("gpu_run", os.path.join(GPU_DIR, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_run", loader))
    loader.exec_module(module)
    return module


def cuda_events(begin, correlation):
    """A step's: three launches, of which two by cudaLaunchKernel and one by the driver, and what .item() does."""

    def call(category, name, correlation):
        at = begin + 4 * (correlation % 10)
        args = {"correlation": correlation}
        return {"ph": "X", "cat": category, "name": name, "ts": at, "dur": 3, "pid": 1, "tid": 2, "args": args}

    return [
        call("cuda_runtime", "cudaLaunchKernel", correlation=correlation),
        call("kernel", ADD, correlation=correlation),
        call("cuda_runtime", "cudaLaunchKernel", correlation=correlation + 1),
        call("kernel", GEMM, correlation=correlation + 1),
        call("cuda_driver", "cuLaunchKernel", correlation=correlation + 2),
        call("kernel", "triton_poi_fused_add_0", correlation=correlation + 2),
        call("cuda_runtime", "cudaGraphLaunch", correlation=correlation + 3),
        call("kernel", ADD, correlation=correlation + 3),
        call("cuda_runtime", "cudaMemcpyAsync", correlation=correlation + 4),
        call("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", correlation=correlation + 4),
        call("cuda_runtime", "cudaStreamSynchronize", correlation=correlation + 5),
        call("cuda_runtime", "cudaStreamIsCapturing", correlation=correlation + 6),
    ]


def trace_events():
    mark = {"ph": "X", "name": compare.MARK, "ts": 1000.5, "dur": 5000.0, "pid": 1, "tid": 1, "args": {}}
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {}},
        dict(mark, cat="user_annotation"),
        dict(mark, cat="gpu_user_annotation", ts=1500),
        *cuda_events(900, 10),
        *cuda_events(6100, 20),
    ]
    for i in range(STEPS):
        events += cuda_events(1001 + i * 400, 100 + i * 10)
    return events


def call_row(api, kind, calls, kernel=None):
    return {"api": api, "kind": kind, "calls": calls, "kernel": kernel}


API_OF = {
    "launch": "cudaLaunchKernel", "sync": "cudaStreamSynchronize", "copy": "cudaMemcpyAsync", "blocking-copy": "cuMemcpyDtoH",
}


def line_row(event, line, total_ns, calls):
    return {"event": event, "api": API_OF[event], "line": line, "total_ns": total_ns, "calls": calls}


def matching_report():
    """What stakeout says when all is well; the first kernel is in two rows, of two threads."""
    return {
        "estimated": False,
        "lost": {"calls-map-full": 0, "unfinished": 0},
        "problems": [],
        "gpu": {"devices": [{"index": 0, "utilisation_percent": 12.5, "process_utilisation_percent": None,
                             "process_memory_bytes": 1000}]},
        "probes": {"installed": 5, "stack_period": {"launch": 100, "stream-sync": 1, "copy": 1}},
        "calls": [
            call_row("cudaLaunchKernel", "launch", 4, ADD.replace("3ul", "(unsigned long)3")),
            call_row("cudaLaunchKernel", "launch", STEPS - 4, ADD),
            call_row("cudaLaunchKernel", "launch", STEPS, GEMM),
            call_row("cuLaunchKernel", "launch", STEPS, "triton_poi_fused_add_0"),
            call_row("cudaGraphLaunch", "launch", STEPS),
            call_row("cudaMemcpyAsync", "copy", STEPS),
            call_row("cudaStreamSynchronize", "sync", STEPS),
        ],
        "lines": [
            line_row("launch", "linear (functional.py:1)", 900000, 30),
            line_row("sync", "other (train_eager.py:3)", 30, STEPS - 4),
            line_row("copy", "train_step (train_eager.py:20)", 30, STEPS),
            line_row("sync", "train_step (train_eager.py:20)", 40, 4),
        ],
    }


class CompareTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def path(self, name, content):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(content, f)
        return path

    def compare(self, report, events=None, wait="train_eager.py:20"):
        content = {"traceEvents": trace_events() if events is None else events}
        trace = compare.Trace(self.path("trace", content), API)
        return compare.Comparison(API, trace, compare.Counted(self.path("report", report)), wait)

    def expect(self, report, *failures, **options):
        """Exactly these failures, each by words that it holds."""
        found = self.compare(report, **options).failures
        self.assertEqual(len(found), len(failures), found)
        for failure, words in zip(found, failures):
            self.assertIn(words, failure)

    def test_equal(self):
        comparison = self.compare(matching_report())
        self.assertEqual((comparison.failures, comparison.notes), ([], []))
        rows = {name: (recorded, counted) for name, recorded, counted in comparison.rows()}
        self.assertEqual(rows["cudaLaunchKernel"], (2 * STEPS, 2 * STEPS))
        self.assertEqual(set(rows), {row["api"] for row in matching_report()["calls"]})
        self.assertEqual(comparison.counted.waits()[0], ("train_step (train_eager.py:20)", 40, 4))

    def test_one_call_off(self):
        for i, row in enumerate(matching_report()["calls"]):
            for by in (-1, 1):
                report = matching_report()
                report["calls"][i]["calls"] += by
                failures = self.compare(report).failures
                self.assertTrue(failures, f"{row} {by}")

    def test_lines_lack_a_call(self):
        """Of the kinds that have each stack taken."""
        report = matching_report()
        for row in report["lines"]:
            row["calls"] -= 1
        self.expect(report, "stream-sync: ", "copy: ")

    def test_statically_linked_runtime(self):
        """Two of the runtime's launches are seen in the driver, without names."""
        report = matching_report()
        report["calls"][2]["calls"] -= 2
        report["calls"].append(call_row("cuLaunchKernel", "launch", 2))
        comparison = self.compare(report)
        self.assertEqual(comparison.failures, [])
        self.assertEqual(len(comparison.notes), 2, comparison.notes)
        report["calls"][-1]["calls"] = 3
        self.expect(report, "LAUNCH: 1 driver launches")
        report["calls"][-1]["calls"] = 1
        self.expect(report, "LAUNCH: 1 calls that stakeout did not count", "2 kernels recorded whose launches")

    def test_driver_calls_inside_runtime_calls(self):
        events = trace_events()
        runtime = next(e for e in events if e["name"] == "cudaLaunchKernel" and 1001 < e["ts"] < 6000)
        inside = dict(runtime, cat="cuda_driver", name="cuLaunchKernel")
        inside["ts"], inside["dur"] = runtime["ts"] + 0.5, 2
        self.expect(matching_report(), events=[inside, *events])
        self.expect(matching_report(), "LAUNCH: 1 calls", events=[dict(inside, tid=3), *events])
        self.expect(matching_report(), "LAUNCH: 1 calls", events=[dict(inside, dur=2.75), *events])

    def test_untraced_driver_calls(self):
        report = matching_report()
        report["calls"].append(call_row("cuMemcpyDtoHAsync", "copy", 3))
        report["lines"].append(line_row("copy", "other (a.py:1)", 1, 3))
        comparison = self.compare(report)
        self.assertEqual(comparison.failures, [])
        self.assertIn("COPY: 3 driver calls", comparison.notes[0])
        self.assertIn(("cuMemcpyDtoHAsync", None, 3), comparison.rows())
        report["calls"][5]["calls"] -= 3
        report["lines"][2]["calls"] -= 3
        comparison = self.compare(report)
        self.assertEqual(comparison.failures, [])
        self.assertIn("COPY: 3 runtime calls were seen as calls of the driver", comparison.notes[0])
        # The driver's call may be a blocking one.
        report["calls"][-1] = call_row("cuMemcpyDtoH", "blocking-copy", 3)
        report["lines"][-1] = line_row("blocking-copy", "other (a.py:1)", 1, 3)
        comparison = self.compare(report)
        self.assertEqual(comparison.failures, [])
        self.assertIn("COPY: 3 runtime calls were seen as calls of the driver", comparison.notes[0])

    def test_kernel_names(self):
        report = matching_report()
        report["calls"][2]["kernel"] = "another_kernel"
        self.expect(report, "kernel another_kernel: 10 launches counted, 0 recorded", "10 kernels recorded")

    def test_wait_is_not_first(self):
        report = matching_report()
        report["lines"][1]["total_ns"] = 71
        self.expect(report, "is other (train_eager.py:3), not train_eager.py:20")
        report["lines"] = report["lines"][:1]
        self.expect(report, "sync: 10 calls, but 0", "copy: 10 calls, but 0", "no line that waits")

    def test_losses(self):
        report = matching_report()
        report["estimated"] = True
        report["lost"]["unfinished"] = 2
        self.expect(report, "estimates", "lost 2: unfinished")

    def test_nothing_seen(self):
        events = [e for e in trace_events() if not e.get("cat", "").startswith("cuda")]
        report = dict(matching_report(), calls=[], lines=[])
        self.expect(report, "the profiler recorded no CUDA call", "stakeout counted no CUDA call", events=events, wait=None)

    def test_marks(self):
        for events in ([], trace_events() + [trace_events()[1]]):
            with self.assertRaises(ValueError):
                compare.Trace(self.path("trace", events), API)

    def test_kernel_bases(self):
        elementwise = "at::native::vectorized_elementwise_kernel"
        for name, base in {
            ADD: elementwise,
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_": elementwise,
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11Fi": elementwise,
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<int>(int)":
                "at::native::{anonymous}::multi_tensor_apply_kernel",
            "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelIiEEvi":
                "at::native::{anonymous}::multi_tensor_apply_kernel",
            "add(float*, float*) [clone .kd]": "add",
            "_Z3addPfS_": "add",
            GEMM: GEMM,
        }.items():
            self.assertEqual(compare.kernel_base(name), base)

    def test_api_names(self):
        self.assertEqual(compare.base_api("cudaMemcpyAsync_ptsz"), "cudaMemcpyAsync")
        self.assertEqual(compare.base_api("cuMemcpyHtoDAsync_v2_ptsz"), "cuMemcpyHtoDAsync")
        self.assertEqual(API.calls["cudaLaunchKernel"], ("RUNTIME", "LAUNCH"))
        self.assertGreater(len(API.calls), 80)


@unittest.skipUnless(HAS_TORCH, f"{PYTHON} has no PyTorch")
class TrainingTest(unittest.TestCase):
    """The trainings and the script around them, on the CPU and with a stand-in for stakeout."""

    def test_skips_without_gpu(self):
        result = subprocess.run([os.path.join(GPU_DIR, "run"), "--python", PYTHON, "eager"], capture_output=True, text=True,
                                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("skip  gpu/eager: PyTorch ", result.stdout)
        self.assertTrue(result.stdout.endswith("0 passed, 0 failed, 1 skipped\n"), result.stdout)

    def watch(self, name, report, add_to_trace):
        """run's watch() of a training on the CPU; CUDA calls are added to the profiler's trace."""
        run = load_run()
        directory = run.harness.temporary_dir()
        self.addCleanup(run.harness.cleanup)
        socket, answer = os.path.join(directory, "socket"), os.path.join(directory, "answer")
        run.harness.STAKEOUT = os.path.join(directory, "stakeout")
        with open(run.harness.STAKEOUT, "w", encoding="utf-8") as f:
            f.write(CLIENT.format(python=PYTHON, socket=socket, report=answer))
        os.chmod(run.harness.STAKEOUT, 0o755)

        def request(_, path):
            if path != "/v1/targets":
                return {"probes": {"installed": 5}}
            if not os.path.exists(socket + ".pid"):
                return []
            with open(socket + ".pid", encoding="utf-8") as f:
                return [{"id": 1, "pid": int(f.read() or 0)}]

        class Trace(compare.Trace):
            def __init__(self, path, api):
                with open(path, encoding="utf-8") as f:
                    content = json.load(f)
                events = content["traceEvents"] if isinstance(content, dict) else content
                mark = next(e for e in events if e.get("name") == compare.MARK)
                for i in range(STEPS if add_to_trace else 0):
                    events += cuda_events(float(mark["ts"]) + 100 * i, 10 * i)
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(content, f)
                super().__init__(path, api)

        run.compare = types.SimpleNamespace(**{**vars(compare), "Trace": Trace})
        run.harness.Daemon = lambda: types.SimpleNamespace(socket=socket, request=request, stop=lambda: 0)
        # There is no memory of a GPU to compare.
        run.check_memory = lambda training, daemon, n: ""
        run.Training = functools.partial(run.Training, arguments=("--device", "cpu"))
        with open(answer, "w", encoding="utf-8") as f:
            json.dump(report, f)
        options = types.SimpleNamespace(python=PYTHON, steps=STEPS, keep=directory)
        return run.watch(options, name)

    def test_eager(self):
        self.assertEqual(self.watch("eager", matching_report(), True), "")
        self.assertIn("the profiler recorded no CUDA call", self.watch("eager", matching_report(), False))

    def test_loader(self):
        report = copy.deepcopy(matching_report())
        self.assertIn("not train_loader.py:", self.watch("loader", report, True))


if __name__ == "__main__":
    unittest.main()
