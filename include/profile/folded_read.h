/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folded stacks ("comm;outermost;…;innermost COUNT"), stakeout's or another tool's, as a profile. A count is a sample:
 * the file says no more. So there is no time, and of threads what the first frame tells ("comm-PID/TID").
 */
#ifndef STAKEOUT_PROFILE_FOLDED_READ_H
#define STAKEOUT_PROFILE_FOLDED_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

/* Whether the bytes are a text, which a pprof message never is: it has bytes below blank near its beginning. */
bool folded_read__is_text(const void *bytes, size_t length);
/*
 * Blank lines and those that begin with '#' are passed over. -EINVAL: a line without a count, which the words name, or
 * no stack at all; -EFBIG, -ENOMEM. On failure *out is untouched.
 */
int folded_read(const void *bytes, size_t length, struct profile **out, struct so_error *err);

#endif
