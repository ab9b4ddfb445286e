/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What follows from a report: its rows added up by API, kernel, line, direction, site and error code. Every time is the
 * host's, spent in calls; none is a kernel's execution time. Texts belong to the report, which must outlive this.
 */
#ifndef STAKEOUT_CUDA_SUMMARY_H
#define STAKEOUT_CUDA_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_report.h"
#include "cuda/cuda_stats.h"

/*
 * An enqueueing call takes some 2 to 20 µs on the host; one that takes 100 µs has probably waited: for the device, a
 * lock, a place in the queue.
 */
#define CUDA_WAITED_NS 100000

/* cudaErrorNotReady, CUDA_ERROR_NOT_READY: cudaEventQuery and cudaStreamQuery say that the work is not done. */
#define CUDA_NOT_READY 600

struct cuda_api_row {
	const char *api, *library; /* path, "" unknown */
	bool two_libraries;        /* another row is of the same API */
	enum so_cuda_kind kind;
	struct cuda_figures figures;
	uint64_t not_ready; /* among figures.errors */
	bool estimated;
	double interval; /* half of the 95 % interval of its calls; NAN: not known */
};

struct cuda_kernel_row {
	const char *kernel; /* NULL: not known, or a graph */
	bool graph;         /* the row is of an API that launches graphs */
	const char *api;
	uint64_t address; /* of an unknown kernel, in process pid */
	int64_t pid;
	struct cuda_figures figures;
	uint32_t grid[3], block[3]; /* last launch of the thread with most of them */
};

/* Calls to one API from one source line. */
struct cuda_line_row {
	enum so_cuda_kind kind, event; /* event: so_cuda_kind__does() */
	const char *api, *line;
	const struct cuda_stack *stack; /* of its row with most time */
	uint64_t calls, total_ns, bytes;
	uint64_t stacks; /* that say so; 0: not said */
	bool sampled, waited;
	uint64_t needless, needless_ns; /* of calls and total_ns, that waited for nothing (struct so_cuda_line) */
	uint64_t copies, copied_bytes;  /* a sync's: asynchronous copies from the same line, or native function */
	bool copies_of_function;        /* of other lines of the same native function */
};

struct cuda_copy_row {
	const char *direction;
	uint64_t calls, total_ns, bytes;
	bool estimated;
};

struct cuda_error_row {
	const char *api, *library;
	uint32_t code;
	uint64_t count;
};

struct cuda_summary {
	/* Each by falling time; sites by falling calls, errors by falling count. */
	struct cuda_api_row *apis;
	struct cuda_kernel_row *kernels;
	struct cuda_line_row *lines; /* all of them; waits are those that waited */
	struct cuda_copy_row *copies;
	/* By line. current_bytes below 0: more was freed than allocated since; peak_bytes: the sum of its stacks'. */
	struct cuda_allocation *sites;
	struct cuda_error_row *errors; /* CUDA_NOT_READY is not among them */
	size_t n_apis, n_kernels, n_lines, n_waits, n_copies, n_sites, n_errors;

	double duration_ns; /* NAN: not known */
	uint64_t calls, failed, not_ready, total_ns;
	uint64_t kind_calls[SO_CUDA_KIND_COUNT + 1], kind_ns[SO_CUDA_KIND_COUNT + 1];
	bool kind_estimated[SO_CUDA_KIND_COUNT + 1]; /* calls of the kind may have been scaled up */
	size_t n_processes;                          /* that made calls */
	/*
	 * Of each such process the recording's duration less the time in calls of all its threads, 0 at least; NAN: not
	 * known. Calls of two threads at the same time count as if one came after the other, so it is the least time
	 * without any.
	 */
	double outside_ns;
	struct cuda_stats *launches; /* of kernels, all together; graphs are not among them */
	uint64_t unknown_kernels, unknown_launches;
};

/* python_only: lines without a Python frame become PROFILE_NATIVE. -ENOMEM. */
int cuda_summary__new(const struct cuda_report *report, bool python_only, struct cuda_summary **out);
void cuda_summary__free(struct cuda_summary *summary);
CLEANUP_DEFINE(struct cuda_summary *, cuda_summary, cuda_summary__free)

/* Calls of all kinds that do this; whether some of them may have been scaled up. */
uint64_t cuda_summary__calls(const struct cuda_summary *summary, enum so_cuda_kind does);
bool cuda_summary__is_estimate(const struct cuda_summary *summary, enum so_cuda_kind does);
/* part / whole; NAN if whole is 0 or not known. */
double cuda_summary__ratio(double part, double whole);
/* cuda_places.c: whether a frame is Python's, by its form "function (file.py:42)". */
bool cuda_places__is_python(const char *frame);

#endif
