// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies of files of a made-up FUSE: how many bytes of them there may be, of one user and of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>

#include "daemon/files/file_copy.c"

static bool served = true;

/* Takes the C library's place. */
int fstatfs(int fd, struct statfs *fs)
{
	memset(fs, 0, sizeof(*fs));
	fs->f_type = served ? FUSE_SUPER_MAGIC : EXT4_SUPER_MAGIC;
	return 0;
}

static json_int_t field(const char *key)
{
	json_t *all = limits__json(), *one;
	json_int_t n = -1;
	size_t i;

	json_array_foreach (all, i, one)
		if (!strcmp(json_string_value(json_object_get(one, "name")), "copied_file_bytes"))
			n = json_integer_value(json_object_get(one, key));
	json_decref(all);
	return n;
}

static int file_of(off_t bytes)
{
	int fd = memfd_create("served", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	return fd;
}

/* A copy for the user of a file of so many bytes. */
static int copy_for(uid_t uid, off_t bytes, off_t want)
{
	int fd = file_of(bytes);
	struct stat st;

	assert_int_equal(file_copy__replace(getpid(), uid, &fd), 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, want);
	return fd;
}

static void forget(int fd, uid_t uid)
{
	file_copy__forget(fd, uid);
	close(fd);
}

static void kernels_own(void **state)
{
	int fd = file_of(100), before = fd;

	served = false;
	assert_int_equal(file_copy__replace(getpid(), 1, &fd), 0);
	served = true;
	assert_int_equal(fd, before);
	close(fd);
	assert_int_equal(field("now"), 0);
}

static void contents(void **state)
{
	char got[16] = "";
	int fd = file_of(0);

	assert_int_equal(pwrite(fd, "served", 6, 0), 6);
	assert_int_equal(file_copy__replace(getpid(), 1, &fd), 1);
	assert_int_equal(pread(fd, got, sizeof(got), 0), 6);
	assert_string_equal(got, "served");
	forget(fd, 1);
}

static void too_large(void **state)
{
	json_int_t hit = field("hit");

	forget(copy_for(1, (off_t)FILE_COPY_MAX_BYTES + 1, 0), 1);
	assert_int_equal(field("hit"), hit + 1);
}

/* What one user's files take leaves room for another's. */
static void shares(void **state)
{
	const off_t half = FILE_COPY_MAX_BYTES / 2;
	json_int_t hit = field("hit");
	int fds[3], other;

	for (unsigned i = 0; i < 3; i++)
		fds[i] = copy_for(1, half, i < 2 ? half : 0);
	assert_int_equal(field("hit"), hit + 1);
	other = copy_for(2, half, half);
	assert_int_equal(field("now"), 3 * half);
	forget(fds[0], 1);
	fds[0] = copy_for(1, half, half);
	for (unsigned i = 0; i < 3; i++)
		forget(fds[i], 1);
	forget(other, 2);
	assert_int_equal(field("now"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_own),
		cmocka_unit_test(contents),
		cmocka_unit_test(too_large),
		cmocka_unit_test(shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
