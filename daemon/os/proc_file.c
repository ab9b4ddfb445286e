// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

ssize_t proc_file__read(int proc_fd, pid_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = -1;
	size_t used = 0;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s%d/%s", proc_fd < 0 ? "/proc/" : "", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while (used < size - 1 && (n = read(fd, buf + used, size - 1 - used)) != 0) {
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	buf[used] = '\0';
	return (ssize_t)used;
}

int proc_file__uid(int proc_fd, pid_t pid, uid_t *uid)
{
	char text[4096];
	const char *at;
	ssize_t n = proc_file__read(proc_fd, pid, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	at = strstr(text, "\nUid:");
	return at && sscanf(at + strlen("\nUid:"), " %u", uid) == 1 ? 0 : -ESRCH;
}

/* By their numbers in man 5 proc; all behind the state are numbers. */
enum {
	FIELD_PPID = 4,
	FIELD_FLAGS = 9,
	FIELD_USER = 14,
	FIELD_SYSTEM = 15,
	FIELD_THREADS = 20,
	FIELD_START = 22,
	FIELD_STACK = 28,
	FIELD_ARGUMENTS = 48
};

static bool read_fields(const char *text, uint64_t fields[FIELD_ARGUMENTS + 1])
{
	char *end;

	for (unsigned i = FIELD_PPID; i <= FIELD_ARGUMENTS; i++) {
		fields[i] = strtoull(text, &end, 10);
		if (end == text)
			return false;
		text = end;
	}
	return true;
}

bool proc_stat__parse(const char *text, struct proc_stat *out)
{
	/* The name stands in parentheses and may itself hold any character, so the last parenthesis ends it. */
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t fields[FIELD_ARGUMENTS + 1];
	struct proc_stat s = { .comm = "" };
	size_t n;

	if (!open || !close || close < open || close[1] != ' ' || !close[2] || !read_fields(close + 3, fields))
		return false;
	n = (size_t)(close - open) - 1;
	memcpy(s.comm, open + 1, n < sizeof(s.comm) ? n : sizeof(s.comm) - 1);
	s.state = close[2];
	s.ppid = (pid_t)fields[FIELD_PPID];
	s.kernel_thread = fields[FIELD_FLAGS] & PF_KTHREAD;
	s.threads = fields[FIELD_THREADS];
	s.ended = s.state == 'X' || (s.state == 'Z' && s.threads <= 1);
	s.cpu_ticks = fields[FIELD_USER] + fields[FIELD_SYSTEM];
	s.start_ticks = fields[FIELD_START];
	s.stack_at = fields[FIELD_STACK];
	s.arguments_at = fields[FIELD_ARGUMENTS];
	*out = s;
	return true;
}
