/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What programs call their threads, of one target, and when that is to be asked: of a thread that is new, whose name in
 * the kernel has changed, and now and then, since a program may rename it (python_thread.h). Of more threads than
 * THREAD_NAMES_MAX the half is forgotten that was seen last longest ago. All zero is an empty one.
 */
#ifndef STAKEOUT_THREAD_NAMES_H
#define STAKEOUT_THREAD_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/u64_table.h"
#include "daemon/python/python_thread.h"

/* Of one process that are asked for at a time. */
#define THREAD_NAMES_AT_ONCE 256

struct named_thread {
	pid_t tgid;
	uint32_t tid;
	char comm[16];
	bool gone;                           /* when it was asked last there was no such thread */
	uint64_t seen_ns;                    /* the last sample */
	uint64_t asked_ns;                   /* 0: never */
	uint64_t distance_ns;                /* from then until it is asked again, if there are samples */
	char text[PYTHON_THREAD_NAME_BYTES]; /* "": none */
};

struct thread_names {
	struct named_thread *list;
	size_t n, capacity;
	struct u64_table by_thread;
};

/* A sample of the thread. True: its name is to be asked. */
bool thread_names__seen(struct thread_names *names, pid_t tgid, uint32_t tid, const char comm[16], uint64_t now_ns);
/* One process of which some are to be asked, and up to THREAD_NAMES_AT_ONCE of its threads; 0: there is none. */
size_t thread_names__due(const struct thread_names *names, uint64_t now_ns, pid_t *tgid, uint32_t *tids);
/* It was asked. text: NULL: there is no such thread any more, and its name stays what it was. */
void thread_names__set(struct thread_names *names, pid_t tgid, uint32_t tid, const char *text, uint64_t now_ns);
/* It was asked, and could not be read: its name stays what it was. */
void thread_names__unread(struct thread_names *names, pid_t tgid, uint32_t tid, uint64_t now_ns);

/* NULL: it has none that is known. names may be NULL. */
const char *thread_names__get(const struct thread_names *names, pid_t tgid, uint32_t tid);
/* Into an empty one, which stays empty for want of memory. */
void thread_names__copy(const struct thread_names *from, struct thread_names *to);
void thread_names__release(struct thread_names *names);

#endif
