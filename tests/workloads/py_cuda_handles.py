# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of modules that were loaded before anybody watches: each is launched through the driver, whose handles have the names
(the stand-in's as driver 580 has them). Usage: py_cuda_handles.py FOLDER KERNELS [same|jump]; "same": they all have one name; "jump":
by a function of another library, which jumps to the driver's. The last line is truth as JSON."""
import ctypes
import os
import sys

from py_cuda_training import Cuda

LAUNCHES = 5


def main():
    folder, n, same = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["same"]
    cuda = Cuda(folder)
    driver = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
    jump = ctypes.CDLL(os.path.join(folder, "libjump.so")) if sys.argv[3:] == ["jump"] else None
    launch = (jump or driver).cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    functions = []
    for i in range(n):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        driver.cuModuleLoadData(ctypes.byref(module), b"image")
        name = "early_kernel" if same else f"early_kernel_{i}"
        driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        functions.append(function)
    print("ready", flush=True)
    sys.stdin.read(1)
    for function in functions * LAUNCHES:
        launch(function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
    print("done", flush=True)
    sys.stdin.read(1)
    cuda.truth()


if __name__ == "__main__":
    main()
