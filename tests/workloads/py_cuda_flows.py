# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits of 1 ms each through the stand-in CUDA runtime, each for a launch that is known: by stream, by event, of another thread.
Usage: py_cuda_flows.py FOLDER [rounds]

A round, with two streams and the default one: first() into A, other() into B, an event recorded in A, late() into A. The worker
launches backward() into the default stream and own() into its own default stream (_ptsz). Then the main thread waits: for the
event (first), for stream B (other), for stream 0 (backward), with a blocking copy (backward), for the device (own)."""
import ctypes
import os
import sys
import threading
import time

from py_cuda_training import DEVICE_TO_HOST, Cuda, Dim3

WAITS = ("cudaEventSynchronize", "cudaStreamSynchronize", "cudaMemcpy", "cudaDeviceSynchronize")
LATENCIES = "cudaLaunchKernel=3us," + ",".join("%s=1ms" % name for name in WAITS)


class Flows:
    def __init__(self, folder):
        self.cuda = cuda = Cuda(folder)
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for name, arguments in (
            ("cudaLaunchKernel_ptsz", (pointer, Dim3, Dim3, pointer, size, pointer)),
            ("cudaEventCreate", (ctypes.POINTER(pointer),)),
            ("cudaEventRecord", (pointer, pointer)),
            ("cudaEventSynchronize", (pointer,)),
            ("cudaDeviceSynchronize", ()),
        ):
            function = getattr(cuda.library, name)
            function.argtypes = arguments
            setattr(cuda, name, function)
        self.b, self.event, self.default = pointer(), pointer(), pointer()
        cuda.cudaStreamCreate(ctypes.byref(self.b))
        cuda.cudaEventCreate(ctypes.byref(self.event))
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def register(self):
        """When somebody looks already: what is said of kernels before is not heard."""
        names = "first", "other", "late", "backward", "own"
        self.kernels = {name: self.cuda.register("_Z%d%sPf" % (len(name), name)) for name in names}

    def launch(self, name, stream, function=None):
        function = function or self.cuda.cudaLaunchKernel
        function(self.kernels[name], Dim3(1, 1, 1), Dim3(32, 1, 1), None, 0, stream)

    def worker(self):
        while True:
            self.go.acquire()
            self.launch("backward", self.default)
            self.launch("own", self.default, self.cuda.cudaLaunchKernel_ptsz)
            self.done.release()

    def round(self, host):
        cuda = self.cuda
        self.launch("first", cuda.stream)
        self.launch("other", self.b)
        cuda.cudaEventRecord(self.event, cuda.stream)
        self.launch("late", cuda.stream)
        self.go.release()
        self.done.acquire()
        cuda.cudaEventSynchronize(self.event)
        cuda.cudaStreamSynchronize(self.b)
        cuda.cudaStreamSynchronize(self.default)
        cuda.cudaMemcpy(host, ctypes.c_void_p(0x7F0000100000), 4, DEVICE_TO_HOST)
        cuda.cudaDeviceSynchronize()


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    os.environ.setdefault("STANDIN_CUDA", LATENCIES)
    flows = Flows(sys.argv[1])
    thread = threading.Thread(target=flows.worker, daemon=True)
    thread.start()
    host = ctypes.create_string_buffer(64)
    print("ready", flush=True)
    sys.stdin.readline()
    print(thread.native_id, flows.b.value, flush=True)
    sys.stdin.readline()
    flows.register()
    for _ in range(rounds):
        flows.round(host)
        time.sleep(0.002)


if __name__ == "__main__":
    main()
