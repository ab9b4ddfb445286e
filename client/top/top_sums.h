/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the last seconds were spent on: each thread's time, functions and source lines, added up over profiles. */
#ifndef STAKEOUT_CLIENT_TOP_SUMS_H
#define STAKEOUT_CLIENT_TOP_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/intern.h"

enum top_part {
	TOP_RUNNING,
	TOP_RUNNABLE,
	TOP_WAITING,
	TOP_PARTS,
};

#define TOP_NO_TEXT UINT32_MAX

struct top_thread {
	int64_t pid, tid;
	double ns[TOP_PARTS];
	uint32_t comm, role;  /* texts; of a Python thread its name, else what it was started to do; or TOP_NO_TEXT */
	uint32_t state, line; /* texts: where most of the newest profile's time went; TOP_NO_TEXT: not seen in it */
	double place_ns;
};

enum top_value {
	TOP_SELF,  /* running, and the innermost named frame */
	TOP_TOTAL, /* running, and in the stack */
	TOP_WAITS, /* waiting, for something to do left out, and in the stack */
	TOP_VALUES,
};

/* Rows by name; the numbers of texts are those of the rows. */
struct top_names {
	struct intern texts;
	double (*ns)[TOP_VALUES];
	size_t capacity;
};

/* All zero is an empty one. */
struct top_sums {
	struct intern texts;
	struct intern ids; /* pid, tid */
	struct top_thread *threads;
	size_t thread_capacity;
	struct top_names functions, lines;
	double ns[TOP_PARTS];
	double duration_ns; /* of the longest run of profiles that was added; the caller's to set */
	/* As the profiles' comments say it. */
	double complete, truncated, lost;
	bool wall; /* a profile in wall time was among them: else nothing is known of waiting */
};

/* newest: the place of a thread is taken from this profile. -ENOMEM; -EFBIG: too long names. */
int top_sums__add(struct top_sums *sums, const struct profile *profile, bool newest);
void top_sums__clear(struct top_sums *sums);
CLEANUP_DEFINE_OF(struct top_sums, top_sums, top_sums__clear)

#endif
