/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of the growth of a target's memory (memory_watch.h). */
#ifndef STAKEOUT_TARGET_MEMORY_H
#define STAKEOUT_TARGET_MEMORY_H

#include "daemon/memory/live_pages.h"
#include "daemon/memory/memory_series.h"

/* What seeing page faults has cost, and why some were not seen. Sums since the target began to be watched so. */
struct memory_figures {
	uint64_t stacks, randoms; /* taken by page, and at random (stakeout/pages_abi.h) */
	uint64_t lost;            /* touches without a stack: no room in the ring, or in memory */
	uint64_t hidden;          /* by threads that the target's user may not look into */
	uint64_t faults;          /* of the target while it was watched */
	/* What that took of its CPU time, or of what went by but for waiting for a CPU, where that is more. */
	uint64_t cost_ns, time_ns;
	uint64_t paused_ns;  /* its faults came too fast to be seen within the budget */
	uint32_t threshold;  /* now */
	bool many_processes; /* some were left out of the series */
};

/* Of all processes of a target. */
struct memory_sum {
	uint64_t most;
	unsigned less; /* looks since it was so much */
};

/* All zero: it was never watched so. */
struct target_memory {
	bool asked;     /* the target, or this view, was attached so, */
	bool wanted;    /* and has not ended, */
	unsigned views; /* or by so many of its views */
	bool on;        /* so it is watched; */
	bool paused;    /* but not now: the budget is used up */
	uint64_t on_ns, paused_since_ns;
	uint64_t next_tick_ns, next_raise_ns;
	uint64_t stacks_before, randoms_before; /* at the last raise */
	/* At the last tick; of all processes together. */
	uint64_t looked_ns, run_before, waited_before;
	struct memory_sum faults_sum, cpu_sum;
	int64_t credit_ns;
	struct memory_figures figures;
	struct live_pages pages;
	struct memory_series series;
};

#endif
