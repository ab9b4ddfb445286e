/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sizes and ages on a command line: a whole number and a letter. */
#ifndef STAKEOUT_UNITS_H
#define STAKEOUT_UNITS_H

#include <stdint.h>

#include "stakeout/error.h"

#define UNITS_MAX_BYTES  ((uint64_t)1 << 50)
#define UNITS_MAX_AGE_NS ((int64_t)3660 * 86400 * 1000000000) /* ten years */

/* "500M": K, M, G, T are powers of 1024; without a letter, bytes. -EINVAL: not a size, or not in [min, max]; in words. */
int units__bytes(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		 struct so_error *err);
/* "7d": s, m, h, d, of which one must be there. *out in ns. The same errors. */
int units__age(const char *option, const char *text, int64_t min_ns, int64_t max_ns, int64_t *out,
	       struct so_error *err);

#endif
