// SPDX-License-Identifier: GPL-2.0-or-later
/* What goes wrong around a store: killed daemons, full disks, places that cannot be written, damaged files. */
#include "tests/unit/store_world.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define KILLS 30

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

static int64_t begin_of(uint64_t n)
{
	return EPOCH_NS + (int64_t)n * WINDOW_NS;
}

/* Writes windows until it is killed; *done is how many store__add() had taken. */
static void write_on(struct store_world *w, uint64_t first, volatile uint64_t *done)
{
	uint32_t target;

	store_world_now_ns = begin_of(first);
	store_world_open(w);
	target = store_world_target(w, 7);
	for (uint64_t n = first;; n++) {
		if (store_world_add(w, target, begin_of(n), NULL))
			_exit(1);
		*done = n + 1;
		if (store__maintain(w->store, 5) < 0)
			_exit(2);
	}
}

static void test_killed_at_any_moment(void **state)
{
	struct store_world *w = *state;
	volatile uint64_t *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t random = (uint32_t)time(NULL);
	struct store_target_info *targets;
	struct store_gap *gaps;
	uint64_t found = 0;
	size_t n;

	print_message("seed %u\n", random);
	store__close(w->store);
	for (unsigned kill_number = 0; kill_number < KILLS; kill_number++) {
		struct store_span span;
		int status;
		pid_t pid = fork();

		if (!pid)
			write_on(w, found, done);
		/* Once it writes: any moment of it. */
		while (*done <= found && !waitpid(pid, &status, WNOHANG))
			pause_us(200);
		pause_us((long)(made_profile__mix(random + kill_number) % 30000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		store_world_now_ns = begin_of(*done);
		store_world_open(w);
		assert_false(store__problem(w->store, NULL, 0));
		store_world_check_integrity(w);
		/* All that was taken is there, once; the one that was being written may be. */
		assert_int_equal(store_world_ask(w, 0, EPOCH_NS, INT64_MAX, &span), 0);
		found = (uint64_t)(span.covered_ns / WINDOW_NS);
		assert_int_equal(span.end_ns, begin_of(found));
		assert_true(found == *done || found == *done + 1);
		assert_int_equal(store__targets(w->store, &targets, &n, NULL), 0);
		assert_int_equal(n, 1);
		assert_int_equal(targets[0].end, STORE_END_UNKNOWN);
		assert_int_equal(targets[0].ended_ns, begin_of(found));
		store__free_targets(targets, n);
		assert_int_equal(store__gaps(w->store, 0, INT64_MAX, &gaps, &n, NULL), 0);
		assert_int_equal(n, kill_number + 1);
		assert_int_equal(gaps[n - 1].cause, STORE_GAP_OPEN_WINDOW);
		assert_int_equal(gaps[n - 1].target, 1);
		assert_int_equal(gaps[n - 1].begin_ns, begin_of(found));
		assert_int_equal(gaps[n - 1].end_ns, 0);
		free(gaps);
		assert_int_equal(store_world_files(w, "corrupt", false), 0);
		store__close(w->store);
		w->store = NULL;
	}
	munmap((void *)done, 4096);
}

/* A limit on the size of files is to SQLite what a full disk is: writes fail from some byte on. */
static void test_full_disk(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct rlimit old, tight;
	struct store_stats stats;
	struct store_span span;
	struct store_gap *gaps;
	uint64_t written = 0;
	char text[512] = "";
	unsigned i, failed = 0;
	size_t n;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = 200000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	for (i = 0; i < 200 && failed < 3; i++) {
		int r = store_world_add(w, target, begin_of(i), failed ? NULL : &written);

		if (r)
			assert_int_equal(r, -ENOSPC);
		failed += r != 0;
		assert_true(store__problem(w->store, text, sizeof(text)) == (failed > 0));
	}
	assert_int_equal(failed, 3);
	assert_non_null(strstr(text, "full"));
	/* What is there can be read. */
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, begin_of(i - 3), &span), 0);
	assert_int_equal(span.covered_ns, (int64_t)(i - 3) * WINDOW_NS);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(store_world_add(w, target, begin_of(i), NULL), 0);
	assert_false(store__problem(w->store, NULL, 0));
	store_world_settle(w);
	assert_int_equal(store__gaps(w->store, 0, INT64_MAX, &gaps, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(gaps[0].cause, STORE_GAP_NOT_WRITTEN);
	assert_int_equal(gaps[0].windows, 3);
	assert_int_equal(gaps[0].begin_ns, begin_of(i - 3));
	assert_int_equal(gaps[0].end_ns, begin_of(i));
	free(gaps);
	assert_int_equal(store__stats(w->store, &stats), 0);
	assert_int_equal(stats.missed, 3);
	assert_int_equal(stats.added, i - 2);
	store_world_check_integrity(w);
}

static void set_file_limit(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void fill_disk(struct store_world *w, uint32_t target)
{
	signal(SIGXFSZ, SIG_IGN);
	set_file_limit(400000);
	for (unsigned i = 0; !store_world_add(w, target, begin_of(i), NULL); i++)
		assert_true(i < 400);
	set_file_limit(4096); /* not for the least row either */
}

/* When a disk is full, what ends meanwhile is not told to be watched for ever. */
static void test_ends_outlive_a_full_disk(void **state)
{
	struct store_world *w = *state;
	uint32_t ended = store_world_target(w, 7), again = store_world_target(w, 8);
	struct store_target_info *targets;
	int64_t ended_ns;
	size_t n;

	fill_disk(w, ended);
	ended_ns = store_world_now_ns;
	assert_int_equal(store__end_target(w->store, ended, STORE_END_ENDED), 0);
	assert_int_equal(store__end_target(w->store, ended, STORE_END_ENDED), -ENOENT);
	assert_int_equal(store__end_target(w->store, again, STORE_END_ENDED), 0);
	store_world_now_ns += STORE_MINUTE_NS;
	store__maintain(w->store, 10);
	again = store_world_target(w, 8);
	set_file_limit(RLIM_INFINITY);
	store_world_settle(w);
	assert_int_equal(store__targets(w->store, &targets, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(targets[0].end, STORE_END_ENDED);
	assert_int_equal(targets[0].ended_ns, ended_ns);
	assert_int_equal(targets[1].end, STORE_END_OPEN);
	store__free_targets(targets, n);
	assert_int_equal(store_world_add(w, again, store_world_now_ns, NULL), 0);
	assert_false(store__problem(w->store, NULL, 0));
}

/* Watched again and gone again while the disk is full: its row ends all the same. */
static void test_two_ends_on_a_full_disk(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);

	fill_disk(w, target);
	assert_int_equal(store__end_target(w->store, target, STORE_END_CLOSED), 0);
	store_world_now_ns += STORE_MINUTE_NS;
	target = store_world_target(w, 7);
	assert_int_equal(store__end_target(w->store, target, STORE_END_ENDED), 0);
	set_file_limit(RLIM_INFINITY);
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM targets"), 1);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM targets WHERE ended_ns IS NULL"), 0);
}

/* Nothing is watched, and the disk is full for a while: history is not said to be off for ever. */
static void test_full_disk_without_windows(void **state)
{
	struct store_world *w = *state;
	int r;

	assert_int_equal(store_world_add(w, store_world_target(w, 7), store_world_now_ns, NULL), 0);
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	signal(SIGXFSZ, SIG_IGN);
	set_file_limit(4096);
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	r = store__maintain(w->store, 10);
	set_file_limit(RLIM_INFINITY);
	assert_int_equal(r, -ENOSPC);
	assert_true(store__problem(w->store, NULL, 0));
	store_world_now_ns += 2 * STORE_MINUTE_NS;
	store_world_settle(w);
	assert_false(store__problem(w->store, NULL, 0));
}

static void test_late_ends_are_bounded(void **state)
{
	enum { TARGETS = 1100, MOST = 1024 };
	struct store_world *w = *state;
	uint32_t targets[TARGETS];

	for (int i = 0; i < TARGETS; i++)
		targets[i] = store_world_target(w, 100 + i);
	fill_disk(w, targets[0]);
	for (int i = 0; i < TARGETS; i++) {
		store_world_now_ns++;
		assert_int_equal(store__end_target(w->store, targets[i], STORE_END_ENDED), 0);
	}
	set_file_limit(RLIM_INFINITY);
	store_world_settle(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM targets WHERE ended_ns IS NULL"),
			 TARGETS - MOST);
	assert_int_equal(store_world_number(w, "SELECT max(id) FROM targets WHERE ended_ns IS NULL"),
			 TARGETS - MOST);
	store_world_reopen(w);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM targets WHERE end = 'unknown'"),
			 TARGETS - MOST);
}

/* The connection was closed after an error, so the target has no row that the store knows of. */
static void test_ends_while_history_is_off(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	_cleanup_(database) sqlite3 *other = NULL;

	assert_int_equal(store_world_add(w, target, begin_of(0), NULL), 0);
	assert_int_equal(sqlite3_open_v2(w->path, &other, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sql__run(other, "BEGIN IMMEDIATE"), 0);
	assert_true(store_world_add(w, target, begin_of(1), NULL) < 0);
	assert_int_equal(store__end_target(w->store, target, STORE_END_ENDED), 0);
	assert_int_equal(sql__run(other, "ROLLBACK"), 0);
	store_world_now_ns += STORE_RETRY_NS;
	store_world_settle(w);
	assert_false(store__problem(w->store, NULL, 0));
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM targets WHERE end = 'ended'"), 1);
}

/* As a user to whom the mode bits apply. */
static void drop_root(const struct store_world *w)
{
	if (geteuid() == 0 &&
	    (chown(w->dir, 65534, 65534) || chown(w->path, 65534, 65534) || setegid(65534) || seteuid(65534)))
		_exit(99);
}

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void use_read_only(struct store_world *w)
{
	struct store_options options = store_world_options(w);
	const struct store_target process = { 9, 9, "late", NULL, 0 };
	struct store_window window = { begin_of(5), begin_of(6), 1, 0, "x", 1, NULL, false, { .known = false } };
	char text[512] = "";
	struct store_span span;
	uint32_t target;

	drop_root(w);
	CHECK(!chmod(w->path, 0400) && !chmod(w->dir, 0500));
	CHECK(!store__open(&options, &w->store, NULL));
	CHECK(store__problem(w->store, text, sizeof(text)) && *text);
	CHECK(!store__begin_target(w->store, &process, &target));
	CHECK(store__add(w->store, target, &window) == -EAGAIN);
	CHECK(store__maintain(w->store, 10) == -EAGAIN);
	/* History that is there can be looked at all the same. */
	CHECK(store_world_ask(w, 0, EPOCH_NS, begin_of(5), &span) == 0 && span.covered_ns == 2 * WINDOW_NS);
	/* It becomes writable; not before the time has come is it tried. */
	CHECK(!chmod(w->dir, 0700) && !chmod(w->path, 0600));
	CHECK(store__add(w->store, target, &window) == -EAGAIN);
	store_world_now_ns += STORE_RETRY_NS;
	store_world_set_clock(-HOUR_NS);
	CHECK(store_world_add(w, target, begin_of(7) - HOUR_NS, NULL) == 0);
	CHECK(!store__problem(w->store, NULL, 0));
	store__close(w->store);
	_exit(0);
}

static void test_read_only_place(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct store_gap *gaps;
	int status;
	size_t n;
	pid_t pid;

	assert_int_equal(store_world_add(w, target, begin_of(0), NULL), 0);
	assert_int_equal(store_world_add(w, target, begin_of(1), NULL), 0);
	store__close(w->store);
	w->store = NULL;
	store_world_files(w, "lock", true);
	pid = fork();
	if (!pid)
		use_read_only(w);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	chmod(w->dir, 0700);
	if (geteuid() == 0)
		assert_int_equal(chown(w->dir, 0, 0), 0);
	store_world_open(w);
	assert_int_equal(store__gaps(w->store, 0, INT64_MAX, &gaps, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(gaps[0].windows, 2);
	free(gaps);
	store_world_check_integrity(w);
}

static void overwrite(const struct store_world *w, off_t at, size_t length)
{
	_cleanup_close_ int fd = open(w->path, O_RDWR | O_CLOEXEC);
	char junk[4096];

	memset(junk, 0x5a, sizeof(junk));
	for (; length; length -= sizeof(junk), at += (off_t)sizeof(junk))
		assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
}

static void test_corrupt_file_is_put_aside(void **state)
{
	struct store_world *w = *state;
	static const off_t places[] = { 0, 4096 };

	for (unsigned i = 0; i < 2; i++) {
		uint32_t target = store_world_target(w, 7);
		struct store_span span;

		for (unsigned n = 0; n < 20; n++)
			assert_int_equal(store_world_add(w, target, begin_of(n), NULL), 0);
		store__close(w->store);
		overwrite(w, places[i], 16384);
		store_world_now_ns += 24 * HOUR_NS;
		store_world_open(w);
		assert_false(store__problem(w->store, NULL, 0));
		assert_int_equal(store_world_files(w, ".corrupt-", false), i + 1);
		assert_int_equal(store_world_ask(w, 0, EPOCH_NS, INT64_MAX, &span), -ENODATA);
		target = store_world_target(w, 7);
		assert_int_equal(store_world_add(w, target, begin_of(0), NULL), 0);
		store_world_check_integrity(w);
	}
}

/* A blob that rotted: the others are answered, and it is said; merging leaves all as they are. */
static void test_damaged_blob(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	uint64_t samples = 0;
	struct store_span span;

	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(store_world_add(w, target, begin_of(i), i == 2 || i == 4 ? NULL : &samples),
				 0);
	store_world_run(w, "UPDATE blobs SET profile = substr(profile, 1, 200) || x'ff' || substr(profile, 202)"
			   " WHERE window_id = 3;"
			   "UPDATE blobs SET profile_bytes = 1 << 40 WHERE window_id = 5");
	store_world_now_ns += STORE_MINUTE_NS;
	store_world_settle(w);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, begin_of(6), &span), 0);
	assert_int_equal(span.damaged, 2);
	assert_int_equal(span.windows, 4);
	assert_int_equal(span.samples, samples);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows"), 6);
	assert_int_equal(store_world_ask(w, 0, begin_of(2), begin_of(3), &span), -ENODATA);
}

static void test_refusals(void **state)
{
	struct store_world *w = *state;
	struct store_options options = store_world_options(w);
	struct store *second = NULL;
	struct so_error err = { "" };

	assert_int_equal(store__open(&options, &second, &err), -EBUSY);
	assert_non_null(strstr(err.text, "another daemon"));
	store__close(w->store);
	w->store = NULL;
	store_world_run(w, "PRAGMA user_version = 99");
	assert_int_equal(store__open(&options, &second, &err), -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "later version"));
	store_world_run(w, "PRAGMA user_version = 1; PRAGMA application_id = 7");
	assert_int_equal(store__open(&options, &second, &err), -EMEDIUMTYPE);
	store_world_files(w, "history", true);
	assert_int_equal(chmod(w->dir, 0770), 0);
	assert_int_equal(store__open(&options, &second, &err), -EPERM);
	assert_int_equal(chmod(w->dir, 0700), 0);
	assert_null(second);
	store_world_open(w);
	assert_false(store__problem(w->store, NULL, 0));
}

/* Corruption that shows while the daemon runs. */
static void test_corrupted_while_open(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	unsigned i, failed = 0;

	for (i = 0; i < 20; i++)
		assert_int_equal(store_world_add(w, target, begin_of(i), NULL), 0);
	store_world_run(w, "PRAGMA wal_checkpoint(TRUNCATE)");
	overwrite(w, 4096, 4096 * 12);
	store_world_number(w, "SELECT 1");
	/* The connection still holds sound pages in its cache, so when it shows is open; that it goes on is not. */
	for (; i < 60; i++)
		failed += store_world_add(w, target, begin_of(i), NULL) != 0;
	store_world_now_ns += STORE_RETRY_NS;
	assert_int_equal(store_world_add(w, target, begin_of(i), NULL), 0);
	store_world_reopen(w);
	assert_false(store__problem(w->store, NULL, 0));
	target = store_world_target(w, 7);
	assert_int_equal(store_world_add(w, target, begin_of(i + 1), NULL), 0);
	assert_true(failed < 3);
	assert_int_equal(store_world_files(w, ".corrupt-", false), 1);
	store_world_check_integrity(w);
}

static void test_removed_while_open(void **state)
{
	struct store_world *w = *state;
	uint32_t target = store_world_target(w, 7);
	struct store_span span;

	assert_int_equal(store_world_add(w, target, begin_of(0), NULL), 0);
	store_world_files(w, "", true);
	assert_int_equal(store_world_add(w, target, begin_of(1), NULL), 0);
	assert_int_equal(store_world_ask(w, 0, EPOCH_NS, begin_of(2), &span), 0);
	assert_int_equal(span.begin_ns, begin_of(1));
	store_world_check_integrity(w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_world_setup, store_world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_killed_at_any_moment),
		TEST(test_full_disk),
		TEST(test_two_ends_on_a_full_disk),
		TEST(test_full_disk_without_windows),
		TEST(test_read_only_place),
		TEST(test_corrupt_file_is_put_aside),
		TEST(test_damaged_blob),
		TEST(test_refusals),
		TEST(test_corrupted_while_open),
		TEST(test_removed_while_open),
		TEST(test_ends_outlive_a_full_disk),
		TEST(test_late_ends_are_bounded),
		TEST(test_ends_while_history_is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
