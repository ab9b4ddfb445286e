// SPDX-License-Identifier: GPL-2.0-or-later
// Millions of new and delete a second, of 16 to 500 bytes in 10,000 places, until it is killed. A unit is one of them.
// Usage: mallocs FILE
#include <cstring>

#include "tests/bench/counted.h"

static const unsigned PLACES = 10000;
static const unsigned ROUND = 1000;

static char *places[PLACES];

static void allocate(unsigned *random)
{
	*random = *random * 1664525u + 1013904223u;

	char *&place = places[(*random >> 8) % PLACES];
	unsigned bytes = 16 + (*random >> 20) % 485;

	delete[] place;
	place = new char[bytes];
	memset(place, 1, bytes);
}

int main(int argc, char **argv)
{
	volatile struct counted *counted = counted__open(argc > 1 ? argv[1] : "");
	unsigned random = 1;

	for (;;) {
		for (unsigned i = 0; i < ROUND; i++)
			allocate(&random);
		counted__add(counted, ROUND);
	}
}
