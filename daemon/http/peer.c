// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "stakeout/cleanup.h"

/* Linux 4.13; not in all headers of the C library. */
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

/* The kernel answers ERANGE, and the length, when there are more: the list does not change once it is connected. */
static bool is_supplementary(int fd, gid_t group)
{
	_cleanup_free_ gid_t *groups = NULL;
	socklen_t length = 0;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &length) || errno != ERANGE)
		return false;
	groups = malloc(length);
	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &length))
		return false;
	for (size_t i = 0; i < length / sizeof(*groups); i++)
		if (groups[i] == group)
			return true;
	return false;
}

int peer__identify(int fd, gid_t group, struct peer_identity *out)
{
	struct ucred cred;
	socklen_t length = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length))
		return -errno;
	*out = (struct peer_identity){
		.uid = cred.uid,
		.gid = cred.gid,
		.pid = cred.pid,
		.member = group != PEER_NO_GROUP && (cred.gid == group || is_supplementary(fd, group)),
	};
	return 0;
}
