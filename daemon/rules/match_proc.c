// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/rules/match_proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/memory_lock.h"
#include "daemon/os/proc_file.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"

static uint64_t mix(uint64_t hash, uint64_t word)
{
	return ((hash ^ word) * 0x9e3779b97f4a7c15ull) ^ (hash >> 29);
}

/* Where the arguments and the stack lie is 0 for who may not know, and then only the name tells. */
static uint64_t image_of(const struct proc_stat *s)
{
	uint64_t words[2];

	_Static_assert(sizeof(words) == sizeof(s->comm), "all of the name");
	memcpy(words, s->comm, sizeof(words));
	return mix(mix(mix(mix(1, words[0]), words[1]), s->stack_at), s->arguments_at);
}

bool match_proc__parse_stat(const char *text, struct match_entry *out)
{
	struct match_entry e = { .pid = 0 };
	struct proc_stat s;

	if (!proc_stat__parse(text, &s))
		return false;
	memcpy(e.comm, s.comm, sizeof(e.comm));
	e.ppid = s.ppid;
	e.start_ticks = s.start_ticks;
	e.unfit = s.kernel_thread || s.ended;
	e.image = image_of(&s);
	*out = e;
	return true;
}

static int compare_pid(const void *a, const void *b)
{
	const struct match_entry *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int match_proc__read(int proc_fd, pid_t pid, struct match_entry *out)
{
	struct match_entry entry;
	char text[1024];
	ssize_t n = proc_file__read(proc_fd, pid, "stat", text, sizeof(text));

	if (n == -EMFILE || n == -ENFILE || n == -ENOMEM)
		return (int)n;
	if (n <= 0 || !match_proc__parse_stat(text, &entry))
		return -ESRCH;
	entry.pid = pid;
	*out = entry;
	return 0;
}

int match_proc__list(int proc_fd, struct match_entry **out, size_t *n_out)
{
	_cleanup_free_ struct match_entry *list = NULL;
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0, capacity = 0;
	struct dirent *entry;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (!r && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		r = ARRAY_RESERVE(list, capacity, n + 1);
		r = r ?: match_proc__read(proc_fd, atoi(entry->d_name), &list[n]);
		n += !r;
		r = r == -ESRCH ? 0 : r;
	}
	closedir(dir);
	if (r)
		return r;
	if (n)
		qsort(list, n, sizeof(*list), compare_pid);
	*out = TAKE_PTR(list);
	*n_out = n;
	return 0;
}

void match_proc__join_arguments(char *text, size_t n)
{
	/* Who rewrites its own title often leaves NULs behind it. */
	while (n && !text[n - 1])
		n--;
	for (size_t i = 0; i < n; i++) {
		if (!text[i])
			text[i] = ' ';
	}
	text[n] = '\0';
}

void match_proc__cut_cgroups(char *text)
{
	char *to = text;

	for (char *line = text, *next; *line; line = next) {
		size_t length = strcspn(line, "\n");
		char *path = memchr(line, ':', length);

		next = line + length + (line[length] == '\n');
		if (path)
			path = memchr(path + 1, ':', (size_t)(line + length - (path + 1)));
		if (!path)
			continue;
		path++;
		length = (size_t)(line + length - path);
		if (to != text)
			*to++ = '\n';
		memmove(to, path, length);
		to += length;
	}
	*to = '\0';
}

int match_proc__describe(int proc_fd, pid_t pid, bool cgroups, struct match_texts *texts, struct match_process *out)
{
	uid_t uid = 0;
	ssize_t n;
	int ret = proc_file__uid(proc_fd, pid, &uid);

	if (ret)
		return ret;
	n = memory_lock__read_file(proc_fd, pid, "cmdline", texts->command, sizeof(texts->command));
	if (n < 0)
		return (int)n;
	match_proc__join_arguments(texts->command, (size_t)n);
	texts->cgroups[0] = '\0';
	if (cgroups) {
		n = proc_file__read(proc_fd, pid, "cgroup", texts->cgroups, sizeof(texts->cgroups));
		if (n < 0)
			return (int)n;
		match_proc__cut_cgroups(texts->cgroups);
	}
	*out = (struct match_process){ uid, texts->command, texts->cgroups };
	return 0;
}
