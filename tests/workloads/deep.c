/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Work below a recursion of a given depth. Usage: deep [seconds] [depth] */
#include "work.h"

FRAME uint64_t deep_leaf(double deadline)
{
	uint64_t first = 0;

	work__ready();
	while (work__now_s() < deadline)
		for (int i = 0; i < 100; i++)
			work__same(&first, work__mix(1, 10000));
	return first;
}

/* The array varies the frames' size; the addition after the call keeps it from being a jump. */
FRAME uint64_t deep_recurse(unsigned depth, double deadline)
{
	volatile char pad[40];
	uint64_t below;

	pad[depth % sizeof(pad)] = 1;
	below = depth <= 1 ? deep_leaf(deadline) : deep_recurse(depth - 1, deadline);
	return below + (uint64_t)pad[depth % sizeof(pad)];
}

int main(int argc, char **argv)
{
	unsigned depth = argc > 2 ? (unsigned)atoi(argv[2]) : 600;

	return work__done(deep_recurse(depth, work__deadline_s(argc, argv, 1, 10)));
}
