/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rounds of a fixed length, as a game, a codec or a control loop has them: first_part and second_part work for three
 * tenths of the round each, and it sleeps for the rest. Usage: resonant [seconds] [round in ns]
 */
#include <errno.h>
#include <sched.h>

#include "work.h"

static struct timespec at(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

static inline uint64_t work_until(uint64_t ns)
{
	struct timespec t;
	uint64_t x = 17;

	do {
		x = work__mix(x, 300);
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((uint64_t)t.tv_sec * 1000000000 + t.tv_nsec < ns);
	return x;
}

FRAME uint64_t first_part(uint64_t until_ns)
{
	return work_until(until_ns) + 1;
}

FRAME uint64_t second_part(uint64_t until_ns)
{
	return work_until(until_ns) + 2;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	uint64_t round_ns = argc > 2 ? strtoull(argv[2], NULL, 10) : 5050505, begin_ns;
	struct sched_param param = { .sched_priority = 1 };

	/* Others are to delay it little. Where that is not permitted it keeps its rounds less well. */
	sched_setscheduler(0, SCHED_FIFO, &param);
	work__ready();
	begin_ns = (uint64_t)(work__now_s() * 1e9);
	while (work__now_s() < deadline) {
		struct timespec next;

		first_part(begin_ns + round_ns * 3 / 10);
		second_part(begin_ns + round_ns * 6 / 10);
		begin_ns += round_ns;
		next = at(begin_ns);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
			;
	}
	return work__done(1);
}
