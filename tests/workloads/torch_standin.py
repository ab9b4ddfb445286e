# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for PyTorch's caching allocator: counts, and reports to the libc10 that it is given, as the true one does.

Loaded under the name of an installed package (py_gpu_memory.py), so that the line that is told is its caller's.
"""
import ctypes
import itertools

CUDA = 1
SEGMENT = 2 << 20


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


class Library:
    """The functions of a libc10, whichever form it has."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.report_many = getattr(library, "report_many", None)
        for totals in ("mm", "ll"):
            try:
                self.memory = library[f"_ZN3c1027reportMemoryUsageToProfilerEPvl{totals}NS_6DeviceE"]
                self.refused = library[f"_ZN3c1027reportOutOfMemoryToProfilerEl{totals}NS_6DeviceE"]
            except AttributeError:
                continue
            break
        else:
            # Of a form that reports no totals: nothing is reported.
            self.memory = self.refused = lambda *_: None
            return
        self.memory.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, Device]
        self.refused.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, Device]
        self.memory.restype = self.refused.restype = None


class Allocator:
    """Of one device."""

    _addresses = itertools.count(0x7F1200000000, 1 << 30)

    def __init__(self, library, index, kind=CUDA):
        self.library, self.device = library, Device(kind, index)
        self.allocated = self.reserved = 0
        self.free_addresses, self.next = {}, next(self._addresses)
        self.sizes = {}

    def allocate(self, size):
        addresses = self.free_addresses.get(size)
        address = addresses.pop() if addresses else self.next
        if address == self.next:
            self.next += size
        self.sizes[address] = size
        self.allocated += size
        self.reserved = max(self.reserved, -(-self.allocated // SEGMENT) * SEGMENT)
        self.library.memory(address, size, self.allocated, self.reserved, self.device)
        return address

    def free(self, address):
        size = self.sizes.pop(address)
        self.free_addresses.setdefault(size, []).append(address)
        self.allocated -= size
        self.library.memory(address, -size, self.allocated, self.reserved, self.device)

    def refuse(self, size):
        self.library.refused(size, self.allocated, self.reserved, self.device)
