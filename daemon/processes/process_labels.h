/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process is within a distributed job and a cluster: its rank from its environment, its container and pod from
 * its control group. For the labels of profiles and targets.
 *
 * The environment is the one that the process was executed with: what a program sets itself afterwards is not in
 * /proc/PID/environ. It holds secrets, and so nothing is taken but whole numbers under the names below.
 */
#ifndef STAKEOUT_PROCESS_LABELS_H
#define STAKEOUT_PROCESS_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_LABELS_ENVIRON_BYTES (128 * 1024) /* more of an environment is not looked at */
#define PROCESS_LABELS_MAX_SETS      4096         /* different labels of one target; more processes have none */
#define PROCESS_LABELS_MAX_PROCESSES 65536        /* of one target that have labels */

/* Each "" where it is not known. Bytes behind the ends are zero, so that equal ones are equal as bytes. */
struct process_labels {
	char rank[12], local_rank[12], world_size[12]; /* decimal, without leading zeros */
	char container[65];                            /* 64 hexadecimal digits */
	char pod[37];                                  /* of Kubernetes: its uid */
};

bool process_labels__any(const struct process_labels *labels);

/* text[0 … n]: NAME=VALUE strings, a NUL between; the last one may lack it. Fills in the ranks. */
void process_labels__from_environ(const char *text, size_t n, struct process_labels *out);
/* text: /proc/PID/cgroup. Fills in container and pod. */
void process_labels__from_cgroup(const char *text, struct process_labels *out);
/* What can be read of both; what cannot stays "". */
void process_labels__read(pid_t pid, struct process_labels *out);

/* The labels of many processes, each different set kept once. All zero is an empty one. */
struct process_label_table {
	struct process_labels *sets;
	struct {
		pid_t tgid;
		uint32_t set;
	} * processes; /* in order of tgid */
	size_t n_sets, sets_capacity, n_processes, processes_capacity;
};

/* Replaces what is known of the process; labels without any remove it. Does nothing for want of memory or room. */
void process_label_table__set(struct process_label_table *table, pid_t tgid, const struct process_labels *labels);
/* A forked child has its parent's. */
void process_label_table__inherit(struct process_label_table *table, pid_t child, pid_t parent);

/* Forgets those processes that `wanted` does not want. */
void process_label_table__keep(struct process_label_table *table, bool (*wanted)(void *context, pid_t tgid),
			       void *context);

#define PROCESS_LABELS_NONE UINT32_MAX

/* Number of its labels among table->sets, or PROCESS_LABELS_NONE. table may be NULL. */
uint32_t process_label_table__find(const struct process_label_table *table, pid_t tgid);
/* Those labels; empty ones where there are none. */
struct process_labels process_label_table__get(const struct process_label_table *table, pid_t tgid);
/* Into an empty one, which stays empty for want of memory. */
void process_label_table__copy(const struct process_label_table *from, struct process_label_table *to);
void process_label_table__release(struct process_label_table *table);

#endif
