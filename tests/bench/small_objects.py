# SPDX-License-Identifier: GPL-2.0-or-later
"""Small objects that are made and dropped all the time, in 10,000 places. A unit is one that replaces another.
Usage: small_objects.py FILE"""
import sys

import counted

PLACES, ROUND = 10000, 500


class Record:
    def __init__(self, number):
        self.number, self.words = number, [number, str(number)]


def replace(places, number):
    places[number * 7919 % PLACES] = Record(number)


def main():
    places = [None] * PLACES
    count = counted.Counted(sys.argv[1])
    number = 0
    while True:
        for _ in range(ROUND):
            number += 1
            replace(places, number)
        count.add(ROUND)


if __name__ == "__main__":
    main()
