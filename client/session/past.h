/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process's past, as a daemon with --store keeps it (.design/history.md): which history, what it has of a range. */
#ifndef STAKEOUT_CLIENT_PAST_H
#define STAKEOUT_CLIENT_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/session/api_client.h"
#include "profile/profile.h"
#include "stakeout/options.h"
#include "stakeout/error.h"
#include "stakeout/time_range.h"

/* The words of --since, --until and --at (stakeout/time_range.h); NULL: not given. */
struct past_options {
	const char *since, *until, *at;
};

/* Entries of an option table. */
#define PAST_SINCE(o)                                                                                     \
	{                                                                                                 \
		OPTION_TEXT, 0, "since", "TIME", &(o).since,                                              \
			"from the daemon's history: 5m, 2h30m (ago), 03:12,\n'2026-11-20 03:00'; now at " \
			"the latest"                                                                      \
	}
#define PAST_UNTIL(o)                                                                \
	{                                                                            \
		OPTION_TEXT, 0, "until", "TIME", &(o).until, "the range's end (now)" \
	}
#define PAST_AT(o)                                                                                              \
	{                                                                                                       \
		OPTION_TEXT, 0, "at", "TIME", &(o).at,                                                          \
			"that minute (22:57), or the minute around that time\n(22:57:30, 5m), from the history" \
	}

bool past__wanted(const struct past_options *options);
/* -EINVAL, in words. */
int past__range(const struct past_options *options, struct time_range *out, struct so_error *err);

/*
 * The sum of the windows that touch the range: of the process with that PID that is watched now, or of the last one
 * with it that has history of that time. *out: malloc'ed gzip-compressed pprof. Says as a note, once, what the history
 * of that range is known to lack. -ENOENT, in words: there is none.
 */
int past__profile(struct api_client *api, pid_t pid, const struct time_range *range, uint8_t **out, size_t *length,
		  struct so_error *err);
/* Says from when on a profile of past__profile() is, and how much of that time it has. */
void past__tell_profile(const struct profile *profile);
/* The same of the process's CUDA calls: the answer of GET /v1/history/KEY/cuda. quiet: no time note. New reference. */
int past__cuda(struct api_client *api, pid_t pid, const struct time_range *range, bool quiet, json_t **out,
	       struct so_error *err);
/* The answer of GET /v1/history/KEY/memory. New reference. */
int past__memory(struct api_client *api, pid_t pid, const struct time_range *range, json_t **out, struct so_error *err);

#endif
