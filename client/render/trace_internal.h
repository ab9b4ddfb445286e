/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For trace.c, which writes threads and steps, trace_process.c, which writes what a whole process has, and
 * trace_calls.c, which writes CUDA calls.
 */
#ifndef STAKEOUT_CLIENT_TRACE_INTERNAL_H
#define STAKEOUT_CLIENT_TRACE_INTERNAL_H

#include <stdint.h>
#include <stdio.h>

#include "client/render/render.h"
#include "stakeout/intern.h"

#define TRACE_MAX_DEPTH     32                  /* slices above one another */
#define TRACE_KNOWN_PERIODS 20                  /* between two samples of a thread that runs, at most */
#define TRACE_MOST_NS       (INT64_MAX / 4)     /* later, or longer, is nothing that was */
#define TRACE_CALLS_TRACK   (1 << 23)           /* no thread has a number as high */
#define TRACE_GIL_TRACK     (1 << 24)           /* nor has one of the former */
#define TRACE_GPU_PID       ((int64_t)9999999)  /* no process has a number as high */
#define TRACE_FILE_PIDS     ((int64_t)10000000) /* of each further file: other machines have the same PIDs */

/* What a thread did for some time, by its samples. */
struct segment {
	int64_t begin_ns, end_ns;
	size_t sample;
};

struct slice {
	uint32_t name;
	int64_t begin_ns;
};

struct tracer {
	const struct profile *profile;
	FILE *out;
	struct intern names;
	bool any; /* an event has been written */
	struct slice open[TRACE_MAX_DEPTH];
	size_t n_open;
	int64_t pid, tid;   /* of the track */
	int64_t offset_ns;  /* the profile's begin after that of the first one */
	int64_t pid_offset; /* of all its processes */
	uint64_t flows;     /* written so far: the number of the next one */
};

/* Begins one; what is written next is in it. */
void trace__begin_event(struct tracer *t);
/* A whole slice on the track. name: not escaped, of so many bytes; without the closing '}'. */
void trace__begin_slice(struct tracer *t, const char *name, size_t length, int64_t begin_ns, int64_t end_ns);
void trace__name_track(struct tracer *t, const char *name, size_t length);
/*
 * The process of these segments, which are those of all its threads: its name and rank, how many of its threads ran and
 * waited for the GIL over time, and who held the GIL. -ENOMEM.
 */
int trace__write_process(struct tracer *t, const struct segment *segments, size_t n);
/*
 * CUDA calls, on tracks beside the threads', with their kernels, bytes and streams, and an arrow from each launch to
 * the wait that waited for it. -ENOMEM.
 */
int trace__write_calls(struct tracer *t);

#endif
