/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is at the other end of a Unix socket, as the kernel noted it when that end connected. */
#ifndef STAKEOUT_PEER_H
#define STAKEOUT_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#define PEER_NO_GROUP ((gid_t)-1)

struct peer_identity {
	uid_t uid;
	gid_t gid;
	pid_t pid;   /* in this process's namespace; 0: of another one */
	bool member; /* its group, or one of its supplementary groups, was the one asked for */
};

/* group: PEER_NO_GROUP: nobody is a member. Other errors are getsockopt()'s. */
int peer__identify(int fd, gid_t group, struct peer_identity *out);

#endif
