/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A known split of CPU time: 50 % below split_fifty, 30 % below split_thirty, 20 % below split_twenty. All three
 * call the same function for the same number of rounds, so the shares follow from the number of calls. The calls
 * come in bags of ten, 5 + 3 + 2, each bag in a random order, so that no sampling period can run in step with
 * them. Usage: split [seconds] [rounds a call]; ends early on SIGTERM.
 */
#include <signal.h>

#include "work.h"

static volatile sig_atomic_t ended;

FRAME uint64_t split_kernel(uint64_t x, unsigned rounds)
{
	return work__mix(x, rounds);
}

FRAME uint64_t split_fifty(uint64_t x, unsigned rounds)
{
	return split_kernel(x, rounds) + 50;
}

FRAME uint64_t split_thirty(uint64_t x, unsigned rounds)
{
	return split_kernel(x, rounds) + 30;
}

FRAME uint64_t split_twenty(uint64_t x, unsigned rounds)
{
	return split_kernel(x, rounds) + 20;
}

/* One bag; the sum does not depend on the order. */
FRAME uint64_t split_bag(uint64_t *order, unsigned rounds)
{
	static uint64_t (*const calls[10])(uint64_t, unsigned) = {
		split_fifty,  split_fifty,  split_fifty,  split_fifty,  split_fifty,
		split_thirty, split_thirty, split_thirty, split_twenty, split_twenty,
	};
	unsigned turn[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	uint64_t sum = 0;

	for (unsigned i = 9; i > 0; i--) {
		unsigned j, t = turn[i];

		*order = work__mix(*order, 1);
		j = (unsigned)(*order >> 32) % (i + 1);
		turn[i] = turn[j];
		turn[j] = t;
	}
	for (unsigned i = 0; i < 10; i++)
		sum += calls[turn[i]](turn[i] + 1, rounds);
	return sum;
}

static void on_term(int number)
{
	(void)number;
	ended = 1;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 20000;
	uint64_t order = (uint64_t)time(NULL) * 2 + 1, first = 0;

	signal(SIGTERM, on_term);
	work__ready();
	while (!ended && work__now_s() < deadline)
		work__same(&first, split_bag(&order, rounds));
	return work__done(first);
}
