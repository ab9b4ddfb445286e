// SPDX-License-Identifier: GPL-2.0-or-later
/* CPU time by category of a fake engine's targets: what profiles add up to, and whose windows are taken when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/metrics/category_counters.h"
#include "daemon/metrics/category_windows.c"
#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "profile/category_verdict.h"
#include "tests/unit/fake_engine.h"
#include "tests/unit/made_profile.h"

#define PERIOD_NS 10101010

struct world {
	struct engine *engine;
	struct category_rules *rules;
	struct category_counters *counters;
	struct category_windows *windows;
};

static void open_world(struct world *w, const char *own)
{
	struct so_error err = { "" };

	log__set_quiet(true);
	assert_int_equal(engine__new(NULL, &w->engine, NULL), 0);
	if (category_rules__new(own, own ? strlen(own) : 0, "own", &w->rules, &err))
		fail_msg("%s", err.text);
	assert_int_equal(category_counters__new(w->engine, w->rules, &w->counters), 0);
	assert_int_equal(category_windows__new(w->engine, w->counters, &w->windows, NULL), 0);
}

static void close_world(struct world *w)
{
	category_windows__free(w->windows);
	category_counters__free(w->counters);
	category_rules__free(w->rules);
	engine__free(w->engine);
}

static size_t number_of(const struct category_counters *c, const char *name)
{
	for (size_t i = 0; i < category_counters__count(c); i++)
		if (!strcmp(category_counters__name(c, i), name))
			return i;
	return SIZE_MAX;
}

/* -1: no counters. */
static int64_t ns_of(struct category_counters *c, uint32_t id, const char *name)
{
	int64_t ns[CATEGORY_COUNTERS_MAX];
	size_t i = number_of(c, name);

	if (!category_counters__get(c, id, ns))
		return -1;
	assert_true(i != SIZE_MAX);
	return ns[i];
}

static int64_t sum_of(struct category_counters *c, uint32_t id)
{
	int64_t ns[CATEGORY_COUNTERS_MAX], sum = 0;

	assert_true(category_counters__get(c, id, ns));
	for (size_t i = 0; i < category_counters__count(c); i++)
		sum += ns[i];
	return sum;
}

static void assert_names_are_unique(const struct category_counters *c)
{
	assert_true(category_counters__count(c) <= CATEGORY_COUNTERS_MAX);
	for (size_t i = 0; i < category_counters__count(c); i++)
		assert_int_equal(number_of(c, category_counters__name(c, i)), i);
}

static void all_categories_are_there_at_once(void **state)
{
	struct world w;

	open_world(&w, NULL);
	assert_names_are_unique(w.counters);
	assert_int_equal(category_counters__count(w.counters), category_verdict__count(w.rules));
	assert_int_equal(ns_of(w.counters, 7, "logging"), -1);
	assert_int_equal(category_counters__begin(w.counters, 7), 0);
	assert_int_equal(sum_of(w.counters, 7), 0);
	assert_int_equal(number_of(w.counters, CATEGORY_COUNTERS_OTHER), SIZE_MAX);
	assert_false(category_counters__get(w.counters, 0, (int64_t[CATEGORY_COUNTERS_MAX]){ 0 }));
	close_world(&w);
}

static void add_one(struct category_counters *c, uint32_t id, const char *function, uint64_t count)
{
	_cleanup_(profile_builder) struct profile_builder *b = profile_builder__new(1, 1, PERIOD_NS);
	const struct profile_frame frame = {
		.name = function, .filename = "/app/x.py", .line = 3, .start_line = 1
	};
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t location = profile_builder__location(b, &frame);
	size_t length;

	assert_int_equal(thread_sample(b, &location, 1, count, 1, 1, "x"), 0);
	assert_int_equal(profile_builder__finish(b, &bytes, &length), 0);
	assert_int_equal(category_counters__add(c, id, bytes, length, NULL), 0);
}

static void windows_add_up(void **state)
{
	struct made_profile made = MADE_PROFILE_TRAINING;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct category_sums sums = { 0 };
	int64_t samples = 0, all_ns = 0;
	size_t length;
	struct world w;

	open_world(&w, NULL);
	category_counters__begin(w.counters, 1);
	category_counters__begin(w.counters, 2);
	add_one(w.counters, 1, "log_metrics", 5);
	add_one(w.counters, 1, "log_metrics", 2);
	add_one(w.counters, 1, "nothing_known", 3);
	add_one(w.counters, 2, "zero_grad", 1);
	assert_int_equal(ns_of(w.counters, 1, "logging"), 7 * PERIOD_NS);
	assert_int_equal(ns_of(w.counters, 1, "other Python"), 3 * PERIOD_NS);
	assert_int_equal(sum_of(w.counters, 1), 10 * PERIOD_NS);
	assert_int_equal(ns_of(w.counters, 2, "optimizer"), PERIOD_NS);
	for (made.seed = 1; made.seed <= 3; made.seed++) {
		samples += (int64_t)made_profile__make(&made, &bytes, &length);
		assert_int_equal(category_counters__add(w.counters, 2, bytes, length, NULL), 0);
		assert_int_equal(category_counters__sum(w.counters, bytes, length, &sums, NULL), 0);
		free(TAKE_PTR(bytes));
	}
	for (size_t i = 0; i < CATEGORY_COUNTERS_MAX; i++)
		all_ns += sums.cpu_ns[i];
	assert_int_equal(all_ns, samples * PERIOD_NS);
	assert_false(sums.wall);
	assert_int_equal(sum_of(w.counters, 2), (samples + 1) * PERIOD_NS);
	category_counters__begin(w.counters, 1); /* had begun */
	assert_int_equal(sum_of(w.counters, 1), 10 * PERIOD_NS);
	close_world(&w);
}

static void a_damaged_profile_adds_nothing(void **state)
{
	struct made_profile made = MADE_PROFILE_TRAINING;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct category_sums sums = { 0 };
	struct so_error err = { "" };
	size_t length;
	struct world w;

	open_world(&w, NULL);
	made_profile__make(&made, &bytes, &length);
	category_counters__begin(w.counters, 1);
	assert_int_equal(category_counters__sum(w.counters, bytes, length / 2, &sums, &err), -EINVAL);
	assert_memory_equal(&sums, &(struct category_sums){ 0 }, sizeof(sums));
	assert_int_equal(category_counters__add(w.counters, 1, bytes, length / 2, &err), -EINVAL);
	assert_true(err.text[0]);
	assert_int_equal(sum_of(w.counters, 1), 0);
	assert_int_equal(category_counters__add(w.counters, 2, bytes, length, &err), -ENOENT);
	assert_int_equal(ns_of(w.counters, 2, "logging"), -1);
	close_world(&w);
}

static void categories_are_bounded(void **state)
{
	_cleanup_free_ char *own = NULL;
	size_t n;
	FILE *f = open_memstream(&own, &n);
	struct world w;

	fprintf(f, "[other]\nframe = ^mine_other$\n");
	for (int i = 0; i < 100; i++)
		fprintf(f, "[mine %d]\nframe = ^mine_%d$\n", i, i);
	fclose(f);
	open_world(&w, own);
	assert_names_are_unique(w.counters);
	assert_int_equal(category_counters__count(w.counters), CATEGORY_COUNTERS_MAX);
	category_counters__begin(w.counters, 1);
	add_one(w.counters, 1, "mine_0", 1);
	add_one(w.counters, 1, "mine_98", 2);
	add_one(w.counters, 1, "mine_99", 4);
	add_one(w.counters, 1, "mine_other", 8);
	add_one(w.counters, 1, "log_metrics", 16);
	add_one(w.counters, 1, "nothing_known", 32);
	assert_int_equal(ns_of(w.counters, 1, "mine 0"), PERIOD_NS);
	assert_int_equal(ns_of(w.counters, 1, CATEGORY_COUNTERS_OTHER), 14 * PERIOD_NS);
	assert_int_equal(ns_of(w.counters, 1, "logging"), 16 * PERIOD_NS);
	assert_int_equal(ns_of(w.counters, 1, "other Python"), 32 * PERIOD_NS);
	assert_int_equal(number_of(w.counters, "mine 99"), SIZE_MAX);
	close_world(&w);
	open_world(&w, "[other]\nframe = ^mine$\n[logging]\nreplace = yes\n");
	assert_names_are_unique(w.counters);
	assert_int_equal(category_counters__count(w.counters), category_verdict__count(w.rules) - 1);
	assert_int_equal(number_of(w.counters, "logging"), SIZE_MAX);
	category_counters__begin(w.counters, 1);
	add_one(w.counters, 1, "mine", 1);
	add_one(w.counters, 1, "log_metrics", 2);
	assert_int_equal(ns_of(w.counters, 1, CATEGORY_COUNTERS_OTHER), PERIOD_NS);
	assert_int_equal(ns_of(w.counters, 1, "other Python"), 2 * PERIOD_NS);
	close_world(&w);
}

static uint32_t attach(struct world *w, pid_t pid, bool keep)
{
	uint32_t id = 0;

	assert_int_equal(engine__attach(w->engine,
					&(struct attach_options){ .pid = pid, .rate_hz = 99, .keep = keep },
					&id, NULL),
			 0);
	return id;
}

static void those_that_are_gone_make_room(void **state)
{
	uint32_t first = 0, id = 0;
	struct world w;

	open_world(&w, NULL);
	for (int i = 0; i < ENGINE_MAX_TARGETS; i++) {
		id = attach(&w, 100 + i, true);
		first = first ?: id;
		assert_int_equal(category_counters__begin(w.counters, id), 0);
	}
	assert_int_equal(category_counters__begin(w.counters, id + 1), -ENOSPC);
	assert_int_equal(engine__detach(w.engine, first, NULL), 0);
	assert_int_equal(category_counters__begin(w.counters, id + 1), 0);
	assert_int_equal(ns_of(w.counters, first, "logging"), -1);
	assert_int_equal(ns_of(w.counters, id, "logging"), 0);
	assert_int_equal(ns_of(w.counters, id + 1, "logging"), 0);
	close_world(&w);
}

/* One look at the windows that are open, as their thread takes each second. */
static void tick(struct category_windows *windows, uint64_t now_ns)
{
	pthread_mutex_lock(&windows->lock);
	look(windows, now_ns);
	pthread_mutex_unlock(&windows->lock);
}

#define FAKE_NS 16000 /* of a fake window's samples */

static void refresh(struct world *w)
{
	_cleanup_free_ struct target_info *all = NULL;
	size_t n;

	assert_int_equal(engine__list(w->engine, &all, &n), 0);
	category_windows__refresh(w->windows, all, n);
}

static void windows_are_taken_when_asked(void **state)
{
	uint32_t kept, other;
	struct world w;

	open_world(&w, NULL);
	refresh(&w); /* of nothing */
	kept = attach(&w, 100, true);
	other = attach(&w, 101, false);
	refresh(&w);
	assert_int_equal(ns_of(w.counters, kept, "other native"), FAKE_NS);
	assert_int_equal(sum_of(w.counters, kept), FAKE_NS);
	assert_int_equal(ns_of(w.counters, other, "other native"), -1);
	refresh(&w); /* too soon */
	tick(w.windows, clock__now_ns());
	assert_int_equal(sum_of(w.counters, kept), FAKE_NS);
	/* The last window does not wait, and there is none behind it. */
	fake_engine__exit(w.engine, kept);
	refresh(&w);
	assert_int_equal(sum_of(w.counters, kept), 2 * FAKE_NS);
	assert_int_equal(fake_engine__in_windows(w.engine), 2 * FAKE_ENGINE_PROFILE_SAMPLES);
	refresh(&w);
	tick(w.windows, clock__now_ns());
	assert_int_equal(sum_of(w.counters, kept), 2 * FAKE_NS);
	/* One that had ended before it was asked for. */
	kept = attach(&w, 102, true);
	fake_engine__exit(w.engine, kept);
	refresh(&w);
	assert_int_equal(sum_of(w.counters, kept), FAKE_NS);
	assert_int_equal(fake_engine__in_windows(w.engine), 3 * FAKE_ENGINE_PROFILE_SAMPLES);
	close_world(&w);
}

/* A scrape, and no other: the counters go on, and windows do not grow with the time. */
static void windows_that_nobody_asks_for_are_taken(void **state)
{
	uint64_t now_ns;
	uint32_t a, b;
	struct world w;

	open_world(&w, NULL);
	a = attach(&w, 100, true);
	b = attach(&w, 101, true);
	refresh(&w);
	now_ns = clock__now_ns() + CATEGORY_WINDOWS_IDLE_NS;
	tick(w.windows, now_ns - CATEGORY_WINDOWS_MIN_NS);
	assert_int_equal(sum_of(w.counters, a) + sum_of(w.counters, b), 2 * FAKE_NS);
	/* One in a second. */
	tick(w.windows, now_ns);
	assert_int_equal(sum_of(w.counters, a) + sum_of(w.counters, b), 3 * FAKE_NS);
	fake_engine__carry(w.engine, true);
	tick(w.windows, clock__now_ns());
	fake_engine__carry(w.engine, false);
	assert_true(sum_of(w.counters, a) >= 2 * FAKE_NS && sum_of(w.counters, b) >= 2 * FAKE_NS);
	close_world(&w);
}

static void ended_targets_are_not_held(void **state)
{
	uint32_t ended, detached, living;
	struct world w;

	open_world(&w, NULL);
	ended = attach(&w, 100, true);
	detached = attach(&w, 101, true);
	living = attach(&w, 102, true);
	refresh(&w);
	fake_engine__exit(w.engine, ended);
	engine__detach(w.engine, detached, NULL);
	assert_int_equal(fake_engine__count(w.engine), 3);
	tick(w.windows, clock__now_ns());
	assert_int_equal(fake_engine__count(w.engine), 2);
	assert_int_equal(sum_of(w.counters, ended), 2 * FAKE_NS);
	assert_int_equal(sum_of(w.counters, living), FAKE_NS);
	engine__detach(w.engine, living, NULL);
	/* The thread does it by itself. */
	for (int i = 0; i < 2000 && fake_engine__count(w.engine) > 1; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	assert_int_equal(fake_engine__count(w.engine), 1);
	living = attach(&w, 103, true);
	refresh(&w);
	category_windows__free(TAKE_PTR(w.windows)); /* gives them back */
	engine__detach(w.engine, living, NULL);
	assert_int_equal(fake_engine__count(w.engine), 1);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_categories_are_there_at_once),
		cmocka_unit_test(windows_add_up),
		cmocka_unit_test(a_damaged_profile_adds_nothing),
		cmocka_unit_test(categories_are_bounded),
		cmocka_unit_test(those_that_are_gone_make_room),
		cmocka_unit_test(windows_are_taken_when_asked),
		cmocka_unit_test(windows_that_nobody_asks_for_are_taken),
		cmocka_unit_test(ended_targets_are_not_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
