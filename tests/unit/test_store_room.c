// SPDX-License-Identifier: GPL-2.0-or-later
/* What goes where a store is full, and whose it is. */
#include "tests/unit/store_world.h"

/* Bytes that zstd cannot make smaller, in a profile that can be merged: comments of random text. */
static void add_bulky(struct store_world *w, uint32_t target, int64_t begin_ns, size_t bytes)
{
	_cleanup_(profile_builder) struct profile_builder *b =
		profile_builder__new((uint64_t)begin_ns, (uint64_t)WINDOW_NS, 1000);
	_cleanup_free_ char *text = malloc(bytes + 1);
	_cleanup_free_ uint8_t *packed = NULL;
	struct store_window window = { begin_ns, begin_ns + WINDOW_NS, 1, 0, NULL, 0, NULL, false, { .known = false } };
	uint32_t random = (uint32_t)(begin_ns / WINDOW_NS) + target;
	uint64_t location;

	for (size_t i = 0; i < bytes; i++)
		text[i] = (char)('!' + (random = made_profile__mix(random + (uint32_t)i)) % 90);
	text[bytes] = '\0';
	location = profile_builder__location(b, &(struct profile_frame){ .name = text });
	assert_int_equal(thread_sample(b, &location, 1, 1, 1, 1, "x"), 0);
	assert_int_equal(profile_builder__finish(b, &packed, &window.profile_bytes), 0);
	window.profile = packed;
	store_world_now_ns = begin_ns + WINDOW_NS;
	assert_int_equal(store__add(w->store, target, &window), 0);
}

static uint64_t dir_bytes(const struct store_world *w)
{
	static const char *const names[] = { "", "-wal" };
	uint64_t sum = 0;

	for (size_t i = 0; i < 2; i++) {
		char name[128];
		struct stat st;

		snprintf(name, sizeof(name), "%s%s", w->path, names[i]);
		sum += stat(name, &st) ? 0 : (uint64_t)st.st_size;
	}
	return sum;
}

static void test_size_bound(void **state)
{
	struct store_world *w = *state;
	struct store_options options = store_world_options(w);
	struct store_stats stats;
	int64_t oldest, newest;
	uint32_t target;

	store__close(w->store);
	options.retain_size_bytes = 24 << 20;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 7);
	for (int i = 0; i < 240; i++) {
		add_bulky(w, target, EPOCH_NS + i * WINDOW_NS, 200000);
		assert_true(dir_bytes(w) <= options.retain_size_bytes);
		if (i % 6 == 0) {
			store_world_settle(w);
			assert_true(dir_bytes(w) <= options.retain_size_bytes);
		}
	}
	oldest = store_world_number(w, "SELECT min(begin_ns) FROM windows");
	newest = store_world_number(w, "SELECT max(begin_ns) FROM windows");
	assert_int_equal(newest, EPOCH_NS + 239 * WINDOW_NS);
	assert_true(oldest > EPOCH_NS + 60 * WINDOW_NS);
	store_world_check_integrity(w);
	/* A smaller bound: the file itself shrinks. */
	store__close(w->store);
	options.retain_size_bytes = STORE_MIN_SIZE_BYTES;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	store_world_settle(w);
	assert_int_equal(store__stats(w->store, &stats), 0);
	assert_true(stats.used_bytes <= STORE_MIN_SIZE_BYTES / 2);
	assert_true(stats.file_bytes <= STORE_MIN_SIZE_BYTES);
	assert_true(store_world_number(w, "SELECT min(begin_ns) FROM windows") > oldest);
	assert_int_equal(store_world_number(w, "SELECT max(begin_ns) FROM windows"), newest);
	store_world_check_integrity(w);
}

/*
 * Where room is short, what a clock that was ahead has left goes first; one that is far behind does not cost what there
 * is.
 */
static void test_size_bound_and_the_clock(void **state)
{
	const int64_t year_ns = 365 * 24 * HOUR_NS;
	struct store_world *w = *state;
	struct store_options options = store_world_options(w);
	int64_t begin_ns, n;
	uint32_t target;

	store__close(w->store);
	options.retain_size_bytes = 24 << 20;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 7);
	add_bulky(w, target, EPOCH_NS, 200000);
	store_world_set_clock(year_ns);
	begin_ns = store_world_now_ns;
	for (int i = 0; i < 160; i++)
		add_bulky(w, target, begin_ns + i * WINDOW_NS, 200000);
	store_world_set_clock(-year_ns);
	begin_ns = store_world_now_ns;
	for (int i = 0; i < 80; i++)
		add_bulky(w, target, begin_ns + i * WINDOW_NS, 200000);
	/* But the very first, which was the oldest while the clock was ahead. */
	n = store_world_number(w, "SELECT count(*) FROM windows WHERE begin_ns < 1715000000000000000");
	assert_int_equal(n, 80);
	assert_true(store_world_number(w, "SELECT count(*) FROM windows") < 240);

	for (int i = 80; i < 240; i++)
		add_bulky(w, target, begin_ns + i * WINDOW_NS, 200000);
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	n = store_world_number(w, "SELECT count(*) FROM windows WHERE begin_ns > 1600000000000000000");
	assert_true(n > 10);
	store_world_now_ns -= 40 * year_ns;
	begin_ns = store_world_now_ns;
	for (int i = 0; i < 80; i++)
		add_bulky(w, target, begin_ns + i * WINDOW_NS, 200000);
	assert_true(store_world_number(
			    w, "SELECT count(*) FROM windows WHERE begin_ns > 1600000000000000000") >= n - 2);
	store_world_check_integrity(w);
}

#define ALICE   1000
#define MALLORY 1001

static void open_with_size(struct store_world *w, uint64_t bytes)
{
	struct store_options options = store_world_options(w);

	store__close(w->store);
	options.retain_size_bytes = bytes;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
}

/* So many windows of 200 kB, from the first-th on, and what is to be done after each minute. */
static void fill(struct store_world *w, uint32_t target, int first, int n)
{
	for (int i = first; i < first + n; i++) {
		add_bulky(w, target, EPOCH_NS + i * WINDOW_NS, 200000);
		if (i % 6 == 0)
			store_world_settle(w);
	}
}

/* One user who writes without end loses their own oldest windows; what others have within their shares stays. */
static void test_shares(void **state)
{
	struct store_world *w = *state;
	uint32_t alice, mallory, root;

	open_with_size(w, 24 << 20);
	alice = store_world_target_of(w, ALICE, 7);
	mallory = store_world_target_of(w, MALLORY, 8);
	root = store_world_target(w, 9);
	fill(w, root, 0, 12);
	fill(w, alice, 12, 6);
	fill(w, mallory, 18, 240);
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT min(begin_ns) FROM windows WHERE uid = 0"), EPOCH_NS);
	assert_int_equal(store_world_number(w, "SELECT sum(covered_ns) FROM windows WHERE uid = 0 AND part_of IS NULL"),
			 12 * WINDOW_NS);
	assert_int_equal(
		store_world_number(w, "SELECT sum(covered_ns) FROM windows WHERE uid = 1000 AND part_of IS NULL"),
		6 * WINDOW_NS);
	assert_true(store_world_number(w, "SELECT min(begin_ns) FROM windows WHERE uid = 1001") >
		    EPOCH_NS + 20 * WINDOW_NS);
	assert_int_equal(store_world_number(w, "SELECT max(end_ns) FROM windows WHERE uid = 1001"),
			 EPOCH_NS + 258 * WINDOW_NS);
	/* What nobody else needs is Mallory's, beyond the quarter of 16 MiB. */
	assert_true(store_world_number(w, "SELECT bytes FROM users WHERE uid = 1001") > 6 << 20);
	store_world_check_integrity(w);
}

/* Who had all of it while alone gives back what others need, and no more. */
static void test_shares_of_those_who_come_later(void **state)
{
	struct store_world *w = *state;
	uint32_t alice, mallory, root;

	open_with_size(w, 24 << 20);
	alice = store_world_target_of(w, ALICE, 7);
	mallory = store_world_target_of(w, MALLORY, 8);
	root = store_world_target(w, 9);
	fill(w, alice, 0, 120);
	assert_true(store_world_number(w, "SELECT bytes FROM users WHERE uid = 1000") > 14 << 20);
	fill(w, mallory, 120, 120);
	assert_in_range(store_world_number(w, "SELECT bytes FROM users WHERE uid = 1001"), 3 << 20, 4 << 20);
	assert_true(store_world_number(w, "SELECT bytes FROM users WHERE uid = 1000") > 11 << 20);
	fill(w, root, 240, 120);
	assert_in_range(store_world_number(w, "SELECT bytes FROM users WHERE uid = 1000"), 3 << 20, 4 << 20);
	assert_in_range(store_world_number(w, "SELECT bytes FROM users WHERE uid = 1001"), 3 << 20, 4 << 20);
	store_world_check_integrity(w);
}

/* Many users have three quarters together, and the rest stays root's. */
static void test_shares_of_all(void **state)
{
	struct store_world *w = *state;
	uint32_t root;

	open_with_size(w, 24 << 20);
	root = store_world_target(w, 9);
	fill(w, root, 0, 60);
	for (int i = 0; i < 10; i++)
		fill(w, store_world_target_of(w, 2000 + (uid_t)i, 20 + i), 60 + 18 * i, 18);
	assert_in_range(store_world_number(w, "SELECT bytes FROM users WHERE uid = 0"), 7 << 19, 9 << 19);
	assert_in_range(store_world_number(w, "SELECT sum(bytes) FROM users WHERE uid <> 0"), 8 << 20, 12 << 20);
	store_world_check_integrity(w);
}

/* Processes without windows count as well. */
static void test_shares_of_targets(void **state)
{
	struct store_world *w = *state;
	uint32_t root;

	open_with_size(w, 24 << 20);
	root = store_world_target(w, 9);
	fill(w, root, 0, 12);
	store_world_run(
		w, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
		   " INSERT INTO targets(key, boot_id, pid, start_ticks, comm, labels, began_ns, ended_ns, end, uid)"
		   " SELECT 'k' || i, '', i, i, '', '', 1700000400000000000, 1700000400000000000, 'ended', 1001"
		   " FROM n");
	fill(w, root, 12, 60);
	assert_true(store_world_number(w, "SELECT count(*) FROM targets WHERE uid = 1001") <= (4 << 20) / 512);
	store_world_check_integrity(w);
}

/* A store of before there were shares: what is in it counts for those whose processes they are. */
static void test_a_store_without_shares(void **state)
{
	struct store_world *w = *state;
	struct store_target target = { 7, 7, "train", "{\"uid\":1000}", ALICE };
	uint32_t handle;

	assert_int_equal(store__begin_target(w->store, &target, &handle), 0);
	for (int i = 0; i < 12; i++)
		assert_int_equal(store_world_add(w, handle, EPOCH_NS + i * WINDOW_NS, NULL), 0);
	handle = store_world_target(w, 8);
	assert_int_equal(store_world_add(w, handle, EPOCH_NS + 12 * WINDOW_NS, NULL), 0);
	store_world_settle(w);
	store__close(w->store);
	store_world_forget_shares(w);
	store_world_open(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM users"), 2);
	assert_true(store_world_number(w, "SELECT count(*) FROM windows WHERE uid = 1000") > 12);
	assert_int_equal(store_world_number(w, "SELECT uid FROM targets WHERE pid = 7"), ALICE);
	store_world_check_integrity(w);
}

/* Windows of one program, which take little more together than each: their parts go first, and no time is lost. */
static void test_detail_goes_before_history(void **state)
{
	struct store_world *w = *state;
	struct store_options options = store_world_options(w);
	struct store_span span;
	uint32_t target;

	store__close(w->store);
	options.retain_size_bytes = 24 << 20;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 7);
	for (int i = 0; i < 240; i++) {
		struct made_profile made = MADE_PROFILE_TRAINING;
		_cleanup_free_ uint8_t *bytes = NULL;
		struct store_window window = { .begin_ns = EPOCH_NS + i * WINDOW_NS,
					       .end_ns = EPOCH_NS + (i + 1) * WINDOW_NS };

		made.stacks = 300;
		window.samples = made_profile__make(&made, &bytes, &window.profile_bytes);
		window.profile = bytes;
		store_world_now_ns = window.end_ns;
		assert_int_equal(store__add(w->store, target, &window), 0);
		store_world_settle(w);
		assert_true(dir_bytes(w) <= options.retain_size_bytes);
	}
	/* All of them would be more than the store holds. */
	assert_true(store_world_number(w, "SELECT min(begin_ns) FROM windows WHERE level = 0") >=
		    EPOCH_NS + 60 * WINDOW_NS);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, EPOCH_NS + HOUR_NS, &span), 0);
	assert_int_equal(span.covered_ns, 240 * WINDOW_NS);
	store_world_check_integrity(w);
}

static void test_too_large_a_window(void **state)
{
	struct store_world *w = *state;
	struct store_options options = store_world_options(w);
	_cleanup_free_ uint8_t *bytes = malloc(4 << 20);
	struct store_window window = { EPOCH_NS, EPOCH_NS + WINDOW_NS, 1, 0, bytes, 4 << 20, NULL, false, { .known = false } };
	struct store_gap *gaps;
	uint32_t target;
	size_t n;

	for (uint32_t i = 0; i < 4 << 20; i++)
		bytes[i] = (uint8_t)made_profile__mix(i);
	store__close(w->store);
	options.retain_size_bytes = STORE_MIN_SIZE_BYTES - 1;
	w->store = NULL;
	assert_int_equal(store__open(&options, &w->store, NULL), -EINVAL);
	options.retain_size_bytes++;
	assert_int_equal(store__open(&options, &w->store, NULL), 0);
	target = store_world_target(w, 7);
	assert_int_equal(store__add(w->store, target, &window), -EFBIG);
	assert_false(store__problem(w->store, NULL, 0));
	assert_int_equal(store_world_add(w, target, EPOCH_NS + WINDOW_NS, NULL), 0);
	assert_int_equal(store__gaps(w->store, 0, INT64_MAX, &gaps, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(gaps[0].cause, STORE_GAP_NOT_WRITTEN);
	assert_int_equal(gaps[0].begin_ns, EPOCH_NS);
	assert_int_equal(gaps[0].end_ns, EPOCH_NS + WINDOW_NS);
	assert_int_equal(gaps[0].windows, 1);
	free(gaps);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_world_setup, store_world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_size_bound),
		TEST(test_size_bound_and_the_clock),
		TEST(test_too_large_a_window),
		TEST(test_shares),
		TEST(test_shares_of_those_who_come_later),
		TEST(test_shares_of_all),
		TEST(test_shares_of_targets),
		TEST(test_a_store_without_shares),
		TEST(test_detail_goes_before_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
