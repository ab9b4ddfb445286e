// SPDX-License-Identifier: GPL-2.0-or-later
/* Windows of a fake engine's targets: when they are taken, what is told of them, and to whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/profile.h"
#include "daemon/api/api_history.h"
#include "daemon/os/clock.h"
#include "daemon/history/history.h"
#include "daemon/os/log.h"
#include "daemon/history/store_sql.h"
#include "tests/unit/fake_engine.h"

#define USER  1000
#define OTHER 1001

struct world {
	char dir[64];
	struct engine *engine;
	struct history *history;
	uint32_t heard_id; /* of the latest target that is watched */
	uint64_t heard_samples;
};

static void listen_to_watching(void *context, uint32_t id)
{
	struct world *w = context;

	assert_true(id);
	w->heard_id = id;
}

static void listen_to_windows(void *context, uint32_t id, const struct engine_window *window)
{
	struct world *w = context;

	assert_true(window->profile && window->length);
	w->heard_samples += window->samples;
}

static void open_history(struct world *w)
{
	struct history_options options = { .dir = w->dir,
					   .window_s = 300,
					   .listener = { w, listen_to_watching, listen_to_windows } };
	struct so_error err = { "" };

	if (history__new(w->engine, &options, &w->history, &err))
		fail_msg("%s", err.text);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	log__set_quiet(true);
	snprintf(w->dir, sizeof(w->dir), "/tmp/stakeout-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(engine__new(NULL, &w->engine, NULL), 0);
	open_history(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "history.sqlite", "history.sqlite-wal", "history.sqlite-shm", "lock" };
	struct world *w = *state;
	char path[128];

	history__free(w->history);
	engine__free(w->engine);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", w->dir, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
	free(w);
	return 0;
}

static uint32_t watch(struct world *w, pid_t pid, uid_t uid)
{
	struct attach_options options = { .pid = pid, .rate_hz = 99, .keep = true, .caller.uid = uid };
	uint32_t id;

	assert_int_equal(engine__attach(w->engine, &options, &id, NULL), 0);
	history__watch(w->history, id);
	return id;
}

/* Of the list that a user sees. */
static json_t *list(struct world *w, uid_t uid, size_t n)
{
	struct so_error err = { "" };
	json_t *all;

	if (history__list(w->history, (struct caller){ uid, 0 }, &all, &err))
		fail_msg("%s", err.text);
	assert_int_equal(json_array_size(json_object_get(all, "targets")), n);
	return all;
}

static json_int_t field(struct world *w, size_t i, const char *name)
{
	json_t *all;
	json_int_t value;

	assert_int_equal(history__list(w->history, (struct caller){ 0, 0 }, &all, NULL), 0);
	value = json_integer_value(json_object_get(json_array_get(json_object_get(all, "targets"), i), name));
	json_decref(all);
	return value;
}

/* Ended targets are looked for each second. */
static void wait_for_end(struct world *w, uint64_t samples)
{
	for (int i = 0; i < 6000 && fake_engine__in_windows(w->engine) < samples; i++)
		usleep(10000);
	assert_int_equal(fake_engine__in_windows(w->engine), samples);
}

static void the_last_window_is_taken_of_what_was_detached(void **state)
{
	struct world *w = *state;
	uint32_t id = watch(w, getpid(), USER);

	assert_int_equal(engine__detach(w->engine, id, NULL), 0);
	wait_for_end(w, FAKE_ENGINE_PROFILE_SAMPLES);
	assert_int_equal(field(w, 0, "samples"), FAKE_ENGINE_PROFILE_SAMPLES);
	assert_true(field(w, 0, "ended_ns") > 0);
	assert_int_equal(fake_engine__count(w->engine), 0);
}

/* Also of one that was detached since, and whose process has ended. */
static void what_is_hidden_makes_a_history_roots(void **state)
{
	struct world *w = *state;
	uint32_t id = watch(w, 4000000, USER);

	json_decref(list(w, USER, 1));
	fake_engine__hide(w->engine, true);
	assert_int_equal(engine__detach(w->engine, id, NULL), 0);
	wait_for_end(w, FAKE_ENGINE_PROFILE_SAMPLES);
	assert_int_equal(field(w, 0, "samples"), FAKE_ENGINE_PROFILE_SAMPLES);
	json_decref(list(w, 0, 1));
	json_decref(list(w, USER, 0));
}

static void it_is_taken_of_what_exited(void **state)
{
	struct world *w = *state;
	uint32_t id = watch(w, 4000000, USER);

	fake_engine__exit(w->engine, id);
	wait_for_end(w, FAKE_ENGINE_PROFILE_SAMPLES);
	assert_int_equal(fake_engine__count(w->engine), 1);
	assert_int_equal(history__key(w->history, id, &(int64_t){ 0 }, NULL), -ENOENT);
}

static void open_windows_are_written_at_the_end(void **state)
{
	struct world *w = *state;

	watch(w, getpid(), USER);
	watch(w, 4000000, USER);
	assert_int_equal(w->heard_id, 2);
	assert_int_equal(w->heard_samples, 0);
	history__free(w->history);
	assert_int_equal(fake_engine__in_windows(w->engine), 2 * FAKE_ENGINE_PROFILE_SAMPLES);
	assert_int_equal(w->heard_samples, 2 * FAKE_ENGINE_PROFILE_SAMPLES);
	open_history(w);
	assert_int_equal(field(w, 0, "samples"), FAKE_ENGINE_PROFILE_SAMPLES);
	assert_int_equal(field(w, 1, "samples"), FAKE_ENGINE_PROFILE_SAMPLES);
}

static void attaching_anew_continues_and_ends_what_was_before(void **state)
{
	struct world *w = *state;
	uint32_t id = watch(w, getpid(), USER);
	int64_t key, again;

	assert_int_equal(history__key(w->history, id, &key, NULL), 0);
	assert_int_equal(engine__detach(w->engine, id, NULL), 0);
	id = watch(w, getpid(), USER);
	assert_int_equal(fake_engine__in_windows(w->engine), FAKE_ENGINE_PROFILE_SAMPLES);
	assert_int_equal(history__key(w->history, id, &again, NULL), 0);
	assert_int_equal(key, again);
	json_decref(list(w, 0, 1));
	assert_int_equal(field(w, 0, "target"), id);
}

static void a_question_about_now_writes_the_open_window(void **state)
{
	struct world *w = *state;
	_cleanup_(profile) struct profile *profile = NULL;
	struct history_profile got = { 0 };
	struct so_error err = { "" };
	int64_t key;
	uint32_t id = watch(w, getpid(), USER);

	assert_int_equal(history__key(w->history, id, &key, NULL), 0);
	if (history__profile(w->history, (struct caller){ USER, 0 }, key, 0, INT64_MAX, &got, &err))
		fail_msg("%s", err.text);
	assert_int_equal(got.span.windows, 1);
	assert_int_equal(profile__read(got.bytes, got.length, &profile, &err), 0);
	assert_int_equal(profile->samples[0].count, FAKE_ENGINE_PROFILE_SAMPLES);
	free(got.bytes);
	/* Not for each one. */
	assert_int_equal(history__profile(w->history, (struct caller){ 0, 0 }, key, 0, INT64_MAX, &got, &err), 0);
	assert_int_equal(got.span.windows, 1);
	free(got.bytes);
	assert_int_equal(history__profile(w->history, (struct caller){ 0, 0 }, key, 0, 1000, &got, &err), -ENODATA);
}

/* As if the clock had been set back by an hour after the first window. */
static void so_it_does_after_the_clock_was_set_back(void **state)
{
	static const char later[] = "UPDATE windows SET begin_ns = begin_ns + 3600000000000,"
				    " end_ns = end_ns + 3600000000000";
	struct world *w = *state;
	_cleanup_(database) sqlite3 *db = NULL;
	struct history_profile got = { 0 };
	struct so_error err = { "" };
	char path[128];
	int64_t key;
	uint32_t id = watch(w, getpid(), USER);

	assert_int_equal(history__key(w->history, id, &key, NULL), 0);
	assert_int_equal(history__profile(w->history, (struct caller){ 0, 0 }, key, 0, INT64_MAX, &got, &err), 0);
	free(got.bytes);
	snprintf(path, sizeof(path), "%s/history.sqlite", w->dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sql__run(db, later), 0);
	sleep(HISTORY_MIN_WINDOW_S);
	if (history__profile(w->history, (struct caller){ 0, 0 }, key, 0, (int64_t)clock__read_ns(CLOCK_REALTIME), &got,
			     &err))
		fail_msg("%s", err.text);
	assert_int_equal(got.span.windows, 1);
	free(got.bytes);
}

/* The windows of these tests are 300 s long. */
static void a_window_ends_where_a_generation_turns_old(void **state)
{
	struct world *w = *state;

	watch(w, getpid(), USER);
	fake_engine__carry(w->engine, true);
	for (int i = 0; i < 6000 && !field(w, 0, "samples"); i++)
		usleep(10000);
	fake_engine__carry(w->engine, false);
	assert_true(field(w, 0, "samples") > 0);
}

static void users_see_their_own(void **state)
{
	struct world *w = *state;
	struct history_profile got = { 0 };
	struct so_error err = { "" };

	watch(w, 4000000, USER);
	watch(w, 4000001, OTHER);
	json_decref(list(w, 0, 2));
	json_decref(list(w, USER, 1));
	json_decref(list(w, 65534, 0));
	assert_int_equal(
		history__profile(w->history, (struct caller){ OTHER, 0 }, field(w, 0, "key"), 0, INT64_MAX, &got, &err),
		-EPERM);
	assert_int_equal(history__profile(w->history, (struct caller){ OTHER, 0 }, 77, 0, INT64_MAX, &got, &err),
			 -ENOENT);
	/* All processes together, as the store has it, are for nobody. */
	assert_int_equal(history__profile(w->history, (struct caller){ OTHER, 0 }, 0, 0, INT64_MAX, &got, &err),
			 -ENOENT);
	assert_int_equal(history__profile(w->history, (struct caller){ 0, 0 }, -1, 0, INT64_MAX, &got, &err), -ENOENT);
	assert_null(got.bytes);
}

/* Windows of 300 s are not over: a question about now ends one, with what was read by then. */
static json_t *memory(struct world *w, int64_t key, uid_t uid)
{
	struct so_error err = { "" };
	json_t *answer;

	if (history__memory(w->history, (struct caller){ uid, 0 }, key, 0, INT64_MAX, &answer, &err))
		fail_msg("%s", err.text);
	return answer;
}

static json_int_t of_row(const json_t *answer, size_t i, const char *name)
{
	const json_t *value = json_object_get(json_array_get(json_object_get(answer, "rows"), i), name);

	return json_is_null(value) ? -1 : json_integer_value(value);
}

static void windows_have_the_mean_and_the_most(void **state)
{
	static const struct engine_memory_use first = { 1000, 200, 30, 4 }, second = { 3000, 400, 50, 6 };
	struct world *w = *state;
	json_t *answer;
	int64_t key;
	uint32_t id;

	fake_engine__set_memory(w->engine, &first);
	id = watch(w, getpid(), USER);
	assert_int_equal(history__key(w->history, id, &key, NULL), 0);
	answer = memory(w, key, USER);
	assert_int_equal(json_array_size(json_object_get(answer, "rows")), 1);
	assert_int_equal(json_integer_value(json_object_get(answer, "memory_windows")), 1);
	assert_int_equal(of_row(answer, 0, "anonymous_bytes"), 1000);
	assert_int_equal(of_row(answer, 0, "file_bytes"), 200);
	assert_int_equal(of_row(answer, 0, "shared_bytes"), 30);
	assert_int_equal(of_row(answer, 0, "swapped_bytes"), 4);
	assert_int_equal(of_row(answer, 0, "most_bytes"), 1234);
	json_decref(answer);
	/* Nothing of the window before is left. */
	fake_engine__set_memory(w->engine, &second);
	sleep(HISTORY_MIN_WINDOW_S);
	answer = memory(w, key, USER);
	assert_int_equal(json_array_size(json_object_get(answer, "rows")), 2);
	assert_int_equal(of_row(answer, 1, "anonymous_bytes"), 3000);
	assert_int_equal(of_row(answer, 1, "most_bytes"), 3456);
	json_decref(answer);
}

static void the_last_window_of_what_exited_has_what_was_read_before(void **state)
{
	static const struct engine_memory_use use = { 1000, 200, 30, 4 };
	struct world *w = *state;
	json_t *answer;
	uint32_t id;

	fake_engine__set_memory(w->engine, &use);
	id = watch(w, 4000000, USER);
	fake_engine__exit(w->engine, id);
	wait_for_end(w, FAKE_ENGINE_PROFILE_SAMPLES);
	answer = memory(w, field(w, 0, "key"), 0);
	assert_int_equal(of_row(answer, 0, "anonymous_bytes"), 1000);
	assert_int_equal(of_row(answer, 0, "most_bytes"), 1234);
	json_decref(answer);
}

static void what_cannot_be_read_is_null(void **state)
{
	struct world *w = *state;
	json_t *answer;

	watch(w, getpid(), USER);
	answer = memory(w, field(w, 0, "key"), USER);
	assert_int_equal(json_integer_value(json_object_get(answer, "windows")), 1);
	assert_int_equal(json_integer_value(json_object_get(answer, "memory_windows")), 0);
	assert_int_equal(of_row(answer, 0, "anonymous_bytes"), -1);
	assert_int_equal(of_row(answer, 0, "most_bytes"), -1);
	json_decref(answer);
}

static void memory_is_for_those_who_may_see_it(void **state)
{
	struct world *w = *state;
	struct so_error err = { "" };
	json_t *answer = NULL;

	watch(w, 4000000, USER);
	assert_int_equal(history__memory(w->history, (struct caller){ OTHER, 0 }, field(w, 0, "key"), 0, INT64_MAX,
					 &answer, &err),
			 -EPERM);
	assert_int_equal(history__memory(w->history, (struct caller){ OTHER, 0 }, 77, 0, INT64_MAX, &answer, &err),
			 -ENOENT);
	assert_int_equal(history__memory(w->history, (struct caller){ 0, 0 }, 0, 0, INT64_MAX, &answer, &err), -ENOENT);
	assert_int_equal(
		history__memory(w->history, (struct caller){ 0, 0 }, field(w, 0, "key"), 0, 1000, &answer, &err),
		-ENODATA);
	assert_null(answer);
}

static void status_tells(void **state)
{
	struct world *w = *state;
	json_t *status;

	history__watch(w->history, 77);
	status = history__status(w->history);
	assert_string_equal(json_string_value(json_object_get(status, "path")), w->dir);
	assert_int_equal(json_integer_value(json_object_get(status, "windows_lost")), 1);
	assert_true(json_is_null(json_object_get(status, "problem")));
	assert_true(json_is_null(json_object_get(status, "oldest")));
	json_decref(status);
	assert_int_equal(api_history__check(w->history, NULL), 0);
	assert_int_equal(api_history__check(NULL, NULL), -ENODATA);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_last_window_is_taken_of_what_was_detached),
		T(what_is_hidden_makes_a_history_roots),
		T(it_is_taken_of_what_exited),
		T(open_windows_are_written_at_the_end),
		T(attaching_anew_continues_and_ends_what_was_before),
		T(a_question_about_now_writes_the_open_window),
		T(so_it_does_after_the_clock_was_set_back),
		T(a_window_ends_where_a_generation_turns_old),
		T(users_see_their_own),
		T(windows_have_the_mean_and_the_most),
		T(the_last_window_of_what_exited_has_what_was_read_before),
		T(what_cannot_be_read_is_null),
		T(memory_is_for_those_who_may_see_it),
		T(status_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
