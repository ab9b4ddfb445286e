/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program that the daemon starts to do for it what may hang or crash, and that it speaks with over a socket. */
#ifndef STAKEOUT_HELPER_PROCESS_H
#define STAKEOUT_HELPER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#define HELPER_MAX_STUCK 2 /* that were killed and have not ended, as in a driver: no other is started beside them */

/* All zero: none was started. */
struct helper_process {
	pid_t pid; /* 0: none runs */
	pid_t stuck[HELPER_MAX_STUCK];
	unsigned n_stuck;
};

/*
 * Starts the program with one argument; with none of the daemon's descriptors but `fd`, as standard input, and the log;
 * signals as for any program. -EBUSY: one runs, or HELPER_MAX_STUCK have not ended; else as posix_spawn(3).
 */
int helper_process__start(struct helper_process *helper, const char *program, const char *argument, int fd);
/* Kills it and waits for a tenth of a second; one that has not ended then is kept in mind. */
void helper_process__end(struct helper_process *helper);

#endif
