// SPDX-License-Identifier: GPL-2.0-or-later
/* How much memory targets have: read a few times in each window. */
#include "daemon/history/history_internal.h"
#include "daemon/os/clock.h"

/* Of a window, between two readings; more of a long window, and no more of a short one than there are ticks. */
#define READINGS         5
#define MOST_INTERVAL_NS (10 * STORE_SECOND_NS)
/* A reading takes at most one part in so many of a CPU's time, however many processes the target has. */
#define COST_SHARE 1000
/* Ticks are no more punctual. */
#define SLACK_NS (STORE_SECOND_NS / 2)

static uint64_t interval_ns(const struct history *h)
{
	int64_t ns = h->window_ns / READINGS;

	ns = ns < MOST_INTERVAL_NS ? ns : MOST_INTERVAL_NS;
	return ns > SLACK_NS ? (uint64_t)(ns - SLACK_NS) : 0;
}

bool history_memory_due(const struct watched *w)
{
	return clock__now_ns() >= w->memory.next_ns;
}

void history_memory_read(struct history *h, struct watched *w)
{
	uint64_t began_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID), took_ns, wait_ns = interval_ns(h), sum;
	struct memory_readings *m = &w->memory;
	struct engine_memory_use use;
	int ret = engine__memory_use(h->engine, w->id, &use);

	took_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (wait_ns < COST_SHARE * took_ns)
		wait_ns = COST_SHARE * took_ns;
	m->next_ns = clock__now_ns() + wait_ns;
	if (ret)
		return;
	m->n++;
	m->anonymous += (double)use.anonymous;
	m->file += (double)use.file;
	m->shared += (double)use.shared;
	m->swapped += (double)use.swapped;
	sum = use.anonymous + use.file + use.shared + use.swapped;
	m->most = sum > m->most ? sum : m->most;
}

struct store_memory history_memory_take(struct watched *w)
{
	struct memory_readings m = w->memory;
	double n = (double)m.n;

	w->memory = (struct memory_readings){ .next_ns = m.next_ns };
	if (!m.n)
		return (struct store_memory){ .known = false };
	return (struct store_memory){ .known = true,
				      .anonymous = (int64_t)(m.anonymous / n),
				      .file = (int64_t)(m.file / n),
				      .shared = (int64_t)(m.shared / n),
				      .swapped = (int64_t)(m.swapped / n),
				      .most = (int64_t)m.most };
}
