/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asks what programs call their threads (processes/thread_names.h). A thread's memory is read without the engine's
 * lock, by the scanner's thread when it has nothing else to do.
 */
#ifndef STAKEOUT_THREAD_NAMER_H
#define STAKEOUT_THREAD_NAMER_H

#include "daemon/os/thread_list.h"
#include "daemon/processes/scan_queue.h"
#include "daemon/targets/targets.h"

struct thread_namer {
	pthread_mutex_t *lock; /* the engine's */
	struct targets *targets;
	struct process_table *processes;
	struct scan_queue *scans;  /* its thread does the work */
	struct thread_list **list; /* the engine's; loaded when first needed */
	bool wanted, refused;      /* some are to be asked; the kernel cannot list threads */
};

/* A sample of a thread was counted. With the lock. */
void thread_namer__seen(struct thread_namer *namer, struct target *t, pid_t tgid, uint32_t tid, const char comm[16]);
/* With the lock, which is let go meanwhile. False: there was nothing to do. */
bool thread_namer__work(struct thread_namer *namer);

struct thread_to_name {
	uint32_t tid;
	uint64_t fsbase; /* 0: there is no such thread */
	bool unread;     /* it may have a name, which could not be read now */
	char text[PYTHON_THREAD_NAME_BYTES];
};
/*
 * Reads the names of n threads of a process, of each "" where it has none, and where that would take more than most_ns
 * in all; returns how many, in their order, there was time for. Without the lock; the caller asks afterwards whether
 * what was read may be shown (process__is_readable()).
 */
size_t thread_namer__read(pid_t tgid, const struct python_process *python, struct thread_to_name *threads, size_t n,
			  uint64_t most_ns);

#endif
