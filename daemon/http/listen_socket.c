// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/listen_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A client that does not block is refused where the queue is full: all that may be connected come at once. */
#define BACKLOG 512

struct listen_socket {
	int fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev; /* of the socket file, to remove only what is ours */
	ino_t ino;
};

static int default_path(char *path, size_t size, struct so_error *err)
{
	const char *runtime = geteuid() ? getenv("XDG_RUNTIME_DIR") : "/run";
	int n;

	if (!runtime || runtime[0] != '/')
		return so_err(err, -ENOENT, "XDG_RUNTIME_DIR is not set: say where to listen with --socket PATH");
	n = snprintf(path, size, "%s/stakeout", runtime);
	if (n < 0 || (size_t)n >= size)
		return so_err(err, -ENAMETOOLONG, "XDG_RUNTIME_DIR is too long for a socket: use --socket PATH");
	if (mkdir(path, geteuid() ? 0700 : 0755) && errno != EEXIST)
		return so_err(err, -errno, "cannot make the directory %s: %s", path, strerror(errno));
	if ((size_t)n + sizeof("/stakeoutd.sock") > size)
		return so_err(err, -ENAMETOOLONG, "XDG_RUNTIME_DIR is too long for a socket: use --socket PATH");
	strcpy(path + n, "/stakeoutd.sock");
	return 0;
}

/*
 * Two daemons that start at once would each take the other's fresh socket for a stale one. The lock on the
 * directory covers the look, the removal and the bind; it leaves no file behind, and is waited for only briefly
 * because anybody who can read the directory could hold it.
 */
static int lock_directory(const char *path, int *out, struct so_error *err)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	_cleanup_close_ int fd = -1;
	const char *dir;

	strcpy(copy, path);
	dir = dirname(copy);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return so_err(err, -errno, "cannot open the directory %s: %s", dir, strerror(errno));
	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB); tries++) {
		if (errno != EWOULDBLOCK)
			return so_err(err, -errno, "cannot lock the directory %s: %s", dir, strerror(errno));
		if (tries == 100)
			return so_err(err, -EBUSY, "the directory %s stays locked by another process", dir);
		nanosleep(&pause, NULL);
	}
	*out = TAKE_FD(fd);
	return 0;
}

static int remove_stale(const struct sockaddr_un *addr, struct so_error *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (lstat(addr->sun_path, &st))
		return errno == ENOENT ? 0
				       : so_err(err, -errno, "cannot look at %s: %s", addr->sun_path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return so_err(err, -EEXIST, "%s exists and is not a socket", addr->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return so_err(err, -errno, "cannot make a socket: %s", strerror(errno));
	/* EAGAIN: somebody listens and its queue is full. Only a refusal says that nobody does. */
	if (!connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) || errno == EAGAIN)
		return so_err(err, -EADDRINUSE, "stakeoutd is already running: it listens on %s", addr->sun_path);
	if (errno != ECONNREFUSED)
		return so_err(err, -errno, "cannot tell who listens on %s: %s", addr->sun_path, strerror(errno));
	if (unlink(addr->sun_path) && errno != ENOENT)
		return so_err(err, -errno, "cannot remove the stale socket %s: %s", addr->sun_path, strerror(errno));
	return 0;
}

/*
 * The file is looked at and changed as one: whoever may write to the directory cannot put another in its place between.
 */
static int give_to_group(const char *path, gid_t group, struct so_error *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (group == (gid_t)-1)
		return 0;
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return so_err(err, -errno, "cannot look at the socket %s: %s", path, strerror(errno));
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return so_err(err, -EEXIST, "somebody replaced the socket %s", path);
	if (fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH))
		return so_err(err, -errno,
			      "cannot give the socket %s to group %u: %s (it needs CAP_CHOWN, or membership)", path,
			      group, strerror(errno));
	return 0;
}

/* The mode is set on the descriptor before bind(), which gives it to the file: at no time is it wider. */
static int bind_and_listen(struct listen_socket *sock, const struct sockaddr_un *addr, mode_t mode, gid_t group,
			   struct so_error *err)
{
	struct stat st;
	mode_t mask;
	int ret;

	sock->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock->fd < 0 || fchmod(sock->fd, mode))
		return so_err(err, -errno, "cannot make a socket: %s", strerror(errno));
	mask = umask(0);
	ret = bind(sock->fd, (const struct sockaddr *)addr, sizeof(*addr)) ? -errno : 0;
	umask(mask);
	if (ret)
		return so_err(err, ret, "cannot make the socket %s: %s", addr->sun_path, strerror(-ret));
	if (lstat(addr->sun_path, &st))
		return so_err(err, -errno, "cannot look at the socket %s: %s", addr->sun_path, strerror(errno));
	sock->dev = st.st_dev;
	sock->ino = st.st_ino;
	strcpy(sock->path, addr->sun_path); /* from here on the file is removed with the object */
	ret = give_to_group(addr->sun_path, group, err);
	if (ret)
		return ret;
	if (listen(sock->fd, BACKLOG))
		return so_err(err, -errno, "cannot listen on %s: %s", addr->sun_path, strerror(errno));
	return 0;
}

int listen_socket__open(const char *path, mode_t mode, gid_t group, struct listen_socket **out, struct so_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_(listen_socket) struct listen_socket *sock = calloc(1, sizeof(*sock));
	_cleanup_close_ int lock = -1;
	int ret;

	if (!sock)
		return so_err(err, -ENOMEM, "out of memory");
	sock->fd = -1;
	if (!path) {
		ret = default_path(addr.sun_path, sizeof(addr.sun_path), err);
		if (ret)
			return ret;
	} else if (!path[0] || strlen(path) >= sizeof(addr.sun_path)) {
		return so_err(err, -ENAMETOOLONG, "a socket's path has 1 to %zu bytes, not %zu",
			      sizeof(addr.sun_path) - 1, strlen(path));
	} else {
		strcpy(addr.sun_path, path);
	}
	ret = lock_directory(addr.sun_path, &lock, err);
	if (!ret)
		ret = remove_stale(&addr, err);
	if (!ret)
		ret = bind_and_listen(sock, &addr, mode, group, err);
	if (ret)
		return ret;
	*out = TAKE_PTR(sock);
	return 0;
}

const char *listen_socket__path(const struct listen_socket *sock)
{
	return sock->path;
}

int listen_socket__take_fd(struct listen_socket *sock)
{
	return TAKE_FD(sock->fd);
}

void listen_socket__free(struct listen_socket *sock)
{
	struct stat st;

	if (!sock)
		return;
	if (sock->path[0] && !lstat(sock->path, &st) && st.st_dev == sock->dev && st.st_ino == sock->ino)
		unlink(sock->path);
	cleanup__close(&sock->fd);
	free(sock);
}
