/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the forms of a dump share. Functions that return int: 0, or -ENOMEM. */
#ifndef STAKEOUT_CLIENT_DUMP_INTERNAL_H
#define STAKEOUT_CLIENT_DUMP_INTERNAL_H

#include <jansson.h>

#include "client/render/dump_text.h"
#include "stakeout/cleanup.h"

/* A foreign text without blanks at its ends, which nobody would see. Malloc'ed; NULL: out of memory. */
char *dump_clean(const char *foreign);
/* What a thread is called: "python3", or "python3 (loader-3)"; the same of both. */
char *dump_thread_name(const struct profile_sample *sample);
/* It behind `before`. */
int dump_print_words(const char *before, const char *foreign, FILE *out);

/* Its rank in a distributed job; "" where it is in none. */
const char *dump_rank(const struct dump *dump);
bool dump_takes_line(const struct dump_part *part, const struct profile_line *line);
/* The threads of the part, the main thread first; malloc'ed. */
int dump_order_threads(const struct dump *dump, const struct dump_part *part, const struct profile_sample ***out,
		       size_t *n);

/* "Process 70: python3 run.py", and a line about its Python. */
int dump_print_head(const struct dump *dump, FILE *out);
int dump_print_thread_head(const struct profile_sample *sample, FILE *out);
/* " (sleeping, holds the GIL)", as far as it is known. */
int dump_print_doing(const struct profile_sample *sample, FILE *out);
int dump_print_frames(const struct profile *profile, const struct dump_part *part, const struct profile_sample *sample,
		      FILE *out);

json_t *dump_text_or_null(const char *clean_text);
/* NULL: out of memory. */
json_t *dump_thread_json(const struct profile *profile, const struct dump_part *part,
			 const struct profile_sample *sample);
/* Also the end of writing: dump_text__print()'s errors. */
int dump_finish(int ret, FILE *out, struct so_error *err);

/* Threads with equal stacks, states and holds of the GIL. */
struct dump_thread {
	const struct dump *dump;
	const struct profile_sample *sample;
	size_t group;
};

struct dump_group {
	struct dump_thread **threads; /* in order of processes, then as these print them */
	size_t n, processes;
	bool main, python;
	/*
	 * Of main threads: the processes that are compared, which are equally far below the first of their tree and
	 * whose main threads have the same name; into how many groups these fall, and whether any has Python frames.
	 */
	size_t peers, peer_groups;
	bool peer_python;
};

struct dump_groups {
	struct dump_thread *threads; /* in order of processes */
	struct dump_thread **sorted; /* by group */
	size_t n_threads;
	struct dump_group *groups; /* the most telling first */
	size_t n;
};

int dump_groups__make(const struct dump *dumps, size_t n, const struct dump_part *part, struct dump_groups *out);
void dump_groups__release(struct dump_groups *groups);
CLEANUP_DEFINE_OF(struct dump_groups, dump_groups, dump_groups__release)

/* Where a group's threads are, in lines of 80 columns: "  main threads of ranks 0-2, 4-7 (PIDs 4712-4714, …)". */
int dump_print_where(const struct dump_group *group, bool one_process, FILE *out);
/* Which processes have the same command line, in the same way. */
int dump_print_processes(const struct dump *const *dumps, size_t n, FILE *out);

#endif
