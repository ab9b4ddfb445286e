// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/files/file_copy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/os/limits.h"
#include "daemon/os/served_file.h"
#include "stakeout/cleanup.h"

static int copy(int from, int to, uint64_t size)
{
	char buf[1 << 16];

	for (uint64_t done = 0; done < size;) {
		ssize_t n = pread(from, buf, size - done < sizeof(buf) ? size - done : sizeof(buf), (off_t)done);

		if (n <= 0)
			return n ? -errno : -EIO;
		if (pwrite(to, buf, (size_t)n, (off_t)done) != n)
			return -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

/* How much of a file of so many bytes is copied: all or nothing. */
static uint64_t take_bytes(uid_t uid, off_t bytes)
{
	if (bytes <= 0)
		return 0;
	if (bytes > FILE_COPY_MAX_BYTES) {
		limits__hit(LIMIT_FILE_COPIES, 1);
		return 0;
	}
	return limits__take_of(LIMIT_FILE_COPIES, uid, (uint64_t)bytes) ? (uint64_t)bytes : 0;
}

int file_copy__replace(pid_t pid, uid_t uid, int *fd)
{
	_cleanup_close_ int made = -1;
	struct stat st;
	uint64_t size;
	int ret;

	if (!served_file(pid, *fd))
		return 0;
	made = memfd_create("copy of a target's file", MFD_CLOEXEC);
	if (made < 0 || fstat(*fd, &st))
		return -errno;
	size = take_bytes(uid, st.st_size);
	ret = copy(*fd, made, size);
	if (ret) {
		limits__give_of(LIMIT_FILE_COPIES, uid, size);
		return ret;
	}
	close(*fd);
	*fd = TAKE_FD(made);
	return 1;
}

void file_copy__forget(int fd, uid_t uid)
{
	struct stat st;

	if (!fstat(fd, &st))
		limits__give_of(LIMIT_FILE_COPIES, uid, (uint64_t)st.st_size);
}
