/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_PROFILE_GUNZIP_H
#define STAKEOUT_PROFILE_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/error.h"

bool gunzip__is_gzip(const void *bytes, size_t length);
/*
 * Inflates all members of a gzip file (RFC 1952; `cat a.gz b.gz` makes two). Zeros may follow the last one.
 * *out: malloc'ed. -EINVAL: truncated or damaged; -EFBIG: more than max_bytes come out of it; -ENOMEM.
 */
int gunzip(const void *bytes, size_t length, size_t max_bytes, uint8_t **out, size_t *out_length, struct so_error *err);

#endif
