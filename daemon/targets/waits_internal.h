/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For waits.c and waits_look.c. */
#ifndef STAKEOUT_WAITS_INTERNAL_H
#define STAKEOUT_WAITS_INTERNAL_H

#include "daemon/targets/waiting_threads.h"
#include "daemon/targets/waits.h"

struct waits {
	struct waits_parts parts;
	pthread_mutex_t look_lock;  /* looks are made one at a time; comes before the engine's */
	struct thread_looks *looks; /* NULL: not loaded yet; with the engine's lock, but for who has look_lock */
	struct waiting_threads *threads;
	uint64_t last_look_ns, look_before_ns; /* when the last two that were whole began */
	uint64_t last_update_ns;
	uint64_t next_sweep_ns;
	uint64_t cost_ns; /* of a look, CPU time: the last ones count most */
	uint64_t next_settle_ns;
	bool failing; /* the last look did, which has been logged */
};

/* Whose threads are looked at; NULL: they are not, or not any more. With the engine's lock. */
static inline struct target *waits__target_of(const struct waits *w, const struct process *p)
{
	struct target *t = p && !p->gone ? targets__of_slot(w->parts.targets, p->kernel.slot) : NULL;

	return t && t->info.wall && !t->wall_refused && t->info.state == TARGET_SAMPLING ? t : NULL;
}

struct look_outcome {
	int error;        /* 0: the kernel gave all threads that there are */
	size_t moved;     /* threads that ran on while they were looked at */
	uint64_t read_ns; /* CPU time for going through the threads */
};

/* One pass, with look_lock held and not the engine's. catches: the stacks of threads that wait and have run. */
void waits__look_once(struct waits *w, bool catches, struct look_outcome *out);

#endif
