// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/pool_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "stakeout/array.h"

struct waiting {
	struct waiting *next;
	struct pool_extent extent;
	uint64_t given_ns;
};

struct pool_space {
	struct sampler *sampler;
	unsigned n_shards;        /* in use, from 0; the sampler may have more of an earlier time */
	struct pool_extent *free; /* sorted, none touches the next */
	size_t n, capacity;
	struct waiting *waiting, **waiting_end; /* oldest first */
	uint64_t used_words;
};

int pool_space__new(struct sampler *sampler, struct pool_space **out)
{
	struct pool_space *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->sampler = sampler;
	s->waiting_end = &s->waiting;
	*out = s;
	return 0;
}

static bool is_before(const struct pool_extent *a, uint32_t shard, uint32_t begin)
{
	return a->shard < shard || (a->shard == shard && a->begin < begin);
}

/* The number of free extents that begin before. */
static size_t place(const struct pool_space *s, uint32_t shard, uint32_t begin)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (is_before(&s->free[mid], shard, begin))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void remove_at(struct pool_space *s, size_t at)
{
	memmove(&s->free[at], &s->free[at + 1], (s->n - at - 1) * sizeof(*s->free));
	s->n--;
}

static bool touch(const struct pool_extent *a, const struct pool_extent *b)
{
	return a->shard == b->shard && a->end == b->begin;
}

static int insert(struct pool_space *s, const struct pool_extent *extent)
{
	size_t at = place(s, extent->shard, extent->begin);
	bool before = at && touch(&s->free[at - 1], extent), after = at < s->n && touch(extent, &s->free[at]);

	if (before) {
		s->free[at - 1].end = after ? s->free[at].end : extent->end;
		if (after)
			remove_at(s, at);
		return 0;
	}
	if (after) {
		s->free[at].begin = extent->begin;
		return 0;
	}
	if (ARRAY_RESERVE(s->free, s->capacity, s->n + 1))
		return -ENOMEM;
	memmove(&s->free[at + 1], &s->free[at], (s->n - at) * sizeof(*s->free));
	s->free[at] = *extent;
	s->n++;
	return 0;
}

static void reclaim(struct pool_space *s)
{
	uint64_t now = clock__now_ns();

	while (s->waiting && now - s->waiting->given_ns > POOL_SPACE_GRACE_NS) {
		struct waiting *w = s->waiting;

		s->waiting = w->next;
		if (!s->waiting)
			s->waiting_end = &s->waiting;
		insert(s, &w->extent);
		free(w);
	}
}

static uint32_t words_of(const struct pool_extent *extent)
{
	return extent->end - extent->begin;
}

bool pool_space__fitting(struct pool_space *s, uint64_t words, struct pool_extent *out)
{
	const struct pool_extent *best = NULL;

	reclaim(s);
	for (size_t i = 0; i < s->n; i++) {
		if (words_of(&s->free[i]) >= words && (!best || words_of(&s->free[i]) < words_of(best)))
			best = &s->free[i];
	}
	if (best)
		*out = *best;
	return best != NULL;
}

bool pool_space__largest(struct pool_space *s, struct pool_extent *out)
{
	const struct pool_extent *best = NULL;

	reclaim(s);
	for (size_t i = 0; i < s->n; i++) {
		if (!best || words_of(&s->free[i]) > words_of(best))
			best = &s->free[i];
	}
	if (best)
		*out = *best;
	return best != NULL;
}

int pool_space__open_shard(struct pool_space *s)
{
	struct pool_extent all = { .shard = s->n_shards, .end = SO_SHARD_WORDS };
	uint32_t *words;
	int ret = s->n_shards < SO_MAX_SHARDS ? sampler__shard_open(s->sampler, s->n_shards, &words) : -ENOSPC;

	if (ret)
		return ret;
	sampler__shard_close(words);
	ret = insert(s, &all);
	if (!ret)
		s->n_shards++;
	return ret;
}

void pool_space__take(struct pool_space *s, const struct pool_extent *from, uint32_t words)
{
	size_t at = place(s, from->shard, from->begin);

	s->free[at].begin += words;
	if (s->free[at].begin == s->free[at].end)
		remove_at(s, at);
	s->used_words += words;
}

void pool_space__give(struct pool_space *s, const struct pool_extent *extent, bool later)
{
	struct waiting *w;

	s->used_words -= words_of(extent);
	if (!later) {
		insert(s, extent);
		return;
	}
	w = malloc(sizeof(*w));
	if (!w)
		return;
	*w = (struct waiting){ .extent = *extent, .given_ns = clock__now_ns() };
	*s->waiting_end = w;
	s->waiting_end = &w->next;
}

uint64_t pool_space__free_words(const struct pool_space *s)
{
	return (uint64_t)SO_MAX_SHARDS * SO_SHARD_WORDS - s->used_words;
}

void pool_space__reset(struct pool_space *s)
{
	while (s->waiting) {
		struct waiting *w = s->waiting;

		s->waiting = w->next;
		free(w);
	}
	s->waiting_end = &s->waiting;
	s->n_shards = 0;
	s->n = 0;
	s->used_words = 0;
}

void pool_space__free(struct pool_space *s)
{
	if (!s)
		return;
	pool_space__reset(s);
	free(s->free);
	free(s);
}
