// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes as the client reads them from /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/session/process_arguments.h"
#include "client/session/process_list.h"
#include "stakeout/proc_stat.h"

/* Behind a process's parent: 18 numbers, its threads, and 31 more. */
#define REST(threads)                                                                                                  \
	" 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 " #threads                                                             \
	" 0 99 4096 1 18446744073709551615 1 1 140 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 1 1 200 1 1 1 0"

static void lines_of_stat(void **state)
{
	static const struct {
		const char *text;
		pid_t ppid;
		bool ended;
		const char *comm;
	} cases[] = {
		{ "7 (bash) S 5" REST(1), 5, false, "bash" },
		{ "4194304 (a) b) (c) R 1" REST(1), 1, false, "a) b) (c" },
		{ "7 () Z 0" REST(1), 0, true, "" },
		{ "7 (x\n) X 3" REST(1), 3, true, "x\n" },
		/* The first thread has ended, others have not. */
		{ "7 (x) Z 3" REST(2), 3, false, "x" },
	};
	static const char *const bad[] = { "",		"7",		   "7 (bash",	       "7 bash) S 5" REST(1),
					   "7 (bash) S", "7 (bash) S 5 7 7", ")7( S 5" REST(1) };
	struct proc_stat stat;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(proc_stat__parse(cases[i].text, &stat));
		assert_int_equal(stat.ppid, cases[i].ppid);
		assert_int_equal(stat.ended, cases[i].ended);
		assert_string_equal(stat.comm, cases[i].comm);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(proc_stat__parse(bad[i], &stat));
}

static void this_process_and_its_child(void **state)
{
	_cleanup_(process_list) struct process_list list = { 0 };
	struct so_error err = { .text = "" };
	pid_t child = fork();
	siginfo_t info;

	if (!child)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_list__read(&list, &err), 0);
	for (size_t i = 1; i < list.n; i++)
		assert_true(list.entries[i - 1].pid < list.entries[i].pid);
	assert_int_equal(process_list__find(&list, getpid())->ppid, getppid());
	assert_false(process_list__find(&list, getpid())->ended);
	assert_true(process_list__find(&list, child)->ended);
	assert_true(process_list__is_below(&list, child, getpid()));
	assert_true(process_list__is_below(&list, child, getppid()));
	assert_false(process_list__is_below(&list, getpid(), child));
	assert_false(process_list__is_below(&list, child, child));
	assert_null(process_list__find(&list, 0));
	waitpid(child, NULL, 0);
}

/* As a list that was read while processes ended and their numbers were used again. */
static void a_circle_has_an_end(void **state)
{
	struct process_entry entries[] = { { .pid = 3, .ppid = 4 }, { .pid = 4, .ppid = 3 } };
	const struct process_list list = { .entries = entries, .n = 2 };

	assert_true(process_list__is_below(&list, 3, 4));
	assert_false(process_list__is_below(&list, 3, 5));
}

#define ARGUMENTS(text) text, sizeof(text)

static void launchers(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		bool launches;
	} cases[] = {
		{ "", 0, false },
		{ ARGUMENTS("bash\0launch.sh"), true },
		{ ARGUMENTS("-bash"), true },
		{ ARGUMENTS("/usr/bin/make\0-j2"), true },
		{ ARGUMENTS("mpirun\0-np\0004"), true },
		{ ARGUMENTS("slurmstepd: [4711.0]"), true },
		{ ARGUMENTS("bashful"), false },
		{ ARGUMENTS("sleep\0bash"), false },
		{ ARGUMENTS("python3\0train.py"), false },
		{ ARGUMENTS("python3"), false },
		{ ARGUMENTS("/opt/bin/python3.11\0-u\0/opt/bin/torchrun\0train.py"), true },
		{ ARGUMENTS("python\0-X\0dev\0-m\0torch.distributed.run\0train.py"), true },
		{ ARGUMENTS("python\0-mtorch.distributed.launch"), true },
		{ ARGUMENTS("python\0-m\0accelerate.commands.launch"), true },
		{ ARGUMENTS("python\0-m\0torch.distributedness"), false },
		{ ARGUMENTS("python\0-m"), false },
		{ ARGUMENTS("python\0-X"), false },
		{ ARGUMENTS("python\0-c\0bash"), false },
		{ ARGUMENTS("python\0train.py\0-m\0torch.distributed.run"), false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (process_arguments__are_of_launcher(cases[i].text, cases[i].n) != cases[i].launches)
			fail_msg("case %zu", i);
	}
}

static void names(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		const char *script, *name;
	} cases[] = {
		{ "", 0, NULL, "" },
		{ ARGUMENTS("/usr/bin/sleep\0001"), NULL, "sleep" },
		{ ARGUMENTS("python3\0train.py"), "train.py", "train.py" },
		{ ARGUMENTS("/usr/bin/python3.11\0-u\0-X\0dev\0/app/train.py\0other.py"), "train.py", "train.py" },
		{ ARGUMENTS("python3\0-m\0torch.distributed.run\0train.py"), "torch.distributed.run",
		  "torch.distributed.run" },
		{ ARGUMENTS("python3\0-c\0train.py"), NULL, "python3" },
		{ ARGUMENTS("python3"), NULL, "python3" },
		{ ARGUMENTS("-bash"), NULL, "bash" },
		{ ARGUMENTS("bash\0/x/run.sh"), "run.sh", "run.sh" },
		{ ARGUMENTS("bash\0-c\0run.sh"), NULL, "bash" },
		{ ARGUMENTS("cat\0train.py"), NULL, "cat" },
		{ ARGUMENTS("python3\0/x/"), NULL, "python3" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *script = process_arguments__script(cases[i].text, cases[i].n);

		assert_int_equal(!script, !cases[i].script);
		if (script)
			assert_string_equal(script, cases[i].script);
		assert_string_equal(process_arguments__name(cases[i].text, cases[i].n), cases[i].name);
	}
}

static void arguments_in_a_line(void **state)
{
	char text[16] = "a\0b c\0\0", full[9] = "aaaa\0bbb", none[4] = "";

	process_arguments__join(text, 7, sizeof(text));
	assert_string_equal(text, "a b c");
	process_arguments__join(full, 8, sizeof(full));
	assert_string_equal(full, "aaaa …");
	process_arguments__join(none, 0, sizeof(none));
	assert_string_equal(none, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_stat),       cmocka_unit_test(this_process_and_its_child),
		cmocka_unit_test(a_circle_has_an_end), cmocka_unit_test(launchers),
		cmocka_unit_test(arguments_in_a_line), cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
