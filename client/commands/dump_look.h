/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads of processes as they are now, asked of the daemon one process after another. */
#ifndef STAKEOUT_CLIENT_DUMP_LOOK_H
#define STAKEOUT_CLIENT_DUMP_LOOK_H

#include "client/session/session.h"
#include "client/session/target.h"
#include "profile/profile.h"
#include "stakeout/error.h"

struct dump_look {
	pid_t pid;
	bool below;              /* one before it in the row is its parent, or that one's parent, and so on */
	struct profile *profile; /* NULL: see ret and problem; the caller's */
	int ret;
	struct so_error problem;
	struct target target; /* through which it was looked at */
	bool attached;        /* by this look, which detaches it before it ends */
	bool child;           /* of a target, as it seems */
	bool again;           /* it was tried twice */
};

/*
 * Fills in all but pid and below. With `children` those of a process are looked at through
 * its target. A process that cannot be looked at fails the call only where it is the one process. -EINTR: interrupted.
 */
int dump_look__at(struct session *session, struct dump_look *looks, size_t n, bool children, struct so_error *err);

#endif
