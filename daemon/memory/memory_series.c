// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/memory_series.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/proc_file.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

#define STATUS_MAX (1u << 20)

static void thin(struct memory_series *s)
{
	for (size_t i = 0; i < s->n; i += 2)
		s->points[i / 2] = s->points[i];
	s->n = (s->n + 1) / 2;
	s->keep = s->keep * 2 + 1;
}

int memory_series__add(struct memory_series *s, const struct memory_point *point)
{
	if (s->skipped < s->keep && s->n) {
		s->skipped++;
		return 0;
	}
	if (s->n == MEMORY_SERIES_MAX)
		thin(s);
	if (ARRAY_RESERVE(s->points, s->capacity, s->n + 1))
		return -ENOMEM;
	s->points[s->n++] = *point;
	s->skipped = 0;
	return 0;
}

int memory_series__copy(const struct memory_series *from, uint64_t since_ns, struct memory_series *to)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < from->n; i++)
		if (from->points[i].when_ns >= since_ns)
			ret = memory_series__add(to, &from->points[i]);
	return ret;
}

char *memory_series__text(const struct memory_series *s, uint64_t since_ns)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	const char *before = "";

	if (!out)
		return NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct memory_point *p = &s->points[i];

		if (p->when_ns < since_ns)
			continue;
		fprintf(out, "%s%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64, before,
			(p->when_ns - since_ns) / 1000000, p->anonymous >> 10, p->file >> 10, p->shared >> 10,
			p->swapped >> 10);
		before = ",";
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

void memory_series__release(struct memory_series *s)
{
	free(s->points);
	*s = (struct memory_series){ 0 };
}

/* "RssAnon:\t     1234 kB", on a line of its own. */
static int read_kib(const char *status, const char *name, uint64_t *bytes)
{
	const char *at = strstr(status, name);
	unsigned long long kib;

	if (!at || sscanf(at + strlen(name), " %llu kB", &kib) != 1)
		return -ESRCH;
	*bytes = (uint64_t)kib << 10;
	return 0;
}

/*
 * proc(5): fields 10 to 17: minflt, cminflt, majflt, cmajflt, utime, stime, cutime, cstime, behind the name, which may
 * hold anything.
 */
static int read_stat(const char *stat, struct memory_usage *out)
{
	const char *at = strrchr(stat, ')');
	unsigned long long minor, child_minor, major, child_major, user, system;
	long long child_user, child_system;

	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %llu %llu %llu %llu %llu %lld %lld", &minor,
			  &child_minor, &major, &child_major, &user, &system, &child_user, &child_system) != 8)
		return -ESRCH;
	out->faults = minor + major + child_minor + child_major;
	out->cpu_ns = (user + system + (unsigned long long)child_user + (unsigned long long)child_system) *
		      (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}

static int parse_status(const char *status, struct memory_usage *out)
{
	int ret = read_kib(status, "\nRssAnon:", &out->anonymous);

	ret = ret ?: read_kib(status, "\nRssFile:", &out->file);
	ret = ret ?: read_kib(status, "\nRssShmem:", &out->shared);
	return ret ?: read_kib(status, "\nVmSwap:", &out->swapped);
}

int memory_usage__parse(const char *status, const char *stat, struct memory_usage *out)
{
	struct memory_usage usage = { 0 };
	int ret = parse_status(status, &usage);

	ret = ret ?: read_stat(stat, &usage);
	if (!ret)
		*out = usage;
	return ret;
}

/* The line "Groups:" alone may have 65536 numbers. */
static int read_status(pid_t pid, struct memory_usage *out)
{
	_cleanup_free_ char *large = NULL;
	pid_t thread = live_thread__of(pid);
	char small[4096];
	ssize_t ret = proc_file__read(PROC_FILE_HERE, thread, "status", small, sizeof(small));

	if (ret < 0 || (size_t)ret < sizeof(small) - 1)
		return ret < 0 ? (int)ret : parse_status(small, out);
	large = malloc(STATUS_MAX);
	if (!large)
		return -ENOMEM;
	ret = proc_file__read(PROC_FILE_HERE, thread, "status", large, STATUS_MAX);
	return ret < 0 ? (int)ret : parse_status(large, out);
}

int memory_usage__read_resident(pid_t pid, struct memory_usage *out)
{
	struct memory_usage usage = { 0 };
	int ret = read_status(pid, &usage);

	if (!ret)
		*out = usage;
	return ret;
}

int memory_usage__read(pid_t pid, struct memory_usage *out)
{
	struct memory_usage usage = { 0 };
	char stat[1024];
	int ret = read_status(pid, &usage);
	ssize_t length = ret ?: proc_file__read(PROC_FILE_HERE, pid, "stat", stat, sizeof(stat));

	ret = length < 0 ? (int)length : read_stat(stat, &usage);
	if (!ret)
		*out = usage;
	return ret;
}
