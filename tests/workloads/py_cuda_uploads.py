# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop that uploads much in small pieces through the stand-in CUDA runtime, from two lines, and reads back one number in ten
steps: a blocking copy of 5 ms among 500 asynchronous ones. The last line is truth as JSON.
Usage: py_cuda_uploads.py FOLDER [seconds]"""
import ctypes
import os
import sys
import time

from py_cuda_training import DEVICE_TO_HOST, HOST_TO_DEVICE, Cuda

LATENCIES = "cudaMemcpyAsync=1us,cudaMemcpy=5ms"
DEVICE = ctypes.c_void_p(0x7F0000100000)


def features(cuda, host):
    for _ in range(40):
        cuda.cudaMemcpyAsync(DEVICE, host, 4096, HOST_TO_DEVICE, cuda.stream)


def labels(cuda, host):
    for _ in range(10):
        cuda.cudaMemcpyAsync(DEVICE, host, 256, HOST_TO_DEVICE, cuda.stream)


def metric(cuda, host):
    cuda.cudaMemcpy(host, DEVICE, 4, DEVICE_TO_HOST)


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
    os.environ.setdefault("STANDIN_CUDA", LATENCIES)
    cuda = Cuda(sys.argv[1])
    host = ctypes.create_string_buffer(4096)
    print("ready", flush=True)
    sys.stdin.read(1)
    end, step = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        features(cuda, host)
        labels(cuda, host)
        if step % 10 == 0:
            metric(cuda, host)
        step += 1
        time.sleep(0.01)
    cuda.truth()


if __name__ == "__main__":
    main()
