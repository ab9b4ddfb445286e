/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Through which thread a process's memory is reached. The first thread may end before the others (pthread_exit in main):
 * then it stays as a zombie without memory, its files below /proc/PID are empty or refused, and system calls with its
 * number fail. Any other thread has the same memory and files.
 */
#ifndef STAKEOUT_LIVE_THREAD_H
#define STAKEOUT_LIVE_THREAD_H

#include <sys/types.h>

/* A thread of the process that has not ended: pid itself where that one has not. 0: there is none. */
pid_t live_thread__of(pid_t pid);

#endif
