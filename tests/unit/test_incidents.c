// SPDX-License-Identifier: GPL-2.0-or-later
/* Rules of incidents: what they mean, when they are met; and the store: its bounds, what it makes of damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/incidents/incident_rule.h"
#include "daemon/incidents/incident_store.h"

#define SECOND_NS 1000000000ull

static void rules_are_read(void **state)
{
	struct incident_rule rules[INCIDENT_RULES_MAX];
	struct so_error err;
	size_t n;

	assert_int_equal(incident_rules__parse("step>2.5x,cpu<5%/30s,gpu<20%", rules, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_int_equal(rules[0].kind, INCIDENT_STEP);
	assert_true(rules[0].factor == 2.5 && !rules[0].limit_ns);
	assert_int_equal(rules[1].kind, INCIDENT_CPU);
	assert_true(rules[1].percent == 5 && rules[1].hold_ns == 30 * SECOND_NS);
	assert_int_equal(rules[2].kind, INCIDENT_GPU);
	assert_true(rules[2].percent == 20 && rules[2].hold_ns == INCIDENT_HOLD_S * SECOND_NS);
	assert_int_equal(incident_rules__parse("oom,step>1s", rules, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(rules[0].kind, INCIDENT_OOM);
	assert_int_equal(incident_rules__parse("step>500ms", rules, &n, &err), 0);
	assert_true(rules[0].factor == 0 && rules[0].limit_ns == SECOND_NS / 2);
	assert_int_equal(incident_rules__parse("step>1.5s", rules, &n, &err), 0);
	assert_true(rules[0].limit_ns == 3 * SECOND_NS / 2);
}

static void nonsense_is_no_rule(void **state)
{
	static const char *const wrong[] = { "",         ",",         "step",      "step>",      "step>x",
					     "step>2",   "step>0s",   "step>0.9x", "step>1001x", "cpu<%",
					     "cpu<-5%",  "cpu<5",     "cpu<5%/0s", "cpu<5%/4h",  "cpu>5%",
					     "gpu<nan%", "step>infx", "step>2x ",  "step>2x,",   "step>1e99s",
					     "oom>1",    "oom2",      "oo" };
	struct incident_rule rules[INCIDENT_RULES_MAX];
	struct so_error err;
	size_t n;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (incident_rules__parse(wrong[i], rules, &n, &err) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
	assert_int_equal(incident_rules__parse("cpu<1%,cpu<2%,cpu<3%,cpu<4%,cpu<5%", rules, &n, &err), -E2BIG);
	assert_int_equal(incident_rules__parse("step>2x,step>1s", rules, &n, &err), -EEXIST);
}

/* One look a second at a program that uses so many percent of a CPU. */
static bool look(const struct incident_rule *rule, struct incident_memory *memory, struct engine_activity *activity,
		 unsigned percent)
{
	char why[INCIDENT_WHY_TEXT];

	activity->now_ns += SECOND_NS;
	activity->running_ns += percent * SECOND_NS / 100;
	return incident_rule__is_met(rule, activity, memory, why);
}

static void only_what_falls_is_met(void **state)
{
	const struct incident_rule rule = { .kind = INCIDENT_CPU, .percent = 10, .hold_ns = 3 * SECOND_NS };
	struct incident_memory memory = { 0 };
	struct engine_activity activity = { .now_ns = SECOND_NS, .gpu_percent = -1 };
	unsigned met = 0;

	/* It begins at rest: that is no fall. */
	for (unsigned i = 0; i < 10; i++)
		met += look(&rule, &memory, &activity, 0);
	assert_int_equal(met, 0);
	/* Short ones are none either. */
	for (unsigned i = 0; i < 20; i++)
		met += look(&rule, &memory, &activity, i % 3 ? 0 : 90);
	assert_int_equal(met, 0);
	look(&rule, &memory, &activity, 90);
	assert_false(look(&rule, &memory, &activity, 9));
	assert_false(look(&rule, &memory, &activity, 9));
	assert_true(look(&rule, &memory, &activity, 9));
	/* Once for each fall. */
	for (unsigned i = 0; i < 10; i++)
		met += look(&rule, &memory, &activity, 0);
	assert_int_equal(met, 0);
	look(&rule, &memory, &activity, 10);
	for (unsigned i = 0; i < 10; i++)
		met += look(&rule, &memory, &activity, 0);
	assert_int_equal(met, 1);
}

static void each_refusal_is_met_once(void **state)
{
	const struct incident_rule rule = { .kind = INCIDENT_OOM };
	struct incident_memory memory = { 0 };
	struct engine_activity activity = { .now_ns = SECOND_NS, .gpu_percent = -1 };
	char why[INCIDENT_WHY_TEXT];

	assert_false(incident_rule__is_met(&rule, &activity, &memory, why));
	activity.refused = 1;
	assert_true(incident_rule__is_met(&rule, &activity, &memory, why));
	assert_string_equal(why, "PyTorch was out of memory on a GPU");
	assert_false(incident_rule__is_met(&rule, &activity, &memory, why));
	activity.refused = 4;
	assert_true(incident_rule__is_met(&rule, &activity, &memory, why));
	assert_string_equal(why, "PyTorch was out of memory on a GPU, more than once");
	/* What was seen has been forgotten. */
	activity.refused = 0;
	assert_false(incident_rule__is_met(&rule, &activity, &memory, why));
}

static void what_is_not_known_is_not_met(void **state)
{
	const struct incident_rule rule = { .kind = INCIDENT_GPU, .percent = 10, .hold_ns = SECOND_NS };
	struct incident_memory memory = { 0 };
	struct engine_activity activity = { .now_ns = SECOND_NS, .gpu_percent = 80 };
	char why[INCIDENT_WHY_TEXT];
	unsigned met = 0;

	for (unsigned i = 0; i < 5; i++)
		met += look(&rule, &memory, &activity, 0);
	activity.gpu_percent = -1;
	for (unsigned i = 0; i < 5; i++)
		met += look(&rule, &memory, &activity, 0);
	assert_int_equal(met, 0);
	activity.gpu_percent = 3;
	activity.now_ns += SECOND_NS;
	assert_true(incident_rule__is_met(&rule, &activity, &memory, why));
	assert_string_equal(why, "it used less than 10 % of its GPUs for 1 s");
}

static void steps_are_said(void **state)
{
	const struct incident_rule rule = { .kind = INCIDENT_STEP, .factor = 2 };
	struct incident_memory memory = { 0 };
	struct engine_activity activity = { .slow_step_ns = 151 * SECOND_NS / 1000,
					    .usual_ns = 42 * SECOND_NS / 10000 };
	char why[INCIDENT_WHY_TEXT];

	assert_true(incident_rule__is_met(&rule, &activity, &memory, why));
	assert_string_equal(why, "a step took 151.0 ms, where 95 in 100 took no more than 4.2 ms");
	activity.slow_under_way = true;
	activity.usual_ns = 0;
	assert_true(incident_rule__is_met(&rule, &activity, &memory, why));
	assert_string_equal(why, "a step has been under way for 151.0 ms");
	activity.slow_step_ns = 0;
	assert_false(incident_rule__is_met(&rule, &activity, &memory, why));
}

/* The store. */

static char *new_dir(void)
{
	static char dir[64];

	snprintf(dir, sizeof(dir), "/tmp/stakeout-incidents-XXXXXX");
	assert_non_null(mkdtemp(dir));
	return dir;
}

static void empty(const char *dir)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	assert_int_equal(system(command), 0);
}

static uint32_t add(struct incident_store *store, uid_t uid, size_t length)
{
	struct incident incident = {
		.time_ns = 5, .pid = 7, .comm = "train", .uid = uid, .last_s = 30, .why = "a step"
	};
	uint8_t *bytes = calloc(1, length);
	struct so_error err = { .text = "" };

	if (incident_store__add(store, &incident, bytes, length, &err))
		fail_msg("%s", err.text);
	free(bytes);
	return incident.id;
}

static size_t count(struct incident_store *store, uid_t uid)
{
	const struct incident *list;
	size_t n, found = 0;

	list = incident_store__list(store, &n);
	for (size_t i = 0; i < n; i++)
		found += list[i].uid == uid;
	return found;
}

static void it_is_there_again(void **state)
{
	const char *dir = new_dir();
	struct incident_store *store;
	const struct incident *list;
	struct so_error err;
	uint8_t *bytes;
	size_t n;

	assert_int_equal(incident_store__open(dir, 0, &store, &err), 0);
	assert_int_equal(add(store, 1000, 100), 1);
	assert_int_equal(add(store, 0, 50), 2);
	incident_store__close(store);
	assert_int_equal(incident_store__open(dir, 0, &store, &err), 0);
	list = incident_store__list(store, &n);
	assert_int_equal(n, 2);
	assert_int_equal(list[0].uid, 1000);
	assert_string_equal(list[0].comm, "train");
	assert_string_equal(list[1].why, "a step");
	assert_true(list[1].last_s == 30 && list[1].bytes == 50);
	assert_int_equal(incident_store__read(store, 1, &bytes, &n, &err), 0);
	assert_int_equal(n, 100);
	free(bytes);
	assert_int_equal(incident_store__remove(store, 1, &err), 0);
	assert_int_equal(incident_store__read(store, 1, &bytes, &n, &err), -ENOENT);
	assert_int_equal(incident_store__remove(store, 1, &err), -ENOENT);
	assert_int_equal(add(store, 0, 1), 3);
	incident_store__close(store);
	empty(dir);
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* A user fills a quarter, users together half; root's own are what root's make room of. */
static void who_has_most_gives(void **state)
{
	const char *dir = new_dir();
	struct incident_store *store;
	struct incident large = { .why = "" };
	struct so_error err;
	static const uint8_t bytes[5001];

	assert_int_equal(incident_store__open(dir, 20000, &store, &err), 0);
	add(store, 1, 1000);
	for (unsigned i = 0; i < 20; i++)
		add(store, 2, 1000);
	assert_int_equal(count(store, 1), 1);
	assert_int_equal(count(store, 2), 5);
	for (unsigned i = 0; i < 20; i++)
		add(store, 0, 1000);
	assert_int_equal(count(store, 0), 14);
	for (unsigned uid = 1; uid < 6; uid++)
		for (unsigned i = 0; i < 10; i++)
			add(store, uid, 1000);
	assert_int_equal(count(store, 0), 10);
	for (unsigned uid = 1; uid < 6; uid++)
		assert_in_range(count(store, uid), 1, 5);
	add(store, 0, 1000);
	assert_int_equal(count(store, 0), 10);
	assert_int_equal(incident_store__add(store, &large, bytes, sizeof(bytes), &err), -EFBIG);
	incident_store__close(store);
	empty(dir);
}

/* Where they are too many, it does not help to throw a large one away. */
static void many_small_ones(void **state)
{
	const char *dir = new_dir();
	struct incident_store *store;
	struct so_error err;
	char name[32], text[256];
	size_t n;

	for (unsigned id = 1; id <= INCIDENT_STORE_MAX; id++) {
		snprintf(name, sizeof(name), "%u.pb.gz", id);
		put(dir, name, id <= 5 ? "large enough" : "s");
		snprintf(name, sizeof(name), "%u.json", id);
		snprintf(text, sizeof(text),
			 "{\"id\": %u, \"time_ns\": 1, \"pid\": 7, \"comm\": \"train\", \"uid\": %u, \"last_s\": 30.0, "
			 "\"bytes\": %u, \"why\": \"asked for\", \"left_out\": 0}",
			 id, id <= 5 ? 0 : 1000 + id % 150, id <= 5 ? 12 : 1);
		put(dir, name, text);
	}
	assert_int_equal(incident_store__open(dir, 0, &store, &err), 0);
	assert_int_equal(count(store, 0), 5);
	assert_int_equal(count(store, 1000), 6);
	/* All users other than root have too many: none of root's goes, nor more than has to. */
	assert_int_equal(add(store, 1000, 1), INCIDENT_STORE_MAX + 1);
	assert_int_equal(count(store, 0), 5);
	assert_in_range(count(store, 1000), 3, 5);
	incident_store__list(store, &n);
	assert_int_equal(n, 5 + INCIDENT_STORE_MAX / INCIDENT_STORE_USERS_PART);
	incident_store__close(store);
	empty(dir);
}

/* What an interrupted write left goes; what is damaged is not listed; what is not its own stays. */
static void damage(void **state)
{
	const char *dir = new_dir();
	struct incident_store *store;
	struct so_error err;
	char path[128];
	size_t n;

	assert_int_equal(incident_store__open(dir, 0, &store, &err), 0);
	for (unsigned i = 0; i < 4; i++)
		add(store, 0, 10);
	incident_store__close(store);
	put(dir, "1.json", "{\"id\": 1");
	put(dir, "2.pb.gz", "short");
	put(dir, "3.json", "{\"id\": -3, \"time_ns\": 1}");
	put(dir, "9.pb.gz.new", "half");
	put(dir, "9.pb.gz", "without");
	put(dir, "README", "mine");
	assert_int_equal(incident_store__open(dir, 0, &store, &err), 0);
	incident_store__list(store, &n);
	assert_int_equal(n, 1);
	assert_int_equal(add(store, 0, 10), 5);
	incident_store__close(store);
	snprintf(path, sizeof(path), "%s/9.pb.gz", dir);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/9.pb.gz.new", dir);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/README", dir);
	assert_int_equal(access(path, F_OK), 0);
	empty(dir);
	assert_int_equal(incident_store__open("/no/such/place", 0, &store, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cannot keep incidents in /no/such/place"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_read),
		cmocka_unit_test(nonsense_is_no_rule),
		cmocka_unit_test(only_what_falls_is_met),
		cmocka_unit_test(each_refusal_is_met_once),
		cmocka_unit_test(what_is_not_known_is_not_met),
		cmocka_unit_test(steps_are_said),
		cmocka_unit_test(it_is_there_again),
		cmocka_unit_test(who_has_most_gives),
		cmocka_unit_test(many_small_ones),
		cmocka_unit_test(damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
