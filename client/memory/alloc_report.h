/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout memory --allocations` says: what each line allocated and freed, and what it keeps. */
#ifndef STAKEOUT_CLIENT_ALLOC_REPORT_H
#define STAKEOUT_CLIENT_ALLOC_REPORT_H

#include "client/memory/memory_report.h"

/* Bytes, but for the counts. */
struct alloc_line {
	struct memory_line line; /* of what was allocated and is in use; its text is borrowed */
	double freed;
	double calls;
	double age_ns; /* half of what was freed was younger; 0: nothing was */
};

/* Of one allocator. */
struct alloc_kind {
	char name[16];
	double bytes, calls, freed, in_use;
	double chosen; /* calls, not weighted */
};

struct alloc_report {
	struct memory_report memory; /* its growth is that of the process's memory */
	struct alloc_line *lines;    /* those that allocated most first */
	size_t n_lines;
	struct alloc_kind *kinds;
	size_t n_kinds;
	double bytes, error; /* allocated in all, and its standard error */
	double sample_bytes; /* that one chosen call is worth, at most */
	double seen_percent; /* of the time in which calls were seen */
	double hits, chosen, nested, left_out, unfollowed, replaced, failed, hidden, strange;
	bool dense;    /* calls are so many that figures may be wrong by a multiple */
	bool windowed; /* frees were not all seen: what is in use is the most that it may be */
};

/* Whether it is a profile of allocations. */
bool alloc_report__is(const uint8_t *bytes, size_t length);
/* Whether calls of a process could be seen. -ENOTSUP: none, in words; -EINVAL: it is no such profile. */
int alloc_report__check(const uint8_t *bytes, size_t length, struct so_error *err);
/* From pprof as GET /v1/targets/ID/allocations gives it. Errors as above; -ENOMEM. To be cleared in any case. */
int alloc_report__read(const uint8_t *bytes, size_t length, struct alloc_report *out, struct so_error *err);
void alloc_report__clear(struct alloc_report *report);
CLEANUP_DEFINE_OF(struct alloc_report, alloc_report, alloc_report__clear)

/* The line that is named for the growth; NULL: there is none, or what it keeps is not known. */
const struct memory_line *alloc_report__culprit(const struct alloc_report *report);
/* The standard error of bytes that were estimated. */
double alloc_report__error(const struct alloc_report *report, double bytes);
/* top: rows of the table of lines. */
void alloc_report__print(const struct alloc_report *report, unsigned top, FILE *out);
/* New reference; NULL: no memory. */
json_t *alloc_report__json(const struct alloc_report *report);

#endif
