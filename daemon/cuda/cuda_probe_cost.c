// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_probe_cost.h"

#include <math.h>

#define MAX_SLOWDOWN 20
/*
 * Programs with more code and data of their own than the calibration has lose more behind a probe than its entry tells. Ten programs (C with
 * 17 KiB to 0.9 MiB of code, Python, numpy, PyTorch's training), rounds a second with and without probes: 0.93 to 1.2 of the interpolated
 * cost at a quarter of the way, 1.2 to 1.5 from half of it on.
 */
#define MORE_BEHIND 0.4 /* of the cost, with cold caches */

/* warm, and so much of the way to cold. */
static double slowed(double warm, double cold, double part)
{
	return fmin(fmax(warm + part * (cold - warm), warm), MAX_SLOWDOWN * warm);
}

/* So many times as slow as in a loop, for want of a second point. */
static void slow_down(struct cuda_probe_cost *cost, double by)
{
	by = fmin(by, MAX_SLOWDOWN);
	cost->pair_ns *= by;
	cost->light_ns *= by;
	cost->nested_ns *= by;
	cost->stepped_ns *= by;
}

struct cuda_probe_cost cuda_probe_cost__at(const struct cuda_probe_cost *cost, double program_ns)
{
	struct cuda_probe_cost at = *cost;
	double warm = cost->program_ns, more = cost->cold.program_ns - warm, part, behind;

	if (!(program_ns > warm) || !(warm > 0) || !(cost->pair_ns > 0))
		return at;
	at.program_ns = program_ns;
	at.coldness = fmin(program_ns / warm - 1, 1);
	if (!(more > 0)) {
		slow_down(&at, program_ns / warm);
		return at;
	}
	part = fmin((program_ns - warm) / more, 3);
	at.coldness = fmin(part, 1);
	behind = 1 + MORE_BEHIND * at.coldness;
	at.pair_ns = behind * slowed(cost->pair_ns, cost->cold.pair_ns, part);
	at.light_ns = fmin(behind * slowed(cost->light_ns, cost->cold.light_ns, part), at.pair_ns);
	at.nested_ns = behind * slowed(cost->nested_ns, cost->cold.nested_ns, part);
	at.stepped_ns = slowed(cost->stepped_ns, cost->cold.stepped_ns, part);
	at.floor_ns = slowed(cost->floor_ns, cost->cold.floor_ns, part);
	return at;
}
