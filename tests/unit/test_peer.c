// SPDX-License-Identifier: GPL-2.0-or-later
/* The identity of a peer, and the groups it was in when it connected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/http/peer.h"

#define USER  54321
#define GROUP 54322

static int listener;
static struct sockaddr_un address;

static int setup(void **state)
{
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "stakeout-test-peer-%d", getpid());
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	return bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 8);
}

static void must_be_root(void)
{
	if (getuid())
		skip();
}

/* The identity of a child that connects with these groups, and then waits; it has ended when this returns. */
static struct peer_identity look(gid_t gid, const gid_t *groups, size_t n, gid_t wanted, pid_t *child)
{
	struct peer_identity who = { 0 };
	int pipes[2], fd;
	char byte;

	assert_int_equal(pipe(pipes), 0);
	*child = fork();
	if (!*child) {
		int s = socket(AF_UNIX, SOCK_STREAM, 0);

		close(pipes[1]);
		if (setgroups(n, groups) || setgid(gid) || setuid(USER) ||
		    connect(s, (struct sockaddr *)&address, sizeof(address)))
			_exit(1);
		_exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(pipes[0]);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	assert_int_equal(peer__identify(fd, wanted, &who), 0);
	close(pipes[1]);
	close(fd);
	assert_int_equal(waitpid(*child, NULL, 0), *child);
	return who;
}

static void groups_of_the_peer_count(void **state)
{
	gid_t many[1000];
	struct peer_identity who;
	pid_t child;

	must_be_root();
	for (gid_t i = 0; i < 1000; i++)
		many[i] = 60000 + i;
	who = look(100, many, 1000, GROUP, &child);
	assert_int_equal(who.uid, USER);
	assert_int_equal(who.pid, child);
	assert_false(who.member);
	many[999] = GROUP;
	assert_true(look(100, many, 1000, GROUP, &child).member);
	assert_true(look(100, many + 999, 1, GROUP, &child).member);
	assert_true(look(GROUP, NULL, 0, GROUP, &child).member);
	assert_false(look(100, NULL, 0, GROUP, &child).member);
	assert_false(look(GROUP, many, 1000, PEER_NO_GROUP, &child).member);
}

/* Group -1 is no group, also where a peer could be in it. */
static void no_group_has_no_members(void **state)
{
	int pair[2];
	struct peer_identity who;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(peer__identify(pair[0], PEER_NO_GROUP, &who), 0);
	assert_int_equal(who.uid, getuid());
	assert_int_equal(who.pid, getpid());
	assert_false(who.member);
	close(pair[0]);
	close(pair[1]);
}

static void what_is_no_socket_has_no_peer(void **state)
{
	struct peer_identity who = { .uid = 7 };
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	assert_true(peer__identify(pipes[0], GROUP, &who) < 0);
	assert_int_equal(who.uid, 7);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_of_the_peer_count),
		cmocka_unit_test(no_group_has_no_members),
		cmocka_unit_test(what_is_no_socket_has_no_peer),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
