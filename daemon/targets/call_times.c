// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/call_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* No call that ended later has gone. */
static void let_go(struct call_times *c, uint64_t end_ns)
{
	c->gone_ns = end_ns > c->gone_ns ? end_ns : c->gone_ns;
}

void call_times__add(struct call_times *c, const struct so_call_record *record)
{
	struct call_time *call;

	if (!c->ring) {
		c->ring = malloc(CALL_TIMES_ROOM * sizeof(*c->ring));
		c->room = c->ring ? CALL_TIMES_ROOM : 0;
	}
	if (!c->ring) {
		let_go(c, record->begin_ns + record->ns);
		return;
	}
	call = &c->ring[c->next];
	if (c->n == c->room)
		let_go(c, call->begin_ns + call->ns);
	else
		c->n++;
	*call = (struct call_time){ .begin_ns = record->begin_ns,
				    .ns = record->ns,
				    .bytes = record->bytes,
				    .kernel = record->kernel,
				    .stream = record->stream,
				    .awaited_begin_ns = record->awaited_begin_ns,
				    .awaited_tid = record->awaited_tid,
				    .tgid = record->tgid,
				    .tid = record->tid,
				    .api = (uint16_t)record->api,
				    .has_stream = record->has_stream != 0,
				    .missed = record->missed };
	c->next = (c->next + 1) % c->room;
}

int call_times__copy(const struct call_times *c, uint64_t since_ns, struct call_times *to)
{
	*to = (struct call_times){ .gone_ns = c->gone_ns, .partial_ns = c->partial_ns };
	if (!c->n)
		return 0;
	to->ring = malloc(c->n * sizeof(*to->ring));
	if (!to->ring)
		return -ENOMEM;
	to->room = c->n;
	for (size_t i = 0; i < c->n; i++) {
		const struct call_time *call = &c->ring[(c->next + c->room - c->n + i) % c->room];

		if (call->begin_ns + call->ns > since_ns)
			to->ring[to->n++] = *call;
	}
	return 0;
}

size_t call_times__bytes(const struct call_times *c)
{
	return c->room * sizeof(*c->ring);
}

void call_times__release(struct call_times *c)
{
	free(c->ring);
	*c = (struct call_times){ .n = 0 };
}
