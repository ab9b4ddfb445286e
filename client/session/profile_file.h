/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A profile in a file: pprof, or folded stacks. The content tells which. */
#ifndef STAKEOUT_CLIENT_PROFILE_FILE_H
#define STAKEOUT_CLIENT_PROFILE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* All zero is an empty one. */
struct profile_file {
	uint8_t *bytes; /* as they came */
	size_t length;
	bool folded;
	struct profile *profile;
};

/*
 * path "-": standard input. value: a type of values as profile__read_value() takes it, or NULL; folded ones have none.
 * -EFBIG: more than PROFILE_MAX_BYTES; -EINVAL: neither form; other -errno, all in words.
 */
int profile_file__read(const char *path, const char *value, struct profile_file *out, struct so_error *err);
void profile_file__release(struct profile_file *file);
CLEANUP_DEFINE_OF(struct profile_file, profile_file, profile_file__release)

#endif
