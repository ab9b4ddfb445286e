/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A look at a process that nobody watches yet: some seconds of it, in wall time, with progress and Ctrl-C. */
#ifndef STAKEOUT_CLIENT_LOOK_H
#define STAKEOUT_CLIENT_LOOK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/session/session.h"

#define LOOK_DEFAULT_S 5

/* *profile: malloc'ed pprof of *length bytes; *stats: new reference. Of an interrupted look what was taken. */
int look__at(struct session *session, pid_t pid, double duration_s, uint8_t **profile, size_t *length, json_t **stats,
	     struct so_error *err);

/* One of which each sample has its time. */
struct look_request {
	pid_t pid;
	double duration_s;
	unsigned rate_hz;
	const char *step;           /* the function that begins a step */
	const char *const *counted; /* n_counted functions whose calls are to be counted; TARGET_MOST_COUNTED at most */
	size_t n_counted;
	double until_slow; /* until a step takes so many times the 95th percentile; 0: for duration_s */
	double last_s;     /* then: what is wanted of before that step; 0: all */
	/* Filled in: the step, and the percentile; 0: there was none. */
	uint64_t slow_step_ns, usual_step_ns;
};
/* As look__at(). -ENOENT: there is no such function. */
int look__closely(struct session *session, struct look_request *request, uint8_t **profile, size_t *length,
		  json_t **stats, struct so_error *err);

#endif
