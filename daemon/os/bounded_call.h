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
 * The waiting that the processes of one user other than root may cost in BOUNDED_CALL_PERIOD_MS, of each kind. Each
 * wait counts with BOUNDED_CALL_MOST_MS at most. Beyond it, none of them is waited for until that time is over.
 */
#define BOUNDED_CALL_PERIOD_MS 10000
#define BOUNDED_CALL_USER_MS   1000
#define BOUNDED_CALL_MOST_MS   500
/* What hangs for so long is logged. */
#define BOUNDED_CALL_SAID_MS 1000

/*
 * Files that a process maps take long to read without any harm meant, and the memory can be read meanwhile. Files that
 * are looked for by a path are about the user for whom that is done; one that hangs says nothing of others.
 */
enum bounded_call_kind { BOUNDED_CALL_MEMORY, BOUNDED_CALL_FILES, BOUNDED_CALL_PATHS };

struct bounded_call {
	enum bounded_call_kind kind;
	pid_t pid;                     /* the process that it is about; of BOUNDED_CALL_PATHS any */
	unsigned patience_ms;          /* how long it is waited for */
	void (*run)(void *context);    /* in another thread, with no lock of the caller's */
	void (*forget)(void *context); /* gives back what came too late, in that thread; with no lock */
	void *context;
	uid_t uid; /* of BOUNDED_CALL_PATHS: for whom */
};

/*
 * 0: run() has returned, and the context is the caller's as before. -EINPROGRESS: it has not, and the context is the
 * call's, which forgets it once it does. -EBUSY: it was not begun, since another call of this kind about the process
 * hangs already, or its user has used up what is theirs (and it is about memory: one about files is begun, but not
 * waited for); forget() was called. Thread-safe.
 */
int bounded_call__make(const struct bounded_call *call);
/* The same of a call that does so many things that may take their time, before it costs its process's user any. */
int bounded_call__make_of(const struct bounded_call *call, unsigned things);

/* Calls that hang for BOUNDED_CALL_SAID_MS or longer; logs their processes, each once. Their end is logged too. */
unsigned bounded_call__stuck(void);

#endif
