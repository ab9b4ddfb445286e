/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of allocators as samples of a profile, and their sums by allocator. */
#ifndef STAKEOUT_ALLOC_PROFILE_H
#define STAKEOUT_ALLOC_PROFILE_H

#include "daemon/kernel/alloc_probes.h"
#include "daemon/memory/alloc_lives.h"
#include "daemon/profile/profile_export.h"

/* The values of a sample, in this order: the first four as the readers of Go's heap profiles have them. */
enum alloc_value {
	ALLOC_ALLOCATED_OBJECTS, /* alloc_objects: calls since the target is watched so */
	ALLOC_ALLOCATED,         /* alloc_space: bytes of these */
	ALLOC_IN_USE_OBJECTS,    /* inuse_objects: blocks of these that are in use now */
	ALLOC_IN_USE,            /* inuse_space: bytes of these */
	ALLOC_FREED_OBJECTS,     /* freed_objects: blocks that were seen to be freed */
	ALLOC_FREED,             /* freed_space: bytes of these, with the label age_ns */
	ALLOC_VALUES,
};
extern const struct profile_value_type alloc_value_types[ALLOC_VALUES];

/* What is in use has its time to that part of the time. */
#define ALLOC_PROFILE_SPANS 20

/* The frame in the place of a stack that was taken, and lost. */
#define ALLOC_LOST_STACK "[stack-lost]"

struct alloc_profile {
	const struct alloc_reading *reading;
	const struct accumulator *stacks;
	const struct alloc_lives *lives;
	uint64_t since_ns, end_ns; /* of the time that is looked at */
	double scale;              /* of what was seen in windows; 1 or more */
};

/* Of one allocator; weighted, but for `chosen`. */
struct alloc_sums {
	double bytes, calls, freed, in_use, chosen;
};
/*
 * Adds the samples, into a builder of alloc_value_types, and the sums of each allocator. Calls that an allocator makes
 * of another one are left out: *nested has how many were chosen. -ENOMEM.
 */
int alloc_profile__samples(const struct profile_source *source, const struct alloc_profile *profile,
			   struct profile_builder *builder, struct alloc_sums sums[SO_ALLOC_N_KINDS], uint64_t *nested);
/* [{"allocator", "bytes", …}] of those that were called: a JSON text, malloc'ed; NULL: no memory. */
char *alloc_profile__sums_text(const struct alloc_sums sums[SO_ALLOC_N_KINDS]);

#endif
