# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that two functions allocate: one keeps half of it, one gives all back. Then, by the driver alone, a kernel of a module
whose name is asked for late. The last line is truth as JSON. Usage: py_cuda_memory.py FOLDER [ROUNDS]; begins when a byte comes on
standard input, ends when another comes."""
import ctypes
import os
import sys

from py_cuda_training import Cuda

KEPT_BYTES, CHURNED_BYTES = 3000, 70000


def keeps_half(cuda):
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(first), KEPT_BYTES)
    cuda.cudaMalloc(ctypes.byref(second), KEPT_BYTES)
    cuda.cudaFree(second)


def churns(cuda):
    pointer = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(pointer), CHURNED_BYTES)
    cuda.cudaFree(pointer)


def launches_of_module(folder):
    driver = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuModuleLoadData(ctypes.byref(module), b"image")
    driver.cuModuleGetFunction(ctypes.byref(function), module, b"triton_late_kernel_0")
    launch = driver.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    for _ in range(7):
        launch(function, 2, 3, 4, 5, 6, 7, 0, None, None, None)


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    cuda = Cuda(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.read(1)
    for _ in range(rounds):
        keeps_half(cuda)
        churns(cuda)
    launches_of_module(sys.argv[1])
    print("done", flush=True)
    sys.stdin.read(1)
    cuda.truth()


if __name__ == "__main__":
    main()
