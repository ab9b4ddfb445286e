/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which processes a dump is of. */
#ifndef STAKEOUT_CLIENT_DUMP_PROCESSES_H
#define STAKEOUT_CLIENT_DUMP_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "stakeout/error.h"

struct dump_process {
	pid_t pid, ppid;
	unsigned depth; /* how many others of them are above it */
	bool ended;
	char comm[16];
};

enum dump_tree {
	DUMP_TREE_OF_LAUNCHERS, /* of processes that process_arguments__are_of_launcher() */
	DUMP_TREE_ALWAYS,
	DUMP_TREE_NEVER,
};

struct dump_choice {
	pid_t pid;         /* 0: by match */
	const char *match; /* in the command line (stakeout/regexp.h) */
	enum dump_tree tree;
};

/*
 * Each followed by those below it. *out: malloc'ed, the caller's. The process of choice->pid is always in, whether
 * there is such or not. This command is not; `match` finds no process of stakeout, nor what was started to run this
 * one (sudo, sh -c), and says which command lines cannot be read. -ENOENT, in words: nothing matches; -EINVAL: no
 * pattern.
 */
int dump_processes__choose(const struct dump_choice *choice, struct dump_process **out, size_t *n,
			   struct so_error *err);

#endif
