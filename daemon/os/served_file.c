// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/served_file.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include "daemon/os/proc_info.h"

bool served_file(pid_t pid, int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return true;
	return fs.f_type == FUSE_SUPER_MAGIC ||
	       (fs.f_type == OVERLAYFS_SUPER_MAGIC && pid && !proc_info__same_namespace(pid, "user"));
}
