// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/growth.h"
#include "stakeout/array.h"
#include "stakeout/live_thread.h"

#define KIB 1024

static struct top_memory_process *find(const struct top_memory *memory, int64_t pid)
{
	for (size_t i = 0; i < memory->n; i++)
		if (memory->list[i].pid == pid)
			return &memory->list[i];
	return NULL;
}

const struct top_memory_process *top_memory__find(const struct top_memory *memory, int64_t pid)
{
	return find(memory, pid);
}

/* Of the readings, by the same rules as those of `stakeout memory`. */
static int judge(struct top_memory_process *p)
{
	_cleanup_free_ char *series = NULL;
	struct so_error err = { .text = "" };
	struct growth growth;
	size_t length;
	FILE *out = open_memstream(&series, &length);

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		fprintf(out, "%s%.0f:%.0f:0:0:0", i ? "," : "", 1e3 * (p->readings[i].at_s - p->readings[0].at_s),
			p->readings[i].own / KIB);
	if (fclose(out))
		return -ENOMEM;
	if (growth__read(series, &growth, &err))
		return -ENOMEM;
	p->rate_known = growth.own.verdict != GROWTH_UNKNOWN;
	p->rate = growth.own.verdict == GROWTH_UNKNOWN || growth.own.verdict == GROWTH_NONE ? 0 : growth.own.rate;
	return 0;
}

int top_memory__add(struct top_memory *memory, int64_t pid, double own_bytes, double now_s)
{
	struct top_memory_process *p = find(memory, pid);

	if (!p) {
		if (ARRAY_RESERVE(memory->list, memory->capacity, memory->n + 1))
			return -ENOMEM;
		p = &memory->list[memory->n++];
		*p = (struct top_memory_process){ .pid = pid };
	}
	if (p->n == TOP_MEMORY_READINGS)
		memmove(p->readings, p->readings + 1, --p->n * sizeof(p->readings[0]));
	p->readings[p->n].at_s = now_s;
	p->readings[p->n++].own = own_bytes;
	p->own = own_bytes;
	p->seen = true;
	return judge(p);
}

/* false: it has ended, or has no memory any more. */
static bool read_own(int64_t pid, double *bytes)
{
	_cleanup_fclose_ FILE *file = NULL;
	unsigned long long kib, sum = 0;
	unsigned found = 0;
	char path[48], line[256];

	snprintf(path, sizeof(path), "/proc/%d/status", live_thread__of((pid_t)pid));
	file = fopen(path, "re");
	while (file && found < 2 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "RssAnon: %llu kB", &kib) != 1 && sscanf(line, "VmSwap: %llu kB", &kib) != 1)
			continue;
		sum += kib;
		found++;
	}
	*bytes = (double)sum * KIB;
	return found == 2;
}

static void forget_unseen(struct top_memory *memory)
{
	size_t to = 0;

	for (size_t i = 0; i < memory->n; i++)
		if (memory->list[i].seen)
			memory->list[to++] = memory->list[i];
	memory->n = to;
}

int top_memory__take(struct top_memory *memory, const struct top_sums *sums, double now_s)
{
	int ret = 0;

	for (size_t i = 0; i < memory->n; i++)
		memory->list[i].seen = false;
	for (size_t i = 0; !ret && i < sums->ids.n_keys; i++) {
		int64_t pid = sums->threads[i].pid;
		const struct top_memory_process *p = find(memory, pid);
		double own;

		if ((p && p->seen) || !read_own(pid, &own))
			continue;
		ret = top_memory__add(memory, pid, own, now_s);
	}
	forget_unseen(memory);
	return ret;
}

void top_memory__clear(struct top_memory *memory)
{
	free(memory->list);
	*memory = (struct top_memory){ .n = 0 };
}
