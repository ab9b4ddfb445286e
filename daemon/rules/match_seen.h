/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine's processes as the last round of the rules' thread saw them, and what it decided about each. */
#ifndef STAKEOUT_MATCH_SEEN_H
#define STAKEOUT_MATCH_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rules/match_proc.h"

struct seen {
	struct match_entry is;
	uint32_t looked;   /* rules up to this one have been looked at */
	uint32_t barred;   /* rules up to this one shall not attach it */
	uint32_t target;   /* that a rule made of it; 0: none */
	uint32_t rule;     /* this one */
	uint64_t retry_ns; /* not before, CLOCK_MONOTONIC */
	unsigned tries;    /* that failed */
	bool no_room;      /* since there were too many targets */
};

/* All zero is an empty one. */
struct seen_list {
	struct seen *list; /* in order of pid */
	size_t n;
};

/*
 * Reads the processes into an empty list. What `before` knows of one goes on; it is to be looked at again if it
 * executes another program since, or all_again. -ENOMEM, or why /proc cannot be read.
 */
int seen_list__read(struct seen_list *list, int proc_fd, const struct seen_list *before, bool all_again);
/* Processes are barred where their parents are. Call once a round: a generation a round at least. */
void seen_list__inherit_bars(struct seen_list *list);
/* Whether `pid` is the process `of`, or one that it descends from. */
bool seen_list__descends(const struct seen_list *list, pid_t of, pid_t pid);
/* Whether a rule has made a target of one that it descends from. */
bool seen_list__is_followed(const struct seen_list *list, const struct seen *s);
void seen_list__release(struct seen_list *list);

#endif
