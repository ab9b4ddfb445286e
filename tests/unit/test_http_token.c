// SPDX-License-Identifier: GPL-2.0-or-later
/* HTTP over TCP: nothing reaches the handler without the token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http/http_server.h"
#include "daemon/http/tcp_door.h"
#include "tests/unit/http_probe.h"

#define SECRET "0123456789abcdef"
#define RIGHT  "Authorization: Bearer " SECRET "\r\n"

static atomic_int handled;

static void answer(void *context, const struct http_request *request, struct http_reply *reply)
{
	assert_true(request->read_only);
	assert_int_equal(request->caller.uid, 0);
	handled++;
	reply->status = 200;
	reply->content_type = "text/plain";
	reply->body = (uint8_t *)strdup("hello");
	reply->body_bytes = 5;
}

struct fixture {
	struct token *token;
	struct http_server *server;
	struct sockaddr_in address;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[] = "/tmp/stakeout-test-XXXXXX", name[TCP_DOOR_NAME];
	int file = mkstemp(path), fd;
	struct so_error err;

	assert_int_equal(write(file, SECRET, sizeof(SECRET) - 1), sizeof(SECRET) - 1);
	close(file);
	assert_int_equal(token__read(path, &f->token, &err), 0);
	unlink(path);
	assert_int_equal(tcp_door__open("127.0.0.1:0", false, &fd, name, &err), 0);
	assert_int_equal(http_server__start(fd, PEER_NO_GROUP, f->token, answer, NULL, &f->server, &err), 0);
	f->address = (struct sockaddr_in){ .sin_family = AF_INET,
					   .sin_port = htons((uint16_t)atoi(strchr(name, ':') + 1)),
					   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	handled = 0;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	http_server__free(f->server);
	token__free(f->token);
	free(f);
	return 0;
}

static int dial(const struct fixture *f)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&f->address, sizeof(f->address)), 0);
	return fd;
}

static struct http_answer ask_for(int fd, const char *what, const char *headers)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: x\r\n%s\r\n", what, headers);

	http_probe__send(fd, text, (size_t)n);
	return http_probe__receive(fd);
}

static struct http_answer ask_on(int fd, const char *headers)
{
	return ask_for(fd, "GET /v1/status", headers);
}

static int status_of(const struct fixture *f, const char *headers)
{
	int fd = dial(f), status = ask_on(fd, headers).status;

	close(fd);
	return status;
}

static void with_the_token(void **state)
{
	int fd = dial(*state);
	struct http_answer a = ask_on(fd, RIGHT);

	close(fd);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "hello");
	assert_int_equal(handled, 1);
}

static void without_it(void **state)
{
	static const char *const headers[] = { "",
					       "Authorization:\r\n",
					       "Authorization: Bearer\r\n",
					       "Authorization: Bearer 0123456789abcdee\r\n",
					       "Authorization: Bearer " SECRET SECRET "\r\n",
					       "Authorization: Basic " SECRET "\r\n",
					       "X-Authorization: Bearer " SECRET "\r\n",
					       "Cookie: Bearer " SECRET "\r\n" };
	struct http_answer a;
	int fd;

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		assert_int_equal(status_of(*state, headers[i]), 401);
	fd = dial(*state);
	a = ask_on(fd, "");
	close(fd);
	assert_non_null(strstr(a.headers, "WWW-Authenticate: Bearer"));
	assert_non_null(strstr(a.body, "{\"error\": \""));
	assert_ptr_equal(strchr(a.body, '\n'), a.body + a.body_bytes - 1);
	assert_int_equal(handled, 0);
}

/* It is the request that is let in, not the connection. */
static void each_request_needs_it(void **state)
{
	int fd = dial(*state);

	assert_int_equal(ask_on(fd, RIGHT).status, 200);
	assert_int_equal(ask_on(fd, RIGHT).status, 200);
	assert_int_equal(ask_on(fd, "").status, 401);
	assert_int_equal(handled, 2);
	close(fd);
}

/* The answer comes although the announced body never does. */
static void no_body_is_waited_for(void **state)
{
	int fd = dial(*state);
	static const char text[] = "POST /v1/targets HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\nx";
	double began_s = http_probe__now_s();

	http_probe__send(fd, text, sizeof(text) - 1);
	assert_int_equal(http_probe__receive(fd).status, 401);
	assert_true(http_probe__now_s() - began_s < 5);
	assert_int_equal(handled, 0);
	close(fd);
}

/* They say nothing of the machine. What is like them needs it. */
static void pages_need_no_token(void **state)
{
	static const char *const pages[] = { "GET /", "GET /?x=1", "GET /flamegraph.html" };
	static const char *const others[] = { "POST /",         "DELETE /flamegraph.html",
					      "GET //",         "GET /flamegraph.html/",
					      "GET /live.html", "GET /v1/targets" };

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		int fd = dial(*state);
		struct http_answer a = ask_for(fd, pages[i], "");

		close(fd);
		assert_int_equal(a.status, 200);
		assert_non_null(strstr(a.headers, "Content-Security-Policy: default-src 'none';"));
		assert_non_null(strstr(a.headers, "X-Content-Type-Options: nosniff"));
		assert_non_null(strstr(a.headers, "Cache-Control: no-store"));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		int fd = dial(*state);

		assert_int_equal(ask_for(fd, others[i], "").status, 401);
		close(fd);
	}
	assert_int_equal(handled, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(with_the_token, setup, teardown),
		cmocka_unit_test_setup_teardown(without_it, setup, teardown),
		cmocka_unit_test_setup_teardown(each_request_needs_it, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_need_no_token, setup, teardown),
		cmocka_unit_test_setup_teardown(no_body_is_waited_for, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
