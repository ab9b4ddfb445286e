// SPDX-License-Identifier: GPL-2.0-or-later
/* Links that are asked for, made one after the other by a kernel that may take its time, and taken away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/kernel/alloc_links.h"
#include "daemon/os/clock.h"
#include "daemon/os/uprobe_links.h"
#include "stakeout/alloc_abi.h"

#define SOON_NS 20000000000ull

/* In the kernel's place: what it was asked for. While `held`, it does not answer. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool held;
	unsigned begun, n;
	struct asked {
		int program;
		bool at_return;
		pid_t pid;
		uint32_t count;
	} asked[64];
	int refuse; /* the program that is refused; 0: none */
} kernel = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

int uprobe_links__make(int program, uint32_t type, bool at_return, const char *path, const uint64_t *offsets,
		       const uint64_t *cookies, uint32_t count, pid_t pid)
{
	int ret;

	(void)type;
	(void)offsets;
	(void)cookies;
	pthread_mutex_lock(&kernel.lock);
	kernel.begun++;
	pthread_cond_broadcast(&kernel.changed);
	while (kernel.held)
		pthread_cond_wait(&kernel.changed, &kernel.lock);
	kernel.asked[kernel.n++ % 64] = (struct asked){ program, at_return, pid, count };
	ret = kernel.refuse == program ? -EACCES : open(path, O_RDONLY | O_CLOEXEC);
	pthread_mutex_unlock(&kernel.lock);
	return ret;
}

static void hold(bool held)
{
	pthread_mutex_lock(&kernel.lock);
	kernel.held = held;
	pthread_cond_broadcast(&kernel.changed);
	pthread_mutex_unlock(&kernel.lock);
}

static void wait_until_begun(unsigned n)
{
	pthread_mutex_lock(&kernel.lock);
	while (kernel.begun < n)
		pthread_cond_wait(&kernel.changed, &kernel.lock);
	pthread_mutex_unlock(&kernel.lock);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

struct world {
	struct alloc_links *links;
	unsigned fds; /* before any was asked for */
};

static struct world w;

static void begin(int session)
{
	const struct alloc_programs programs = { session, 101, 102 };

	kernel.held = false;
	kernel.begun = kernel.n = 0;
	kernel.refuse = 0;
	assert_int_equal(alloc_links__new(&programs, &w.links), 0);
	w.fds = count_fds();
}

static void wait_until_gone(pid_t pid)
{
	uint64_t until_ns = clock__now_ns() + SOON_NS;

	while (alloc_links__going(w.links, pid)) {
		assert_true(clock__now_ns() < until_ns);
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
}

static void end(void)
{
	alloc_links__free(w.links);
}

/* malloc, free, and one that throws. */
static struct alloc_link *ask(pid_t pid)
{
	static const uint64_t offsets[] = { 16, 32, 48 };
	static const uint64_t cookies[] = { SO_ALLOC_COOKIE(SO_ALLOC_MALLOC, SO_ALLOC_SIZE),
					    SO_ALLOC_COOKIE(SO_ALLOC_MALLOC, SO_ALLOC_FREE),
					    SO_ALLOC_COOKIE(SO_ALLOC_TCMALLOC, SO_ALLOC_SIZE) | SO_ALLOC_THROWS };
	struct alloc_link *link;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(alloc_links__ask(w.links, pid, fd, &(struct alloc_places){ offsets, cookies, 3 }, &link), 0);
	close(fd);
	return link;
}

static void they_are_made_in_order(void **state)
{
	struct alloc_link *first, *second;

	begin(100);
	hold(true);
	first = ask(7);
	second = ask(8);
	wait_until_begun(1);
	assert_int_equal(alloc_link__state(first), -EINPROGRESS);
	assert_int_equal(alloc_link__wait(first, clock__now_ns() + 1000000), -ETIMEDOUT);
	assert_true(alloc_link__waited_ns(first) >= 1000000);
	hold(false);
	assert_int_equal(alloc_link__wait(second, clock__now_ns() + SOON_NS), 0);
	assert_int_equal(alloc_link__state(first), 0);
	assert_int_equal(kernel.n, 2);
	assert_true(kernel.asked[0].program == 100 && kernel.asked[0].pid == 7 && kernel.asked[0].count == 3);
	assert_int_equal(kernel.asked[1].pid, 8);
	assert_false(alloc_links__going(w.links, 7));
	alloc_link__free(first);
	alloc_link__free(second);
	wait_until_gone(7);
	wait_until_gone(8);
	assert_int_equal(count_fds(), w.fds);
	end();
}

/* The return of what neither frees nor throws, and before the entries. */
static void without_sessions_there_are_two(void **state)
{
	struct alloc_link *link;

	begin(-1);
	link = ask(7);
	assert_int_equal(alloc_link__wait(link, clock__now_ns() + SOON_NS), 0);
	assert_int_equal(kernel.n, 2);
	assert_true(kernel.asked[0].program == 102 && kernel.asked[0].at_return && kernel.asked[0].count == 1);
	assert_true(kernel.asked[1].program == 101 && !kernel.asked[1].at_return && kernel.asked[1].count == 3);
	alloc_link__free(link);
	wait_until_gone(7);
	/* The entries are refused: the returns go as well. */
	kernel.refuse = 101;
	link = ask(9);
	assert_int_equal(alloc_link__wait(link, clock__now_ns() + SOON_NS), -EACCES);
	alloc_link__free(link);
	wait_until_gone(9);
	assert_int_equal(count_fds(), w.fds);
	end();
}

static void what_is_freed_is_going_until_it_is_gone(void **state)
{
	struct alloc_link *being_made, *waiting;

	begin(100);
	hold(true);
	being_made = ask(7);
	wait_until_begun(1);
	waiting = ask(8);
	assert_false(alloc_links__going(w.links, 7));
	alloc_link__free(being_made);
	alloc_link__free(waiting);
	assert_true(alloc_links__going(w.links, 7) && alloc_links__going(w.links, 8));
	assert_false(alloc_links__going(w.links, 9));
	hold(false);
	wait_until_gone(7);
	wait_until_gone(8);
	/* The second one was not begun. */
	assert_int_equal(kernel.n, 1);
	assert_int_equal(count_fds(), w.fds);
	end();
}

static void what_waits_at_the_end_is_not_begun(void **state)
{
	begin(100);
	hold(true);
	alloc_link__free(ask(7));
	alloc_link__free(ask(8));
	hold(false);
	end();
	assert_true(kernel.n <= 1);
	assert_true(count_fds() <= w.fds);
}

/* The kernel never answers: who ends does not wait for ever. */
static void one_that_hangs_is_left(void **state)
{
	uint64_t begin_ns;

	begin(100);
	hold(true);
	alloc_link__free(ask(7));
	begin_ns = clock__now_ns();
	end();
	assert_true(clock__now_ns() - begin_ns < SOON_NS);
	hold(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_made_in_order),
		cmocka_unit_test(without_sessions_there_are_two),
		cmocka_unit_test(what_is_freed_is_going_until_it_is_gone),
		cmocka_unit_test(what_waits_at_the_end_is_not_begun),
		cmocka_unit_test(one_that_hangs_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
