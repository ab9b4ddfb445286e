/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory given back all at once, with a limit for what foreign files ask for. Small pieces cost no header. */
#ifndef STAKEOUT_PROFILE_ARENA_H
#define STAKEOUT_PROFILE_ARENA_H

#include <stddef.h>

#include "stakeout/cleanup.h"

struct arena;

/* limit_bytes: of everything taken from the system. NULL: out of memory. */
struct arena *arena__new(size_t limit_bytes);
/* Aligned to 16 bytes, not zeroed; size 0 gives an address too. NULL: see arena__error(). */
void *arena__alloc(struct arena *arena, size_t size);
/* The same for n elements; the product is checked. */
void *arena__array(struct arena *arena, size_t n, size_t size);
/* Why the last arena__alloc() failed: -EFBIG (the limit) or -ENOMEM; 0 when none has. */
int arena__error(const struct arena *arena);
void arena__free(struct arena *arena);
CLEANUP_DEFINE(struct arena *, arena, arena__free)

#endif
