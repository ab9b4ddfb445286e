// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory beside windows: kept, merged, and not known where it was not read. */
#include "tests/unit/store_world.h"

/* Bytes: also beyond what 32 bits hold. */
static struct store_memory memory_of(int64_t i)
{
	return (struct store_memory){ true, 1000 * i, 5000000000 + i, 30 + i, 4 * i, 5000010000 + 2000 * i };
}

/* length_ns: of the window, which begins then. */
static void add(struct store_world *w, uint32_t target, int64_t begin_ns, int64_t length_ns,
		const struct store_memory *memory)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct store_window window = { .begin_ns = begin_ns, .end_ns = begin_ns + length_ns, .memory = *memory };

	window.samples = store_world_profile(1, begin_ns, &bytes, &window.profile_bytes);
	window.profile = bytes;
	if (window.end_ns > store_world_now_ns)
		store_world_now_ns = window.end_ns;
	assert_int_equal(store__add(w->store, target, &window), 0);
}

struct seen {
	struct store_window_info list[64];
	size_t n;
};

static int see(void *data, const struct store_window_info *window, struct so_error *err)
{
	struct seen *seen = data;

	assert_true(seen->n < 64);
	seen->list[seen->n++] = *window;
	return 0;
}

static struct seen ask(struct store_world *w, int64_t longest_ns)
{
	const struct store_query query = { 1, EPOCH_NS, EPOCH_NS + HOUR_NS };
	struct so_error err = { "" };
	struct seen seen = { .n = 0 };
	struct store_span span;

	if (store__memory(w->store, &query, longest_ns, see, &seen, &span, &err))
		fail_msg("%s", err.text);
	assert_int_equal(span.windows, seen.n);
	return seen;
}

static void check(const struct store_memory *got, const struct store_memory *wanted)
{
	assert_int_equal(got->known, wanted->known);
	assert_int_equal(got->anonymous, wanted->anonymous);
	assert_int_equal(got->file, wanted->file);
	assert_int_equal(got->shared, wanted->shared);
	assert_int_equal(got->swapped, wanted->swapped);
	assert_int_equal(got->most, wanted->most);
}

static void test_it_comes_back(void **state)
{
	static const struct store_memory unknown = { .known = false }, none = { .known = true };
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct store_memory memory = memory_of(3);
	struct seen seen;

	add(w, target, EPOCH_NS, WINDOW_NS, &memory);
	add(w, target, EPOCH_NS + WINDOW_NS, WINDOW_NS, &unknown);
	add(w, target, EPOCH_NS + 2 * WINDOW_NS, WINDOW_NS, &none);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 3);
	check(&seen.list[0].memory, &memory);
	check(&seen.list[1].memory, &unknown);
	check(&seen.list[2].memory, &none);
	assert_null(seen.list[0].profile);
	/* Not known is no zero. */
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows WHERE anonymous IS NULL AND file IS NULL"
					       " AND shared IS NULL AND swapped IS NULL AND most IS NULL"),
			 1);
}

/* The windows of the first minute: 10 s of 1000, 20 s of 4000, 30 s that are not known. */
static void add_minute(struct store_world *w, uint32_t target)
{
	static const struct store_memory unknown = { .known = false };
	struct store_memory first = memory_of(1), second = memory_of(4);

	second.most = 7;
	add(w, target, EPOCH_NS, WINDOW_NS, &first);
	add(w, target, EPOCH_NS + WINDOW_NS, 2 * WINDOW_NS, &second);
	add(w, target, EPOCH_NS + 3 * WINDOW_NS, 3 * WINDOW_NS, &unknown);
}

static void test_a_sum_is_weighted_by_time(void **state)
{
	const struct store_memory wanted = { true, 3000, 5000000003, 33, 12, memory_of(1).most };
	struct store_world *w = *state;
	struct seen seen;

	add_minute(w, store_world_target(w, 7));
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 1);
	check(&seen.list[0].memory, &wanted);
	assert_int_equal(seen.list[0].covered_ns, STORE_MINUTE_NS);
	/* The parts are as they were. */
	seen = ask(w, WINDOW_NS);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.list[1].memory.anonymous, 4000);
	assert_false(seen.list[2].memory.known);
}

/* Minutes become ten minutes. */
static void test_sums_of_sums(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct seen seen;

	for (int i = 0; i < 60; i++) {
		struct store_memory memory = memory_of(i);

		memory.most = i == 17 ? 1ll << 50 : 1;
		add(w, target, EPOCH_NS + i * WINDOW_NS, WINDOW_NS, &memory);
	}
	store_world_now_ns += STORE_TEN_MINUTE_NS + STORE_MINUTE_NS;
	store_world_settle(w);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 1);
	/* Of 0 to 59; each minute is rounded, and their mean is. */
	assert_int_equal(seen.list[0].memory.anonymous, 29500);
	assert_in_range(seen.list[0].memory.file, 5000000029, 5000000031);
	assert_int_equal(seen.list[0].memory.most, 1ll << 50);
}

static void test_a_sum_of_unknown_ones_is_unknown(void **state)
{
	static const struct store_memory unknown = { .known = false };
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct seen seen;

	for (int i = 0; i < 6; i++)
		add(w, target, EPOCH_NS + i * WINDOW_NS, WINDOW_NS, &unknown);
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 1);
	assert_false(seen.list[0].memory.known);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows WHERE most IS NOT NULL"), 0);
}

/* A store of before windows had memory: what is in it stays, and what comes has it. */
static void test_a_store_without_memory(void **state)
{
	struct store_world *w = *state;
	struct store_memory memory = memory_of(9);
	uint32_t target = store_world_target(w, 7);
	uint64_t samples = 0;
	struct store_span span;
	struct seen seen;

	assert_int_equal(store_world_add(w, target, EPOCH_NS, &samples), 0);
	store__close(w->store);
	store_world_forget_memory(w);
	store_world_open(w);
	assert_int_equal(store_world_number(w, "PRAGMA user_version"), 4);
	target = store_world_target(w, 7);
	add(w, target, EPOCH_NS + WINDOW_NS, WINDOW_NS, &memory);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 2);
	assert_false(seen.list[0].memory.known);
	assert_int_equal(seen.list[0].samples, samples);
	check(&seen.list[1].memory, &memory);
	/* Of both of them, what is known. */
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 1);
	check(&seen.list[0].memory, &memory);
	assert_int_equal(store_world_ask(w, 1, 0, INT64_MAX, &span), 0);
	store_world_check_integrity(w);
}

/* It could be read, and could not be brought to this version. */
static void test_a_store_without_memory_that_stays_so(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	uint64_t samples = 0;
	struct seen seen;

	assert_int_equal(store_world_add(w, target, EPOCH_NS, &samples), 0);
	store_world_forget_memory(w);
	seen = ask(w, INT64_MAX);
	assert_int_equal(seen.n, 1);
	assert_false(seen.list[0].memory.known);
	assert_int_equal(seen.list[0].samples, samples);
	assert_int_equal(store_world_number(w, "PRAGMA user_version"), 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_world_setup, store_world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_it_comes_back),          TEST(test_a_sum_is_weighted_by_time),
		TEST(test_sums_of_sums),           TEST(test_a_sum_of_unknown_ones_is_unknown),
		TEST(test_a_store_without_memory), TEST(test_a_store_without_memory_that_stays_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
