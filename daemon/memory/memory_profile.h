/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The growth of a target's memory as samples of a profile, as the readers of Go's heap profiles have it. */
#ifndef STAKEOUT_MEMORY_PROFILE_H
#define STAKEOUT_MEMORY_PROFILE_H

#include <stdbool.h>

#include "daemon/memory/live_pages.h"
#include "daemon/profile/profile_export.h"

/* The values of a sample, bytes, in this order. */
enum memory_value {
	MEMORY_ALLOCATED, /* alloc_space: touched for the first time by this stack */
	MEMORY_IN_USE,    /* inuse_space: of that, what is there now */
	MEMORY_VALUES,
};
extern const struct profile_value_type memory_value_types[MEMORY_VALUES];

/* What is in use has its time to that part of the recording. */
#define MEMORY_PROFILE_SPANS 20

struct memory_profile {
	struct live_pages *pages;  /* put into another order */
	bool *in_use;              /* of each of these */
	uint64_t since_ns, end_ns; /* of the recording */
};

/* Puts pages in the order of their processes and addresses. */
void memory_profile__sort(struct live_pages *pages);
/*
 * Adds a sample for each counter of SAMPLE_ALLOC in source->acc, and for what each thread and stack has in use of each
 * span of time, into a builder of memory_value_types. -ENOMEM.
 */
int memory_profile__samples(const struct profile_source *source, const struct memory_profile *memory,
			    struct profile_builder *builder);

#endif
