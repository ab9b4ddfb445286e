/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine's processes and whose children they are, from /proc. */
#ifndef STAKEOUT_CLIENT_PROCESS_LIST_H
#define STAKEOUT_CLIENT_PROCESS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct process_entry {
	pid_t pid, ppid;
	uint64_t start_ticks; /* after boot */
	bool ended;    /* all of its threads have; its parent has not waited for it yet */
	char comm[16]; /* any bytes */
};

/* All zero is an empty one. */
struct process_list {
	struct process_entry *entries; /* by rising pid */
	size_t n, capacity;
};

/* Processes that end meanwhile may be missing. -errno, in words. */
int process_list__read(struct process_list *out, struct so_error *err);
void process_list__release(struct process_list *list);
CLEANUP_DEFINE_OF(struct process_list, process_list, process_list__release)

/* NULL: there is none. */
const struct process_entry *process_list__find(const struct process_list *list, pid_t pid);
bool process_list__has_children(const struct process_list *list, pid_t pid);
/* Whether `above` is the parent of pid, or that parent's parent, and so on. */
bool process_list__is_below(const struct process_list *list, pid_t pid, pid_t above);

#endif
