// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which capabilities stay, and that the others are gone for good. Each test that gives some up is a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/os/privileges.h"

#define BIT(n)      (1ull << (n))
#define ALL         (BIT(41) - 1)
#define BPF         BIT(39)
#define PERFMON     BIT(38)
#define CHECKPOINT  BIT(40)
#define ADMIN       BIT(CAP_SYS_ADMIN)
#define OF_ALL_AGES (BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYSLOG))
#define USED        (OF_ALL_AGES | BPF | PERFMON | CHECKPOINT)

static void only_what_is_used_is_wanted(void **state)
{
	assert_int_equal(privileges__wanted(ALL, 40), USED);
	assert_int_equal(privileges__wanted(ALL, 63), USED);
	assert_int_equal(privileges__wanted(0, 40), 0);
	assert_int_equal(privileges__wanted(BPF | BIT(CAP_CHOWN), 40), BPF);
	assert_int_equal(privileges__wanted(USED, 40), USED);
}

static void admin_stands_for_its_parts(void **state)
{
	assert_int_equal(privileges__wanted(BIT(38) - 1, 37), OF_ALL_AGES | ADMIN); /* Linux 5.7 */
	assert_int_equal(privileges__wanted(CHECKPOINT - 1, 39), OF_ALL_AGES | BPF | PERFMON | ADMIN); /* 5.8 */
	assert_int_equal(privileges__wanted(ADMIN, 40), ADMIN);
	assert_int_equal(privileges__wanted(ADMIN | BPF | PERFMON, 40), ADMIN | BPF | PERFMON);
	assert_int_equal(privileges__wanted(ADMIN | BPF | PERFMON | CHECKPOINT, 40),
			 BPF | PERFMON | CHECKPOINT);
}

static void sets_have_names(void **state)
{
	char text[PRIVILEGES_TEXT];

	privileges__names(0, text);
	assert_string_equal(text, "none");
	privileges__names(BPF | PERFMON | ADMIN | BIT(CAP_CHOWN), text);
	assert_string_equal(text, "capability 0, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF");
	privileges__names(UINT64_MAX, text); /* cut, and ends */
	assert_true(strlen(text) < sizeof(text));
}

/* Runs in a child, which has a thread only. Its exit status: 0: well. */
static int in_child(int (*what)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(what());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool status_has(const char *path, const char *name, uint64_t value)
{
	FILE *f = fopen(path, "re");
	char line[256];
	unsigned long long got = ~value;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			sscanf(line + strlen(name) + 1, "%llx", &got);
	if (f)
		fclose(f);
	if (got != value)
		fprintf(stderr, "%s: %s is %llx instead of %llx\n", path, name, got, (unsigned long long)value);
	return got == value;
}

static int sets_are(const char *path, uint64_t value, bool bounding)
{
	return !(status_has(path, "CapEff", value) && status_has(path, "CapPrm", value) &&
		 status_has(path, "CapInh", 0) && status_has(path, "CapAmb", 0) &&
		 status_has(path, "NoNewPrivs", 1) && (!bounding || status_has(path, "CapBnd", value)));
}

static void *look_at_thread(void *result)
{
	*(int *)result = sets_are("/proc/thread-self/status", USED, true);
	return NULL;
}

/* Inheritable and ambient ones are there before, to be seen going. */
static int give_up(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];
	struct so_error err = { .text = "" };
	pthread_t thread;
	int later = 1;
	char text[PRIVILEGES_TEXT];

	if (syscall(SYS_capget, &header, sets))
		return 2;
	sets[0].inheritable = 1u << CAP_CHOWN;
	if (syscall(SYS_capset, &header, sets) || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0))
		return 3;
	if (privileges__drop(&err)) {
		fprintf(stderr, "%s\n", err.text);
		return 4;
	}
	if (sets_are("/proc/self/status", USED, true) || privileges__now() != USED)
		return 5;
	if (pthread_create(&thread, NULL, look_at_thread, &later) || pthread_join(thread, NULL) || later)
		return 6;
	if (privileges__missing(text)[0] || prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0))
		return 7;
	return 0;
}

static void what_is_given_up_is_gone(void **state)
{
	if ((privileges__now() & (USED | ADMIN | BIT(CAP_CHOWN) | BIT(CAP_SETPCAP))) !=
	    (USED | ADMIN | BIT(CAP_CHOWN) | BIT(CAP_SETPCAP)))
		skip();
	assert_int_equal(in_child(give_up), 0);
}

/* As a program with file capabilities that an ordinary user started. */
static int give_up_as_user(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { 0 };
	struct so_error err = { .text = "" };
	const uint64_t has = BPF | PERFMON | BIT(CAP_CHOWN);
	char text[PRIVILEGES_TEXT];

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setuid(54321))
		return 2;
	for (unsigned i = 0; i < 2; i++)
		sets[i].permitted = sets[i].effective = (uint32_t)(has >> 32 * i);
	if (syscall(SYS_capset, &header, sets))
		return 3;
	if (privileges__drop(&err))
		return 4;
	if (sets_are("/proc/self/status", BPF | PERFMON, false))
		return 5;
	if (strcmp(privileges__missing(text),
		   "CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE, CAP_DAC_READ_SEARCH, CAP_SYSLOG"))
		return 6;
	return strcmp(privileges__why(text), privileges__missing(text)) ? 7 : 0;
}

static void a_user_keeps_what_the_file_gives(void **state)
{
	if (getuid() || !(privileges__now() & BPF))
		skip();
	assert_int_equal(in_child(give_up_as_user), 0);
}

static void *sleep_long(void *unused)
{
	pause();
	return NULL;
}

static int give_up_late(void)
{
	struct so_error err = { .text = "" };
	uint64_t before = privileges__now();
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleep_long, NULL))
		return 2;
	if (privileges__drop(&err) != -EBUSY || !strstr(err.text, "2 threads"))
		return 3;
	return privileges__now() != before;
}

static void threads_would_keep_theirs(void **state)
{
	assert_int_equal(in_child(give_up_late), 0);
}

static int without_any(void)
{
	struct so_error err = { .text = "" };
	json_t *json;

	if (getuid() == 0 && setuid(54321))
		return 2;
	if (privileges__drop(&err))
		return 3;
	json = privileges__json();
	return json_array_size(json_object_get(json, "kept")) != 0 ||
	       json_array_size(json_object_get(json, "missing")) != 6 ||
	       !json_is_true(json_object_get(json, "no_new_privs"));
}

static void who_has_none_lacks_all(void **state)
{
	assert_int_equal(in_child(without_any), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_used_is_wanted),
		cmocka_unit_test(admin_stands_for_its_parts),
		cmocka_unit_test(sets_have_names),
		cmocka_unit_test(what_is_given_up_is_gone),
		cmocka_unit_test(a_user_keeps_what_the_file_gives),
		cmocka_unit_test(threads_would_keep_theirs),
		cmocka_unit_test(who_has_none_lacks_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
