/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The bytes of a profile in a file. */
#ifndef STAKEOUT_CLIENT_PROFILE_FILE_H
#define STAKEOUT_CLIENT_PROFILE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "stakeout/error.h"

/* path "-": standard input. *out is malloc'ed. -EFBIG: more than PROFILE_MAX_BYTES; other -errno in words. */
int profile_file__read(const char *path, uint8_t **out, size_t *length, struct so_error *err);

#endif
