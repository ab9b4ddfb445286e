/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any tool's pprof message, gzipped or plain, read, checked (foreign bytes: each reference), laid out for rendering. */
#ifndef STAKEOUT_PROFILE_PROFILE_H
#define STAKEOUT_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct profile_line {         /* one readable frame; a location with inlined functions has several */
	const char *function; /* never NULL; "" when unknown */
	const char *filename; /* source file; "" when unknown */
	int64_t line;         /* 0 when unknown */
	const char *mapping;  /* file name of the mapping; "" when there is none */
	uint64_t address;
	bool kernel; /* lies in the kernel's mapping */
	/*
	 * A Python frame: no mapping, no address, source file and a line (its own or its function's first) known; or
	 * the source file is a .py; or "[python:CAUSE]", one that could not be read, without mapping and source file.
	 */
	bool python;
};

enum profile_gil {
	PROFILE_GIL_NONE,     /* not known: no Python thread, or another tool's profile */
	PROFILE_GIL_DISABLED, /* a Python thread whose interpreter ran without one: a free-threaded build */
	PROFILE_GIL_RELEASED,
	PROFILE_GIL_HELD,
};

struct profile_sample {
	const uint32_t *lines; /* indices into profile.lines, leaf first, inlined innermost first */
	size_t n_lines;
	int64_t count; /* samples (or the value asked for), ≥ 0; the sum over the profile fits, here and in value_ns */
	int64_t value_ns;       /* CPU time, or wall time (struct profile.wall); 0 when the profile has none */
	int64_t cpu_ns;         /* CPU time; 0 when the profile has none */
	int64_t pid, tid;       /* labels; 0 when absent */
	const char *comm;       /* label "comm", or the thread's name as other tools call it; "" when absent */
	const char *thread;     /* label "thread" beside "comm": what its program calls it; NULL or "" when absent */
	const char *rank;       /* label "rank" of its process in a distributed job; NULL or "" when absent */
	const char *local_rank; /* label "local_rank": the same on its machine; NULL or "" when absent */
	const char *container;  /* label "container" of its process: an id; NULL or "" when absent */
	const char *state;      /* label "state": what a thread did when it was looked at; "" when absent */
	int64_t time_ns;        /* label "time_ns": when it was, or began, since the profile's begin; 0 when absent */
	int64_t age_ns;         /* label "age_ns": how old a block of memory was that was freed; 0 when absent */
	enum profile_gil gil;   /* label "gil": "held" or "released" by this thread */
};

/* Of a thread that ran: taken at one moment. All others say where it was for some time, from time_ns on. */
static inline bool profile_sample__is_moment(const struct profile_sample *sample)
{
	return !sample->state || !*sample->state || !strcmp(sample->state, "running");
}

struct profile {
	struct profile_line *lines;
	size_t n_lines;
	struct profile_sample *samples;
	size_t n_samples;
	int64_t time_ns, duration_ns, period_ns;
	/* Of running and waiting threads: the counts are microseconds of wall time, value_ns is wall time. */
	bool wall;
	double observation; /* counts that one look at a thread, or one sample, is worth; for intervals; 0: 1 */
	const char **comments;
	size_t n_comments;
	void *arena; /* owns everything */
};

#define PROFILE_OWN_PROBES "[stakeout probes]" /* in the place of what the program did when its sample hit one */
#define PROFILE_NATIVE     "[native]"          /* a stack without Python frames, where only those are shown */

#define PROFILE_WALL_UNIT_NS 1000 /* what a count of a wall profile is worth */

#define PROFILE_MAX_BYTES (1ull << 30) /* uncompressed; more is refused */

/* -EINVAL with the reason for a truncated, damaged or foreign file; -EFBIG; -ENOMEM. On failure *out is
 * untouched. */
int profile__read(const void *bytes, size_t length, struct profile **out, struct so_error *err);
/* The same with a sample's value of that type ("bytes") as its count, and value_ns 0. -ENODATA: none, or several. */
int profile__read_value(const void *bytes, size_t length, const char *type, struct profile **out, struct so_error *err);
/* Value of the comment "stakeout.KEY=…", or NULL. */
const char *profile__comment(const struct profile *profile, const char *key);
void profile__free(struct profile *profile);
CLEANUP_DEFINE(struct profile *, profile, profile__free)

#endif
