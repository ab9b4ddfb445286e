// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of overlays, by who mounted them. FUSE itself is in tests/hostile/test_hang.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/os/served_file.h"

static char folder[] = "/tmp/stakeout-test-XXXXXX";

/* A process in a user namespace of its own, which waits to be killed; -1: there can be none. */
static pid_t start_in_namespace(void)
{
	int ready[2], ret = -1;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		ret = unshare(CLONE_NEWUSER) ? -errno : 0;
		if (write(ready[1], &ret, sizeof(ret)) != sizeof(ret))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &ret, sizeof(ret)), sizeof(ret));
	close(ready[0]);
	close(ready[1]);
	if (!ret)
		return pid;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -1;
}

static int make(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return mkdir(path, 0700);
}

/* An overlay in a mount namespace of this process; -1: there can be none. */
static int file_of_overlay(void)
{
	char options[512], path[128];

	if (!mkdtemp(folder) || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", folder, "tmpfs", 0, NULL) || make("lower") || make("upper") || make("work") || make("all"))
		return -1;
	snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", folder, folder,
		 folder);
	snprintf(path, sizeof(path), "%s/all", folder);
	if (mount("overlay", path, "overlay", 0, options))
		return -1;
	snprintf(path, sizeof(path), "%s/all/file", folder);
	return open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
}

static void overlay(void **state)
{
	int fd = file_of_overlay();
	pid_t pid = start_in_namespace();

	rmdir(folder);
	if (fd < 0 || pid < 0)
		skip();
	assert_false(served_file(0, fd));
	assert_false(served_file(getpid(), fd));
	assert_true(served_file(pid, fd));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void other_files(void **state)
{
	int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);

	assert_false(served_file(getpid(), fd));
	close(fd);
	assert_true(served_file(getpid(), -1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlay),
		cmocka_unit_test(other_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
