/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout memory` reports of: one of three kinds of memory, each with a report of its own. */
#ifndef STAKEOUT_CLIENT_MEMORY_REPORTS_H
#define STAKEOUT_CLIENT_MEMORY_REPORTS_H

#include "client/memory/alloc_report.h"
#include "client/memory/gpu_report.h"
#include "client/memory/memory_moments.h"
#include "client/memory/memory_report.h"

enum memory_kind {
	MEMORY_PAGES, /* that became resident */
	MEMORY_GPU,
	MEMORY_ALLOCATIONS, /* calls of malloc and its like */
};

struct memory_reports {
	enum memory_kind kind;
	/* Of these the one of that kind. */
	struct memory_report pages;
	struct gpu_report gpu;
	struct alloc_report allocations;
};

/* Whether the process could be watched: -ENOTSUP, in words; -EINVAL: it is no such profile. */
int memory_reports__check(enum memory_kind kind, const uint8_t *bytes, size_t length, struct so_error *err);
/* From pprof. Errors as above; -ENOMEM. To be cleared in any case; all zero is an empty one. */
int memory_reports__read(enum memory_kind kind, const uint8_t *bytes, size_t length, struct memory_reports *out,
			 struct so_error *err);
void memory_reports__clear(struct memory_reports *reports);
CLEANUP_DEFINE_OF(struct memory_reports, memory_reports, memory_reports__clear)

/* The file, read by what is in use. */
const struct profile *memory_reports__in_use(const struct memory_reports *reports);
/* top: rows of the table. */
void memory_reports__print(const struct memory_reports *reports, unsigned top, FILE *out);
/* New reference; NULL: no memory. */
json_t *memory_reports__json(const struct memory_reports *reports);
/* Both of one kind; memory_moments.h. -ENOMEM. */
int memory_reports__compare(const struct memory_reports *before, const struct memory_reports *now,
			    struct memory_moments *out);

#endif
