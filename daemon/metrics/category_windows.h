/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes the windows of kept targets for their counters by category (category_counters.h) where no history
 * takes them: when somebody asks for the counters, and once at a target's end. Where nobody has asked yet, nothing is
 * done. Once somebody has, a window that nobody asks for is taken all the same: when it is CATEGORY_WINDOWS_IDLE_NS
 * old, or its target begins a new generation of samples and the window would have to hold on to the old one.
 */
#ifndef STAKEOUT_CATEGORY_WINDOWS_H
#define STAKEOUT_CATEGORY_WINDOWS_H

#include <stddef.h>

#include "daemon/metrics/category_counters.h"
#include "daemon/engine/engine.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define CATEGORY_WINDOWS_MIN_NS      ((uint64_t)5000000000) /* of a window, at least, but for the last one */
#define CATEGORY_WINDOWS_PATIENCE_NS ((uint64_t)2000000000) /* for a call; a target that was begun is finished */
#define CATEGORY_WINDOWS_IDLE_NS     ((uint64_t)300000000000)

struct category_windows;

/* Both the caller's, must live longer. Starts a thread, which sleeps until there are windows. */
int category_windows__new(struct engine *engine, struct category_counters *counters, struct category_windows **out,
			  struct so_error *err);
/* All windows are given back. */
void category_windows__free(struct category_windows *windows);
CLEANUP_DEFINE(struct category_windows *, category_windows, category_windows__free)

/*
 * Brings the counters of those targets that are kept up to now: back to their attachment the first time. Leaves out
 * those of less than CATEGORY_WINDOWS_MIN_NS ago, and what there is no patience for, which comes first the next time.
 * Thread-safe.
 */
void category_windows__refresh(struct category_windows *windows, const struct target_info *targets, size_t n);

#endif
