/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All threads of a process as the kernel has them now: state, user registers, kernel stack. */
#ifndef STAKEOUT_THREAD_LIST_H
#define STAKEOUT_THREAD_LIST_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/threads_abi.h"

struct thread_list;

/* Loads the program that reads them, which takes some 100 ms. */
int thread_list__open(struct thread_list **out, struct so_error *err);
/* The same into *list under its lock, which is held before and after and let go meanwhile, unless it is there. */
int thread_list__load(struct thread_list **list, pthread_mutex_t *lock, struct so_error *err);
/* *threads is malloc'ed, ordered as the kernel has them; n may be 0: the process is gone. For one caller at a time. */
int thread_list__read(struct thread_list *list, pid_t tgid, struct so_thread **threads, size_t *n,
		      struct so_error *err);
void thread_list__close(struct thread_list *list);
CLEANUP_DEFINE(struct thread_list *, thread_list, thread_list__close)

/* "running", "sleeping", "waiting", "stopped", "traced", "ending". */
const char *thread_list__state(const struct so_thread *thread);

#endif
