/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that may never return, made in a thread that the program can do without.
 *
 * What a process decides may keep a system call of the daemon's waiting: a thread in uninterruptible sleep that holds
 * the lock of the process's memory, as behind a dead file server, and a page of a file that a user's program serves
 * (FUSE) and never answers. So whatever looks into a process's memory or its files does that in such a call: it works
 * on what belongs to the call, never on the caller's own memory, and who waits for it gives up after a while.
 */
#ifndef STAKEOUT_BOUNDED_CALL_H
#define STAKEOUT_BOUNDED_CALL_H

#include <stdbool.h>
#include <sys/types.h>

/* Calls that can hang at once, each with a thread that waits for it; and those of one user other than root. */
#define BOUNDED_CALL_MAX_STUCK  32
#define BOUNDED_CALL_USER_STUCK 8
/*
 * The waiting that the processes of one user other than root may cost in BOUNDED_CALL_PERIOD_MS. Beyond it, none of
 * them is waited for until that time is over.
 */
#define BOUNDED_CALL_PERIOD_MS 10000
#define BOUNDED_CALL_USER_MS   1000
/* What hangs for so long is logged. */
#define BOUNDED_CALL_SAID_MS 1000

struct bounded_call {
	pid_t pid;                     /* the process that it is about */
	unsigned patience_ms;          /* how long it is waited for */
	void (*run)(void *context);    /* in another thread, with no lock of the caller's */
	void (*forget)(void *context); /* gives back what came too late, in that thread; with no lock */
	void *context;
};

/*
 * 0: run() has returned, and the context is the caller's as before. -EBUSY: it has not, and the context is the call's,
 * which forgets it once it does; or another call about the process hangs already, or its user has used up what is
 * theirs: then forget() is called at once. Thread-safe.
 */
int bounded_call__make(const struct bounded_call *call);

/* Processes that hang for BOUNDED_CALL_SAID_MS or longer; logs those that it finds first. Their end is logged by itself. */
unsigned bounded_call__stuck(void);

#endif
