// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/proc_info.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/os/proc_file.h"
#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

/* include/linux/proc_ns.h, since 3.8; PID_NS_INIT_INO in newer headers for user space. */
#define PROC_PID_INIT_INO 0xEFFFFFFCu

static int status_number(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	int value;

	return at && sscanf(at + strlen(key), " %d", &value) == 1 ? value : -1;
}

int proc_info__read(pid_t pid, struct proc_info *out)
{
	struct proc_info info = { 0 };
	struct proc_stat stat;
	char text[4096];
	ssize_t n = proc_file__read(PROC_FILE_HERE, pid, "stat", text, sizeof(text));

	if (n <= 0)
		return n ? (int)n : -ESRCH;
	if (!proc_stat__parse(text, &stat))
		return -EINVAL;
	memcpy(info.comm, stat.comm, sizeof(info.comm));
	info.ppid = stat.ppid;
	info.state = stat.state;
	info.threads = (unsigned)stat.threads;
	info.ended = stat.ended;
	info.kernel_thread = stat.kernel_thread;
	info.start_ticks = stat.start_ticks;
	info.cpu_ns = stat.cpu_ticks * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	n = proc_file__read(PROC_FILE_HERE, pid, "status", text, sizeof(text));
	if (n <= 0)
		return n ? (int)n : -ESRCH;
	info.tgid = status_number(text, "\nTgid:");
	info.uid = status_number(text, "\nUid:");
	*out = info;
	return 0;
}

bool proc_info__in_first_pid_namespace(void)
{
	struct stat st;

	/* In a /proc of another namespace there is no "self"; a kernel without such namespaces has no "ns/pid". */
	if (stat("/proc/self/ns/pid", &st))
		return errno == ENOENT && !stat("/proc/self/ns", &st);
	return st.st_ino == PROC_PID_INIT_INO;
}

bool proc_info__same_namespace(pid_t pid, const char *kind)
{
	char path[64], own[64], other[64];
	ssize_t n, m;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", live_thread__of(pid), kind);
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
		struct proc_stat stat;
		char text[1024];

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (proc_file__read(PROC_FILE_HERE, atoi(entry->d_name), "stat", text, sizeof(text)) <= 0 ||
		    !proc_stat__parse(text, &stat))
			continue;
		ret = append_pair(&list, &n, &capacity, (struct proc_pair){ atoi(entry->d_name), stat.ppid });
	}
	closedir(dir);
	if (ret)
		return ret;
	*out = TAKE_PTR(list);
	*n_out = n;
	return 0;
}
