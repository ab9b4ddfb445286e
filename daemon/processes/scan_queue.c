// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/scan_queue.h"

#include <stdlib.h>

#include "daemon/os/clock.h"

/* A process that keeps changing its mappings is looked at this often. */
#define SCAN_INTERVAL_NS 50000000ull
#define QUICK_SCANS      8

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
	return find(q, tgid);
}

/* Quick ones first, so that a new image is known at once. */
void scan_queue__request(struct scan_queue *q, pid_t tgid, uint64_t reported_pages)
{
	struct process *p = process_table__find(q->processes, tgid);
	struct scan_request **at = &q->first, *r = find(q, tgid);

	if (!p || p->gone)
		return;
	if (r) {
		r->work.reported_pages = reported_pages;
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	r->work = (struct scan_work){ tgid, reported_pages };
	r->not_before_ns = p->scans < QUICK_SCANS ? clock__now_ns() : p->last_scan_ns + SCAN_INTERVAL_NS;
	if (r->not_before_ns < p->not_before_ns)
		r->not_before_ns = p->not_before_ns;
	while (*at && (*at)->not_before_ns <= r->not_before_ns)
		at = &(*at)->next;
	r->next = *at;
	*at = r;
	scan_queue__wake(q);
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
