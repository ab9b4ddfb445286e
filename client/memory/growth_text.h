/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words for growth (growth.h), as `stakeout memory` prints them of a recording, of the past, and of GPUs. */
#ifndef STAKEOUT_CLIENT_GROWTH_TEXT_H
#define STAKEOUT_CLIENT_GROWTH_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "client/memory/growth.h"

/* MB a minute, of bytes a second; what rounds to nothing is 0. */
double growth_text__per_minute(double bytes_per_s);
/* "growing: +60.2 MB a minute [+59.8, +60.7]", without the end of the line. */
void growth_text__print(const struct growth_kind *kind, FILE *out);
/* A line each for files and shared memory, where they grow or shrink: that is not memory of the process's own. */
void growth_text__print_others(const struct growth *growth, FILE *out);
/* "verdict", "bytes", "growth_bytes", "bytes_per_s" with "_low" and "_high". New reference; NULL: no memory. */
json_t *growth_text__json(const struct growth_kind *kind);

#endif
