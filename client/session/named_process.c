// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/named_process.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/session/message.h"
#include "client/session/process_arguments.h"
#include "client/session/process_list.h"
#include "stakeout/short_path.h"

#define COMMAND_BYTES 4096
#define SHOWN_COLUMNS 90 /* of a command line */
#define USER_BYTES    33
#define AGE_BYTES     24

struct naming {
	const char *name;
	struct process_list list;
	bool *named; /* by place in the list */
};

static void cleanup__naming(struct naming *n)
{
	process_list__release(&n->list);
	free(n->named);
}

static bool is_called(const char *name, const struct process_entry *entry)
{
	char arguments[COMMAND_BYTES];
	const char *script;
	ssize_t n;

	if (entry->ended || entry->pid == getpid())
		return false;
	n = process_arguments__read(entry->pid, arguments, sizeof(arguments));
	/* Of one that hangs the name alone is known. */
	if (n == -EBUSY)
		return !strcmp(entry->comm, name);
	if (n <= 0)
		return false;
	script = process_arguments__script(arguments, (size_t)n);
	return !strcmp(entry->comm, name) || !strcmp(short_path(arguments), name) || (script && !strcmp(script, name));
}

/* One that another one started, or that one's child, and so on, is recorded with it. */
static bool is_below_another(const struct naming *n, size_t i)
{
	for (size_t j = 0; j < n->list.n; j++)
		if (n->named[j] && j != i &&
		    process_list__is_below(&n->list, n->list.entries[i].pid, n->list.entries[j].pid))
			return true;
	return false;
}

static void user_of(pid_t pid, char text[USER_BYTES])
{
	char path[64], buffer[16384];
	struct passwd entry, *found = NULL;
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st)) {
		snprintf(text, USER_BYTES, "-");
		return;
	}
	if (getpwuid_r(st.st_uid, &entry, buffer, sizeof(buffer), &found) || !found)
		snprintf(text, USER_BYTES, "%u", st.st_uid);
	else
		snprintf(text, USER_BYTES, "%s", entry.pw_name);
	message__clean(text);
}

/* "12s", "3m12s", "2h05m", "4d07h" */
static void age_of(uint64_t start_ticks, char text[AGE_BYTES])
{
	long ticks_per_s = sysconf(_SC_CLK_TCK);
	struct timespec now;
	unsigned long long s;

	clock_gettime(CLOCK_BOOTTIME, &now);
	s = start_ticks / (uint64_t)ticks_per_s;
	s = (uint64_t)now.tv_sec > s ? (uint64_t)now.tv_sec - s : 0;
	if (s < 60)
		snprintf(text, AGE_BYTES, "%llus", s);
	else if (s < 3600)
		snprintf(text, AGE_BYTES, "%llum%02llus", s / 60, s % 60);
	else if (s < 86400)
		snprintf(text, AGE_BYTES, "%lluh%02llum", s / 3600, s / 60 % 60);
	else
		snprintf(text, AGE_BYTES, "%llud%02lluh", s / 86400, s / 3600 % 24);
}

static void print_row(const struct process_entry *entry)
{
	char arguments[SHOWN_COLUMNS], user[USER_BYTES], age[AGE_BYTES];
	ssize_t n = process_arguments__read(entry->pid, arguments, sizeof(arguments));

	user_of(entry->pid, user);
	age_of(entry->start_ticks, age);
	if (n > 0)
		process_arguments__join(arguments, (size_t)n, sizeof(arguments));
	else
		snprintf(arguments, sizeof(arguments), "%s", entry->comm);
	message__note("%8d  %-10s  %7s  %s", entry->pid, user, age, arguments);
}

static int choose(const struct naming *n, pid_t *out, struct so_error *err)
{
	size_t count = 0;

	for (size_t i = 0; i < n->list.n; i++)
		if (n->named[i] && !is_below_another(n, i)) {
			*out = n->list.entries[i].pid;
			count++;
		}
	if (count == 1)
		return 0;
	if (!count)
		return so_err(err, -ENOENT, "'%s' is not a process ID, and no process is called so", n->name);
	message__note("%8s  %-10s  %7s  %s", "PID", "USER", "AGE", "COMMAND");
	for (size_t i = 0; i < n->list.n; i++)
		if (n->named[i] && !is_below_another(n, i))
			print_row(&n->list.entries[i]);
	return so_err(err, -EEXIST, "%zu processes are called '%s': say which with -p PID", count, n->name);
}

int named_process__find(const char *name, pid_t *out, struct so_error *err)
{
	_cleanup_(naming) struct naming n = { .name = name };
	pid_t pid = 0;
	int ret = process_list__read(&n.list, err);

	if (ret)
		return ret;
	n.named = calloc(n.list.n + 1, sizeof(*n.named));
	if (!n.named)
		return so_err(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n.list.n; i++)
		n.named[i] = is_called(name, &n.list.entries[i]);
	ret = choose(&n, &pid, err);
	if (!ret)
		*out = pid;
	return ret;
}
