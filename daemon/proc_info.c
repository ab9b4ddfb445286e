// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/proc_info.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "stakeout/cleanup.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h, as field 9 of /proc/PID/stat shows it */

static int read_file(const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n ? 0 : -ESRCH;
}

/* The command name stands in parentheses and may itself hold any character, so the last parenthesis ends it. */
static int parse_stat(const char *text, struct proc_info *out)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long utime, stime;
	unsigned flags;
	size_t n;
	int ppid;

	if (!open || !close || close < open)
		return -EINVAL;
	n = close - open - 1;
	if (n >= sizeof(out->comm))
		n = sizeof(out->comm) - 1;
	memcpy(out->comm, open + 1, n);
	out->comm[n] = '\0';
	if (sscanf(close + 1, " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %u",
		   &out->state, &ppid, &flags, &utime, &stime, &out->threads) != 6)
		return -EINVAL;
	out->ppid = ppid;
	out->kernel_thread = flags & PF_KTHREAD;
	out->cpu_ns = (uint64_t)(utime + stime) * (1000000000ull / sysconf(_SC_CLK_TCK));
	return 0;
}

static int status_number(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	int value;

	return at && sscanf(at + strlen(key), " %d", &value) == 1 ? value : -1;
}

/* Uid: real, effective, saved, file system (proc(5)). */
static bool has_one_user(const char *status)
{
	const char *line = strstr(status, "\nUid:");
	unsigned uids[4];

	return line && sscanf(line, "\nUid: %u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) == 4 &&
	       uids[0] == uids[1] && uids[0] == uids[2] && uids[0] == uids[3];
}

int proc_info__read(pid_t pid, struct proc_info *out)
{
	struct proc_info info = { 0 };
	char path[64], text[4096];
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	ret = read_file(path, text, sizeof(text));
	if (ret)
		return ret;
	ret = parse_stat(text, &info);
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	ret = read_file(path, text, sizeof(text));
	if (ret)
		return ret;
	info.tgid = status_number(text, "\nTgid:");
	info.uid = status_number(text, "\nUid:");
	info.one_user = has_one_user(text);
	*out = info;
	return 0;
}

bool proc_info__same_namespace(pid_t pid, const char *kind)
{
	char path[64], own[64], other[64];
	ssize_t n, m;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	n = readlink(path, other, sizeof(other));
	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	m = readlink(path, own, sizeof(own));
	return n > 0 && n == m && !memcmp(own, other, n);
}

int proc_info__add_cpus(pid_t tgid, cpu_set_t *cpus)
{
	struct dirent *entry;
	char path[64];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", tgid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(dir))) {
		cpu_set_t of_thread;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		n++;
		if (!sched_getaffinity(atoi(entry->d_name), sizeof(of_thread), &of_thread))
			CPU_OR(cpus, cpus, &of_thread);
	}
	closedir(dir);
	return n;
}

static int append_pair(struct proc_pair **list, size_t *n, size_t *capacity, struct proc_pair pair)
{
	struct proc_pair *more;

	if (*n == *capacity) {
		*capacity = *capacity ? *capacity * 2 : 256;
		more = reallocarray(*list, *capacity, sizeof(*more));
		if (!more)
			return -ENOMEM;
		*list = more;
	}
	(*list)[(*n)++] = pair;
	return 0;
}

int proc_info__all(struct proc_pair **out, size_t *n_out)
{
	_cleanup_free_ struct proc_pair *list = NULL;
	size_t n = 0, capacity = 0;
	struct dirent *entry;
	int ret = 0;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while (!ret && (entry = readdir(dir))) {
		struct proc_info info;
		char path[64], text[1024];

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", atoi(entry->d_name));
		if (read_file(path, text, sizeof(text)) || parse_stat(text, &info))
			continue;
		ret = append_pair(&list, &n, &capacity, (struct proc_pair){ atoi(entry->d_name), info.ppid });
	}
	closedir(dir);
	if (ret)
		return ret;
	*out = TAKE_PTR(list);
	*n_out = n;
	return 0;
}
