// SPDX-License-Identifier: GPL-2.0-or-later
/* As root: children that become somebody, and who may look into them. tests/hostile tries programs with rights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/os/proc_file.h"
#include "daemon/os/process_access.h"

#define USER  65533
#define OTHER 65532

struct made {
	uid_t uids[3]; /* real, effective, saved */
	gid_t gids[3];
	bool not_dumpable;
};

static void become(const struct made *m)
{
	if (setgroups(0, NULL) || setresgid(m->gids[0], m->gids[1], m->gids[2]) ||
	    setresuid(m->uids[0], m->uids[1], m->uids[2]) || prctl(PR_SET_DUMPABLE, !m->not_dumpable, 0, 0, 0))
		_exit(1);
	raise(SIGSTOP);
	_exit(0);
}

/* A child that is stopped; ended by reap(). */
static pid_t make(const struct made *m)
{
	pid_t pid;
	int status;

	if (getuid())
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		become(m);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void reap(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void refused(const struct made *m, const char *why)
{
	const struct caller caller = { USER, USER }, root = { 0, 0 };
	struct so_error err = { "" };
	pid_t pid = make(m);

	assert_int_equal(process_access__check(pid, root, NULL), 0);
	assert_int_equal(process_access__check(pid, caller, &err), -EPERM);
	if (!strstr(err.text, why))
		fail_msg("%s", err.text);
	assert_false(caller__sees(caller, process_access__viewer(pid)));
	reap(pid);
}

static void own_process(void **state)
{
	const struct caller caller = { USER, USER };
	pid_t pid = make(&(struct made){ { USER, USER, USER }, { USER, USER, USER }, false });

	assert_int_equal(process_access__check(pid, caller, NULL), 0);
	assert_true(process_access__holds(pid, caller));
	assert_true(caller__equal(process_access__viewer(pid), caller));
	assert_true(caller__sees((struct caller){ 0, USER }, caller));
	reap(pid);
}

static void others_processes(void **state)
{
	refused(&(struct made){ { OTHER, OTHER, OTHER }, { USER, USER, USER }, false }, "belongs to another user");
	refused(&(struct made){ { USER, USER, USER }, { OTHER, OTHER, OTHER }, false }, "another group");
	refused(&(struct made){ { USER, USER, 0 }, { USER, USER, USER }, false }, "more than one user");
	refused(&(struct made){ { USER, 0, 0 }, { USER, USER, USER }, false }, "more than one user");
	refused(&(struct made){ { USER, USER, USER }, { USER, USER, OTHER }, false }, "more than one user or group");
}

static void not_dumpable(void **state)
{
	const struct made made = { { USER, USER, USER }, { USER, USER, USER }, true };
	pid_t pid = make(&made);

	assert_false(process_access__holds(pid, (struct caller){ USER, USER }));
	assert_true(process_access__holds(pid, (struct caller){ 0, 0 }));
	reap(pid);
	refused(&made, "not dumpable");
}

static void no_process(void **state)
{
	pid_t pid = make(&(struct made){ { USER, USER, USER }, { USER, USER, USER }, false });

	reap(pid);
	assert_int_equal(process_access__check(pid, (struct caller){ USER, USER }, NULL), -ESRCH);
	assert_int_equal(process_access__viewer(pid).uid, 0);
	assert_false(process_access__holds(pid, (struct caller){ USER, USER }));
}

static pid_t fork_or_fail(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	return pid;
}

/* Of its own PID namespace, which it leaves open until another process there is waited for: it has no memory then. */
static pid_t exiting_process(pid_t *other)
{
	int here = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC), gate[2];
	char status[4096];
	pid_t pid;

	assert_int_equal(pipe(gate), 0);
	assert_int_equal(unshare(CLONE_NEWPID), 0);
	pid = fork_or_fail();
	if (!pid) {
		close(gate[1]);
		if (setgroups(0, NULL) || setgid(USER) || setuid(USER) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
			_exit(1);
		_exit(read(gate[0], status, 1) != 0);
	}
	close(gate[0]);
	*other = fork_or_fail();
	if (!*other) {
		close(gate[1]);
		pause();
		_exit(0);
	}
	assert_int_equal(setns(here, CLONE_NEWPID), 0);
	close(here);
	close(gate[1]);
	do {
		usleep(1000);
		assert_true(proc_file__read(PROC_FILE_HERE, pid, "status", status, sizeof(status)) > 0);
	} while (strstr(status, "\nVmSize:"));
	assert_null(strstr(status, "\nState:\tZ"));
	return pid;
}

/* It is not taken for one that is not dumpable, which would hide it for good. */
static void while_it_exits(void **state)
{
	pid_t other, pid;

	if (getuid())
		skip();
	pid = exiting_process(&other);
	assert_int_equal(process_access__check(pid, (struct caller){ USER, USER }, NULL), -ESRCH);
	assert_int_equal(process_access__check(pid, (struct caller){ OTHER, OTHER }, NULL), -ESRCH);
	assert_int_equal(process_access__check(pid, (struct caller){ 0, 0 }, NULL), 0);
	assert_int_equal(waitpid(other, NULL, 0), other);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_process), cmocka_unit_test(others_processes), cmocka_unit_test(not_dumpable),
		cmocka_unit_test(no_process),  cmocka_unit_test(while_it_exits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
