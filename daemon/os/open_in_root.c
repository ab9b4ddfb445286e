// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/open_in_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

/* Files by which the kernel speaks: a read may wait, take what another would have read, or have an effect. */
static bool is_kernels(int fd)
{
	static const long types[] = { PROC_SUPER_MAGIC,   SYSFS_MAGIC,         DEBUGFS_MAGIC,   TRACEFS_MAGIC,
				      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, SECURITYFS_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return true;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (fs.f_type == types[i])
			return true;
	return false;
}

int open_regular(int path_fd, const struct file_reader *reader)
{
	char link[32];
	struct stat st;
	int fd;

	if (fstat(path_fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISREG(st.st_mode) || is_kernels(path_fd))
		return -ENOENT;
	if (reader && !file_reader__may_read(reader, &st))
		return -EACCES;
	/* The very file that was looked at, whatever the path leads to by now. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int open_in_root(const char *root, const char *path, bool follow, const struct file_reader *reader)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int root_fd = -1, path_fd = -1;

	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	while (*path == '/')
		path++;
	path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (path_fd < 0)
		return -errno;
	return open_regular(path_fd, reader);
}
