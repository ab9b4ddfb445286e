/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the memory of targets grows (.design/memory.md): pages that are touched for the first time, and how much is
 * resident over time. With the engine's lock held, but for memory_watch__load().
 */
#ifndef STAKEOUT_MEMORY_WATCH_H
#define STAKEOUT_MEMORY_WATCH_H

#include "daemon/kernel/page_sampler.h"
#include "daemon/processes/process_table.h"
#include "daemon/targets/targets.h"

/*
 * Of the target's time, what seeing its page faults may take: of one that is kept, and of a look of seconds. Beyond it
 * they are left alone for a while.
 */
#define MEMORY_WATCH_STANDING_PERCENT 1
#define MEMORY_WATCH_LOOK_PERCENT     3

/* Targets that are watched so at a time; those of all users other than root, and of one. */
#define MEMORY_WATCH_MAX       16
#define MEMORY_WATCH_MAX_USERS 12
#define MEMORY_WATCH_MAX_USER  4

struct memory_watch {
	struct page_sampler *pages; /* loaded when first needed */
	struct process_table *processes;
	struct targets *targets;
};

/* Without the lock. -ENOTSUP, in words. */
int memory_watch__load(struct memory_watch *m, const struct sampler *sampler, struct so_error *err);
void memory_watch__free(struct memory_watch *m);

/*
 * A target, or a view of one, wants it; once the target is there. -ENOSPC: too many do, in words; -errno: of the
 * kernel.
 */
int memory_watch__begin(struct memory_watch *m, struct target *t, struct so_error *err);
/* It does not any more; what was seen stays. */
void memory_watch__end(struct memory_watch *m, struct target *t);
/* Pages were touched, by a stack that may not have come (NULL). */
void memory_watch__touched(struct memory_watch *m, const struct so_page_record *record, const struct stack *stack);
/* Returns when it wants to be called again; UINT64_MAX: nothing is watched. */
uint64_t memory_watch__tick(struct memory_watch *m, uint64_t now_ns);
void memory_watch__release(struct target_memory *memory);

/* At the last reading; not known of one that is not watched so. */
struct target_memory_now memory_watch__now(const struct target *t);

/* Of a target, or of a view, for work without the lock. */
struct memory_taken {
	uint64_t since_ns; /* from when on it is known */
	struct live_pages pages;
	char *series; /* memory_series__text() */
	struct memory_figures figures;
};
/* As of now. -ENODATA: it is not watched so, in words; -ENOMEM. To be released in any case. */
int memory_watch__take(struct memory_watch *m, struct target *t, struct memory_taken *out, struct so_error *err);
void memory_taken__release(struct memory_taken *taken);

#endif
