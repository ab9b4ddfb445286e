// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/bounded_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/bounded_call.h"
#include "daemon/os/open_in_root.h"
#include "daemon/os/served_file.h"
#include "stakeout/cleanup.h"

struct opening {
	char *root, *path;
	bool follow, has_reader;
	struct file_reader reader;
	int fd; /* or -errno */
};

static void forget_opening(void *context)
{
	struct opening *o = context;

	if (o->fd >= 0)
		close(o->fd);
	free(o->root);
	free(o->path);
	free(o);
}

/* Of "/proc/PID/root"; 0: of "/". */
static pid_t pid_of(const char *root)
{
	int pid;

	return sscanf(root, "/proc/%d/root", &pid) == 1 ? pid : 0;
}

static bool is_users_program(const struct opening *o, int fd)
{
	return !geteuid() && o->has_reader && o->reader.uid && served_file(pid_of(o->root), fd);
}

static int open_and_try(const struct opening *o)
{
	_cleanup_close_ int fd = open_in_root(o->root, o->path, o->follow, o->has_reader ? &o->reader : NULL);
	char byte;

	if (fd < 0)
		return fd;
	if (is_users_program(o, fd))
		return -EACCES;
	if (pread(fd, &byte, 1, 0) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static void run_opening(void *context)
{
	struct opening *o = context;

	o->fd = open_and_try(o);
}

int bounded_open(const char *root, const char *path, bool follow, const struct file_reader *reader)
{
	struct opening *o = calloc(1, sizeof(*o));
	int ret;

	if (!o)
		return -ENOMEM;
	o->fd = -EBUSY;
	o->follow = follow;
	o->has_reader = reader;
	if (reader)
		o->reader = *reader;
	o->root = strdup(root);
	o->path = strdup(path);
	ret = o->root && o->path ? 0 : -ENOMEM;
	if (ret) {
		forget_opening(o);
		return ret;
	}
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_PATHS,
							 .pid = getpid(),
							 .patience_ms = BOUNDED_OPEN_MS,
							 .run = run_opening,
							 .forget = forget_opening,
							 .context = o,
							 .uid = reader ? reader->uid : 0 });
	if (ret)
		return ret;
	ret = o->fd;
	o->fd = -1;
	forget_opening(o);
	return ret;
}
