/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steps by samples, where nothing reported when they began: each arrival of a thread at one line, from elsewhere. It is
 * known to about the time between two samples, and an arrival that no sample saw is missed.
 */
#ifndef STAKEOUT_CLIENT_STEPS_SEEN_H
#define STAKEOUT_CLIENT_STEPS_SEEN_H

#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/python_place.h"

#define STEPS_SEEN_BRIEF 0.05 /* of the arrivals: more stays that a single sample saw are reported */

/* What is looked for in stacks. */
struct steps_place {
	struct python_place python; /* "": it is none of Python */
	const char *native;         /* then: the function, as the profile has it; borrowed */
};

/* "train.py:28", "train.py:train_step", "Engine::execute". -EINVAL, in words. text: to stay as long as *out. */
int steps_place__parse(const char *text, struct steps_place *out, struct so_error *err);
/* Of a function of Python, any line of it. */
bool steps_place__is_at(const struct steps_place *place, const struct profile_line *line);

struct steps_seen {
	int64_t pid, tid; /* the thread that arrived most often */
	unsigned threads; /* that arrived */
	int64_t *begins;  /* of n_begins, in ns since the profile's begin: halfway between the samples around it */
	size_t n_begins;
	size_t n_brief;    /* stays at the line, or elsewhere, that a single sample saw: about as many were missed */
	int64_t unsure_ns; /* how far an arrival may be from what begins says: median */
	char where[512];   /* "train.py:28": the line; a native function's name */
};

/*
 * place: "FILE.py:LINE"; "FILE.py:FUNCTION": at that of its lines where a thread stays longest at a time,
 * of those that have a sixth of its time or more; or a native function: from outside.
 * -ENODATA: it is in no sample, or the profile has no times; -ENOMEM. begins is the caller's to free.
 */
int steps_seen__find(const struct profile *profile, const char *place, struct steps_seen *out, struct so_error *err);

#endif
