# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that launch kernels through the stand-in CUDA runtime at a given rate. The last line is truth as JSON.
Usage: py_cuda_launches.py FOLDER [launches a second of each thread] [seconds] [threads] [stdin|no]"""
import sys
import threading
import time

from py_cuda_training import Cuda, Dim3


def launch_at_rate(cuda, kernel, rate, count):
    grid, block = Dim3(1, 1, 1), Dim3(32, 1, 1)
    start = time.monotonic()
    for i in range(count):
        cuda.cudaLaunchKernel(kernel, grid, block, None, 0, cuda.stream)
        ahead = start + (i + 1) / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)


def main():
    arguments = sys.argv[1:] + [""] * 5
    rate, seconds, threads = float(arguments[1] or 1000), float(arguments[2] or 10), int(arguments[3] or 1)
    cuda = Cuda(arguments[0])
    kernel = cuda.register("_Z11tiny_kernelPf")
    workers = [
        threading.Thread(target=launch_at_rate, args=(cuda, kernel, rate, int(rate * seconds))) for _ in range(threads)
    ]
    print("ready", flush=True)
    if (arguments[4] or "stdin") == "stdin":
        sys.stdin.read(1)
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    cuda.truth()


if __name__ == "__main__":
    main()
