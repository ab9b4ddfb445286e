/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which row of the new side is which of the base: by name; without a namesake a function by its name without its file,
 * where that is the only one left on either side (a renamed binary, a moved module); lines by their function, and
 * within it by their place, so that lines which only moved are the same.
 */
#ifndef STAKEOUT_CLIENT_DIFF_MATCH_H
#define STAKEOUT_CLIENT_DIFF_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "client/diff/side.h"

#define MATCH_NONE UINT32_MAX

/* Of each row of `now` the row of `base`, or MATCH_NONE. The caller's; NULL: no memory. */
uint32_t *match__rows(const struct side *base, const struct side *now);

struct line_amount {
	int64_t line;  /* 0 or more */
	double amount; /* of the same unit on both sides: a step, say */
};

/*
 * Both sorted by line, each once. Of each line of `now` the index in `base`, or MATCH_NONE. Lines keep their order, and
 * move together: a distance is given up for another one where that makes a twentieth of the function's time meet.
 * -ENOMEM.
 */
int match__lines(const struct line_amount *base, size_t n_base, const struct line_amount *now, size_t n_now,
		 uint32_t *out);

#endif
