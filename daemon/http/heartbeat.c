// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/heartbeat.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

/* A path that does not exist will do: that answer, too, comes from a handler. */
static const char request[] = "GET " HEARTBEAT_PATH " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/* Not blocking: with a full queue of a server that accepts nothing, connect() would wait for it. */
static int dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		return -1;
	strcpy(address.sun_path, path);
	return connect(fd, (const struct sockaddr *)&address, sizeof(address)) ? -1 : TAKE_FD(fd);
}

bool heartbeat__serves(const char *socket_path, unsigned timeout_ms)
{
	_cleanup_close_ int fd = dial(socket_path);
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	char answer[8];
	ssize_t n;

	if (fd < 0)
		return false;
	/* One that was turned away at once cannot be written to any more, but has something to read. */
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		return false;
	if (poll(&wait, 1, (int)timeout_ms) <= 0)
		return false;
	n = recv(fd, answer, sizeof(answer), 0);
	return n >= 0 ? n == 0 || answer[0] == 'H' : errno == ECONNRESET;
}
