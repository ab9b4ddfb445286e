/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that realign their stack, as vectorised code does: the compiler saves the caller's stack pointer in
 * r10 and on the stack, and .eh_frame describes the frame by a dereference. Usage: realign [seconds]
 */
#include <alloca.h>

#include "work.h"

FRAME uint64_t realign_leaf(uint64_t x)
{
	return work__mix(x, 5000) + 1;
}

/* 32-byte alignment, as AVX spills need. */
FRAME uint64_t realign_32(uint64_t x)
{
	volatile uint64_t lanes[4] __attribute__((aligned(32)));

	for (int i = 0; i < 4; i++)
		lanes[i] = x + (uint64_t)i;
	return realign_leaf(lanes[0]) + lanes[1] + lanes[2] + lanes[3];
}

/* 64-byte alignment with a frame of changing size, two levels of realignment on one stack. */
FRAME uint64_t realign_64(uint64_t x, unsigned bytes)
{
	volatile uint64_t lanes[8] __attribute__((aligned(64)));
	volatile char *more = alloca(bytes);

	more[0] = (char)bytes;
	for (int i = 0; i < 8; i++)
		lanes[i] = x + (uint64_t)i;
	return realign_32(lanes[0]) + lanes[7] + (uint64_t)more[0];
}

FRAME uint64_t realign_caller(double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, realign_64(7, 24) + 1);
	return first;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);

	work__ready();
	return work__done(realign_caller(deadline) + 1);
}
