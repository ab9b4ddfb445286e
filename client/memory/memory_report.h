/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout memory` says of a recording: a verdict, and the lines that it is made of. As text and as JSON. */
#ifndef STAKEOUT_CLIENT_MEMORY_REPORT_H
#define STAKEOUT_CLIENT_MEMORY_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "client/memory/growth.h"
#include "client/memory/memory_lines.h"

struct memory_report {
	struct profile *in_use, *allocated; /* the file, read by either value */
	struct growth growth;
	struct memory_lines *lines;
	double page_bytes; /* what a chosen page is worth, at most */
	/* What seeing page faults took of the target's time; and for how long the daemon could not afford that. */
	double cost_percent; /* negative: not known */
	double paused_s;
	double lost, unread; /* touches without a stack; processes whose pages could not be looked up */
	bool ended;          /* the process had: of its memory nothing is in use */
	long pid;
};

/*
 * From pprof as GET /v1/targets/ID/memory gives it. -EINVAL: it is no such profile, in words; -ENOMEM. To be cleared in
 * any case; all zero is an empty one.
 */
int memory_report__read(const uint8_t *bytes, size_t length, struct memory_report *out, struct so_error *err);
void memory_report__clear(struct memory_report *report);
CLEANUP_DEFINE_OF(struct memory_report, memory_report, memory_report__clear)

/* The line that is named for the growth: it keeps most, again and again. NULL: there is none. */
const struct memory_line *memory_report__culprit(const struct memory_report *report);
/* top: rows of the table. */
void memory_report__print(const struct memory_report *report, unsigned top, FILE *out);
/* New reference; NULL: no memory. */
json_t *memory_report__json(const struct memory_report *report);

#endif
