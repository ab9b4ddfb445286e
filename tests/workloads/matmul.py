# SPDX-License-Identifier: GPL-2.0-or-later
"""numpy with BLAS: products, a solver and elementwise functions. Usage: matmul.py [seconds]"""
import sys
import time

import numpy


def product(a, b):
    return a @ b


def solve(a, b):
    return numpy.linalg.solve(a, b)


def elementwise(a):
    return numpy.sort(numpy.exp(numpy.sin(a)), axis=0)


def main():
    deadline = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    rng = numpy.random.default_rng(1)
    a, b = rng.random((300, 300)), rng.random((300, 300))
    print("ready", flush=True)
    first = None
    while time.monotonic() < deadline:
        total = float(numpy.round(elementwise(product(a, b)).sum() + solve(a, b).sum(), 3))
        first = total if first is None else first
        assert abs(total - first) < 1e-2 * abs(first)
    print("checksum numpy", flush=True)


if __name__ == "__main__":
    main()
