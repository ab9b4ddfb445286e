// SPDX-License-Identifier: GPL-2.0-or-later
/* How equal threads of one and of several processes are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "client/render/dump_many.h"

static struct profile_line lines[] = {
	{ .function = "futex_wait", .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true },
	{ .function = "read", .filename = "", .mapping = "/l/libc.so.6" },
	{ .function = "step", .filename = "/a/env.py", .mapping = "", .python = true, .line = 42 },
	{ .function = "step", .filename = "/a/env.py", .mapping = "", .python = true, .line = 43 },
	{ .function = "main", .filename = "/a/run.py", .mapping = "", .python = true, .line = 9 },
	{ .function = "main", .filename = "", .mapping = "/bin/bash" },
	{ .function = "step", .filename = "/b/env.py", .mapping = "", .python = true, .line = 42 },
};
#define N_LINES (sizeof(lines) / sizeof(lines[0]))

static const uint32_t waits[] = { 0, 2, 4 }, waits_later[] = { 0, 3, 4 }, reads[] = { 1, 2, 4 }, pool[] = { 0, 1 },
		      shell[] = { 5 }, elsewhere[] = { 0, 6, 4 };
#define STACK(stack) .lines = (stack), .n_lines = sizeof(stack) / sizeof((stack)[0])

#define MAX_THREADS 128

/* A process, and its threads as they are added. */
struct process {
	struct profile profile;
	struct profile_sample samples[MAX_THREADS];
};

static const char *version = "stakeout.python.version=3.11";

static struct dump start(struct process *p, pid_t pid, const char *command)
{
	*p = (struct process){ .profile = { .lines = lines, .n_lines = N_LINES, .samples = p->samples } };
	return (struct dump){ .pid = pid, .ppid = 1, .command = command, .profile = &p->profile };
}

static struct profile_sample *add(struct process *p, pid_t pid, pid_t tid, struct profile_sample sample)
{
	struct profile_sample *to = &p->samples[p->profile.n_samples++];

	*to = sample;
	to->count = 1;
	to->pid = pid;
	to->tid = tid;
	to->comm = to->comm ?: "python3";
	to->state = to->state ?: "sleeping";
	return to;
}

typedef int render_fn(const struct dump *dumps, size_t n, const struct dump_part *part, FILE *out,
		      struct so_error *err);

static __attribute__((noinline)) char *render(render_fn *fn, const struct dump *dumps, size_t n,
					      const struct dump_part *part)
{
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_int_equal(fn(dumps, n, part, out, &err), 0);
	assert_string_equal(err.text, "");
	fclose(out);
	return text;
}

static const struct dump_part merged = { .kernel = true, .merge = true }, whole = { .kernel = true };

static void assert_text(const struct dump *dumps, size_t n, const struct dump_part *part, const char *expected)
{
	char *text = render(dump_many__print, dumps, n, part);

	assert_string_equal(text, expected);
	free(text);
}

static void a_pool_is_one_group(void **state)
{
	static struct process p;
	struct dump dump = start(&p, 70, "run");

	for (int i = 0; i < 50; i++) {
		static char names[50][16];

		snprintf(names[i], sizeof(names[i]), "pool-%d", i);
		add(&p, 70, 71 + i, (struct profile_sample){ STACK(pool), .comm = names[i] });
	}
	add(&p, 70, 70, (struct profile_sample){ STACK(waits) });
	add(&p, 70, 200, (struct profile_sample){ STACK(reads), .comm = "loader" });
	assert_text(&dump, 1, &merged,
		    "Process 70: run\n"
		    "\nThread 70 (sleeping): python3\n"
		    "    futex_wait [kernel]\n    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\nThread 200 (sleeping): loader\n"
		    "    read (libc.so.6)\n    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\n50 threads (sleeping): pool-*\n"
		    "  threads 71-120\n"
		    "    futex_wait [kernel]\n    read (libc.so.6)\n");
}

/* Nothing is merged: as without. */
static void different_threads_stay_as_they_were(void **state)
{
	static struct process p;
	struct dump dump = start(&p, 70, "run");
	char *with, *without;

	add(&p, 70, 72, (struct profile_sample){ STACK(reads) });
	add(&p, 70, 70, (struct profile_sample){ STACK(waits) });
	add(&p, 70, 71, (struct profile_sample){ STACK(pool) });
	with = render(dump_many__print, &dump, 1, &merged);
	without = render(dump_many__print, &dump, 1, &whole);
	assert_string_equal(with, without);
	assert_null(strstr(with, "threads"));
	free(with);
	free(without);
}

/* By line, by file, by state, by the lock; kernel frames count where they are shown. */
static void what_differs(void **state)
{
	static const struct {
		struct profile_sample other;
		struct dump_part part;
		bool equal;
	} cases[] = {
		{ { STACK(waits) }, { .kernel = true, .merge = true }, true },
		{ { STACK(waits), .comm = "named" }, { .kernel = true, .merge = true }, true },
		{ { STACK(waits_later) }, { .kernel = true, .merge = true }, false },
		{ { STACK(elsewhere) }, { .kernel = true, .merge = true }, false },
		{ { STACK(waits), .state = "running" }, { .kernel = true, .merge = true }, false },
		{ { STACK(waits), .gil = PROFILE_GIL_HELD }, { .kernel = true, .merge = true }, false },
		{ { .lines = &waits[1], .n_lines = 2 }, { .kernel = true, .merge = true }, false },
		{ { .lines = &waits[1], .n_lines = 2 }, { .merge = true }, true },
		{ { STACK(reads) }, { .kernel = true, .merge = true }, false },
		{ { STACK(reads) }, { .kernel = true, .python_only = true, .merge = true }, true },
		{ { STACK(waits) }, { .kernel = true }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct process p;
		struct dump dump = start(&p, 70, "run");
		char *text;

		add(&p, 70, 71, (struct profile_sample){ STACK(waits) });
		add(&p, 70, 72, cases[i].other);
		text = render(dump_many__print, &dump, 1, &cases[i].part);
		if (!!strstr(text, "\n2 threads") != cases[i].equal)
			fail_msg("case %zu: %s", i, text);
		free(text);
	}
}

/* bash, which started n ranks, of which number 2 reads; each has a pool of three, the last rank a thread more. */
static size_t start_job(struct process *processes, struct dump *dumps, size_t n)
{
	static char ranks[64][4];

	dumps[0] = start(&processes[0], 70, "bash launch.sh");
	add(&processes[0], 70, 70, (struct profile_sample){ STACK(shell), .comm = "bash" });
	for (size_t i = 0; i < n; i++) {
		pid_t pid = (pid_t)(100 + 10 * i);
		struct process *p = &processes[i + 1];

		snprintf(ranks[i], sizeof(ranks[i]), "%zu", i);
		dumps[i + 1] = start(p, pid, "python3 train.py");
		dumps[i + 1].depth = 1;
		p->profile.comments = &version;
		p->profile.n_comments = 1;
		for (int k = 1; k <= 3; k++)
			add(p, pid, pid + k, (struct profile_sample){ STACK(pool) });
		if (i == 2)
			add(p, pid, pid, (struct profile_sample){ STACK(reads), .gil = PROFILE_GIL_RELEASED });
		else
			add(p, pid, pid, (struct profile_sample){ STACK(waits) });
		if (i + 1 == n)
			add(p, pid, pid + 4, (struct profile_sample){ STACK(waits), .comm = "writer" });
		for (size_t k = 0; k < p->profile.n_samples; k++)
			p->samples[k].rank = p->samples[k].local_rank = ranks[i];
	}
	return n + 1;
}

static void the_rank_that_differs(void **state)
{
	static struct process processes[9];
	struct dump dumps[9];

	assert_text(dumps, start_job(processes, dumps, 8), &merged,
		    "Process 70: bash launch.sh\n"
		    "8 processes: python3 train.py\n"
		    "  rank 0 (PID 100), rank 1 (PID 110), rank 2 (PID 120), rank 3 (PID 130),\n"
		    "  rank 4 (PID 140), rank 5 (PID 150), rank 6 (PID 160), rank 7 (PID 170)\n"
		    "CPython 3.11\n"
		    "\n7 of 8 main threads (sleeping): python3\n"
		    "  ranks 0, 1, 3-7 (PIDs 100, 110, 130, 140, 150, 160, 170)\n"
		    "    futex_wait [kernel]\n    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\n1 of 8 main threads (sleeping): python3\n"
		    "  rank 2 (PID 120)\n"
		    "    read (libc.so.6)\n    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\nMain thread (sleeping): bash\n"
		    "  PID 70\n"
		    "    main (bash)\n"
		    "\nThread 174 (sleeping): writer\n"
		    "  of rank 7 (PID 170)\n"
		    "    futex_wait [kernel]\n    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\n24 threads of 8 processes (sleeping): python3\n"
		    "  threads 101-103, 111-113, 121-123, 131-133, 141-143, 151-153, 161-163, 171-173\n"
		    "  of ranks 0-7 (PIDs 100, 110, 120, 130, 140, 150, 160, 170)\n"
		    "    futex_wait [kernel]\n    read (libc.so.6)\n");
}

/* Then their PIDs are in the head alone. */
static void many_ranks(void **state)
{
	static struct process processes[65];
	struct dump dumps[65];
	char *text = render(dump_many__print, dumps, start_job(processes, dumps, 64), &merged);

	assert_non_null(strstr(text, " rank 63 (PID 730)\nCPython"));
	assert_non_null(strstr(text, "\n63 of 64 main threads (sleeping): python3\n  ranks 0, 1, 3-63\n    futex"));
	assert_non_null(strstr(text, "more) of ranks 0-63\n"));
	free(text);
}

static void ranks_that_agree(void **state)
{
	static struct process processes[3];
	struct dump dumps[3];

	start_job(processes, dumps, 2);
	assert_text(dumps + 1, 2, &(struct dump_part){ .python_only = true, .merge = true },
		    "2 processes: python3 train.py\n"
		    "  rank 0 (PID 100), rank 1 (PID 110)\n"
		    "CPython 3.11\n"
		    "\nAll 2 main threads (sleeping): python3\n"
		    "  rank 0 (PID 100), rank 1 (PID 110)\n"
		    "    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\nThread 114 (sleeping): writer\n"
		    "  of rank 1 (PID 110)\n"
		    "    step (/a/env.py:42)\n    main (/a/run.py:9)\n"
		    "\n6 threads of 2 processes (sleeping): python3\n"
		    "  threads 101-103, 111-113 of rank 0 (PID 100), rank 1 (PID 110)\n"
		    "    [native]\n");
}

/* Though the shell is above it. */
static void python_comes_before_its_shell(void **state)
{
	static struct process processes[2];
	struct dump dumps[2];
	char *text = render(dump_many__print, dumps, start_job(processes, dumps, 1), &merged);
	const char *python = strstr(text, "\nMain thread (sleeping): python3\n  rank 0 (PID 100)\n");

	assert_non_null(python);
	assert_non_null(strstr(python, "\nMain thread (sleeping): bash\n  PID 70\n"));
	free(text);
}

static void each_process_without_merging(void **state)
{
	static struct process processes[2];
	struct dump dumps[2];

	start_job(processes, dumps, 1);
	processes[1].profile.n_samples = 1;
	assert_text(dumps, 2, &whole,
		    "Process 70: bash launch.sh\n"
		    "\nThread 70 (sleeping): bash\n    main (bash)\n"
		    "\nProcess 100: python3 train.py, rank 0\nCPython 3.11\n"
		    "\nThread 101 (sleeping): python3\n    futex_wait [kernel]\n    read (libc.so.6)\n");
}

/* Without ranks; a long command; processes that are not known, with hostile words. */
static void processes_without_ranks(void **state)
{
	static struct process processes[3];
	const char *problem = "stakeout.python.problem=CPython 3.7 is not\x1bsupported";
	char command[200];
	struct dump dumps[7];

	memset(command, 'a', sizeof(command) - 1);
	command[sizeof(command) - 1] = '\0';
	strcpy(command + 60, "ö");
	memset(command + 62, 'b', 30);
	for (int i = 0; i < 3; i++) {
		dumps[i] = start(&processes[i], 4711 + i, i ? "worker\n" : command);
		add(&processes[i], 4711 + i, 4711 + i, (struct profile_sample){ STACK(pool), .comm = i ? "w" : "x" });
	}
	processes[1].profile.comments = &problem;
	processes[1].profile.n_comments = 1;
	dumps[3] = (struct dump){ .pid = 5000, .command = "gone\x1b", .problem = "process 5000\nhas ended" };
	for (int i = 4; i < 7; i++)
		dumps[i] = (struct dump){ .pid = 6000 + i, .command = "sh -c x", .problem = "ended meanwhile" };
	assert_text(dumps, 7, &merged,
		    "Process 4711: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaöbbbb…\n"
		    "2 processes: worker?\n"
		    "  PIDs 4712, 4713\n"
		    "Python: CPython 3.7 is not?supported\n"
		    "Process 5000 (gone?) is left out: process 5000?has ended\n"
		    "3 processes (the first: 6004, sh -c x) are left out: ended meanwhile\n"
		    "\nAll 2 main threads (sleeping): w\n"
		    "  PIDs 4712, 4713\n"
		    "    futex_wait [kernel]\n    read (libc.so.6)\n"
		    "\nMain thread (sleeping): x\n"
		    "  PID 4711\n"
		    "    futex_wait [kernel]\n    read (libc.so.6)\n");
}

/* A crowd is counted, not listed. */
static void lines_stay_short(void **state)
{
	static struct process p;
	struct dump dump = start(&p, 70, "run");
	char *text, *save = NULL;

	for (int i = 0; i < 100; i++)
		add(&p, 70, 1000000 + 3 * i, (struct profile_sample){ STACK(pool), .comm = i % 2 ? "a" : "b" });
	add(&p, 70, 71, (struct profile_sample){ STACK(pool), .comm = "c" });
	add(&p, 70, 72, (struct profile_sample){ STACK(pool), .comm = "d" });
	text = render(dump_many__print, &dump, 1, &merged);
	assert_non_null(strstr(text, "\n102 threads (sleeping): c, d, b, …\n"));
	assert_non_null(strstr(text, "\n  threads 71, 72, 1000000, "));
	assert_non_null(strstr(text, "… (85 more)\n"));
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		assert_in_range(strlen(line), 0, 82); /* "…" has three bytes */
	free(text);
}

static void as_json(void **state)
{
	static struct process processes[9];
	struct dump dumps[10];
	size_t n = start_job(processes, dumps, 8);
	json_t *json, *rank2;
	char *text;

	dumps[n++] = (struct dump){ .pid = 5000, .ppid = 70, .command = "gone", .problem = "it has ended" };
	text = render(dump_many__json, dumps, n, &merged);
	json = json_loads(text, 0, NULL);
	free(text);
	assert_int_equal(json_array_size(json), 10);
	rank2 = json_array_get(json, 3);
	assert_int_equal(json_integer_value(json_object_get(rank2, "pid")), 120);
	assert_int_equal(json_integer_value(json_object_get(rank2, "ppid")), 1);
	assert_int_equal(json_integer_value(json_object_get(rank2, "rank")), 2);
	assert_int_equal(json_integer_value(json_object_get(rank2, "local_rank")), 2);
	assert_string_equal(json_string_value(json_object_get(rank2, "command")), "python3 train.py");
	assert_true(json_is_null(json_object_get(rank2, "error")));
	assert_true(json_is_null(json_object_get(json_array_get(json, 0), "rank")));
	for (size_t i = 0; i < 9; i++) {
		static const int main_groups[] = { 2, 0, 0, 1, 0, 0, 0, 0, 0 };
		json_t *threads = json_object_get(json_array_get(json, i), "threads"),
		       *first = json_array_get(threads, 0);

		assert_int_equal(json_array_size(threads), i == 0 ? 1 : i == 8 ? 5 : 4);
		assert_int_equal(json_integer_value(json_object_get(first, "group")), main_groups[i]);
		assert_true(json_is_array(json_object_get(first, "frames")));
		if (i)
			assert_int_equal(json_integer_value(json_object_get(json_array_get(threads, 1), "group")), 4);
	}
	assert_string_equal(json_string_value(json_object_get(json_array_get(json, 9), "error")), "it has ended");
	assert_int_equal(json_array_size(json_object_get(json_array_get(json, 9), "threads")), 0);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_is_one_group),
		cmocka_unit_test(different_threads_stay_as_they_were),
		cmocka_unit_test(what_differs),
		cmocka_unit_test(the_rank_that_differs),
		cmocka_unit_test(many_ranks),
		cmocka_unit_test(ranks_that_agree),
		cmocka_unit_test(python_comes_before_its_shell),
		cmocka_unit_test(each_process_without_merging),
		cmocka_unit_test(processes_without_ranks),
		cmocka_unit_test(lines_stay_short),
		cmocka_unit_test(as_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
