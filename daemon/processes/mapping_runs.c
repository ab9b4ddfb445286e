// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/mapping_runs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/user_shares.h"

/* A sample takes microseconds; a child forked meanwhile is known to the daemon long before this is over. */
#define GRACE_NS 1000000000ull

#define CHUNK 16 /* entries; the unit of allocation */

struct mapping_runs {
	uint8_t *used; /* one byte a chunk */
	uint32_t n_chunks;
	uint32_t next; /* where the search begins */
	uint32_t used_chunks;
	uint32_t last_number;
	struct user_shares shares;   /* of chunks of runs that are referred to */
	struct user_shares held;     /* of those and of the ones that wait */
	struct mapping_run *waiting; /* oldest first */
	struct mapping_run **waiting_end;
};

int mapping_runs__new(uint32_t capacity, struct mapping_runs **out)
{
	struct mapping_runs *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->n_chunks = capacity / CHUNK;
	r->shares = r->held = user_shares__of(r->n_chunks);
	r->held.of_one = 2 * r->shares.of_one;
	r->used = calloc(r->n_chunks, 1);
	r->waiting_end = &r->waiting;
	if (!r->used) {
		free(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

static uint32_t chunks(uint32_t n)
{
	return (n + CHUNK - 1) / CHUNK;
}

static void release(struct mapping_runs *r, struct mapping_run *run)
{
	memset(r->used + run->first / CHUNK, 0, chunks(run->n));
	r->used_chunks -= chunks(run->n);
	user_shares__give(&r->held, run->uid, chunks(run->n));
	free(run);
}

static void reclaim(struct mapping_runs *r)
{
	uint64_t now = clock__now_ns();

	while (r->waiting && now - r->waiting->freed_ns > GRACE_NS) {
		struct mapping_run *run = r->waiting;

		r->waiting = run->next;
		if (!r->waiting)
			r->waiting_end = &r->waiting;
		release(r, run);
	}
}

/* Next fit: the first gap of that many chunks from where the last search ended. */
static int find_gap(struct mapping_runs *r, uint32_t wanted, uint32_t *first)
{
	uint32_t gap = 0, at = r->next;

	for (uint32_t looked = 0; looked < r->n_chunks + wanted; looked++, at++) {
		if (at == r->n_chunks) {
			at = 0;
			gap = 0;
		}
		gap = r->used[at] ? 0 : gap + 1;
		if (gap >= wanted) {
			*first = at + 1 - wanted;
			return 0;
		}
	}
	return -ENOSPC;
}

static int take_shares(struct mapping_runs *r, uid_t uid, uint32_t n)
{
	if (!user_shares__take(&r->shares, uid, n))
		return -ENOSPC;
	if (user_shares__take(&r->held, uid, n))
		return 0;
	user_shares__give(&r->shares, uid, n);
	return -EAGAIN;
}

/* The new run takes the place of the replaced one in its user's share, unless another process has that one too. */
static int take_for(struct mapping_runs *r, uid_t uid, uint32_t n, struct mapping_run *replaced)
{
	uint32_t before = 0;
	int ret;

	if (replaced && replaced->refs == 1 && !replaced->replaced)
		before = chunks(replaced->n);
	if (before)
		user_shares__give(&r->shares, replaced->uid, before);
	ret = take_shares(r, uid, n);
	if (!before)
		return ret;
	/* It was given just now, so there is room for it. */
	if (ret)
		user_shares__take(&r->shares, replaced->uid, before);
	else
		replaced->replaced = true;
	return ret;
}

int mapping_runs__alloc(struct mapping_runs *r, uid_t uid, uint32_t n, struct mapping_run *replaced,
			struct mapping_run **out)
{
	struct mapping_run *run;
	int ret;
	uint32_t first = 0;

	reclaim(r);
	if (n && find_gap(r, chunks(n), &first))
		return -ENOSPC;
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	ret = take_for(r, uid, chunks(n), replaced);
	if (ret) {
		free(run);
		return ret;
	}
	run->uid = uid;
	memset(r->used + first, 1, chunks(n));
	r->used_chunks += chunks(n);
	r->next = (first + chunks(n)) % r->n_chunks;
	run->first = first * CHUNK;
	run->n = n;
	run->number = ++r->last_number;
	run->refs = 1;
	*out = run;
	return 0;
}

void mapping_runs__unref(struct mapping_runs *r, struct mapping_run *run)
{
	if (!run || --run->refs)
		return;
	if (!run->replaced)
		user_shares__give(&r->shares, run->uid, chunks(run->n));
	run->freed_ns = clock__now_ns();
	run->next = NULL;
	*r->waiting_end = run;
	r->waiting_end = &run->next;
}

void mapping_runs__free(struct mapping_runs *r)
{
	if (!r)
		return;
	while (r->waiting) {
		struct mapping_run *run = r->waiting;

		r->waiting = run->next;
		release(r, run);
	}
	user_shares__reset(&r->shares);
	user_shares__reset(&r->held);
	free(r->used);
	free(r);
}
