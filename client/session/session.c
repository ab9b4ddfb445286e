// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/session/private_daemon.h"

#define SYSTEM_SOCKET "/run/stakeout/stakeoutd.sock"

struct session {
	struct private_daemon *private_daemon; /* NULL: the daemon runs by itself */
	struct api_client *api;
};

/* -errno where no daemon answers: -EACCES, one may be there, but not for this user. */
static int dial(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) && errno != EAGAIN))
		return -errno;
	return 0; /* EAGAIN: its queue is full, so it is there */
}

static bool listens(const char *path)
{
	return !dial(path);
}

/* Root's commands go to root's daemon alone; others prefer their own. */
static bool session__find_socket(const char *socket, char *path, size_t size)
{
	const char *runtime = geteuid() ? getenv("XDG_RUNTIME_DIR") : NULL;

	if (socket)
		return (size_t)snprintf(path, size, "%s", socket) < size && listens(path);
	if (runtime && runtime[0] == '/' &&
	    (size_t)snprintf(path, size, "%s/stakeout/stakeoutd.sock", runtime) < size && listens(path))
		return true;
	return (size_t)snprintf(path, size, "%s", SYSTEM_SOCKET) < size && listens(path);
}

static int open_private(struct session *session, struct so_error *err)
{
	int ret = private_daemon__start(&session->private_daemon, err);

	return ret ? ret : api_client__new(private_daemon__socket(session->private_daemon), &session->api, err);
}

int session__open(const char *socket, enum session_need need, struct session **out, struct so_error *err)
{
	_cleanup_(session) struct session *session = calloc(1, sizeof(*session));
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int ret;

	if (!session)
		return so_err(err, -ENOMEM, "out of memory");
	if (socket)
		ret = api_client__new(socket, &session->api, err); /* its first request says what is wrong */
	else if (session__find_socket(NULL, path, sizeof(path)))
		ret = api_client__new(path, &session->api, err);
	else if (need == SESSION_ANY)
		ret = open_private(session, err);
	else if (dial(SYSTEM_SOCKET) == -EACCES)
		ret = so_err(err, -EACCES,
			     "you may not use the daemon's socket %s: root and the members of its group may "
			     "(--group and --socket-mode in stakeoutd(8))",
			     SYSTEM_SOCKET);
	else
		ret = so_err(err, -ECONNREFUSED,
			     "no daemon is running; start one with 'sudo stakeoutd &', or name its socket with "
			     "--socket PATH");
	if (!ret)
		*out = TAKE_PTR(session);
	return ret;
}

struct api_client *session__api(struct session *session)
{
	return session->api;
}

bool session__private(const struct session *session)
{
	return session->private_daemon;
}

void session__free(struct session *session)
{
	if (!session)
		return;
	api_client__free(session->api);
	private_daemon__free(session->private_daemon);
	free(session);
}
