/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A busy leaf at a given depth of user frames, counted from _start to the leaf. Runs until it is killed. Built without
 * frame pointers and, for the tools that need them, with. Usage: depth FRAMES
 */
#include "tests/workloads/work.h"

#define FRAMES_AROUND 5 /* _start, two of the C library's, main, the leaf */

FRAME uint64_t leaf(void)
{
	volatile uint64_t x = 1;

	for (;;)
		x = work__mix(x, 10000);
	return x;
}

/* The array, used after the call, keeps the compiler from making a loop of it. */
FRAME uint64_t descend(unsigned levels)
{
	volatile char pad[8];
	uint64_t below;

	pad[levels % sizeof(pad)] = 1;
	below = levels ? descend(levels - 1) : leaf();
	return below + (uint64_t)pad[levels % sizeof(pad)];
}

int main(int argc, char **argv)
{
	unsigned frames = argc > 1 ? (unsigned)atoi(argv[1]) : 16;

	work__ready();
	/* descend(n) makes n + 1 frames */
	return frames > FRAMES_AROUND ? (int)descend(frames - FRAMES_AROUND - 1) : (int)leaf();
}
