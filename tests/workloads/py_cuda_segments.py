# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory as allocators of growing segments have it: addresses are reserved, and memory is created and mapped there piece by piece
(PyTorch's expandable segments). Then host memory that is pinned where it is, an array, and a batch of more copies than are looked at.
The last line is truth as JSON. Usage: py_cuda_segments.py FOLDER [ROUNDS]; begins when a byte comes on standard input, ends when
another comes."""
import ctypes
import os
import sys

from py_cuda_training import Cuda

PIECE_BYTES, PINNED_BYTES, ARRAY_WIDTH = 2 << 20, 1 << 16, 500
BATCH_COPIES, BATCH_BYTES = 1500, 10


SIGNATURES = {  # p: a pointer, w: a word
    "cuMemCreate": "pwpw", "cuMemMap": "wwwww", "cuMemSetAccess": "wwpw", "cuMemUnmap": "ww", "cuMemRelease": "w",
    "cuMemRetainAllocationHandle": "pw",
    "cuMemHostRegister_v2": "pww", "cuArrayCreate_v2": "pp", "cuMemcpyBatchAsync_v2": "pppwppwp",
}


def driver_of(folder):
    """The driver's calls, with their arguments' types."""
    driver = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
    for name, arguments in SIGNATURES.items():
        getattr(driver, name).argtypes = [ctypes.c_void_p if letter == "p" else ctypes.c_uint64 for letter in arguments]
    return driver


class ArrayDescriptor(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("format", ctypes.c_int), ("channels", ctypes.c_uint)]


def grows(driver, at, kept):
    handle = ctypes.c_uint64()
    driver.cuMemCreate(ctypes.byref(handle), PIECE_BYTES, None, 0)
    driver.cuMemMap(at, PIECE_BYTES, 0, handle, 0)
    driver.cuMemSetAccess(at, PIECE_BYTES, None, 0)
    kept.append((at, handle))


def shrinks(driver, kept):
    at, handle = kept.pop()
    driver.cuMemUnmap(at, PIECE_BYTES)
    driver.cuMemRelease(handle)


class Properties(ctypes.Structure):  # CUmemAllocationProp, as far as its location
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int), ("id", ctypes.c_int)]


def pool(driver, at, pieces):
    """As llama.cpp has it: the handle is given back once it is mapped, and all is unmapped at once."""
    for i in range(pieces):
        handle = ctypes.c_uint64()
        driver.cuMemCreate(ctypes.byref(handle), PIECE_BYTES, None, 0)
        driver.cuMemMap(at + i * PIECE_BYTES, PIECE_BYTES, 0, handle, 0)
        driver.cuMemRelease(handle)


def retains(driver, at):
    """Asks for the handle of memory that stays, and gives it back."""
    handle = ctypes.c_uint64()
    driver.cuMemRetainAllocationHandle(ctypes.byref(handle), at)
    driver.cuMemRelease(handle)


def creates_for_host(driver):
    handle = ctypes.c_uint64()
    driver.cuMemCreate(ctypes.byref(handle), PIECE_BYTES, ctypes.byref(Properties(1, 0, 3, 0)), 0)


def pins(driver, buffer):
    driver.cuMemHostRegister_v2(buffer, PINNED_BYTES, 0)


def makes_arrays(driver):
    array = ctypes.c_void_p()
    driver.cuArrayCreate_v2(ctypes.byref(array), ctypes.byref(ArrayDescriptor(ARRAY_WIDTH, 0, 0x20, 4)))
    # Of a video's format, whose elements are not of whole channels.
    driver.cuArrayCreate_v2(ctypes.byref(array), ctypes.byref(ArrayDescriptor(ARRAY_WIDTH, 0, 0xB0, 3)))


def copies(driver):
    pointers, sizes = (ctypes.c_void_p * BATCH_COPIES)(), (ctypes.c_size_t * BATCH_COPIES)(*[BATCH_BYTES] * BATCH_COPIES)
    driver.cuMemcpyBatchAsync_v2(pointers, pointers, sizes, BATCH_COPIES, None, None, 0, None)


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    cuda, driver, kept = Cuda(sys.argv[1]), driver_of(sys.argv[1]), []
    buffer = ctypes.create_string_buffer(PINNED_BYTES)
    print("ready", flush=True)
    sys.stdin.read(1)
    for i in range(rounds):
        grows(driver, (1 << 46) + i * PIECE_BYTES, kept)
        if i % 2:
            shrinks(driver, kept)
    pool(driver, 1 << 45, 5)
    pool(driver, 1 << 44, 3)
    retains(driver, 1 << 44)
    driver.cuMemUnmap(1 << 45, 5 * PIECE_BYTES)
    creates_for_host(driver)
    pins(driver, buffer)
    makes_arrays(driver)
    copies(driver)
    print("done", flush=True)
    sys.stdin.read(1)
    cuda.truth()


if __name__ == "__main__":
    main()
