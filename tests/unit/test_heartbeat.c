// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether a server counts as alive: one that answers, that refuses, that accepts nothing, that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http/heartbeat.h"
#include "daemon/http/http_server.h"
#include "daemon/http/listen_socket.h"
#include "tests/unit/http_probe.h"

static unsigned asked;

static void handle(void *context, const struct http_request *request, struct http_reply *reply)
{
	asked += !strcmp(request->path, HEARTBEAT_PATH);
	reply->status = 404;
	reply->content_type = "text/plain";
}

static struct listen_socket *listen_here(void)
{
	struct listen_socket *sock;
	struct so_error err = { .text = "" };

	assert_int_equal(listen_socket__open(http_probe__socket_path(), 0600, -1, &sock, &err), 0);
	return sock;
}

static void a_server_that_answers_is_alive(void **state)
{
	struct listen_socket *sock = listen_here();
	struct http_server *server;
	struct so_error err = { .text = "" };

	assert_int_equal(http_server__start(listen_socket__take_fd(sock), PEER_NO_GROUP, NULL, handle, NULL,
					    &server, &err),
			 0);
	assert_true(heartbeat__serves(http_probe__socket_path(), 20000));
	assert_int_equal(asked, 1);
	http_server__free(server);
	listen_socket__free(sock);
}

static void who_accepts_nothing_is_not(void **state)
{
	struct listen_socket *sock = listen_here();
	double began_s = http_probe__now_s();

	assert_false(heartbeat__serves(http_probe__socket_path(), 200));
	assert_true(http_probe__now_s() - began_s > 0.15);
	/* Its queue is full in the end: then connecting must not wait. */
	for (int i = 0; i < 700; i++)
		assert_false(heartbeat__serves(http_probe__socket_path(), 0));
	assert_false(heartbeat__serves(http_probe__socket_path(), 200));
	listen_socket__free(sock);
}

/* The listening descriptor does not block. */
static void *accept_and_close(void *fd)
{
	struct pollfd wait = { .fd = *(int *)fd, .events = POLLIN };

	if (poll(&wait, 1, 20000) == 1)
		close(accept(*(int *)fd, NULL, NULL));
	return NULL;
}

static void who_closes_at_once_accepts(void **state)
{
	struct listen_socket *sock = listen_here();
	int fd = listen_socket__take_fd(sock);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, accept_and_close, &fd), 0);
	assert_true(heartbeat__serves(http_probe__socket_path(), 20000));
	pthread_join(thread, NULL);
	close(fd);
	listen_socket__free(sock);
}

static void nobody_there_is_not(void **state)
{
	char path[300];

	assert_false(heartbeat__serves("/nonexistent/socket", 100));
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_false(heartbeat__serves(path, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_answers_is_alive),
		cmocka_unit_test(who_accepts_nothing_is_not),
		cmocka_unit_test(who_closes_at_once_accepts),
		cmocka_unit_test(nobody_there_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
