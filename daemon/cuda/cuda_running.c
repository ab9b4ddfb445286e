// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_running.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/os/proc_file.h"
#include "stakeout/array.h"

#define MAX_THREADS 256
#define MAX_TRIES   1024

static bool read_times(struct cuda_running_thread *thread)
{
	char name[48], text[96];

	snprintf(name, sizeof(name), "task/%" PRIu32 "/schedstat", thread->tid);
	return proc_file__read(PROC_FILE_HERE, (pid_t)thread->tgid, name, text, sizeof(text)) > 0 &&
	       sscanf(text, "%" SCNu64 " %" SCNu64, &thread->run_ns, &thread->wait_ns) == 2;
}

/* A job may have thousands of threads that have ended, with many entries each: each is looked at once, and not all. */
void cuda_running__begin(struct cuda_running *running, const struct cuda_snapshot *calls)
{
	struct u64_table seen = { .n = 0 };
	const struct cuda_calls_entry *entries;
	size_t n;

	running->n = 0;
	entries = cuda_snapshot__calls(calls, &n);
	for (size_t i = 0; i < n && seen.n < MAX_TRIES && running->n < MAX_THREADS; i++) {
		struct cuda_running_thread thread = { .tgid = entries[i].key.tgid, .tid = entries[i].key.tid };
		uint64_t key = cuda_threads__key(thread.tgid, thread.tid);
		uint32_t value;

		if (u64_table__get(&seen, key, &value))
			continue;
		if (u64_table__set(&seen, key, 1) ||
		    ARRAY_RESERVE(running->threads, running->cap, running->n + 1))
			break;
		if (read_times(&thread))
			running->threads[running->n++] = thread;
	}
	u64_table__release(&seen);
}

struct cuda_running_time cuda_running__since(const struct cuda_running *running)
{
	struct cuda_running_time sum = { 0 };

	for (size_t i = 0; i < running->n; i++) {
		struct cuda_running_thread before = running->threads[i], now = before;

		if (!read_times(&now) || now.run_ns < before.run_ns || now.wait_ns < before.wait_ns)
			continue;
		sum.run += (double)(now.run_ns - before.run_ns);
		sum.wait += (double)(now.wait_ns - before.wait_ns);
	}
	return sum;
}

void cuda_running__release(struct cuda_running *running)
{
	free(running->threads);
}

double cuda_running__slowdown(const struct cuda_running_time *time, double cost_ns, double cpu_ns, double wall_ns)
{
	double run = fmax(time->run, cost_ns);

	if (cost_ns <= 0)
		return 0;
	/* The callers were on a CPU for that long at least, so they are others, which have ended. */
	if (time->run < cost_ns / 2)
		return fmin(cost_ns / fmax(cpu_ns, cost_ns), 1);
	/* A thread on a CPU for cost_ns less would have waited for it less, too. */
	cost_ns *= 1 + time->wait / run;
	return fmin(cost_ns / fmax(run + time->wait, wall_ns), 1);
}
