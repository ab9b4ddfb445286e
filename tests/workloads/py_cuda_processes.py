# SPDX-License-Identifier: GPL-2.0-or-later
"""CUDA in a forked child, and in a program that another one becomes. Usage: py_cuda_processes.py FOLDER workers|fork|rename|exec PROGRAM...
workers: when a byte comes, 20 children are made, one after the other, which make no calls; then 10 kernels are launched. fork: when a byte comes, a child is made, which launches 50 kernels half a second later. rename: when a byte comes,
launches 20 of a kernel and prints "paused"; when another comes, the host function is another kernel's, which is launched at the next. exec: when a byte comes, launches 20 and
becomes PROGRAM."""
import os
import sys
import time

from py_cuda_training import Cuda, Dim3


def launch(cuda, count, kernel=0x1000):
    for _ in range(count):
        cuda.cudaLaunchKernel(kernel, Dim3(1, 1, 1), Dim3(32, 1, 1), None, 0, cuda.stream)


def work(cuda, count):
    """As a loader's workers do, which map the libraries and use none."""
    for _ in range(count):
        child = os.fork()
        if not child:
            time.sleep(0.1)
            os._exit(0)
        os.waitpid(child, 0)
    launch(cuda, 10)


def rename(cuda):
    """As where a library was unloaded, and another is in its place."""
    stub = cuda.register("_Z12former_owner")
    launch(cuda, 20, stub)
    print("paused", flush=True)
    os.read(0, 1)
    cuda.register("_Z12latter_owner", stub)
    print("paused", flush=True)
    os.read(0, 1)
    launch(cuda, 30, stub)


def main():
    cuda = Cuda(sys.argv[1])
    print("ready", flush=True)
    os.read(0, 1)
    if sys.argv[2] == "exec":
        launch(cuda, 20)
        os.execv(sys.argv[3], sys.argv[3:])
    if sys.argv[2] == "rename":
        rename(cuda)
        return
    if sys.argv[2] == "workers":
        work(cuda, 20)
        return
    child = os.fork()
    if not child:
        time.sleep(0.5)
        launch(cuda, 50)
        os._exit(0)
    os.waitpid(child, 0)
    launch(cuda, 10)


if __name__ == "__main__":
    main()
