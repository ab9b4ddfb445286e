// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_stack_plan.h"

#include <math.h>

#define LONG_ONES  SO_CUDA_KIND_ROOM
#define CLAIMS     (LONG_ONES + 1)
#define LEAST_NS   1e6 /* of calls, that a stack is taken of: all threads may begin to wait between two looks */
#define MAX_PERIOD 1e6

/* Of the others each call is worth a stack. */
static const bool many_and_alike[SO_CUDA_KIND_ROOM] = {
	[SO_CUDA_LAUNCH] = true,     [SO_CUDA_GRAPH_LAUNCH] = true, [SO_CUDA_FREE] = true,
	[SO_CUDA_ASYNC_FREE] = true, [SO_CUDA_EVENT] = true,        [SO_CUDA_QUERY] = true,
};

static double sum_up_to(const double *claims, double level)
{
	double sum = 0;

	for (unsigned i = 0; i < CLAIMS; i++)
		sum += fmin(claims[i], level);
	return sum;
}

/* The most stacks a second that each may have for all to come to `most`. */
static double level_of(const double *claims, double most)
{
	double low = 0, high = 1e9;

	if (sum_up_to(claims, high) <= most)
		return high;
	for (unsigned i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (sum_up_to(claims, middle) > most)
			high = middle;
		else
			low = middle;
	}
	return fmax(low, 1e-3);
}

void cuda_stack_plan__make(const double rate[SO_CUDA_KIND_ROOM], const double busy[SO_CUDA_KIND_ROOM], double most,
			   struct cuda_stack_plan *out)
{
	double claims[CLAIMS] = { 0 }, in_calls = 0, level;

	for (unsigned i = 0; i < SO_CUDA_KIND_ROOM; i++) {
		claims[i] = many_and_alike[i] ? fmin(rate[i], CUDA_STACKS_PER_S) : rate[i];
		in_calls += busy[i];
	}
	claims[LONG_ONES] = fmin(in_calls / LEAST_NS, CUDA_STACKS_PER_S);
	level = level_of(claims, most);
	out->fewer = sum_up_to(claims, level) < sum_up_to(claims, INFINITY) * 0.999;
	for (unsigned i = 0; i < SO_CUDA_KIND_ROOM; i++) {
		/* Of a kind that was not called a burst may come, of which not each is worth a stack. */
		double period = claims[i] > 0 ? rate[i] / fmin(claims[i], level) : many_and_alike[i] ? 100 : 1;

		out->period[i] = (uint32_t)fmin(ceil(period - 1e-9), MAX_PERIOD);
	}
	out->time_ns = (uint64_t)(claims[LONG_ONES] > 0 ? in_calls / fmin(claims[LONG_ONES], level) : LEAST_NS);
}
