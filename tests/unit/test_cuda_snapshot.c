// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_snapshot.h"

static struct cuda_snapshot *new_snapshot(void)
{
	struct cuda_snapshot *snapshot = NULL;

	assert_int_equal(cuda_snapshot__new(&snapshot), 0);
	return snapshot;
}

static struct so_cuda_key key_of(uint32_t tgid, uint32_t tid, enum so_cuda_api api, uint32_t octave)
{
	return (struct so_cuda_key){ .tgid = tgid,
				     .tid = tid,
				     .library = 1,
				     .api = api,
				     .direction = SO_CUDA_DIRECTION_NO,
				     .octave = (uint8_t)octave };
}

/* Counts one call as the kernel side does. */
static void call(struct so_cuda_calls *calls, uint64_t ns)
{
	uint32_t octave = latency_octave(ns), shift = latency_square_shift(octave);

	if (!calls->calls || ns < calls->min_ns)
		calls->min_ns = ns;
	if (ns > calls->max_ns)
		calls->max_ns = ns;
	calls->calls++;
	calls->total_ns += ns;
	calls->squares += (ns >> shift) * (ns >> shift);
	calls->bytes += 100;
	calls->blocks += 2;
	calls->threads += 64;
	calls->grid[0] = (uint32_t)calls->calls;
	calls->buckets[latency_bucket(ns, octave)]++;
}

static uint64_t next_random(uint64_t *random)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return *random >> 20;
}

static void add(struct cuda_snapshot *snapshot, struct so_cuda_key key, const struct so_cuda_calls *calls)
{
	assert_int_equal(cuda_snapshot__add_calls(snapshot, &key, calls), 0);
}

static const struct so_cuda_calls *find(const struct cuda_snapshot *snapshot, struct so_cuda_key key)
{
	return cuda_snapshot__find_calls(snapshot, &key);
}

static uint64_t sum_buckets(const struct so_cuda_calls *calls)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		sum += calls->buckets[i];
	return sum;
}

static void test_add_and_find(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct so_cuda_key key = key_of(1, 2, SO_CUDA_API_cudaMalloc, latency_octave(1000)), bad = key;
	struct so_cuda_error_key error = { .tgid = 1, .library = 1, .api = SO_CUDA_API_cudaMalloc, .code = 2 };
	struct so_cuda_site_key site = { .tgid = 1, .host = 1, .stack = 77 };
	struct so_cuda_slot per_cpu[2] = { { .hits = 1, .lost[SO_CUDA_LOSS_COUNT - 1] = 5 },
					   { .hits = 2, .calls = 3 } };
	struct so_cuda_calls calls = { 0 };
	size_t n;

	assert_null(find(snapshot, key));
	assert_null(cuda_snapshot__find_error(snapshot, &error));
	assert_null(cuda_snapshot__find_site(snapshot, &site));
	assert_null(cuda_snapshot__find_slot(snapshot, 0));
	call(&calls, 1000);
	add(snapshot, key, &calls);
	call(&calls, 1001);
	/* A thread is in the middle of counting: its calls are ahead of its buckets. */
	calls.calls++;
	calls.errors = 9;
	add(snapshot, key, &calls);
	assert_int_equal(find(snapshot, key)->calls, 2);
	assert_int_equal(find(snapshot, key)->errors, 2);
	assert_int_equal(find(snapshot, key)->total_ns, 2001);
	key.tid++;
	assert_null(find(snapshot, key));
	bad.octave = LATENCY_OCTAVES + 1;
	assert_int_equal(cuda_snapshot__add_calls(snapshot, &bad, &calls), -EINVAL);
	cuda_snapshot__calls(snapshot, &n);
	assert_int_equal(n, 1);

	assert_int_equal(cuda_snapshot__add_error(snapshot, &error, 7), 0);
	assert_int_equal(*cuda_snapshot__find_error(snapshot, &error), 7);
	assert_int_equal(
		cuda_snapshot__add_site(snapshot, &site, &(struct so_cuda_site){ .current_bytes = -5 }), 0);
	assert_int_equal(cuda_snapshot__find_site(snapshot, &site)->current_bytes, -5);
	assert_int_equal(cuda_snapshot__add_slot(snapshot, 3, per_cpu, 2), 0);
	assert_int_equal(cuda_snapshot__add_slot(snapshot, 3, per_cpu, 2), 0);
	assert_int_equal(cuda_snapshot__find_slot(snapshot, 3)->hits, 3);
	assert_int_equal(cuda_snapshot__find_slot(snapshot, 3)->calls, 3);
	assert_int_equal(cuda_snapshot__find_slot(snapshot, 3)->lost[SO_CUDA_LOSS_COUNT - 1], 5);
	assert_int_equal(cuda_snapshot__errors(snapshot, &n)->count, 7);
	assert_int_equal(n, 1);
	assert_int_equal(cuda_snapshot__sites(snapshot, &n)->key.stack, 77);
}

/* A full map, of keys that differ little. */
static void test_full_map(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = new_snapshot(), *base = new_snapshot(),
						      *since = NULL;
	struct so_cuda_calls calls = { 0 };
	size_t n;

	call(&calls, 1000);
	for (uint32_t i = 0; i < SO_CUDA_CALLS_ENTRIES; i++) {
		struct so_cuda_key key = key_of(1, i >> 8, SO_CUDA_API_cudaLaunchKernel, latency_octave(1000));

		key.kernel = (uint64_t)(i & 255) << 40;
		add(base, key, &calls);
	}
	assert_int_equal(cuda_snapshot__merge(now, base, 0), 0);
	call(&calls, 1001);
	add(now, key_of(1, 255, SO_CUDA_API_cudaLaunchKernel, latency_octave(1000)), &calls);
	cuda_snapshot__calls(now, &n);
	assert_int_equal(n, SO_CUDA_CALLS_ENTRIES);
	assert_int_equal(cuda_snapshot__subtract(now, base, &since), 0);
	assert_int_equal(cuda_snapshot__calls(since, &n)->key.tid, 255);
	assert_int_equal(n, 1);
	assert_int_equal(cuda_snapshot__calls(since, &n)->calls.calls, 1);
	assert_int_equal(cuda_snapshot__scale(base, ~0u, 1.5, 0.5), 0);
}

static void test_subtract(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = new_snapshot(), *base = new_snapshot(),
						      *since = NULL;
	struct so_cuda_key key = key_of(1, 1, SO_CUDA_API_cudaMemcpy, latency_octave(1000));
	struct so_cuda_key quiet = key_of(1, 2, SO_CUDA_API_cudaMemcpy, latency_octave(1000));
	struct so_cuda_key fresh = key_of(1, 3, SO_CUDA_API_cudaMemcpy, latency_octave(1000));
	struct so_cuda_key reused = key_of(4, 4, SO_CUDA_API_cudaMemcpy, latency_octave(1000));
	struct so_cuda_calls calls = { 0 }, few = { 0 }, many = { 0 };
	const struct so_cuda_calls *found;
	size_t n;

	for (unsigned i = 0; i < 5; i++)
		call(&many, 900);
	for (unsigned i = 0; i < 3; i++)
		call(&calls, 1000);
	call(&few, 600);
	call(&few, 1023);
	add(base, key, &calls);
	add(base, quiet, &calls);
	add(base, reused, &many);
	add(now, quiet, &calls);
	calls.errors = 1;
	calls.stream = 0x77;
	/* Sums of squares may pass 2^64. */
	calls.squares = 5;
	call(&calls, 1010);
	add(now, key, &calls);
	add(now, fresh, &few);
	add(now, reused, &few);
	assert_int_equal(cuda_snapshot__subtract(now, base, &since), 0);
	cuda_snapshot__calls(since, &n);
	assert_int_equal(n, 3);
	assert_null(find(since, quiet));
	found = find(since, key);
	assert_int_equal(found->calls, 1);
	assert_int_equal(found->errors, 1);
	assert_int_equal(found->total_ns, 1010);
	assert_int_equal(found->bytes, 100);
	assert_int_equal(found->blocks, 2);
	assert_int_equal(found->threads, 64);
	assert_true(found->squares == 5ull + 1010 * 1010 - 3ull * 1000 * 1000);
	assert_int_equal(found->grid[0], 4);
	assert_int_equal(found->stream, 0x77);
	assert_int_equal(sum_buckets(found), 1);
	found = find(since, fresh);
	assert_int_equal(found->calls, 2);
	assert_int_equal(found->min_ns, 600);
	assert_int_equal(found->max_ns, 1023);
	/* Fewer calls than before: another process. */
	found = find(since, reused);
	assert_int_equal(found->calls, 2);
	assert_int_equal(found->min_ns, 600);
}

/*
 * Extremes of the difference: always on the safe side, in the bucket of the true value, and exact where they must be.
 */
static void test_extremes(void **state)
{
	uint64_t random = 5;
	unsigned exact = 0, rounds = 3000;

	for (unsigned round = 0; round < rounds; round++) {
		_cleanup_(cuda_snapshot) struct cuda_snapshot *now = new_snapshot(), *base = new_snapshot(),
							      *since = NULL;
		uint32_t octave = (uint32_t)(next_random(&random) % LATENCY_OCTAVES);
		uint64_t lower = latency_lower(octave, 0), span = latency_width(octave) * LATENCY_BUCKETS;
		struct so_cuda_key key = key_of(1, 1, SO_CUDA_API_cudaMalloc, octave);
		struct so_cuda_calls calls = { 0 };
		unsigned before = (unsigned)(next_random(&random) % 4),
			 after = 1 + (unsigned)(next_random(&random) % 4);
		uint64_t min_ns = UINT64_MAX, max_ns = 0, base_min, base_max;
		const struct so_cuda_calls *found;

		for (unsigned i = 0; i < before; i++)
			call(&calls, lower + next_random(&random) % span);
		base_min = calls.min_ns;
		base_max = calls.max_ns;
		add(base, key, &calls);
		for (unsigned i = 0; i < after; i++) {
			uint64_t ns = lower + next_random(&random) % span;

			/* Longer than any octave. */
			if (octave == LATENCY_OCTAVES - 1 && i == 1)
				ns = ns << 3;
			call(&calls, ns);
			min_ns = ns < min_ns ? ns : min_ns;
			max_ns = ns > max_ns ? ns : max_ns;
		}
		add(now, key, &calls);
		assert_int_equal(cuda_snapshot__subtract(now, base, &since), 0);
		found = find(since, key);
		assert_non_null(found);
		assert_true(found->min_ns <= min_ns);
		assert_true(found->max_ns >= max_ns);
		assert_int_equal(latency_bucket(found->min_ns, octave), latency_bucket(min_ns, octave));
		assert_int_equal(latency_bucket(found->max_ns, octave), latency_bucket(max_ns, octave));
		if (!before || after == 1 || min_ns < base_min)
			assert_int_equal(found->min_ns, min_ns);
		if (!before || after == 1 || max_ns > base_max)
			assert_int_equal(found->max_ns, max_ns);
		exact += found->min_ns == min_ns && found->max_ns == max_ns;
	}
	assert_true(exact > rounds / 2 && exact < rounds);
}

/* By hand: 1000 and 1020 lie in buckets of 16 ns, 992 … 1007 and 1008 … 1023. */
static void test_bounds_by_sum(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = new_snapshot(), *base = new_snapshot(),
						      *since = NULL;
	struct so_cuda_key key = key_of(1, 1, SO_CUDA_API_cudaMalloc, latency_octave(1000));
	struct so_cuda_calls calls = { 0 };

	call(&calls, 600);
	call(&calls, 1023);
	add(base, key, &calls);
	call(&calls, 1000);
	call(&calls, 1020);
	add(now, key, &calls);
	assert_int_equal(cuda_snapshot__subtract(now, base, &since), 0);
	/* 2020 - 1023: the other one took 1023 at most. 2020 - 992 is beyond the bucket. */
	assert_int_equal(find(since, key)->min_ns, 997);
	assert_int_equal(find(since, key)->max_ns, 1023);
}

static void test_subtract_others(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = new_snapshot(), *base = new_snapshot(),
						      *since = NULL;
	struct so_cuda_error_key same = { .tgid = 1, .code = 1 }, more = { .tgid = 1, .code = 2 },
				 fewer = { .tgid = 2, .code = 2 };
	struct so_cuda_site_key used = { .tgid = 1, .stack = 1 }, held = { .tgid = 1, .stack = 2 },
				gone = { .tgid = 1, .stack = 3 };
	struct so_cuda_site site = {
		.allocations = 5, .frees = 2, .bytes = 500, .current_bytes = 300, .peak_bytes = 400
	};
	struct so_cuda_slot slot = { .hits = 10, .returns = 9, .stacks_ns = 5, .lost[0] = 1 };
	size_t n;

	cuda_snapshot__add_error(base, &same, 5);
	cuda_snapshot__add_error(now, &same, 5);
	cuda_snapshot__add_error(base, &more, 5);
	cuda_snapshot__add_error(now, &more, 8);
	cuda_snapshot__add_error(base, &fewer, 5);
	cuda_snapshot__add_error(now, &fewer, 2);
	cuda_snapshot__add_site(base, &used, &site);
	cuda_snapshot__add_site(base, &held, &site);
	cuda_snapshot__add_site(now, &held, &site);
	site.allocations += 2;
	site.bytes += 50;
	site.peak_bytes = 450;
	cuda_snapshot__add_site(now, &used, &site);
	site.current_bytes = 0;
	cuda_snapshot__add_site(base, &gone, &site);
	cuda_snapshot__add_site(now, &gone, &site);
	cuda_snapshot__add_slot(base, 1, &slot, 1);
	slot.hits += 5;
	slot.lost[0] += 2;
	cuda_snapshot__add_slot(now, 1, &slot, 1);
	cuda_snapshot__add_slot(now, 2, &slot, 1);
	assert_int_equal(cuda_snapshot__subtract(now, base, &since), 0);
	cuda_snapshot__errors(since, &n);
	assert_int_equal(n, 2);
	assert_int_equal(*cuda_snapshot__find_error(since, &more), 3);
	assert_int_equal(*cuda_snapshot__find_error(since, &fewer), 2);
	cuda_snapshot__sites(since, &n);
	assert_int_equal(n, 2);
	assert_int_equal(cuda_snapshot__find_site(since, &used)->allocations, 2);
	assert_int_equal(cuda_snapshot__find_site(since, &used)->frees, 0);
	assert_int_equal(cuda_snapshot__find_site(since, &used)->bytes, 50);
	assert_int_equal(cuda_snapshot__find_site(since, &used)->current_bytes, 300);
	assert_int_equal(cuda_snapshot__find_site(since, &used)->peak_bytes, 450);
	assert_int_equal(cuda_snapshot__find_site(since, &held)->bytes, 0);
	assert_int_equal(cuda_snapshot__find_site(since, &held)->current_bytes, 300);
	assert_int_equal(cuda_snapshot__find_slot(since, 1)->hits, 5);
	assert_int_equal(cuda_snapshot__find_slot(since, 1)->returns, 0);
	assert_int_equal(cuda_snapshot__find_slot(since, 1)->lost[0], 2);
	assert_int_equal(cuda_snapshot__find_slot(since, 2)->hits, 15);
}

/* Process 1 is watched, ends, and another one gets its number: what is known of the first one stays. */
static void test_merge(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *base = new_snapshot(), *last = new_snapshot(),
						      *ended = new_snapshot(), *now = new_snapshot(),
						      *since = NULL;
	struct so_cuda_key key = key_of(1, 1, SO_CUDA_API_cudaMalloc, latency_octave(1000));
	struct so_cuda_key other = key_of(2, 2, SO_CUDA_API_cudaMalloc, latency_octave(1000));
	struct so_cuda_error_key error = { .tgid = 1, .code = 1 };
	struct so_cuda_site_key place = { .tgid = 1, .stack = 1 };
	struct so_cuda_site site = { .allocations = 1, .bytes = 10, .current_bytes = 10, .peak_bytes = 50 };
	struct so_cuda_slot slot = { .hits = 10 };
	struct so_cuda_calls first = { 0 }, second = { 0 };
	const struct so_cuda_calls *found;
	size_t n;

	call(&first, 1000);
	add(base, key, &first);
	cuda_snapshot__add_error(base, &error, 1);
	call(&first, 900);
	call(&first, 1020);
	add(last, key, &first);
	add(last, other, &first);
	cuda_snapshot__add_error(last, &error, 3);
	cuda_snapshot__add_site(last, &place, &site);
	cuda_snapshot__add_slot(last, 1, &slot, 1);
	assert_int_equal(cuda_snapshot__merge(ended, last, 1), 0);
	assert_null(find(ended, other));
	assert_null(cuda_snapshot__find_slot(ended, 1));
	call(&second, 700);
	second.stream = 9;
	add(now, key, &second);
	site = (struct so_cuda_site){ .allocations = 2, .bytes = 20, .current_bytes = 20, .peak_bytes = 20 };
	cuda_snapshot__add_site(now, &place, &site);
	cuda_snapshot__add_slot(now, 1, &slot, 1);
	assert_int_equal(cuda_snapshot__merge(ended, now, 0), 0);
	found = find(ended, key);
	assert_int_equal(found->calls, 4);
	assert_int_equal(found->total_ns, 3620);
	assert_int_equal(found->min_ns, 700);
	assert_int_equal(found->max_ns, 1020);
	assert_int_equal(found->grid[0], 1);
	assert_int_equal(found->stream, 9);
	assert_int_equal(sum_buckets(found), 4);
	assert_int_equal(*cuda_snapshot__find_error(ended, &error), 3);
	assert_int_equal(cuda_snapshot__find_site(ended, &place)->allocations, 3);
	assert_int_equal(cuda_snapshot__find_site(ended, &place)->current_bytes, 20);
	assert_int_equal(cuda_snapshot__find_site(ended, &place)->peak_bytes, 50);
	assert_int_equal(cuda_snapshot__find_slot(ended, 1)->hits, 10);
	assert_int_equal(cuda_snapshot__subtract(ended, base, &since), 0);
	cuda_snapshot__calls(since, &n);
	assert_int_equal(n, 1);
	assert_int_equal(find(since, key)->calls, 3);
	assert_int_equal(find(since, key)->total_ns, 2620);
	assert_int_equal(*cuda_snapshot__find_error(since, &error), 2);
}

static void test_forget(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct so_cuda_error_key errors[2] = { { .tgid = 1, .code = 2 }, { .tgid = 2, .code = 2 } };
	struct so_cuda_site_key sites[2] = { { .tgid = 1, .stack = 7 }, { .tgid = 2, .stack = 7 } };
	struct so_cuda_site site = { .allocations = 3 };
	struct so_cuda_calls calls = { 0 };
	size_t n;

	call(&calls, 700);
	for (unsigned i = 0; i < 2000; i++)
		add(snapshot, key_of(1 + i % 2, i, SO_CUDA_API_cudaMalloc, latency_octave(700)), &calls);
	for (unsigned i = 0; i < 2; i++) {
		cuda_snapshot__add_error(snapshot, &errors[i], 10 + i);
		cuda_snapshot__add_site(snapshot, &sites[i], &site);
	}
	cuda_snapshot__add_slot(snapshot, 1, &(struct so_cuda_slot){ .hits = 3 }, 1);
	cuda_snapshot__forget(snapshot, 3);
	cuda_snapshot__calls(snapshot, &n);
	assert_int_equal(n, 2000);
	cuda_snapshot__forget(snapshot, 1);
	cuda_snapshot__calls(snapshot, &n);
	assert_int_equal(n, 1000);
	for (unsigned i = 0; i < 2000; i++) {
		struct so_cuda_key key = key_of(1 + i % 2, i, SO_CUDA_API_cudaMalloc, latency_octave(700));
		const struct so_cuda_calls *found = cuda_snapshot__find_calls(snapshot, &key);

		assert_true(i % 2 ? found && found->calls == 1 : !found);
	}
	assert_null(cuda_snapshot__find_error(snapshot, &errors[0]));
	assert_int_equal(*cuda_snapshot__find_error(snapshot, &errors[1]), 11);
	assert_null(cuda_snapshot__find_site(snapshot, &sites[0]));
	assert_int_equal(cuda_snapshot__find_site(snapshot, &sites[1])->allocations, 3);
	assert_int_equal(cuda_snapshot__find_slot(snapshot, 1)->hits, 3);
	/* A process of the number may come again. */
	add(snapshot, key_of(1, 0, SO_CUDA_API_cudaMalloc, latency_octave(700)), &calls);
	cuda_snapshot__calls(snapshot, &n);
	assert_int_equal(n, 1001);
}

static void test_fold(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot(), *folded = new_snapshot();
	struct so_cuda_error_key error = { .tgid = 1, .library = 4, .api = SO_CUDA_API_cudaMalloc, .code = 2 };
	struct so_cuda_site_key site = { .tgid = 1, .stack = 7 };
	struct so_cuda_key key = key_of(1, 0, SO_CUDA_API_cudaLaunchKernel, latency_octave(700));
	struct so_cuda_key sum = key_of(0, 0, SO_CUDA_API_cudaLaunchKernel, latency_octave(700));
	struct so_cuda_calls calls = { 0 };
	const struct so_cuda_calls *found;
	size_t before, n;

	call(&calls, 700);
	call(&calls, 750);
	sum.kernel = sum.library = 0;
	for (uint32_t tgid = 1; tgid <= 3; tgid++) {
		for (uint32_t i = 0; i < 10; i++) {
			key.tgid = tgid;
			key.tid = i % 2;
			key.kernel = 0x1000 * tgid + i;
			key.library = tgid;
			add(snapshot, key, &calls);
		}
	}
	cuda_snapshot__add_error(snapshot, &error, 5);
	cuda_snapshot__add_site(snapshot, &site, &(struct so_cuda_site){ .allocations = 3 });
	before = cuda_snapshot__bytes(snapshot);
	assert_int_equal(cuda_snapshot__fold(snapshot, 1, folded), 0);
	assert_int_equal(cuda_snapshot__fold(snapshot, 2, folded), 0);
	cuda_snapshot__calls(folded, &n);
	assert_int_equal(n, 1);
	found = cuda_snapshot__find_calls(folded, &sum);
	assert_non_null(found);
	assert_int_equal(found->calls, 40);
	assert_int_equal(found->total_ns, 20 * 1450);
	assert_int_equal(found->min_ns, 700);
	assert_int_equal(found->max_ns, 750);
	error.tgid = error.library = 0;
	assert_int_equal(*cuda_snapshot__find_error(folded, &error), 5);
	cuda_snapshot__sites(folded, &n);
	assert_int_equal(n, 0);
	/* What is not theirs stays. */
	cuda_snapshot__calls(snapshot, &n);
	assert_int_equal(n, 10);
	cuda_snapshot__errors(snapshot, &n);
	assert_int_equal(n, 0);
	assert_true(cuda_snapshot__bytes(snapshot) < before / 2 && cuda_snapshot__bytes(snapshot) > 0);
}

/* Calls of 700 ns. */
static void add_launches(struct cuda_snapshot *snapshot, uint32_t tid, unsigned n)
{
	struct so_cuda_calls calls = { 0 };

	while (n--)
		call(&calls, 700);
	add(snapshot, key_of(1, tid, SO_CUDA_API_cudaLaunchKernel, latency_octave(700)), &calls);
}

static void test_fold_threads(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *base = new_snapshot(), *total = new_snapshot(),
						      *since = NULL;
	struct so_cuda_key sum = key_of(1, 0, SO_CUDA_API_cudaLaunchKernel, latency_octave(700)), key = sum;
	struct u64_table threads = { 0 };
	const struct so_cuda_calls *found;
	size_t n;

	for (uint32_t tid = 2; tid <= 4; tid++)
		u64_table__set(&threads, cuda_threads__key(1, tid), 1);
	u64_table__set(&threads, cuda_threads__key(2, 9), 1);
	for (uint32_t tid = 1; tid <= 9; tid++)
		add_launches(total, tid, 10 * tid);
	add_launches(total, 0, 100);
	add_launches(base, 0, 100);
	add_launches(base, 2, 15);
	add_launches(base, 3, 25);
	add_launches(base, 9, 4);
	assert_int_equal(cuda_snapshot__fold_threads(base, &threads), 0);
	assert_int_equal(cuda_snapshot__fold_threads(total, &threads), 0);
	cuda_snapshot__calls(total, &n);
	assert_int_equal(n, 7);
	found = find(total, sum);
	assert_int_equal(found->calls, 100 + 20 + 30 + 40);
	assert_int_equal(found->total_ns, 190 * 700);
	assert_int_equal(sum_buckets(found), 190);
	assert_int_equal(found->min_ns, 700);
	assert_int_equal(cuda_snapshot__subtract(total, base, &since), 0);
	assert_int_equal(find(since, sum)->calls, 5 + 5 + 40);
	assert_int_equal(find(since, sum)->total_ns, 50 * 700);
	key.tid = 9;
	assert_int_equal(find(since, key)->calls, 86);
	u64_table__release(&threads);
}

static void test_scale(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct so_cuda_key keys[40];
	struct so_cuda_calls calls[40] = { 0 };
	struct so_cuda_error_key error = { .tgid = 1, .code = 1 };
	struct so_cuda_site_key place = { .tgid = 1, .stack = 1 };
	struct so_cuda_site site = {
		.allocations = 100, .frees = 50, .bytes = 1000, .current_bytes = 10, .peak_bytes = 50
	};
	uint64_t random = 9, seen = 0, estimated = 0;

	for (unsigned i = 0; i < 40; i++) {
		keys[i] = key_of(1, 40 - i, SO_CUDA_API_cudaMalloc, latency_octave(600));
		for (unsigned n = 0; n <= i % 4; n++)
			call(&calls[i], 512 + next_random(&random) % 512);
		calls[i].errors = i % 2 ? calls[i].calls : 0;
		add(snapshot, keys[i], &calls[i]);
		seen += calls[i].calls;
	}
	cuda_snapshot__add_error(snapshot, &error, 10);
	cuda_snapshot__add_site(snapshot, &place, &site);
	cuda_snapshot__add_slot(snapshot, 1, &(struct so_cuda_slot){ .hits = 3 }, 1);
	assert_int_equal(cuda_snapshot__scale(snapshot, ~0u, -0.1, 0), -EINVAL);
	assert_int_equal(cuda_snapshot__scale(snapshot, ~0u, INFINITY, 0), -EINVAL);
	assert_int_equal(cuda_snapshot__scale(snapshot, ~0u, NAN, 0), -EINVAL);
	assert_int_equal(cuda_snapshot__scale(snapshot, ~0u, 2, 1), -EINVAL);
	assert_int_equal(cuda_snapshot__scale(snapshot, ~0u, 1, 0.7), 0);
	for (unsigned i = 0; i < 40; i++)
		assert_memory_equal(find(snapshot, keys[i]), &calls[i], sizeof(calls[i]));
	assert_int_equal(cuda_snapshot__scale(snapshot, ~0u, 1.37, 0.7), 0);
	for (unsigned i = 0; i < 40; i++) {
		const struct so_cuda_calls *found = find(snapshot, keys[i]);

		assert_int_equal(found->calls, sum_buckets(found));
		assert_true(found->calls >= calls[i].calls);
		assert_true(found->errors <= found->calls);
		assert_true(fabs((double)found->total_ns / (double)found->calls -
				 (double)calls[i].total_ns / (double)calls[i].calls) < 1);
		assert_int_equal(found->bytes, 100 * found->calls);
		assert_int_equal(found->min_ns, calls[i].min_ns);
		assert_int_equal(found->max_ns, calls[i].max_ns);
		estimated += found->calls;
	}
	assert_true(fabs((double)estimated - 1.37 * (double)seen) <= 1);
	assert_int_equal(*cuda_snapshot__find_error(snapshot, &error), 14);
	assert_int_equal(cuda_snapshot__find_site(snapshot, &place)->allocations, 137);
	assert_in_range(cuda_snapshot__find_site(snapshot, &place)->frees, 68, 69);
	assert_int_equal(cuda_snapshot__find_site(snapshot, &place)->bytes, 1370);
	assert_int_equal(cuda_snapshot__find_site(snapshot, &place)->current_bytes, 10);
	assert_int_equal(cuda_snapshot__find_slot(snapshot, 1)->hits, 3);
}

/* By the kind of the allocations; releases as these, as only those of memory that was seen to be allocated are seen. */
static void test_sites_scale_by_kind(void **state)
{
	static const struct {
		uint16_t kind;
		uint32_t kinds;
		unsigned allocations, frees;
	} of[] = {
		{ SO_CUDA_ALLOC, 1u << SO_CUDA_ALLOC, 200, 100 },
		{ SO_CUDA_ALLOC, 1u << SO_CUDA_FREE, 100, 50 },
		{ SO_CUDA_ALLOC, 1u << SO_CUDA_ASYNC_ALLOC | 1u << SO_CUDA_ASYNC_FREE, 100, 50 },
		{ SO_CUDA_ASYNC_ALLOC, 1u << SO_CUDA_ASYNC_ALLOC, 200, 100 },
		{ SO_CUDA_ASYNC_ALLOC, 1u << SO_CUDA_ALLOC | 1u << SO_CUDA_FREE, 100, 50 },
	};

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
		struct so_cuda_site_key place = { .tgid = 1, .kind = of[i].kind };
		struct so_cuda_site site = { .allocations = 100, .frees = 50, .bytes = 1000 };
		const struct so_cuda_site *scaled;

		cuda_snapshot__add_site(snapshot, &place, &site);
		assert_int_equal(cuda_snapshot__scale(snapshot, of[i].kinds, 2, 0), 0);
		scaled = cuda_snapshot__find_site(snapshot, &place);
		assert_int_equal(scaled->allocations, of[i].allocations);
		assert_int_equal(scaled->bytes, 10 * of[i].allocations);
		assert_int_equal(scaled->frees, of[i].frees);
	}
}

/* A site was released since the on-window that an estimate is made of, another is gone. */
static void test_memory_is_not_estimated(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *total = new_snapshot(), *estimate = new_snapshot();
	struct so_cuda_site_key places[2] = { { .tgid = 1, .stack = 1 }, { .tgid = 1, .stack = 2 } };
	struct so_cuda_site then = { .allocations = 3, .current_bytes = 500, .peak_bytes = 900 };
	struct so_cuda_site now = { .allocations = 9, .frees = 9, .current_bytes = 0, .peak_bytes = 1200 };

	cuda_snapshot__add_site(estimate, &places[0], &then);
	cuda_snapshot__add_site(estimate, &places[1], &then);
	cuda_snapshot__add_site(total, &places[0], &now);
	cuda_snapshot__take_memory(estimate, total);
	assert_int_equal(cuda_snapshot__merge(total, estimate, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct so_cuda_site *site = cuda_snapshot__find_site(total, &places[i]);

		assert_int_equal(site->allocations, i ? 3 : 12);
		assert_int_equal(site->current_bytes, 0);
		assert_int_equal(site->peak_bytes, i ? 0 : 1200);
	}
}

/* One call at a time, 1.4 times each: over many parts the rounding evens out, in each bucket. */
static void test_scale_is_unbiased(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *all = new_snapshot();
	struct so_cuda_key key = key_of(1, 1, SO_CUDA_API_cudaMalloc, latency_octave(600));
	unsigned rounds = 1000;

	for (unsigned round = 0; round < rounds; round++) {
		_cleanup_(cuda_snapshot) struct cuda_snapshot *part = new_snapshot();
		struct so_cuda_calls calls = { 0 };

		call(&calls, 600);
		call(&calls, 1000);
		add(part, key, &calls);
		assert_int_equal(cuda_snapshot__scale(part, ~0u, 1.4, (round + 0.5) / rounds), 0);
		assert_int_equal(cuda_snapshot__merge(all, part, 0), 0);
	}
	assert_int_equal(find(all, key)->calls, 2800);
	assert_int_equal(find(all, key)->buckets[latency_bucket(600, latency_octave(600))], 1400);
	assert_int_equal(find(all, key)->buckets[latency_bucket(1000, latency_octave(1000))], 1400);
	assert_int_equal(find(all, key)->total_ns, 1600 * 1400);
}

static uint64_t calls_of_row(const struct cuda_snapshot *snapshot, struct so_cuda_key key, double *mean_ns)
{
	uint64_t calls = 0, ns = 0;

	for (uint8_t octave = 0; octave <= SO_CUDA_UNTIMED; octave++) {
		const struct so_cuda_calls *found;

		key.octave = octave;
		found = cuda_snapshot__find_calls(snapshot, &key);
		calls += found ? found->calls : 0;
		ns += found ? found->total_ns : 0;
	}
	*mean_ns = calls ? (double)ns / (double)calls : 0;
	return calls;
}

/* One in 16 calls was timed: the others get their times. Counts and bytes are exact, row by row. */
static void test_untimed_calls_get_times(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct so_cuda_key often = key_of(1, 1, SO_CUDA_API_cudaMemcpyAsync, 0), rare = often, other = often;
	const uint8_t octaves[] = { latency_octave(1000), latency_octave(9000) };
	const struct so_cuda_calls *found;
	double mean;

	for (unsigned i = 0; i < 2; i++) {
		struct so_cuda_calls calls = { .min_ns = UINT64_MAX, .bytes = 40 };

		for (unsigned k = 0; k < 10; k++)
			call(&calls, i ? 9000 : 1000);
		often.octave = octaves[i];
		add(snapshot, often, &calls);
	}
	rare.tid = 2;
	other.api = SO_CUDA_API_cudaLaunchKernel;
	often.octave = rare.octave = other.octave = SO_CUDA_UNTIMED;
	add(snapshot, often, &(struct so_cuda_calls){ .buckets = { 301 }, .bytes = 1000 });
	add(snapshot, rare, &(struct so_cuda_calls){ .buckets = { 7 }, .bytes = 70 });
	add(snapshot, other, &(struct so_cuda_calls){ .buckets = { 5 } });
	assert_int_equal(cuda_snapshot__spread_untimed(snapshot), 0);
	assert_int_equal(calls_of_row(snapshot, often, &mean), 321);
	assert_true(fabs(mean - 5000) < 100);
	assert_int_equal(calls_of_row(snapshot, rare, &mean), 7);
	assert_true(fabs(mean - 5000) < 1500);
	assert_int_equal(calls_of_row(snapshot, other, &mean), 5);
	assert_true(mean == 0);
	assert_null(cuda_snapshot__find_calls(snapshot, &often));
	often.octave = octaves[0];
	found = cuda_snapshot__find_calls(snapshot, &often);
	assert_int_equal(found->bytes, 3080);
	assert_true(found->min_ns == 1000 && found->max_ns == 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add_and_find),
		cmocka_unit_test(test_full_map),
		cmocka_unit_test(test_subtract),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_bounds_by_sum),
		cmocka_unit_test(test_subtract_others),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_fold),
		cmocka_unit_test(test_fold_threads),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_sites_scale_by_kind),
		cmocka_unit_test(test_memory_is_not_estimated),
		cmocka_unit_test(test_scale_is_unbiased),
		cmocka_unit_test(test_untimed_calls_get_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
