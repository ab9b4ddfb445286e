/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What two sides can be compared by, where the daemon had no time to read the source lines of some native functions on
 * one of them: such a function has neither lines nor inlined functions there, and would look changed.
 */
#ifndef STAKEOUT_CLIENT_DIFF_COMMON_LINES_H
#define STAKEOUT_CLIENT_DIFF_COMMON_LINES_H

#include <stddef.h>

#include "profile/profile.h"
#include "stakeout/intern.h"

struct common_lines {
	struct intern functions; /* by name: those without lines in a profile that says that lines are missing */
};

/* Notes which native functions lack lines in this profile. -ENOMEM. */
int common_lines__note(struct common_lines *common, const struct profile *profile);
/* Removes lines and inlined functions of all noted functions from a profile. */
void common_lines__apply(const struct common_lines *common, struct profile *profile);
void common_lines__clear(struct common_lines *common);
CLEANUP_DEFINE_OF(struct common_lines, common_lines, common_lines__clear)

#endif
