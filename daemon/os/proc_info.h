/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /proc says of a process, for the decision whether it can be a target. */
#ifndef STAKEOUT_PROC_INFO_H
#define STAKEOUT_PROC_INFO_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/error.h"

struct proc_info {
	pid_t tgid, ppid;
	uid_t uid; /* real */
	char comm[16];
	char state; /* as in /proc/PID/stat: R, S, D, T, Z, X, … */
	bool ended; /* and waits for its parent */
	bool kernel_thread;
	unsigned threads;     /* a leader that has ended counts until the last one has */
	uint64_t cpu_ns;      /* user and system time of all its threads */
	uint64_t start_ticks; /* after boot; with the pid it names a process for good */
};

/* Ended and only waiting for its parent. A process whose first thread has ended while others run shows 'Z' as well. */
static inline bool proc_info__is_zombie(const struct proc_info *info)
{
	return info->ended;
}

/* -ESRCH when there is no such process. pid may be a thread's: tgid tells. */
int proc_info__read(pid_t pid, struct proc_info *out);

/*
 * Whether this process's numbers of processes are those by which eBPF knows them: it and its /proc are in the first PID
 * namespace of the machine.
 */
bool proc_info__in_first_pid_namespace(void);

/* Whether the process is in this process's own namespace of a kind ("pid", "mnt", …). False also when unknown. */
bool proc_info__same_namespace(pid_t pid, const char *kind);

/* Adds the CPUs on which any thread of the process may run. Returns the number of threads, or -errno. */
int proc_info__add_cpus(pid_t tgid, cpu_set_t *cpus);

/*
 * All processes of the system with their parents, as one pass over /proc finds them. *out is malloc'ed: pairs sorted
 * by nothing in particular.
 */
struct proc_pair {
	pid_t pid, ppid;
};
int proc_info__all(struct proc_pair **out, size_t *n);

#endif
