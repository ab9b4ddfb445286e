// SPDX-License-Identifier: GPL-2.0-or-later
/* What the store keeps and answers: ranges, merging, bounds, lists. */
#include "tests/unit/store_world.h"

#include <pthread.h>

#include "daemon/history/cuda_merge.h"

static void test_one_window_comes_back(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	uint64_t samples = 0;
	struct store_span span;

	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, EPOCH_NS + 1, &span), -ENODATA);
	assert_int_equal(store_world_add(w, target, EPOCH_NS, &samples), 0);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, EPOCH_NS + 1, &span), 0);
	assert_int_equal(span.samples, samples);
	assert_int_equal(span.begin_ns, EPOCH_NS);
	assert_int_equal(span.end_ns, EPOCH_NS + WINDOW_NS);
	assert_int_equal(span.covered_ns, WINDOW_NS);
	assert_int_equal(span.windows, 1);
	/* A window that only touches the range is not in it; nor is that of another target. */
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS + WINDOW_NS, EPOCH_NS + 2 * WINDOW_NS, &span),
			 -ENODATA);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS - 1, EPOCH_NS, &span), -ENODATA);
	assert_int_equal(store_world_ask(w, 99, EPOCH_NS, EPOCH_NS + 1, &span), -ENODATA);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS + 1, EPOCH_NS + 1, &span), -EINVAL);
}

static void test_windows_that_are_none(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct store_window window = { 100, 200, 1, 0, "x", 1, NULL, false, { .known = false } };

	assert_int_equal(store__add(w->store, target + 1, &window), -ENOENT);
	window.end_ns = 100;
	assert_int_equal(store__add(w->store, target, &window), -EINVAL);
	window.end_ns = 100 + STORE_MAX_WINDOW_NS + 1;
	assert_int_equal(store__add(w->store, target, &window), -EINVAL);
	window.end_ns = 200;
	window.cuda = "{";
	assert_int_equal(store__add(w->store, target, &window), -EINVAL);
	window.cuda = NULL;
	window.profile = "\x1f\x8b not gzip";
	window.profile_bytes = 11;
	assert_int_equal(store__add(w->store, target, &window), -EINVAL);
	assert_false(store__problem(w->store, NULL, 0));
}

/* Every range of ten-second steps answers the same before and after all merging that leaves the parts in place. */
static void test_merging_changes_no_answer(void **state)
{
	enum { WINDOWS = 130 };
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	uint64_t samples[WINDOWS] = { 0 };
	struct store_stats stats;
	struct store_span span;

	for (int i = 0; i < WINDOWS; i++)
		if (i % 11 != 3) /* holes */
			assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, &samples[i]), 0);
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(store__stats(w->store, &stats), 0);
	assert_int_equal(stats.windows[0], 118);
	assert_int_equal(stats.windows[1], 22);
	assert_int_equal(stats.windows[2], 2);
	for (int from = 0; from < WINDOWS; from += 3)
		for (int to = from + 1; to <= WINDOWS; to += 7) {
			uint64_t expected = 0, covered = 0;

			for (int i = from; i < to; i++) {
				expected += samples[i];
				covered += samples[i] ? WINDOW_NS : 0;
			}
			if (!expected)
				continue;
			assert_int_equal(store_world_ask(w, 1, EPOCH_NS + from * WINDOW_NS,
							 EPOCH_NS + to * WINDOW_NS, &span),
					 0);
			assert_int_equal(span.samples, expected);
			assert_int_equal(span.covered_ns, covered);
			assert_int_equal(span.damaged, 0);
			assert_int_equal(store_world_ask(w, 0, EPOCH_NS + from * WINDOW_NS,
							 EPOCH_NS + to * WINDOW_NS, &span),
					 0);
			assert_int_equal(span.samples, expected);
		}
	/* The whole twenty minutes are two sums, and what follows them. */
	assert_int_equal(store_world_ask(w, 1, EPOCH_NS, EPOCH_NS + 120 * WINDOW_NS, &span), 0);
	assert_int_equal(span.windows, 2);
	store_world_check_integrity(w);
}

struct seen_windows {
	uint64_t windows, samples;
	int64_t longest_ns, end_ns;
};

static int see_window(void *data, const struct store_window_info *window, struct so_error *err)
{
	struct seen_windows *seen = data;

	assert_true(window->profile_bytes > 0);
	assert_true(window->begin_ns >= seen->end_ns);
	seen->windows++;
	seen->samples += window->samples;
	seen->end_ns = window->end_ns;
	if (window->end_ns - window->begin_ns > seen->longest_ns)
		seen->longest_ns = window->end_ns - window->begin_ns;
	return 0;
}

/* Whatever the length that is asked for, each sample is there once. */
static void test_windows_one_by_one(void **state)
{
	static const int64_t longest_ns[] = { WINDOW_NS, STORE_MINUTE_NS, STORE_TEN_MINUTE_NS, INT64_MAX };
	static const uint64_t windows[] = { 120, 20, 2, 2 };
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	uint64_t samples = 0;

	for (int i = 0; i < 120; i++)
		assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, &samples), 0);
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	for (int i = 0; i < 4; i++) {
		const struct store_query query = { 1, EPOCH_NS, EPOCH_NS + 120 * WINDOW_NS };
		struct seen_windows seen = { 0 };
		struct store_span span;

		assert_int_equal(store__windows(w->store, &query, longest_ns[i], see_window, &seen, &span, NULL), 0);
		assert_int_equal(seen.samples, samples);
		assert_int_equal(seen.windows, windows[i]);
		assert_int_equal(span.windows, windows[i]);
		assert_true(seen.longest_ns <= longest_ns[i]);
	}
}

static int64_t sum_of_samples(const struct store_world *w)
{
	return store_world_number(w, "SELECT sum(samples) FROM windows WHERE part_of IS NULL");
}

static void test_parts_go_with_age(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7), other = store_world_target(w, 8);
	struct store_stats stats;
	struct store_span span;
	uint64_t samples = 0;

	for (int i = 0; i < 120; i++) {
		assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, &samples), 0);
		assert_int_equal(store_world_add(w, other, EPOCH_NS + i * WINDOW_NS, &samples), 0);
	}
	assert_int_equal(sum_of_samples(w), samples);
	store_world_now_ns += HOUR_NS + 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(store__stats(w->store, &stats), 0);
	assert_int_equal(stats.windows[0], 0);
	assert_int_equal(stats.windows[1], 40);
	assert_int_equal(stats.windows[2], 4);
	assert_int_equal(sum_of_samples(w), samples);
	/* Now a minute is the finest: the one that crosses the edge is there whole. */
	assert_int_equal(store_world_ask(w, 1, EPOCH_NS + WINDOW_NS, EPOCH_NS + 2 * WINDOW_NS, &span), 0);
	assert_int_equal(span.end_ns - span.begin_ns, STORE_MINUTE_NS);
	assert_int_equal(span.longest_ns, STORE_MINUTE_NS);
	store_world_now_ns += 24 * HOUR_NS;
	store_world_settle(w);
	assert_int_equal(store__stats(w->store, &stats), 0);
	assert_int_equal(stats.windows[1], 0);
	assert_int_equal(stats.windows[2], 4);
	assert_int_equal(sum_of_samples(w), samples);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, EPOCH_NS + HOUR_NS, &span), 0);
	assert_int_equal(span.samples, samples);
	assert_int_equal(span.covered_ns, 1200 * STORE_SECOND_NS);
	store_world_check_integrity(w);
}

static json_t *add_up(json_t *documents)
{
	return json_pack("{s:i}", "merged", (int)json_array_size(documents));
}

static int collect(void *data, const json_t *documents)
{
	return json_array_extend(data, (json_t *)documents) ? -ENOMEM : 0;
}

static int read_cuda(struct store *store, const struct store_query *query, json_t **out,
		     struct store_span *span)
{
	*out = json_array();
	return store__cuda(store, query, collect, *out, span, NULL);
}

static void test_cuda_documents(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	const struct store_query query = { 0, EPOCH_NS, EPOCH_NS + HOUR_NS };
	struct store_options options = store_world_options(w);
	struct store_span span;
	json_t *documents;

	for (int i = 0; i < 6; i++)
		assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, NULL), 0);
	assert_int_equal(read_cuda(w->store, &query, &documents, &span), 0);
	assert_int_equal(json_array_size(documents), 6);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(documents, 2), "begin")),
			 EPOCH_NS + 2 * WINDOW_NS);
	json_decref(documents);
	store_world_now_ns += STORE_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(read_cuda(w->store, &query, &documents, &span), 0);
	assert_int_equal(span.windows, 1);
	assert_int_equal(json_array_size(documents), 6);
	json_decref(documents);
	/* With a function that adds up. */
	store__close(w->store);
	options.merge_cuda = add_up;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 9);
	for (int i = 0; i < 6; i++)
		assert_int_equal(store_world_add(w, target, EPOCH_NS + HOUR_NS + i * WINDOW_NS, NULL), 0);
	store_world_now_ns += STORE_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(read_cuda(w->store,
				   &(struct store_query){ 0, EPOCH_NS + HOUR_NS, EPOCH_NS + 2 * HOUR_NS },
				   &documents, &span),
			 0);
	assert_int_equal(json_array_size(documents), 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(documents, 0), "merged")), 6);
	json_decref(documents);
}

/* A window of ten seconds with calls numbered from 1 on. */
static void add_calls(struct store_world *w, uint32_t target, int number, bool valid)
{
	int64_t begin_ns = EPOCH_NS + (number - 1) * WINDOW_NS;
	_cleanup_free_ uint8_t *profile = NULL;
	struct store_window window = { .begin_ns = begin_ns,
				       .end_ns = begin_ns + WINDOW_NS,
				       .cuda_valid = valid };
	char cuda[256];

	snprintf(cuda, sizeof(cuda),
		 "{\"duration_s\":10,\"calls\":[{\"api\":\"cuInit\",\"calls\":%d,\"min_ns\":%d,\"max_ns\":1000}"
		 "]}",
		 number, number);
	window.samples = store_world_profile((unsigned)number, begin_ns, &profile, &window.profile_bytes);
	window.profile = profile;
	window.cuda = cuda;
	store_world_now_ns = window.end_ns;
	assert_int_equal(store__add(w->store, target, &window), 0);
}

struct calls_read {
	struct cuda_merge *merge;
	unsigned windows;
	int fail;
};

static int take_calls(void *data, const json_t *documents)
{
	struct calls_read *read = data;
	const json_t *document;
	size_t i;

	json_array_foreach (documents, i, document)
		assert_int_equal(cuda_merge__add(read->merge, document), 0);
	read->windows++;
	return read->fail;
}

/* Over all levels the calls are the same; the last windows are not merged yet. */
static void test_cuda_calls_are_merged(void **state)
{
	struct store_world *w = *state;
	const struct store_query query = { 0, EPOCH_NS, EPOCH_NS + HOUR_NS };
	struct store_options options = store_world_options(w);
	struct calls_read read = { .merge = cuda_merge__new() };
	struct store_span span;
	const json_t *row;
	json_t *sum;
	uint32_t target;

	store__close(w->store);
	options.merge_cuda = cuda_merge__store;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 9);
	for (int i = 1; i <= 100; i++)
		add_calls(w, target, i, i % 2);
	store_world_settle(w);
	assert_int_equal(store__cuda(w->store, &query, take_calls, &read, &span, NULL), 0);
	/* Ten minutes, six single ones, and what is younger than the grace. */
	assert_true(read.windows >= 7 && read.windows < 17);
	assert_int_equal(span.windows, read.windows);
	assert_int_equal(span.covered_ns, 100 * WINDOW_NS);
	sum = cuda_merge__finish(read.merge, false);
	assert_int_equal(json_array_size(json_object_get(sum, "calls")), 1);
	row = json_array_get(json_object_get(sum, "calls"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "calls")), 5050);
	assert_int_equal(json_integer_value(json_object_get(row, "min_ns")), 1);
	assert_true(json_number_value(json_object_get(sum, "duration_s")) == 1000);
	json_decref(sum);
	/* What is refused counts as damaged, another error ends it. */
	read.fail = -EBADMSG;
	assert_int_equal(store__cuda(w->store, &query, take_calls, &read, &span, NULL), -ENODATA);
	read.fail = -EFBIG;
	read.windows = 0;
	assert_int_equal(store__cuda(w->store, &query, take_calls, &read, &span, NULL), -EFBIG);
	assert_int_equal(read.windows, 1);
	cuda_merge__free(read.merge);
}

/* Nothing is kept that could not be read back. */
static void test_cuda_documents_have_a_size(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	_cleanup_free_ uint8_t *profile = NULL;
	_cleanup_free_ char *cuda = malloc(STORE_MAX_CUDA_BYTES);
	struct store_window window = { .begin_ns = EPOCH_NS, .end_ns = EPOCH_NS + WINDOW_NS, .cuda = cuda };

	window.samples = store_world_profile(1, EPOCH_NS, &profile, &window.profile_bytes);
	window.profile = profile;
	memset(cuda, ' ', STORE_MAX_CUDA_BYTES);
	memcpy(cuda, "{}", 2);
	cuda[STORE_MAX_CUDA_BYTES - 1] = '\0';
	assert_int_equal(store__add(w->store, target, &window), -EFBIG);
	cuda[STORE_MAX_CUDA_BYTES - 2] = '\0';
	assert_int_equal(store__add(w->store, target, &window), 0);
}

static void test_age_bound(void **state)
{
	struct store_world *w = *state;
	struct store_options options = store_world_options(w);
	struct store_target_info *targets;
	struct store_span span;
	uint32_t target;
	size_t n;

	store__close(w->store);
	options.retain_age_ns = HOUR_NS;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 7);
	for (int i = 0; i < 60; i++)
		assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, NULL), 0);
	store_world_now_ns = EPOCH_NS + HOUR_NS + 30 * WINDOW_NS + 1;
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT min(begin_ns) FROM windows"), EPOCH_NS);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, EPOCH_NS + HOUR_NS, &span), 0);
	store_world_now_ns = EPOCH_NS + HOUR_NS + 60 * WINDOW_NS + 1;
	store__end_target(w->store, target, STORE_END_ENDED);
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows"), 0);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM blobs"), 0);
	/* The target itself goes when its end is as old. */
	assert_int_equal(store__targets(w->store, &targets, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(targets[0].end, STORE_END_ENDED);
	store__free_targets(targets, n);
	store_world_now_ns += HOUR_NS + STORE_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(store__targets(w->store, &targets, &n, NULL), 0);
	assert_int_equal(n, 0);
	store__free_targets(targets, n);
}

static uint64_t add_hour(struct store_world *w, uint32_t target)
{
	uint64_t samples = 0;

	for (int i = 0; i < 360; i++)
		assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, &samples), 0);
	store_world_settle(w);
	return samples;
}

/* Not even detail goes: parts that are younger than an hour stay beside their sums. */
static void test_clock_set_forward(void **state)
{
	struct store_world *w = *state;
	uint64_t samples = add_hour(w, store_world_target(w, 7));
	int64_t parts = store_world_number(w, "SELECT count(*) FROM windows WHERE part_of IS NOT NULL");

	store_world_set_clock(10 * 365 * 24 * HOUR_NS);
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	assert_true(store_world_number(w, "SELECT count(*) FROM windows WHERE part_of IS NOT NULL") >= parts);
	/* A daemon that begins under that clock, and writes. */
	store_world_reopen(w);
	store_world_add(w, store_world_target(w, 8), store_world_now_ns, &samples);
	store_world_reopen(w);
	store_world_now_ns += HOUR_NS;
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	store_world_set_clock(-10 * 365 * 24 * HOUR_NS);
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	/* The clock is right, and age counts as ever: all but the window that lies in the future. */
	store_world_now_ns += 400 * HOUR_NS + STORE_TEN_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows"), 1);
	store_world_check_integrity(w);
}

/* Within a minute of the first window, before and after a start of the daemon. */
static void test_clock_set_soon_after_the_first_window(void **state)
{
	struct store_world *w = *state;
	uint64_t samples = 0;

	store_world_settle(w);
	store_world_now_ns += 20 * STORE_SECOND_NS;
	store_world_add(w, store_world_target(w, 7), store_world_now_ns - WINDOW_NS, &samples);
	store_world_set_clock(8 * 24 * HOUR_NS);
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	store_world_reopen(w);
	store_world_set_clock(10 * 365 * 24 * HOUR_NS);
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
}

/* The samples of the windows that touch a range, by their begins. */
static uint64_t samples_of(const int64_t *begin_ns, const uint64_t *samples, int n, int64_t from_ns,
			   int64_t to_ns)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		if (begin_ns[i] < to_ns && begin_ns[i] + WINDOW_NS > from_ns)
			sum += samples[i];
	return sum;
}

/* Windows lie over others of the same process, half of which are merged already: each counts once, before and after. */
static void test_clock_set_back(void **state)
{
	enum { WINDOWS = 96, BACK = 33 };
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	int64_t begin_ns[WINDOWS], at_ns = EPOCH_NS;
	uint64_t samples[WINDOWS] = { 0 };
	struct store_span span;

	for (int i = 0; i < WINDOWS; i++, at_ns += WINDOW_NS) {
		if (i == WINDOWS / 2) {
			store_world_set_clock(-BACK * WINDOW_NS - WINDOW_NS / 2);
			at_ns = store_world_now_ns;
		}
		begin_ns[i] = at_ns;
		assert_int_equal(store_world_add(w, target, at_ns, &samples[i]), 0);
		store_world_settle(w);
	}
	for (int round = 0; round < 2; round++) {
		for (int64_t from = EPOCH_NS; !round && from < at_ns; from += 3 * WINDOW_NS) {
			assert_int_equal(store_world_ask(w, 1, from, from + 5 * WINDOW_NS, &span), 0);
			assert_int_equal(span.samples,
					 samples_of(begin_ns, samples, WINDOWS, from, from + 5 * WINDOW_NS));
		}
		assert_int_equal(store_world_ask(w, 1, 0, INT64_MAX, &span), 0);
		assert_int_equal(span.samples, samples_of(begin_ns, samples, WINDOWS, 0, INT64_MAX));
		assert_int_equal(span.covered_ns, WINDOWS * WINDOW_NS);
		store_world_now_ns += 2 * HOUR_NS;
		store_world_settle(w);
	}
	store_world_check_integrity(w);
}

/* A store of before there was a clock in it: the newest window says how late it was. */
static void test_a_store_without_a_clock(void **state)
{
	struct store_world *w = *state;
	uint64_t samples = add_hour(w, store_world_target(w, 7));

	store__close(w->store);
	store_world_forget_shares(w);
	store_world_run(w, "DROP TABLE clock; PRAGMA user_version = 1");
	store_world_set_clock(1000 * HOUR_NS);
	store_world_open(w);
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	assert_int_equal(store_world_number(w, "SELECT now_ns FROM clock"), EPOCH_NS + HOUR_NS);
}

/* Before the time is known a clock shows 1970, or when it was built: as soon as it is right, age counts as ever. */
static void test_first_start_without_the_time(void **state)
{
	enum { YEARS = 50 };
	const int64_t wrong_ns = YEARS * 365 * 24 * HOUR_NS;
	struct store_world *w = *state;

	for (int written = 0; written < 2; written++) {
		store_world_set_clock(-wrong_ns);
		store_world_settle(w);
		if (written)
			assert_int_equal(store_world_add(w, store_world_target(w, 8), store_world_now_ns, NULL),
					 0);
		store_world_now_ns += 2 * STORE_MINUTE_NS;
		store_world_settle(w);
		store_world_set_clock(wrong_ns);
		for (int i = 0; i < 10; i++)
			assert_int_equal(store_world_add(w, store_world_target(w, 7),
							 store_world_now_ns + i * WINDOW_NS, NULL),
					 0);
		store_world_settle(w);
		store_world_now_ns += 390 * HOUR_NS;
		store_world_settle(w);
		assert_true(store_world_number(w, "SELECT count(*) FROM windows") >= 1);
		store_world_now_ns += 20 * HOUR_NS;
		store_world_settle(w);
		assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows"), 0);
		store_world_now_ns += 2 * STORE_MINUTE_NS;
		store_world_settle(w);
	}
}

/* What passed while no daemon ran counts, but not at once. */
static void test_age_after_a_long_rest(void **state)
{
	struct store_world *w = *state;
	uint64_t samples = add_hour(w, store_world_target(w, 7));

	store__close(w->store);
	store_world_set_clock(1000 * HOUR_NS);
	store_world_open(w);
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	store_world_now_ns += 199 * HOUR_NS;
	store_world_settle(w);
	assert_int_equal(sum_of_samples(w), samples);
	store_world_now_ns += 2 * HOUR_NS;
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows"), 0);
}

static void test_targets_go_on(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct store_target_info *targets;
	struct store_gap *gaps;
	uint64_t samples = 0;
	size_t n;

	assert_int_equal(store_world_add(w, target, EPOCH_NS, &samples), 0);
	store_world_reopen(w);
	assert_int_equal(store__targets(w->store, &targets, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(targets[0].end, STORE_END_CLOSED);
	assert_int_equal(targets[0].ended_ns, EPOCH_NS + WINDOW_NS);
	store__free_targets(targets, n);
	/* The same process, then another one that got the PID. */
	target = store_world_target(w, 7);
	assert_int_equal(store_world_add(w, target, EPOCH_NS + WINDOW_NS, &samples), 0);
	assert_int_equal(store__begin_target(w->store, &(struct store_target){ 7, 5, "later", NULL, 0 }, &target), 0);
	assert_int_equal(store__targets(w->store, &targets, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(targets[0].end, STORE_END_OPEN);
	assert_int_equal(targets[0].ended_ns, 0);
	assert_int_equal(targets[0].pid, 7);
	assert_int_equal(targets[0].start_ticks, 1007);
	assert_int_equal(targets[0].samples, samples);
	assert_int_equal(targets[0].first_ns, EPOCH_NS);
	assert_int_equal(targets[0].last_ns, EPOCH_NS + 2 * WINDOW_NS);
	assert_string_equal(targets[0].comm, "train");
	assert_string_equal(targets[0].labels, "{\"job\":\"x\"}");
	assert_string_equal(targets[1].comm, "later");
	assert_string_equal(targets[1].labels, "");
	store__free_targets(targets, n);
	assert_int_equal(store__gaps(w->store, 0, INT64_MAX, &gaps, &n, NULL), 0);
	assert_int_equal(n, 0);
	free(gaps);
	assert_int_equal(store__end_target(w->store, 12345, STORE_END_ENDED), -ENOENT);
}

struct asker {
	struct store_world *w;
	int stop, asked;
};

static void *ask_on(void *data)
{
	struct asker *asker = data;
	const struct store_query query = { 0, EPOCH_NS, EPOCH_NS + HOUR_NS };

	while (!__atomic_load_n(&asker->stop, __ATOMIC_ACQUIRE)) {
		_cleanup_free_ uint8_t *bytes = NULL;
		struct store_span span;
		uint64_t windows;
		size_t length;

		if (store__profile(asker->w->store, &query, &bytes, &length, &span, NULL) || span.damaged)
			return "a range was not answered";
		/* Whatever has been merged meanwhile, a window that was there is in the answer, and once. */
		windows = (uint64_t)(span.covered_ns / WINDOW_NS);
		if (windows < 1 || span.end_ns != EPOCH_NS + (int64_t)windows * WINDOW_NS)
			return "the answer has a hole";
		__atomic_add_fetch(&asker->asked, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void test_readers_beside_the_writer(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct asker asker = { .w = w };
	pthread_t threads[2];
	void *failure;

	assert_int_equal(store_world_add(w, target, EPOCH_NS, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &asker), 0);
	for (int i = 1; i < 200; i++) {
		assert_int_equal(store_world_add(w, target, EPOCH_NS + i * WINDOW_NS, NULL), 0);
		assert_true(store__maintain(w->store, 10) >= 0);
	}
	__atomic_store_n(&asker.stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], &failure), 0);
		if (failure)
			fail_msg("%s", (const char *)failure);
	}
	assert_true(asker.asked > 0);
	assert_false(store__problem(w->store, NULL, 0));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_world_setup, store_world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_window_comes_back),
		TEST(test_windows_that_are_none),
		TEST(test_clock_set_forward),
		TEST(test_clock_set_soon_after_the_first_window),
		TEST(test_clock_set_back),
		TEST(test_first_start_without_the_time),
		TEST(test_a_store_without_a_clock),
		TEST(test_age_after_a_long_rest),
		TEST(test_merging_changes_no_answer),
		TEST(test_windows_one_by_one),
		TEST(test_parts_go_with_age),
		TEST(test_cuda_documents),
		TEST(test_cuda_calls_are_merged),
		TEST(test_cuda_documents_have_a_size),
		TEST(test_age_bound),
		TEST(test_targets_go_on),
		TEST(test_readers_beside_the_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
