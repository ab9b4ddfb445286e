/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads of a process at one moment, for people and as JSON: valid UTF-8, control characters become '?'. */
#ifndef STAKEOUT_CLIENT_DUMP_TEXT_H
#define STAKEOUT_CLIENT_DUMP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "profile/profile.h"

/* Instead of a stack: the thread ran on whenever it was looked at, and has no sample. */
#define DUMP_MOVED "[moved]"

struct dump {
	pid_t pid, ppid;
	unsigned depth;                /* how many processes of the same dump are above it */
	const char *command;           /* command line, or name, of the process; any bytes */
	const struct profile *profile; /* one sample for each thread; NULL: see problem */
	const char *problem;           /* why its threads are not known; any bytes; else NULL */
};

/* Which part of it. */
struct dump_part {
	bool gil;         /* only threads that hold it */
	bool python_only; /* only Python frames, and DUMP_MOVED; a stack that has none becomes PROFILE_NATIVE */
	bool kernel;      /* kernel frames, too */
	bool merge;       /* threads with equal stacks as one (dump_many.h) */
};

/*
 * A head, then for each thread, the main thread first and the others by number, an empty line, "Thread TID (STATE,
 * holds the GIL): COMM" and its frames, innermost first: "function (/path/file.py:line)", "function (libname.so)",
 * "function [kernel]", without a symbol "[libname.so]". -EIO when writing fails (errno's words in err); -ENOMEM.
 */
int dump_text__print(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err);
/*
 * The same threads as an array of {tid, comm, thread, state, gil, frames: [{function, file, line, module,
 * kind}]}. What is not known is null, gil also where the thread is none of Python's. A stack without frames is empty.
 */
int dump_text__json(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err);
/* What part->gil leaves out. */
struct dump_left_out {
	size_t threads, left_out;
	size_t moved; /* of those left out, DUMP_MOVED */
};
/* Adds the profile's threads. */
void dump_text__count(const struct profile *profile, const struct dump_part *part, struct dump_left_out *sum);
/* It in one line; false: nothing is to be said. */
bool dump_text__note(const struct dump_left_out *sum, char *text, size_t size);

#endif
