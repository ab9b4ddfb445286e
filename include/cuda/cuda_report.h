/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon answers about the CUDA calls of a target (GET /v1/targets/ID/cuda), read and checked. A member that
 * is absent or null is "not known": 0, NULL, or NAN where 0 would be a figure. One of a wrong type, a negative count,
 * or a bucket that is none of stakeout/latency.h makes the whole answer an error, which names the member. Members that
 * this version does not know are passed over.
 *
 * All texts are valid UTF-8 in one line without control characters (each becomes '?'), without blanks at their ends,
 * and belong to the report.
 */
#ifndef STAKEOUT_CUDA_REPORT_H
#define STAKEOUT_CUDA_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/cuda_api.h"
#include "stakeout/cuda_document.h"
#include "stakeout/cuda_interval.h"
#include "stakeout/error.h"

#define CUDA_BUCKETS SO_CUDA_MAX_BUCKETS

#define CUDA_REPORT_LIMIT_BYTES ((size_t)512 << 20) /* of all that is kept of an answer; more is -EFBIG */

/* Each begins with its row of stakeout/cuda_document.h; what is JSON there goes with the answer. */

struct cuda_library {
	SO_CUDA_LIBRARY_ROW(SO_CUDA_FIELD)
	struct so_cuda_probe_row *probes;
	size_t n_probes;
};

/* kernel_address: 0: no launch, or a graph's. direction: "": no copy. grid, block: of the last launch. */
struct cuda_call {
	SO_CUDA_CALL_ROW(SO_CUDA_FIELD)
	enum so_cuda_kind kind;             /* SO_CUDA_KIND_COUNT: a word that this version does not know */
	const struct cuda_library *library; /* NULL: not in the list of libraries */
	const struct cuda_bucket *buckets;
	size_t n_buckets;
};

struct cuda_error {
	SO_CUDA_ERROR_ROW(SO_CUDA_FIELD)
	const struct cuda_library *library;
};

/* Outermost frame first. */
struct cuda_stack {
	const char **frames;
	size_t n_frames;
};

struct cuda_line {
	SO_CUDA_LINE_ROW(SO_CUDA_FIELD)
	enum so_cuda_kind kind, event; /* event: so_cuda_kind__does() */
	struct cuda_stack stack;
};

struct cuda_allocation {
	SO_CUDA_ALLOCATION_ROW(SO_CUDA_FIELD)
	struct cuda_stack stack;
};

struct cuda_loss {
	const char *word;
	uint64_t count;
};

struct cuda_rung_word {
	const char *unit, *rung;
};

/* The daemon's own part: how it counts, and what that costs. */
struct cuda_watching {
	SO_CUDA_PROBES_ROW(SO_CUDA_FIELD)
	/* Of units of calls that are not each timed: "launch", "driver launch", and the word of their rung. */
	struct cuda_rung_word *rungs;
	size_t n_rungs;
	uint64_t stack_period[SO_CUDA_KIND_COUNT]; /* one stack in so many calls; 0: none, or not said */
	/* More of long ones, and of each that takes so long; 0: not said. */
	uint64_t stack_time_ns[SO_CUDA_KIND_COUNT];
};

/* An API whose calls were not all seen. */
struct cuda_api_estimate {
	const char *api;
	enum so_cuda_kind kind;
	struct so_cuda_estimate sums;
};

struct cuda_report {
	SO_CUDA_HEAD_ROW(SO_CUDA_FIELD)
	struct so_cuda_estimate estimate; /* of all calls */
	bool apis_known;                  /* else those of any API may have been scaled */
	struct cuda_api_estimate *estimates;
	size_t n_estimates;
	struct cuda_watching watching;
	const char **problems;
	struct cuda_loss *losses; /* those above 0 */
	struct cuda_library *libraries;
	struct cuda_call *calls; /* with calls > 0 */
	struct cuda_error *errors;
	struct cuda_line *lines;
	struct cuda_allocation *allocations;
	struct so_cuda_in_progress_row *in_progress;
	const char *driver; /* NULL: there is no "gpu" */
	struct so_cuda_device_row *devices;
	const char *gpu_problem;
	size_t n_problems, n_losses, n_libraries, n_calls, n_errors, n_lines, n_allocations, n_in_progress, n_devices;
	struct arena *arena; /* all of the above */
};

/* -EPROTO: not such an answer; -EFBIG: too large; -ENOMEM. err has the words. The answer may go afterwards. */
int cuda_report__read(const json_t *answer, struct cuda_report **out, struct so_error *err);
void cuda_report__free(struct cuda_report *report);
CLEANUP_DEFINE(struct cuda_report *, cuda_report, cuda_report__free)

/* Half of the 95 % interval of all calls, and of one API's; 0: all were seen. NAN: it is not known. */
double cuda_report__interval(const struct cuda_report *report);
double cuda_report__api_interval(const struct cuda_report *report, const char *api);
/* Whether calls of this API, of this kind, may have been scaled: where it is not known, too. */
bool cuda_report__is_api_estimate(const struct cuda_report *report, const char *api);
bool cuda_report__is_estimate(const struct cuda_report *report, enum so_cuda_kind kind);

#endif
