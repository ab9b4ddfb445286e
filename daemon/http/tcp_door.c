// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/tcp_door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "stakeout/cleanup.h"

#define BACKLOG 64

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool parse_port(const char *text, in_port_t *out)
{
	unsigned long port;

	if (!text[0] || strspn(text, "0123456789") != strlen(text) || strlen(text) > 5)
		return false;
	port = strtoul(text, NULL, 10);
	if (port > 65535)
		return false;
	*out = htons((in_port_t)port);
	return true;
}

static bool parse_host(const char *text, size_t n, in_port_t port, union address *out)
{
	char host[INET6_ADDRSTRLEN];
	bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';

	if (brackets) {
		text++;
		n -= 2;
	}
	if (!n || n >= sizeof(host))
		return false;
	memcpy(host, text, n);
	host[n] = '\0';
	memset(out, 0, sizeof(*out));
	if (brackets) {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = port;
		return inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1;
	}
	out->v4.sin_family = AF_INET;
	out->v4.sin_port = port;
	return inet_pton(AF_INET, host, &out->v4.sin_addr) == 1;
}

static bool is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
	return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static socklen_t size_of(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

static int bind_and_listen(const union address *address, int *out)
{
	_cleanup_close_ int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	/* Connections of an earlier daemon that linger must not keep this one from its port. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		return -errno;
	/* [::] means IPv6 alone, whatever the system's default is. */
	if (address->any.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)))
		return -errno;
	if (bind(fd, &address->any, size_of(address)) || listen(fd, BACKLOG))
		return -errno;
	*out = TAKE_FD(fd);
	return 0;
}

static void print_name(int fd, const char *text, size_t host_length, char name[TCP_DOOR_NAME])
{
	union address address = { 0 };
	socklen_t size = sizeof(address);
	in_port_t port = 0;

	if (!getsockname(fd, &address.any, &size))
		port = address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port;
	snprintf(name, TCP_DOOR_NAME, "%.*s:%u", (int)host_length, text, (unsigned)ntohs(port));
}

int tcp_door__open(const char *text, bool anywhere, int *fd, char name[TCP_DOOR_NAME], struct so_error *err)
{
	const char *colon = strrchr(text, ':');
	union address address;
	in_port_t port;
	int ret;

	if (!colon || !parse_port(colon + 1, &port) || !parse_host(text, (size_t)(colon - text), port, &address))
		return so_err(err, -EINVAL,
			      "'%.80s' is no address to listen on: 127.0.0.1:PORT or [::1]:PORT, in numbers", text);
	if (!anywhere && !is_loopback(&address))
		return so_err(err, -EPERM,
			      "%s can be reached from other machines: add --listen-anywhere if that is meant", text);
	ret = bind_and_listen(&address, fd);
	if (ret)
		return so_err(err, ret, "cannot listen on %s: %s", text, strerror(-ret));
	print_name(*fd, text, (size_t)(colon - text), name);
	return 0;
}
