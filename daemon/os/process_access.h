/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether somebody may look into a process: what the kernel asks of a debugger that runs in their name and has no
 * capabilities (__ptrace_may_access() and cap_ptrace_access_check() in Linux, ptrace(2) in words). Capabilities of a
 * caller are not asked for: the process that holds a socket can execute another program at any moment.
 */
#ifndef STAKEOUT_PROCESS_ACCESS_H
#define STAKEOUT_PROCESS_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "stakeout/error.h"

/* In whose name something is done. uid 0: in root's, who may look into all processes. */
struct caller {
	uid_t uid;
	gid_t gid;
};

static inline bool caller__equal(struct caller a, struct caller b)
{
	return a.uid == b.uid && a.gid == b.gid;
}

/* Whether the caller may see what is of the process of this viewer; viewer.uid 0: nobody but root. */
static inline bool caller__sees(struct caller caller, struct caller viewer)
{
	return !caller.uid || caller__equal(caller, viewer);
}

/*
 * The one user who may look into a process beside root; uid 0: there is none, or no such process. It holds for the
 * program that the process executes now.
 */
struct caller process_access__viewer(pid_t pid);

/* 0: the caller may. -EPERM: why not, as one line for the user. -ESRCH. */
int process_access__check(pid_t pid, struct caller caller, struct so_error *err);

/*
 * The same as far as one system call tells, for a process that the caller may look into as checked before: false once
 * it has executed a program with rights of its own.
 */
bool process_access__holds(pid_t pid, struct caller caller);

#endif
