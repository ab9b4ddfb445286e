// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/os/file_reader.h"
#include "daemon/os/open_in_root.h"
#include "stakeout/cleanup.h"

#define USER  1000
#define GROUP 2000

static bool may(uid_t uid, gid_t gid, mode_t mode, const struct file_reader *reader)
{
	struct stat st = { .st_uid = uid, .st_gid = gid, .st_mode = S_IFREG | mode };

	return file_reader__may_read(reader, &st);
}

static void text_of_a_status(void **state)
{
	struct file_reader r;
	char many[4096] = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t";

	assert_true(file_reader__parse(
		"Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t2000\t1\t1\t1\nGroups:\t7 9 \nNStgid:\t1\n", &r));
	assert_int_equal(r.uid, USER);
	assert_int_equal(r.gid, GROUP);
	assert_int_equal(r.n_groups, 2);
	assert_int_equal(r.groups[0], 7);
	assert_int_equal(r.groups[1], 9);
	assert_true(file_reader__parse("Name:\tx\nUid:\t1\nGid:\t2\nGroups:\t \nVmSize:\t12 kB\n", &r));
	assert_int_equal(r.n_groups, 0);
	for (unsigned i = 0; i < FILE_READER_MAX_GROUPS + 10; i++)
		strcat(many, "77 ");
	assert_true(file_reader__parse(many, &r));
	assert_int_equal(r.n_groups, FILE_READER_MAX_GROUPS);
	assert_false(file_reader__parse("Name:\tx\nUid:\t1\n", &r));
	assert_false(file_reader__parse("", &r));
}

static void owner_groups_and_mode(void **state)
{
	const struct file_reader root = { 0 }, user = { USER, GROUP, { 7 }, 1 };

	assert_true(may(USER, 0, 0, &root));
	assert_true(may(USER, 0, 0400, &user));
	assert_false(may(USER, 0, 0044, &user)); /* the owner's bits count, if they are fewer */
	assert_true(may(0, GROUP, 0040, &user));
	assert_true(may(0, 7, 0040, &user));
	assert_false(may(0, 7, 0404, &user));
	assert_false(may(0, 8, 0440, &user));
	assert_true(may(0, 8, 0004, &user));
	assert_false(may(0, 0, 0440, &user));
}

static void of_this_process(void **state)
{
	struct file_reader r;

	assert_int_equal(file_reader__of(getpid(), &r), 0);
	assert_int_equal(r.uid, getuid());
	assert_int_equal(r.gid, getgid());
	assert_int_equal(file_reader__of(1 << 22, &r), -ESRCH);
}

static void what_is_opened(void **state)
{
	const struct file_reader user = { USER, GROUP, { 0 }, 0 };
	char folder[] = "/tmp/stakeout-open-XXXXXX", path[64];
	_cleanup_close_ int fd = -1;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	fd = open_in_root(folder, "/file", false, NULL);
	assert_true(fd >= 0);
	assert_int_equal(open_in_root(folder, "file", false, &user), getuid() == USER ? 0 : -EACCES);
	assert_int_equal(chmod(path, 0604), 0);
	close(fd);
	fd = open_in_root(folder, "file", true, &user);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(open_in_root(folder, "file", true, NULL), -ENOENT); /* the link's own root */
	assert_true(open_in_root("/", path, false, NULL) < 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(open_in_root(folder, "file", true, NULL), -ENOENT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	/* Nor what is no file of anybody's. */
	assert_int_equal(open_in_root("/", "/dev/null", true, NULL), -ENOENT);
	assert_int_equal(open_in_root("/", "/proc/version", true, NULL), -ENOENT);
	assert_int_equal(open_in_root("/", "/proc/self/exe", true, NULL), -ELOOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_of_a_status),
		cmocka_unit_test(owner_groups_and_mode),
		cmocka_unit_test(of_this_process),
		cmocka_unit_test(what_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
