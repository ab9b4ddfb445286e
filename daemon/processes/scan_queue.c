// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/scan_queue.h"

#include <stdlib.h>

#include "daemon/os/clock.h"

/* A process that keeps changing its mappings is looked at this often. */
#define SCAN_INTERVAL_NS 50000000ull
/* One that maps files which are not known yet. */
#define HURRIED_INTERVAL_NS 20000000ull
/* One that keeps changing others than those is confirmed this often. */
#define CONFIRM_INTERVAL_NS 2000000000ull
#define QUICK_SCANS         8

void scan_queue__forget(struct scan_queue *q)
{
	while (q->first) {
		struct scan_request *r = q->first;

		q->first = r->next;
		free(r);
	}
}

static struct scan_request *find(const struct scan_queue *q, pid_t tgid)
{
	struct scan_request *r = q->first;

	while (r && r->work.tgid != tgid)
		r = r->next;
	return r;
}

bool scan_queue__has(const struct scan_queue *q, pid_t tgid)
{
	const struct scan_request *r = find(q, tgid);

	return r && !r->confirms;
}

static void insert(struct scan_queue *q, struct scan_request *r)
{
	struct scan_request **at = &q->first;

	while (*at && (*at)->not_before_ns <= r->not_before_ns)
		at = &(*at)->next;
	r->next = *at;
	*at = r;
	scan_queue__wake(q);
}

static void take_out(struct scan_queue *q, struct scan_request *r)
{
	struct scan_request **at = &q->first;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

static void put(struct scan_queue *q, const struct process *p, const struct scan_request *wanted)
{
	struct scan_request *r = find(q, p->tgid);
	uint64_t not_before_ns = wanted->not_before_ns > p->not_before_ns ? wanted->not_before_ns : p->not_before_ns;

	if (r) {
		if (wanted->work.generation)
			r->work.generation = wanted->work.generation;
		if (not_before_ns >= r->not_before_ns)
			return;
		take_out(q, r);
	} else {
		r = calloc(1, sizeof(*r));
		if (!r)
			return;
		r->work = wanted->work;
		r->confirms = true;
	}
	r->confirms &= wanted->confirms;
	r->not_before_ns = not_before_ns;
	insert(q, r);
}

/* Quick ones first, so that a new image is known at once. */
static void request(struct scan_queue *q, pid_t tgid, uint64_t interval_ns)
{
	const struct process *p = process_table__find(q->processes, tgid);

	if (!p || p->gone)
		return;
	put(q, p,
	    &(struct scan_request){ .work = { tgid, 0 },
				    .not_before_ns =
					    p->scans < QUICK_SCANS ? clock__now_ns() : p->last_scan_ns + interval_ns });
}

void scan_queue__request(struct scan_queue *q, pid_t tgid)
{
	request(q, tgid, SCAN_INTERVAL_NS);
}

void scan_queue__hurry(struct scan_queue *q, pid_t tgid)
{
	request(q, tgid, HURRIED_INTERVAL_NS);
}

void scan_queue__confirm(struct scan_queue *q, pid_t tgid, uint64_t generation)
{
	const struct process *p = process_table__find(q->processes, tgid);

	if (!p || p->gone)
		return;
	put(q, p,
	    &(struct scan_request){ .work = { tgid, generation },
				    .not_before_ns = p->last_scan_ns + CONFIRM_INTERVAL_NS,
				    .confirms = true });
}

bool scan_queue__take(struct scan_queue *q, struct scan_work *out)
{
	struct scan_request *r = q->first;

	if (!r || r->not_before_ns > clock__now_ns())
		return false;
	q->first = r->next;
	*out = r->work;
	free(r);
	return true;
}

void scan_queue__wait(struct scan_queue *q)
{
	clock__wait(&q->wanted, q->lock, q->first ? q->first->not_before_ns : UINT64_MAX);
}

void scan_queue__wake(struct scan_queue *q)
{
	pthread_cond_signal(&q->wanted);
}
