// SPDX-License-Identifier: GPL-2.0-or-later
/* File systems that never answer are made up: what opens a file waits for the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/statfs.h>

#include "daemon/os/bounded_call.c"
#include "daemon/os/bounded_open.c"

#define USER  65533
#define OTHER 65532

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* locked: what is below /hangs hangs */
static unsigned n_opened;
static bool fuse;

/* Takes the daemon's place. */
int open_in_root(const char *root, const char *path, bool follow, const struct file_reader *reader)
{
	__atomic_add_fetch(&n_opened, 1, __ATOMIC_RELAXED);
	if (!strcmp(path, "/nowhere"))
		return -ENOENT;
	if (!strncmp(path, "/hangs", 6)) {
		pthread_mutex_lock(&gate);
		pthread_mutex_unlock(&gate);
	}
	return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
}

/* Takes the C library's. */
int fstatfs(int fd, struct statfs *fs)
{
	memset(fs, 0, sizeof(*fs));
	fs->f_type = fuse ? FUSE_SUPER_MAGIC : EXT4_SUPER_MAGIC;
	return 0;
}

static int open_for(uid_t uid, const char *path)
{
	const struct file_reader reader = { .uid = uid, .gid = uid };
	int fd = bounded_open("/", path, true, uid ? &reader : NULL);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void what_answers(void **state)
{
	assert_int_equal(open_for(0, "/file"), 0);
	assert_int_equal(open_for(USER, "/file"), 0);
	assert_int_equal(open_for(USER, "/nowhere"), -ENOENT);
	assert_int_equal(pool.n_users, 0);
}

static void what_a_program_serves(void **state)
{
	fuse = true;
	assert_int_equal(open_for(0, "/file"), 0);
	assert_int_equal(open_for(USER, "/file"), geteuid() ? 0 : -EACCES);
	fuse = false;
}

static unsigned settled(void)
{
	unsigned n = 1;

	for (unsigned i = 0; i < 10000 && n; i++) {
		usleep(1000);
		pthread_mutex_lock(&pool.lock);
		n = pool.n_stuck;
		pthread_mutex_unlock(&pool.lock);
	}
	return n;
}

/* One user's files cost so much waiting, and then are not tried; another's are opened as ever. */
static void what_hangs(void **state)
{
	uint64_t began_ns = clock__now_ns();
	unsigned before, other = 0;
	int ret[4];

	log__set_quiet(true);
	pthread_mutex_lock(&gate);
	for (unsigned i = 0; i < 3; i++)
		ret[i] = open_for(USER, "/hangs/file");
	before = __atomic_load_n(&n_opened, __ATOMIC_RELAXED);
	ret[3] = open_for(USER, "/file");
	other += open_for(OTHER, "/file") == 0;
	other += open_for(0, "/file") == 0;
	pthread_mutex_unlock(&gate);
	assert_int_equal(settled(), 0);
	assert_int_equal(ret[0], -EINPROGRESS);
	assert_int_equal(ret[1], -EINPROGRESS);
	assert_int_equal(ret[2], -EBUSY);
	assert_int_equal(ret[3], -EBUSY);
	assert_int_equal(other, 2);
	assert_int_equal(n_opened, before + 2);
	assert_true(clock__now_ns() - began_ns < 10 * BOUNDED_OPEN_MS * MS);
	/* Once it is over, it is tried again. */
	pool.n_users = 0;
	assert_int_equal(open_for(USER, "/hangs/file"), 0);
}

/* Root is waited for, but not without end either. */
static void what_hangs_for_root(void **state)
{
	unsigned hung = 0, i = 0;
	int ret;

	pthread_mutex_lock(&gate);
	do {
		ret = open_for(0, "/hangs/file");
		hung += ret == -EINPROGRESS;
	} while (ret == -EINPROGRESS && ++i < 2 * BOUNDED_CALL_USER_STUCK);
	pthread_mutex_unlock(&gate);
	assert_int_equal(settled(), 0);
	assert_int_equal(ret, -EBUSY);
	assert_int_equal(hung, BOUNDED_CALL_USER_STUCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_answers),
		cmocka_unit_test(what_a_program_serves),
		cmocka_unit_test(what_hangs),
		cmocka_unit_test(what_hangs_for_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
