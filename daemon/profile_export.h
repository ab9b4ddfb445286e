/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Turns a target's accumulated stacks into a profile: names for addresses, one location a frame. */
#ifndef STAKEOUT_PROFILE_EXPORT_H
#define STAKEOUT_PROFILE_EXPORT_H

#include "daemon/accumulator.h"
#include "daemon/file_registry.h"
#include "daemon/kallsyms.h"
#include "daemon/profile_builder.h"

struct profile_source {
	const struct accumulator *acc;
	struct file_registry *files;
	const struct kallsyms *kernel; /* NULL: kernel addresses stay without names */
	/* For processes that have ended: whether they ran in the daemon's own namespaces, and as whom. */
	bool own_namespaces;
	uid_t uid;
};

/* Adds all samples. -ENOMEM. */
int profile_export__samples(const struct profile_source *source, struct profile_builder *builder);

#endif
