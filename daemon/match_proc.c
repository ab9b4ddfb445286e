// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/match_proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stakeout/array.h"
#include "stakeout/cleanup.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h, as field 9 of /proc/PID/stat shows it */

/* Up to size - 1 bytes and a NUL; returns how many, or -errno. */
static ssize_t read_at(int proc_fd, pid_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = -1;
	size_t used = 0;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%d/%s", pid, name);
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

static uint64_t mix(uint64_t hash, uint64_t word)
{
	return ((hash ^ word) * 0x9e3779b97f4a7c15ull) ^ (hash >> 29);
}

/* Where the arguments and the stack lie is 0 for who may not know, and then only the name tells. */
static uint64_t image_of(const struct match_entry *e, uint64_t stack, uint64_t arguments)
{
	uint64_t words[2];

	memcpy(words, e->comm, sizeof(words));
	return mix(mix(mix(mix(1, words[0]), words[1]), stack), arguments);
}

/* Fields of /proc/PID/stat by their numbers in man 5 proc; all behind the state are numbers. */
enum {
	FIELD_PPID = 4,
	FIELD_FLAGS = 9,
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

bool match_proc__parse_stat(const char *text, struct match_entry *out)
{
	/* The name stands in parentheses and may itself hold any character, so the last parenthesis ends it. */
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	struct match_entry e = { .pid = 0 };
	uint64_t fields[FIELD_ARGUMENTS + 1];
	size_t n;
	char state;

	if (!open || !close || close < open || close[1] != ' ' || !close[2] || !read_fields(close + 3, fields))
		return false;
	state = close[2];
	n = (size_t)(close - open) - 1;
	memcpy(e.comm, open + 1, n < sizeof(e.comm) ? n : sizeof(e.comm) - 1);
	e.ppid = (pid_t)fields[FIELD_PPID];
	e.start_ticks = fields[FIELD_START];
	/* A process whose first thread has ended while others run shows 'Z' as well. */
	e.unfit = fields[FIELD_FLAGS] & PF_KTHREAD || state == 'X' ||
		  (state == 'Z' && fields[FIELD_THREADS] <= 1);
	e.image = image_of(&e, fields[FIELD_STACK], fields[FIELD_ARGUMENTS]);
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
	ssize_t n = read_at(proc_fd, pid, "stat", text, sizeof(text));

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

static int read_uid(int proc_fd, pid_t pid, uid_t *uid)
{
	char text[4096];
	const char *at;
	ssize_t n = read_at(proc_fd, pid, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	at = strstr(text, "\nUid:");
	return at && sscanf(at + strlen("\nUid:"), " %u", uid) == 1 ? 0 : -ESRCH;
}

int match_proc__describe(int proc_fd, pid_t pid, bool cgroups, struct match_texts *texts,
			 struct match_process *out)
{
	uid_t uid = 0;
	ssize_t n;
	int r = read_uid(proc_fd, pid, &uid);

	if (r)
		return r;
	n = read_at(proc_fd, pid, "cmdline", texts->command, sizeof(texts->command));
	if (n < 0)
		return (int)n;
	match_proc__join_arguments(texts->command, (size_t)n);
	texts->cgroups[0] = '\0';
	if (cgroups) {
		n = read_at(proc_fd, pid, "cgroup", texts->cgroups, sizeof(texts->cgroups));
		if (n < 0)
			return (int)n;
		match_proc__cut_cgroups(texts->cgroups);
	}
	*out = (struct match_process){ uid, texts->command, texts->cgroups };
	return 0;
}
