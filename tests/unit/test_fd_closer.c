/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Descriptors that are closed in the background, one of them slowly. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/os/fd_closer.h"

#define SLOW_S 3

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int quick(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* A connection whose peer does not read: to close it takes as long as is allowed for the rest to be sent. */
static int slow(int *listener, int *peer)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = SLOW_S };
	static const char bytes[65536];
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(*listener, 1), 0);
	assert_int_equal(getsockname(*listener, (struct sockaddr *)&address, &length), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	*peer = accept(*listener, NULL, NULL);
	assert_true(*peer >= 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

static void closes_and_says_so(void **state)
{
	_cleanup_(fd_closer) struct fd_closer *closer = NULL;
	int fds[100];

	assert_int_equal(fd_closer__new(&closer), 0);
	assert_false(fd_closer__has(closer, 0, 0));
	fd_closer__wait(closer, 0, 0);
	for (size_t i = 0; i < 100; i++)
		fds[i] = quick();
	for (size_t i = 0; i < 100; i++)
		fd_closer__give(closer, fds[i], i << 2 | (i % 3 + 1));
	fd_closer__wait(closer, 2, 3);
	assert_false(fd_closer__has(closer, 2, 3));
	for (size_t i = 1; i < 100; i += 3)
		assert_false(is_open(fds[i]));
	fd_closer__wait(closer, 0, 0);
	for (size_t i = 0; i < 100; i++)
		assert_false(is_open(fds[i]));
	assert_false(fd_closer__has(closer, 0, 0));
}

static void nobody_waits_who_need_not(void **state)
{
	_cleanup_(fd_closer) struct fd_closer *closer = NULL;
	int listener, peer, fd = slow(&listener, &peer), after = quick();

	assert_int_equal(fd_closer__new(&closer), 0);
	fd_closer__give(closer, fd, 1);
	fd_closer__give(closer, after, 2);
	fd_closer__wait(closer, 3, 3);
	assert_true(fd_closer__has(closer, 0, 0) && fd_closer__has(closer, 1, 3));
	assert_false(fd_closer__has(closer, 3, 3));
	/* One that takes long keeps no other waiting. */
	fd_closer__wait(closer, 2, 3);
	assert_false(is_open(after));
	assert_true(fd_closer__has(closer, 1, 3));
	assert_false(fd_closer__has(closer, 2, 3));
	fd_closer__drain(closer, 2, 3);
	assert_true(fd_closer__has(closer, 1, 3));
	fd_closer__drain(closer, 1, 3);
	assert_false(fd_closer__has(closer, 0, 0));
	fd_closer__wait(closer, 1, 3);
	assert_false(fd_closer__has(closer, 0, 0) || is_open(fd));
	close(peer);
	close(listener);
}

static void the_end_closes_all(void **state)
{
	struct fd_closer *closer = NULL;
	int fds[50];

	assert_int_equal(fd_closer__new(&closer), 0);
	for (size_t i = 0; i < 50; i++) {
		fds[i] = quick();
		fd_closer__give(closer, fds[i], 1);
	}
	fd_closer__free(closer);
	for (size_t i = 0; i < 50; i++)
		assert_false(is_open(fds[i]));
	fd_closer__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closes_and_says_so),
		cmocka_unit_test(nobody_waits_who_need_not),
		cmocka_unit_test(the_end_closes_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
