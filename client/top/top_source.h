/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the figures of `stakeout top` come from: of each target one short recording after the other, in wall time. Each
 * is a view of the target's samples (POST /v1/targets of a process that is watched), so the next one costs the target
 * nothing, and the daemon builds the profile of a second, not of all that it has.
 */
#ifndef STAKEOUT_CLIENT_TOP_SOURCE_H
#define STAKEOUT_CLIENT_TOP_SOURCE_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/session/session.h"
#include "client/top/top_draw.h"
#include "client/top/top_sums.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define TOP_STEP_MS  1000
#define TOP_MAX_SPAN 60

struct top_request {
	pid_t pid;     /* 0: all that the daemon watches */
	unsigned span; /* recordings that are added up, at most TOP_MAX_SPAN */
	bool cuda;     /* time its CUDA calls, where it is not watched yet */
};

struct top_source;

/* A clock that always goes on; from any beginning. */
double top_source__now_s(void);

/* Begins the first recordings. The session must live longer. Errors in words. */
int top_source__new(struct session *session, const struct top_request *request, struct top_source **out,
		    struct so_error *err);
/* Ends what it began. */
void top_source__free(struct top_source *source);
CLEANUP_DEFINE(struct top_source *, top_source, top_source__free)

/*
 * Takes what was recorded since the last call, and goes on; TOP_STEP_MS apart. *ended: the one process has, and its
 * last recording is taken. Errors in words: the daemon has ended, say.
 */
int top_source__step(struct top_source *source, bool *ended, struct so_error *err);
/* Adds up the last recordings; *out is an empty one. -ENOMEM, -EFBIG. */
int top_source__sum(const struct top_source *source, struct top_sums *out);
/* Title, note, CUDA calls and times: the source's, until its next call. */
void top_source__describe(const struct top_source *source, struct top_screen *screen);

#endif
