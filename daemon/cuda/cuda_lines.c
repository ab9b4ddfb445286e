// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_lines.h"

#include <errno.h>
#include <stdlib.h>

#include "stakeout/abi.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"

static uint64_t line_hash(uint64_t stack, uint32_t tgid, uint32_t tid, uint32_t api)
{
	return so_mix(so_mix(stack, (uint64_t)tgid << 32 | tid), api);
}

/* A place for another line; -ENOMEM. */
static int find_place(struct cuda_lines *lines, uint32_t *place)
{
	if (lines->n_vacant) {
		*place = lines->vacant[--lines->n_vacant];
		return 0;
	}
	if (lines->n >= CUDA_LINES_MAX || ARRAY_RESERVE(lines->list, lines->capacity, lines->n + 1))
		return -ENOMEM;
	lines->list[lines->n] = (struct cuda_line){ 0 };
	*place = (uint32_t)lines->n++;
	return 0;
}

/* Never fails where there are fewer than there were already. */
static void leave_place(struct cuda_lines *lines, uint32_t place)
{
	lines->list[place] = (struct cuda_line){ 0 };
	if (!ARRAY_RESERVE(lines->vacant, lines->cap_vacant, lines->n_vacant + 1))
		lines->vacant[lines->n_vacant++] = place;
}

static int new_line(struct cuda_lines *lines, const struct so_cuda_line_key *key, uint64_t hash, uint32_t *place)
{
	if (find_place(lines, place))
		return -ENOMEM;
	if (u64_table__set(&lines->by_hash, hash, *place)) {
		leave_place(lines, *place);
		return -ENOMEM;
	}
	lines->list[*place] = (struct cuda_line){
		.serial = ++lines->serial, .tgid = key->tgid, .tid = key->tid, .api = key->api, .stack = key->stack
	};
	return 0;
}

int cuda_lines__add(struct cuda_lines *lines, const struct so_cuda_line_key *key, const struct so_cuda_line *line,
		    double factor, uint64_t now_ns)
{
	uint64_t hash = line_hash(key->stack, key->tgid, key->tid, key->api);
	struct cuda_line *l;
	uint32_t place;

	if (!u64_table__get(&lines->by_hash, hash, &place) && new_line(lines, key, hash, &place)) {
		lines->lost += line->calls;
		return -ENOMEM;
	}
	l = &lines->list[place];
	l->calls += (double)line->calls * factor;
	l->total_ns += (double)line->total_ns * factor;
	l->bytes += (double)line->bytes * factor;
	l->needless += (double)line->needless * factor;
	l->needless_ns += (double)line->needless_ns * factor;
	l->seen.calls += (double)line->seen;
	l->seen.total_ns += (double)line->seen_ns;
	l->seen.bytes += (double)line->seen_bytes;
	l->latest_ns = now_ns;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The n-th of the times from the oldest on, from 1. */
static int nth_time(const struct cuda_lines *lines, size_t n, uint64_t *out)
{
	_cleanup_free_ uint64_t *times = calloc(cuda_lines__count(lines) + 1, sizeof(*times));
	size_t count = 0;

	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < lines->n; i++) {
		if (lines->list[i].serial)
			times[count++] = lines->list[i].latest_ns;
	}
	qsort(times, count, sizeof(*times), by_number);
	*out = times[(n < count ? n : count) - 1];
	return 0;
}

/* Those that are left, in a table of their own. */
static int hash_later(const struct cuda_lines *lines, uint64_t after_ns, struct u64_table *out)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < lines->n; i++) {
		const struct cuda_line *l = &lines->list[i];

		if (l->serial && l->latest_ns > after_ns)
			ret = u64_table__set(out, line_hash(l->stack, l->tgid, l->tid, l->api), (uint32_t)i);
	}
	return ret;
}

size_t cuda_lines__forget(struct cuda_lines *lines, size_t most, uint64_t before_ns)
{
	size_t count = cuda_lines__count(lines), n = 0;
	struct u64_table left = { 0 };
	uint64_t last_ns;

	if (count <= most || nth_time(lines, count - most, &last_ns))
		return 0;
	if (last_ns > before_ns)
		last_ns = before_ns;
	if (ARRAY_RESERVE(lines->vacant, lines->cap_vacant, lines->n) || hash_later(lines, last_ns, &left)) {
		u64_table__release(&left);
		return 0;
	}
	for (size_t i = 0; i < lines->n; i++) {
		if (lines->list[i].serial && lines->list[i].latest_ns <= last_ns) {
			leave_place(lines, (uint32_t)i);
			n++;
		}
	}
	u64_table__release(&lines->by_hash);
	lines->by_hash = left;
	lines->forgotten += n;
	return n;
}

void cuda_lines__release(struct cuda_lines *lines)
{
	free(lines->list);
	free(lines->vacant);
	u64_table__release(&lines->by_hash);
	*lines = (struct cuda_lines){ 0 };
}
