// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/process_list.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stakeout/array.h"
#include "stakeout/proc_stat.h"

static ssize_t read_stat(pid_t pid, char *text, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : read(fd, text, size);
}

static int add(struct process_list *list, pid_t pid)
{
	char text[1024];
	ssize_t n = read_stat(pid, text, sizeof(text) - 1);
	struct process_entry entry = { .pid = pid };
	struct proc_stat stat;

	if (n <= 0)
		return 0; /* it has ended */
	text[n] = '\0';
	if (!proc_stat__parse(text, &stat))
		return 0;
	entry.ppid = stat.ppid;
	entry.ended = stat.ended;
	entry.start_ticks = stat.start_ticks;
	snprintf(entry.comm, sizeof(entry.comm), "%s", stat.comm);
	if (ARRAY_RESERVE(list->entries, list->capacity, list->n + 1))
		return -ENOMEM;
	list->entries[list->n++] = entry;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct process_entry *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int process_list__read(struct process_list *out, struct so_error *err)
{
	_cleanup_(process_list) struct process_list list = { 0 };
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int ret = 0;

	if (!dir)
		return so_err(err, -errno, "cannot read /proc: %s", strerror(errno));
	while (!ret && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			ret = add(&list, atoi(entry->d_name));
	closedir(dir);
	if (ret)
		return so_err(err, ret, "out of memory");
	if (list.n)
		qsort(list.entries, list.n, sizeof(*list.entries), compare);
	*out = list;
	list = (struct process_list){ 0 };
	return 0;
}

void process_list__release(struct process_list *list)
{
	free(list->entries);
	*list = (struct process_list){ 0 };
}

const struct process_entry *process_list__find(const struct process_list *list, pid_t pid)
{
	size_t i = ARRAY_BEFORE(at, list->n, list->entries[at].pid < pid);

	return i < list->n && list->entries[i].pid == pid ? &list->entries[i] : NULL;
}

bool process_list__has_children(const struct process_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->entries[i].ppid == pid)
			return true;
	}
	return false;
}

/* Not forever: processes that ended while the list was read may have left a circle. */
bool process_list__is_below(const struct process_list *list, pid_t pid, pid_t above)
{
	const struct process_entry *entry = process_list__find(list, pid);

	for (size_t i = 0; entry && i < list->n; i++) {
		if (entry->ppid == above)
			return true;
		entry = process_list__find(list, entry->ppid);
	}
	return false;
}
