// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_pace.h"

#include <math.h>

#define KEEP        0.97      /* of earlier times */
#define LEAST_WAITS 20        /* of either */
#define LEAST_TAKEN 0.05      /* of times on: less is no great error, and tells nothing of the factor */
#define ALIKE       2         /* waits in a time on, from which on each has the same phases of the target */
#define EDGES       (1.0 / 6) /* the square that a time on has by its ends, if waits come as regularly as they may */
#define LEAST_ERROR 0.05      /* of the factor: times on are no fair choice of a target's phases */
#define MOST_LOSS   2.0       /* beyond which the target did something else in times on */

void cuda_pace__add_off(struct cuda_pace *p, double ns, double waits)
{
	p->off_ns += ns;
	p->off_waits += waits;
}

void cuda_pace__add_on(struct cuda_pace *p, double ns, double waits, double taken_ns, double all_ns)
{
	double more;

	p->times = KEEP * p->times + 1;
	p->on_ns = KEEP * p->on_ns + ns;
	p->on_waits = KEEP * p->on_waits + waits;
	p->taken_ns = KEEP * p->taken_ns + taken_ns;
	p->all_ns = KEEP * p->all_ns + all_ns;
	more = p->on_ns > 0 ? waits - ns * p->on_waits / p->on_ns : 0;
	p->squares = KEEP * p->squares + more * more;
	p->off_ns *= KEEP;
	p->off_waits *= KEEP;
}

double cuda_pace__taken(const struct cuda_pace *p, double ns, double taken_ns)
{
	if (p->on_waits < LEAST_WAITS || p->on_waits < ALIKE * p->times || p->on_ns <= 0)
		return taken_ns;
	return ns * p->taken_ns / p->on_ns;
}

double cuda_pace__taken_of_active(const struct cuda_pace *p)
{
	return p->on_ns > 0 ? p->taken_ns / p->on_ns : 0;
}

double cuda_pace__taken_of_all(const struct cuda_pace *p)
{
	return p->all_ns > 0 ? p->taken_ns / p->all_ns : 0;
}

bool cuda_pace__loss(const struct cuda_pace *p, struct cuda_loss *out)
{
	double share, taken, error;

	if (p->on_waits < LEAST_WAITS || p->off_waits < LEAST_WAITS || p->taken_ns < LEAST_TAKEN * p->on_ns ||
	    p->on_ns <= 0)
		return false;
	share = p->off_ns / p->off_waits * p->on_waits / p->on_ns;
	taken = p->taken_ns / p->on_ns;
	/* Waits of times off come as regularly as those of times on, and are more. */
	error = fmax(p->squares, EDGES * p->times) / p->on_waits * (1 / p->on_waits + 1 / p->off_waits);
	*out = (struct cuda_loss){ .factor = (1 - share) / taken,
				   .error = hypot(share * sqrt(error) / taken, LEAST_ERROR) };
	out->chance = out->error;
	if (fabs(out->factor - MOST_LOSS / 2) > MOST_LOSS / 2 + 2 * out->error)
		return false;
	out->factor = fmax(out->factor, 0);
	return true;
}
