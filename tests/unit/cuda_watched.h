/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A watch of the target of cuda_target.h, and what it tells. */
#ifndef STAKEOUT_TESTS_CUDA_WATCHED_H
#define STAKEOUT_TESTS_CUDA_WATCHED_H

#include "tests/unit/cuda_target.h"

#include <math.h>

#define LAUNCHES 0
#define COPIES   1

/* Launches and copies a second. */
static void begin(pid_t pid, uint64_t launches, uint64_t copies)
{
	target.pid = target.mapped = pid;
	for (unsigned i = 0; i < 3; i++)
		target.made[i].seen = 0;
	target.made[LAUNCHES].api = SO_CUDA_API_cudaLaunchKernel;
	target.made[LAUNCHES].period_ns = launches ? SECOND / launches : 0;
	target.made[COPIES].api = SO_CUDA_API_cudaMemcpyAsync;
	target.made[COPIES].period_ns = copies ? SECOND / copies : 0;
	for (unsigned i = 0; i < 3; i++)
		target.made[i].next_ns = now + target.made[i].period_ns;
}

static void add_library(struct cuda_watch *w, pid_t pid)
{
	struct cuda_mapped m = {
		.pid = pid, .fd = -1, .path = strdup("libcudart.so.12"), .library = { .n_functions = 1 }
	};

	m.library.kind = CUDA_LIBRARY_RUNTIME;
	assert_int_equal(cuda_watch__add_library(w, &m), 0);
}

/* The probes are never asked what they are but by the functions above. */
static struct cuda_watch *watch(double budget)
{
	static char probes;
	struct cuda_watch *w = NULL;

	assert_int_equal(cuda_watch__new((struct cuda_probes *)&probes, SLOT, budget, &w), 0);
	return w;
}

static struct cuda_watch *watch_target(uint64_t launches, uint64_t copies, double budget)
{
	struct cuda_watch *w = watch(budget);

	begin(100, launches, copies);
	add_library(w, 100);
	return w;
}

static void run_watch(struct cuda_watch *w, uint64_t ns)
{
	uint64_t end = now + ns, next = now;

	while (now < end) {
		next = cuda_watch__tick(w, now);
		run_to(next > now ? next : now + MS);
	}
}

/* Until the phase has just begun. */
static void run_until(struct cuda_watch *w, enum cuda_watch_phase phase)
{
	enum cuda_watch_phase before = phase;
	uint64_t next;

	for (;;) {
		next = cuda_watch__tick(w, now);
		if (w->phase == phase && before != phase)
			return;
		before = w->phase;
		run_to(next > now ? next : now + MS);
	}
}

static uint64_t calls_of(struct cuda_watch *w, enum so_cuda_api api, struct cuda_estimates *estimates)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *result = NULL;
	const struct cuda_calls_entry *entries;
	uint64_t calls = 0;
	size_t n;

	assert_int_equal(cuda_watch__result(w, &result, estimates), 0);
	entries = cuda_snapshot__calls(result, &n);
	for (size_t i = 0; i < n; i++)
		calls += entries[i].key.api == api ? entries[i].calls.calls : 0;
	return calls;
}

static uint64_t calls_in(const struct cuda_snapshot *snapshot, uint32_t tgid)
{
	const struct cuda_calls_entry *entries;
	uint64_t calls = 0;
	size_t n;

	entries = cuda_snapshot__calls(snapshot, &n);
	for (size_t i = 0; i < n; i++)
		calls += entries[i].key.tgid == tgid ? entries[i].calls.calls : 0;
	return calls;
}

static double told(const struct cuda_estimate *e)
{
	return 2.2 * sqrt(e->variance) + e->bias;
}

static int set_up(void **state)
{
	now = BEGIN;
	cpu = SECOND;
	target = (struct target){ 0 };
	control = (struct so_cuda_control){ 0 };
	probe_kind = CUDA_PROBE_SESSION;
	attached = fail_attach_at = snapshots = fail_snapshot_at = 0;
	going = false;
	assert_null(links);
	return 0;
}

#endif
