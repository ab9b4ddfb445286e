// SPDX-License-Identifier: GPL-2.0-or-later
/* Rounds over a /proc of the test's own and an engine without a kernel: who is attached, when, and who is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/os/log.h"
#include "daemon/rules/match_scan.h"
#include "tests/unit/fake_engine.h"

#define USER 1000

struct fixture {
	char proc[64];
	struct engine *engine;
	struct match_scan *scan;
};

static void write_file(struct fixture *f, pid_t pid, const char *name, const char *text, size_t n)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d", f->proc, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%d/%s", f->proc, pid, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

struct made {
	pid_t pid, ppid;
	uid_t uid;
	const char *comm, *command;
	unsigned long long start, stack;
	unsigned flags;
};

static void put(struct fixture *f, struct made p)
{
	char text[512];
	int n;

	n = snprintf(text, sizeof(text),
		     "%d (%s) S %d 1 1 0 -1 %u 1 2 3 4 5 6 7 8 20 0 1 0 %llu 9 9 9 94 95 %llu 0 0 0 0 0 0 0 0 "
		     "0 17 1 0 0 "
		     "0 0 0 93 94 95 1 2 3 4 0\n",
		     p.pid, p.comm ?: "python", p.ppid, p.flags, p.start ?: 1, p.stack ?: 1);
	write_file(f, p.pid, "stat", text, (size_t)n);
	n = snprintf(text, sizeof(text), "Name:\tx\nUid:\t%u\t0\t0\t0\n", p.uid);
	write_file(f, p.pid, "status", text, (size_t)n);
	write_file(f, p.pid, "cmdline", p.command, strlen(p.command) + 1);
	write_file(f, p.pid, "cgroup", "0::/jobs\n", 9);
}

static void end(struct fixture *f, pid_t pid)
{
	static const char *const names[] = { "stat", "status", "cmdline", "cgroup", "" };
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%d/%s", f->proc, pid, names[i]);
		remove(path);
	}
}

static uint32_t add(struct fixture *f, const char *text, uid_t owner)
{
	struct so_error err = { "" };
	uint32_t id = 0;

	if (match_scan__add(f->scan, text, (struct caller){ owner, 0 }, false, &id, &err))
		fail_msg("%s", err.text);
	return id;
}

static uint32_t target_of(struct fixture *f, pid_t pid)
{
	return fake_engine__target_of(f->engine, pid);
}

static uint32_t rule_of(struct fixture *f, pid_t pid)
{
	struct target_info info;

	assert_int_equal(engine__info(f->engine, target_of(f, pid), &info), 0);
	return info.rule;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct so_error err;

	assert_non_null(f);
	strcpy(f->proc, "/tmp/stakeout-test-XXXXXX");
	assert_non_null(mkdtemp(f->proc));
	assert_int_equal(engine__new(NULL, &f->engine, &err), 0);
	assert_int_equal(match_scan__new(f->engine, NULL, f->proc, &f->scan, &err), 0);
	*state = f;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	return remove(path);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	match_scan__free(f->scan);
	engine__free(f->engine);
	nftw(f->proc, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

static void what_matches_is_attached_once(void **state)
{
	struct fixture *f = *state;
	uint32_t id;

	put(f, (struct made){ .pid = 10, .command = "train" });
	put(f, (struct made){ .pid = 11, .command = "other" });
	put(f, (struct made){ .pid = 12, .command = "train", .flags = 0x200000 }); /* a kernel thread */
	put(f, (struct made){ .pid = 13, .command = "stakeout attach --match train", .comm = "stakeout" });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 0);
	id = add(f, "cmd=train rate=49 cuda", 0);
	match_scan__round(f->scan);
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 1);
	assert_int_equal(rule_of(f, 10), id);
	assert_int_equal(fake_engine__last_attach(f->engine).rate_hz, 49);
	assert_true(fake_engine__last_attach(f->engine).cuda);
	assert_true(fake_engine__last_attach(f->engine).keep);
	assert_true(fake_engine__last_attach(f->engine).children);
	assert_int_equal(fake_engine__last_attach(f->engine).caller.uid, 0);
}

static void a_restarted_job_is_picked_up(void **state)
{
	struct fixture *f = *state;

	add(f, "train", 0);
	put(f, (struct made){ .pid = 10, .command = "train" });
	match_scan__round(f->scan);
	fake_engine__exit(f->engine, target_of(f, 10));
	end(f, 10);
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), 0);
	put(f, (struct made){ .pid = 20, .command = "train" });
	match_scan__round(f->scan);
	assert_int_not_equal(target_of(f, 20), 0);
	/* The same number again is another process, too. */
	fake_engine__exit(f->engine, target_of(f, 20));
	put(f, (struct made){ .pid = 20, .command = "train", .start = 2 });
	match_scan__round(f->scan);
	assert_int_not_equal(target_of(f, 20), 0);
}

static void an_exec_is_noticed(void **state)
{
	struct fixture *f = *state;

	add(f, "train", 0);
	put(f, (struct made){ .pid = 10, .command = "bash" });
	match_scan__round(f->scan);
	/* Without an exec nobody looks at the command line again: that is what keeps a round cheap. */
	put(f, (struct made){ .pid = 10, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), 0);
	put(f, (struct made){ .pid = 10, .command = "train", .stack = 2 });
	match_scan__round(f->scan);
	assert_int_not_equal(target_of(f, 10), 0);
	put(f, (struct made){ .pid = 11, .command = "bash" });
	match_scan__round(f->scan);
	put(f, (struct made){ .pid = 11, .command = "train", .comm = "train" });
	match_scan__round(f->scan);
	assert_int_not_equal(target_of(f, 11), 0);
}

static void the_very_young_are_left_alone(void **state)
{
	struct fixture *f = *state;
	struct timespec ts;
	unsigned long long now;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	now = ((unsigned long long)ts.tv_sec * 1000 + (unsigned long long)ts.tv_nsec / 1000000) *
	      (unsigned long long)sysconf(_SC_CLK_TCK) / 1000;
	add(f, "train", 0);
	put(f, (struct made){ .pid = 10, .command = "train", .start = now + 1000 });
	put(f, (struct made){ .pid = 11, .command = "train", .start = now - 100 });
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), 0);
	assert_int_not_equal(target_of(f, 11), 0);
	/* They get older. */
	put(f, (struct made){ .pid = 10, .command = "train", .start = 1 });
	match_scan__round(f->scan);
	assert_int_not_equal(target_of(f, 10), 0);
}

static void children_come_with_their_parent(void **state)
{
	struct fixture *f = *state;

	add(f, "train", 0);
	/* Numbers begin again at the lowest one after the highest. */
	put(f, (struct made){ .pid = 10, .ppid = 90, .command = "train", .start = 5 });
	put(f, (struct made){ .pid = 11, .ppid = 10, .command = "train", .start = 6 });
	put(f, (struct made){ .pid = 90, .command = "train", .start = 4 });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 1);
	assert_int_not_equal(target_of(f, 90), 0);
	put(f, (struct made){ .pid = 91, .ppid = 11, .command = "train", .start = 7 });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 1);
}

static void never_itself_nor_what_it_descends_from(void **state)
{
	struct fixture *f = *state;

	add(f, "train", 0);
	put(f, (struct made){ .pid = 1, .command = "init train" });
	put(f, (struct made){ .pid = 5, .ppid = 1, .command = "sudo stakeoutd --match train", .comm = "sudo" });
	put(f, (struct made){ .pid = getpid(), .ppid = 5, .command = "stakeoutd --match train" });
	put(f, (struct made){ .pid = 7, .ppid = 1, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 1);
	assert_int_not_equal(target_of(f, 7), 0);
}

static void a_users_rule_takes_their_own_alone(void **state)
{
	struct fixture *f = *state;
	uint32_t id = add(f, "train", USER);

	put(f, (struct made){ .pid = 10, .uid = USER, .command = "train" });
	put(f, (struct made){ .pid = 11, .uid = USER + 1, .command = "train" });
	put(f, (struct made){ .pid = 12, .uid = 0, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 1);
	assert_int_equal(rule_of(f, 10), id);
	assert_int_equal(fake_engine__last_attach(f->engine).caller.uid, USER);
}

static void what_was_detached_stays_so(void **state)
{
	struct fixture *f = *state;
	uint32_t first = add(f, "train", 0), second;

	put(f, (struct made){ .pid = 10, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(engine__detach(f->engine, target_of(f, 10), NULL), 0);
	for (int i = 0; i < 3; i++)
		match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), 0);
	/* Not after an exec either, and not what it starts, at any depth. */
	put(f, (struct made){ .pid = 10, .command = "train", .stack = 2 });
	put(f, (struct made){ .pid = 11, .ppid = 10, .command = "train" });
	match_scan__round(f->scan);
	put(f, (struct made){ .pid = 12, .ppid = 11, .command = "train" });
	end(f, 10);
	match_scan__round(f->scan);
	put(f, (struct made){ .pid = 13, .ppid = 12, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 0);
	/* By a rule of later on it is, and a new process is by any. */
	put(f, (struct made){ .pid = 14, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(rule_of(f, 14), first);
	second = add(f, "trai", 0);
	match_scan__round(f->scan);
	assert_int_equal(rule_of(f, 11), second);
}

static void what_was_stopped_stays_so(void **state)
{
	struct fixture *f = *state;

	add(f, "train", 0);
	put(f, (struct made){ .pid = 10, .command = "train" });
	match_scan__round(f->scan);
	assert_int_equal(engine__stop(f->engine, target_of(f, 10), NULL), 0);
	for (int i = 0; i < 3; i++)
		match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), 0);
	assert_int_equal(fake_engine__count(f->engine), 1); /* its data stay */
}

static void a_removed_rule_takes_its_targets_along(void **state)
{
	struct fixture *f = *state;
	uint32_t first = add(f, "train", 0), second = add(f, "tr", 0);
	unsigned detached = 99;
	struct so_error err = { "" };

	put(f, (struct made){ .pid = 10, .command = "train" });
	put(f, (struct made){ .pid = 11, .command = "tree" });
	match_scan__round(f->scan);
	assert_int_equal(rule_of(f, 10), first);
	assert_int_equal(rule_of(f, 11), second);
	assert_int_equal(match_scan__remove(f->scan, USER, first, &detached, &err), -ENOENT);
	assert_int_equal(detached, 99);
	assert_int_equal(match_scan__remove(f->scan, 0, first, &detached, &err), 0);
	assert_int_equal(detached, 1);
	assert_int_equal(target_of(f, 10), 0);
	/* Another rule may want it. */
	match_scan__round(f->scan);
	assert_int_equal(rule_of(f, 10), second);
	assert_int_equal(match_scan__remove(f->scan, 0, second, &detached, &err), 0);
	assert_int_equal(detached, 2);
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), 0);
	assert_int_equal(match_scan__remove(f->scan, 0, second, &detached, &err), -ENOENT);
}

static void failures_are_kept_and_tried_again_later(void **state)
{
	struct fixture *f = *state;
	uint32_t id = add(f, "train", 0);
	struct match_rule_info info;

	put(f, (struct made){ .pid = 10, .command = "train" });
	fake_engine__fail_attach(f->engine, -EIO, "some words");
	match_scan__round(f->scan);
	assert_int_equal(match_table__get(match_scan__table(f->scan), 0, id, &info), 0);
	assert_string_equal(info.problem, "some words");
	/* Not at once. */
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), 0);
	/* Nor when something else than places for targets is full. */
	put(f, (struct made){ .pid = 11, .command = "train" });
	fake_engine__fail_attach(f->engine, -ENOSPC, "16384 processes");
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 11), 0);
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 11), 0);
	put(f, (struct made){ .pid = 12, .command = "train" });
	match_scan__round(f->scan);
	assert_int_not_equal(target_of(f, 12), 0);
	assert_int_equal(match_table__get(match_scan__table(f->scan), 0, id, &info), 0);
	assert_string_equal(info.problem, "");
	assert_int_equal(info.attached, 1);
}

static void somebody_elses_target_is_fine(void **state)
{
	struct fixture *f = *state;
	const struct attach_options options = { .pid = 10, .rate_hz = 1 };
	uint32_t id = add(f, "train", 0), other;
	struct match_rule_info info;

	put(f, (struct made){ .pid = 10, .command = "train" });
	assert_int_equal(engine__attach(f->engine, &options, &other, NULL), 0);
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 10), other);
	assert_int_equal(match_table__get(match_scan__table(f->scan), 0, id, &info), 0);
	assert_string_equal(info.problem, "");
}

static void more_than_all_targets(void **state)
{
	struct fixture *f = *state;
	uint32_t id = add(f, "train", 0);
	struct match_rule_info info;

	for (int i = 0; i < ENGINE_MAX_TARGETS + 6; i++)
		put(f, (struct made){ .pid = 100 + i, .command = "train", .start = 1 + (unsigned)i });
	match_scan__round(f->scan);
	assert_int_equal(fake_engine__count(f->engine), ENGINE_MAX_TARGETS);
	assert_int_equal(match_table__get(match_scan__table(f->scan), 0, id, &info), 0);
	assert_int_equal(info.attached, ENGINE_MAX_TARGETS);
	assert_non_null(strstr(info.problem, "64"));
	/* A place that becomes free is taken by the next. */
	assert_int_equal(engine__detach(f->engine, target_of(f, 100), NULL), 0);
	match_scan__round(f->scan);
	assert_int_equal(target_of(f, 100), 0);
	assert_int_equal(fake_engine__count(f->engine), ENGINE_MAX_TARGETS);
}

static void the_thread_looks_when_a_rule_comes(void **state)
{
	struct fixture *f = *state;
	const struct timespec moment = { 0, 10000000 };
	struct so_error err;

	put(f, (struct made){ .pid = 10, .command = "train" });
	assert_int_equal(match_scan__start(f->scan, &err), 0);
	add(f, "train", 0);
	for (int i = 0; i < 10000 && !target_of(f, 10); i++)
		nanosleep(&moment, NULL);
	assert_int_not_equal(target_of(f, 10), 0);
	put(f, (struct made){ .pid = 11, .command = "train" });
	for (int i = 0; i < 10000 && !target_of(f, 11); i++)
		nanosleep(&moment, NULL);
	assert_int_not_equal(target_of(f, 11), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_matches_is_attached_once),
		TEST(a_restarted_job_is_picked_up),
		TEST(an_exec_is_noticed),
		TEST(the_very_young_are_left_alone),
		TEST(children_come_with_their_parent),
		TEST(never_itself_nor_what_it_descends_from),
		TEST(a_users_rule_takes_their_own_alone),
		TEST(what_was_detached_stays_so),
		TEST(what_was_stopped_stays_so),
		TEST(a_removed_rule_takes_its_targets_along),
		TEST(failures_are_kept_and_tried_again_later),
		TEST(somebody_elses_target_is_fine),
		TEST(more_than_all_targets),
		TEST(the_thread_looks_when_a_rule_comes),
	};

	log__set_quiet(true);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
