# SPDX-License-Identifier: GPL-2.0-or-later
"""A busy leaf under so many Python frames, of which some are called by C: that is where native frames come from since
3.11, some eight a call and a dozen around them. Runs until it is killed. Usage: python_depth.py FRAMES CALLS_BY_C"""
import sys

FRAMES_AROUND = 3  # the module, main(), the leaf


def leaf():
    x = 1
    while True:
        x = x * 3 & 0xFFFF


def descend(levels, by_c):
    if not levels:
        return leaf()
    if by_c:
        return sorted([levels], key=lambda n: descend(n - 2, by_c - 1))
    return descend(levels - 1, 0)


def main():
    print("ready", flush=True)
    # descend(n) makes n + 1 frames
    descend(int(sys.argv[1]) - FRAMES_AROUND - 1, int(sys.argv[2]))


if __name__ == "__main__":
    main()
