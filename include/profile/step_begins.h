/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When a thread's steps began, or when it entered a counted function, as a comment of the profile says it
 * (.design/profile-format.md).
 */
#ifndef STAKEOUT_PROFILE_STEP_BEGINS_H
#define STAKEOUT_PROFILE_STEP_BEGINS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "stakeout/cleanup.h"

#define STEP_BEGINS_MOST_NS (INT64_MAX / 4) /* later, or longer, is nothing that was */

struct step_begins {
	int64_t pid, tid;
	int64_t *ns; /* since the profile's begin, ascending; the caller's, with room for one more */
	size_t n;
};

static inline void step_begins__clear(struct step_begins *begins)
{
	free(begins->ns);
	begins->ns = NULL;
}
CLEANUP_DEFINE(struct step_begins *, step_begins, step_begins__clear)

/* What stands behind "stakeout.steps=" in that comment; NULL: it is another one. */
const char *step_begins__text(const char *comment);
/* What stands behind "stakeout.entries=", the same of a counted function; *name: that function. NULL: another one. */
const char *step_begins__entries(const char *comment, const char **name);
/* The name of a function that was counted, whether it was entered or not; NULL: the comment says another thing. */
const char *step_begins__counted(const char *comment);
/* How many steps that text has, at the most. */
size_t step_begins__count(const char *text);
/* -EINVAL: the text is of another form; -ENOMEM. *out is untouched then. */
int step_begins__read(const char *text, struct step_begins *out);

#endif
