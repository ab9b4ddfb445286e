/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that PyTorch's allocator has given out on GPUs as samples of a profile, and what it says of each device. */
#ifndef STAKEOUT_TORCH_PROFILE_H
#define STAKEOUT_TORCH_PROFILE_H

#include "daemon/kernel/torch_probes.h"
#include "daemon/profile/profile_export.h"

/* The values of a sample, in this order: the first four as the readers of Go's heap profiles have them. */
enum torch_value {
	TORCH_ALLOCATED_OBJECTS, /* alloc_objects: blocks given out since the target is watched so */
	TORCH_ALLOCATED,         /* alloc_space: bytes of these */
	TORCH_IN_USE_OBJECTS,    /* inuse_objects: blocks that are in use now */
	TORCH_IN_USE,            /* inuse_space: bytes of these */
	TORCH_PEAK,              /* peak_space: the most that this stack had in use at a time */
	TORCH_REFUSED,           /* refused_space: bytes that there was no memory for */
	TORCH_IN_USE_THEN,       /* refused_inuse_space: bytes that were in use when that happened last */
	TORCH_VALUES,
};
extern const struct profile_value_type torch_value_types[TORCH_VALUES];

/* What is in use has its time to that part of the time. */
#define TORCH_PROFILE_SPANS 20

/* Frames in the place of a stack: it was not taken, as the budget was used up; it was, and lost. */
#define TORCH_NO_STACK   "[no-stack-taken]"
#define TORCH_LOST_STACK "[stack-lost]"

struct torch_profile {
	const struct torch_reading *reading;
	const struct accumulator *stacks;
	const struct u64_table *gone;   /* processes that have ended: they have nothing in use; NULL: none has */
	const struct u64_table *hidden; /* those of which nothing is said; NULL: none */
	const struct u64_table *copies; /* torch_reading__is_copy(): such devices are left out; NULL: none is */
	uint64_t since_ns, end_ns;      /* of the time that is looked at */
};

/* "CUDA 0", "HIP 1"; without a number where the program gave none. */
void torch_profile__device(uint32_t device, char text[16]);
/* Blocks of one process, device, stack and span of time. */
struct torch_group {
	struct so_torch_site_key key;
	unsigned span;
	uint64_t blocks, bytes;
};
/* Those in use, by stack. malloc'ed; NULL: no memory. */
struct torch_group *torch_profile__groups(const struct torch_profile *torch, size_t *n);
/* Adds the samples, into a builder of torch_value_types. -ENOMEM. */
int torch_profile__samples(const struct profile_source *source, const struct torch_profile *torch,
			   struct profile_builder *builder);
/* Processes of which nothing is said, though they have devices. */
unsigned torch_profile__hidden(const struct torch_profile *torch);
/* [{"pid", "device", "allocated_bytes", …}]: a JSON text, malloc'ed; NULL: no memory. */
char *torch_profile__devices(const struct torch_profile *torch);

#endif
