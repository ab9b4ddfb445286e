/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes whose mappings are to be read, and when: work for the scanner's thread. With the engine's lock held. */
#ifndef STAKEOUT_SCAN_QUEUE_H
#define STAKEOUT_SCAN_QUEUE_H

#include <pthread.h>

#include "daemon/processes/process_table.h"

struct scan_work {
	pid_t tgid;
	uint64_t generation; /* process_scan.generation */
};

struct scan_request {
	struct scan_request *next;
	struct scan_work work;
	uint64_t not_before_ns;
	bool confirms; /* nobody waits for it */
};

struct scan_queue {
	pthread_mutex_t *lock; /* the engine's */
	pthread_cond_t wanted;
	struct process_table *processes;
	struct scan_request *first; /* in order of not_before_ns */
	bool busy;                  /* the thread works on something, maybe without the lock */
};

/* Adds a request, or hurries one that is there. Of a process that is known and has not gone. */
void scan_queue__request(struct scan_queue *q, pid_t tgid);
/* The same, before files go. */
void scan_queue__hurry(struct scan_queue *q, pid_t tgid);
/* The process has changed its mappings, maybe none that matter: it is looked at in a while. */
void scan_queue__confirm(struct scan_queue *q, pid_t tgid, uint64_t generation);
/* Whether one waits that was requested. */
bool scan_queue__has(const struct scan_queue *q, pid_t tgid);

/* The next one that is due; false: none is. */
bool scan_queue__take(struct scan_queue *q, struct scan_work *out);
/* Lets the lock go until one is due, or scan_queue__wake(). */
void scan_queue__wait(struct scan_queue *q);
/* There is other work for the thread. */
void scan_queue__wake(struct scan_queue *q);
void scan_queue__forget(struct scan_queue *q);

#endif
