/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of allocations.h have in common. With the engine's lock. */
#ifndef STAKEOUT_ALLOCATIONS_INTERNAL_H
#define STAKEOUT_ALLOCATIONS_INTERNAL_H

#include "daemon/targets/allocations.h"

/* allocations_processes.c: asks for scans of those that may have an allocator by now; forgets those that have ended. */
void allocations_look_at_processes(struct allocations *a, struct target *t);
/* Adds to the sums of CPU time and of waiting what came since it was called last. */
void allocations_count_processes(struct target_allocations *allocations);
/* Asks for the probes of all processes that have none, and takes all away. */
void allocations_place_all(struct allocations *a, struct target *t);
void allocations_remove_all(struct target_allocations *allocations);
/* Takes note of the probes that are there by now, or were refused; how many links are not yet. */
unsigned allocations_in_progress(struct target_allocations *allocations);
/* Probes that come or go for so long are said to. */
#define ALLOCATIONS_LATE_NS 1000000000ull
/* Whether some are still going: no window may begin. */
bool allocations_going(struct allocations *a, const struct target_allocations *allocations);

/* allocations_windows.c: the first window begins. */
void allocations_begin_windows(struct allocations *a, struct target *t);
/* Ends windows and begins others. */
void allocations_turn_windows(struct allocations *a, struct target *t);
/* What the probes cost until now is added to the sums. */
void allocations_account(struct allocations *a, struct target *t);

#endif
