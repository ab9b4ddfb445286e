// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/http/http_server.h"
#include "daemon/http/listen_socket.h"
#include "tests/unit/http_probe.h"

#define OTHER_USER 65534

static atomic_int handled, waiting;

/* Says back what it got; "/wait" takes until the client is gone. */
static void echo(void *context, const struct http_request *request, struct http_reply *reply)
{
	const char *argument = http_request__argument(request, "a");
	struct pollfd gone = { .fd = request->fd };
	char *text;
	int n;

	if (!strcmp(request->path, "/wait")) {
		waiting = 1;
		poll(&gone, 1, 60000);
	}
	n = asprintf(&text, "%s %s %s %u %zu %s", (const char *)context, request->method, request->path,
		     (unsigned)request->caller.uid, request->body_bytes, argument ? argument : "-");
	assert_true(n > 0);
	reply->status = 200;
	reply->content_type = "text/plain";
	reply->header = "X-Test";
	strcpy(reply->header_value, "yes");
	reply->body = (uint8_t *)text;
	reply->body_bytes = (size_t)n;
	handled++;
}

struct fixture {
	struct listen_socket *sock;
	struct http_server *server;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct so_error err = { .text = "" };

	assert_non_null(f);
	assert_int_equal(listen_socket__open(http_probe__socket_path(), 0666, -1, &f->sock, &err), 0);
	assert_int_equal(http_server__start(listen_socket__take_fd(f->sock), PEER_NO_GROUP, NULL, echo, (void *)"ctx",
					    &f->server, &err),
			 0);
	handled = waiting = 0;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	http_server__free(f->server);
	listen_socket__free(f->sock);
	free(f);
	return 0;
}

static struct http_answer request(const char *method, const char *url, const char *body)
{
	return http_probe__request(http_probe__socket_path(), method, url, body);
}

static void passes_requests_on(void **state)
{
	struct http_answer a = request("GET", "/x%20y?a=b%2fc", NULL);
	char want[64];

	assert_int_equal(a.status, 200);
	snprintf(want, sizeof(want), "ctx GET /x y %u 0 b/c", (unsigned)getuid());
	assert_string_equal(a.body, want);
	assert_non_null(strstr(a.headers, "X-Test: yes"));
	a = request("POST", "/p", "12345");
	snprintf(want, sizeof(want), "ctx POST /p %u 5 -", (unsigned)getuid());
	assert_string_equal(a.body, want);
}

static void knows_the_peer(void **state)
{
	struct http_answer a;

	if (getuid())
		skip();
	a = http_probe__request_as(OTHER_USER, http_probe__socket_path(), "GET", "/", NULL);
	assert_string_equal(a.body, "ctx GET / 65534 0 -");
}

static void keeps_connections_open(void **state)
{
	static const char get[] = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd = http_probe__connect(http_probe__socket_path());

	for (int i = 0; i < 3; i++) {
		http_probe__send(fd, get, sizeof(get) - 1);
		assert_int_equal(http_probe__receive(fd).status, 200);
	}
	close(fd);
}

static void takes_the_largest_body(void **state)
{
	char *body = malloc(HTTP_MAX_BODY_BYTES + 2);
	char want[64];
	struct http_answer a;

	memset(body, 'x', HTTP_MAX_BODY_BYTES + 1);
	body[HTTP_MAX_BODY_BYTES] = '\0';
	a = request("POST", "/", body);
	snprintf(want, sizeof(want), "ctx POST / %u %u -", (unsigned)getuid(), HTTP_MAX_BODY_BYTES);
	assert_string_equal(a.body, want);
	body[HTTP_MAX_BODY_BYTES] = 'x';
	body[HTTP_MAX_BODY_BYTES + 1] = '\0';
	a = request("POST", "/", body);
	assert_int_equal(a.status, 413);
	assert_string_equal(a.body, "{\"error\": \"the body is larger than 65536 bytes\"}\n");
	assert_int_equal(handled, 1);
	free(body);
}

/* Without Content-Length, the size shows only while the body comes in. */
static void refuses_a_large_chunked_body(void **state)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
	int fd = http_probe__connect(http_probe__socket_path());
	char chunk[4096 + 8];

	http_probe__send(fd, head, sizeof(head) - 1);
	memset(chunk, 'x', sizeof(chunk));
	memcpy(chunk, "1000\r\n", 6);
	memcpy(chunk + sizeof(chunk) - 2, "\r\n", 2);
	for (int i = 0; i < 17; i++)
		http_probe__send(fd, chunk, sizeof(chunk));
	http_probe__send(fd, "0\r\n\r\n", 5);
	assert_int_equal(http_probe__receive(fd).status, 413);
	close(fd);
}

/* One that never ends is cut off. */
static void drops_an_endless_body(void **state)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
	int fd = http_probe__connect(http_probe__socket_path());
	char chunk[4096 + 8];
	int i;

	http_probe__send(fd, head, sizeof(head) - 1);
	memset(chunk, 'x', sizeof(chunk));
	memcpy(chunk, "1000\r\n", 6);
	memcpy(chunk + sizeof(chunk) - 2, "\r\n", 2);
	for (i = 0; i < 4096; i++)
		if (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) < 0)
			break;
	assert_true(i < 4096);
	close(fd);
	assert_int_equal(request("GET", "/", NULL).status, 200);
}

static void survives_what_is_not_http(void **state)
{
	static const char *const rubbish[] = {
		"\r\n\r\n",
		"GET\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET /%zz?a=%&=&& HTTP/1.1\r\nHost: x\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		int fd = http_probe__connect(http_probe__socket_path());

		http_probe__send(fd, rubbish[i], strlen(rubbish[i]));
		shutdown(fd, SHUT_WR);
		http_probe__receive(fd);
		close(fd);
	}
	assert_int_equal(request("GET", "/", NULL).status, 200);
}

static void refuses_endless_headers(void **state)
{
	int fd = http_probe__connect(http_probe__socket_path());
	int status;

	http_probe__send(fd, "GET / HTTP/1.1\r\nHost: x\r\n", 25);
	for (int i = 0; i < 4096; i++)
		http_probe__send(fd, "X-Header: 0123456789012345678901234567890123456789\r\n", 52);
	status = http_probe__receive(fd).status;
	assert_true(status == 0 || status >= 400);
	close(fd);
	assert_int_equal(handled, 0);
	assert_int_equal(request("GET", "/", NULL).status, 200);
}

static void slow_clients_delay_nobody(void **state)
{
	double start_s = http_probe__now_s();
	int slow[8];

	for (int i = 0; i < 8; i++) {
		slow[i] = http_probe__connect(http_probe__socket_path());
		http_probe__send(slow[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
				 i % 2 ? 20 : 52);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(request("GET", "/", NULL).status, 200);
	assert_true(http_probe__now_s() - start_s < 2);
	for (int i = 0; i < 8; i++)
		close(slow[i]);
}

static void a_waiting_handler_delays_nobody(void **state)
{
	int fd = http_probe__connect(http_probe__socket_path());

	http_probe__send(fd, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", 31);
	/* A request whose client is gone before it is read gets no handler. */
	for (unsigned i = 0; i < 60000 && !waiting; i++)
		usleep(1000);
	assert_int_equal(waiting, 1);
	assert_int_equal(request("GET", "/", NULL).status, 200);
	assert_int_equal(handled, 1); /* the other one waits still */
	close(fd);                    /* which the handler sees, long before it has waited enough */
	for (unsigned i = 0; i < 40000 && handled < 2; i++)
		usleep(1000);
	assert_int_equal(handled, 2);
}

/* Runs as another user: fills its share, and reports what the next connection is told. */
static int fill_share(void)
{
	int fds[HTTP_MAX_USER_CONNECTIONS], fd, status;

	if (setuid(OTHER_USER))
		return 1;
	for (int i = 0; i < HTTP_MAX_USER_CONNECTIONS; i++)
		fds[i] = http_probe__connect(http_probe__socket_path());
	fd = http_probe__connect(http_probe__socket_path());
	status = http_probe__receive(fd).status;
	close(fd);
	for (int i = 0; i < HTTP_MAX_USER_CONNECTIONS; i++)
		close(fds[i]);
	return status == 503 ? 0 : 2;
}

static void one_user_cannot_shut_out_others(void **state)
{
	int status = -1;
	pid_t pid;

	if (getuid())
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fill_share());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* what it had is given back */
	for (int i = 0; i < 2000; i++) {
		struct http_answer a = http_probe__request_as(OTHER_USER, http_probe__socket_path(), "GET", "/", NULL);

		if (a.status == 200)
			return;
		usleep(20000);
	}
	fail_msg("the user stays shut out");
}

static void refuses_a_second_daemon(void **state)
{
	struct listen_socket *second = NULL;
	struct so_error err = { .text = "" };

	assert_int_equal(listen_socket__open(http_probe__socket_path(), 0600, -1, &second, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "already running"));
	assert_null(second);
	assert_int_equal(request("GET", "/", NULL).status, 200);
}

static void replaces_a_stale_socket(void **state)
{
	const char *path = http_probe__socket_path();
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct listen_socket *sock = NULL;
	struct so_error err = { .text = "" };
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd); /* the file stays, as after a kill */
	assert_int_equal(listen_socket__open(path, 0620, -1, &sock, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0620);
	listen_socket__free(sock);
	assert_int_equal(access(path, F_OK), -1);
}

static void leaves_other_files_alone(void **state)
{
	const char *path = http_probe__socket_path();
	struct listen_socket *sock = NULL;
	struct so_error err = { .text = "" };
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	close(fd);
	assert_int_equal(listen_socket__open(path, 0600, -1, &sock, &err), -EEXIST);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	/* nor does it remove a socket that took its place */
	assert_int_equal(listen_socket__open(path, 0600, -1, &sock, &err), 0);
	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	listen_socket__free(sock);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void names_what_is_wrong_with_a_path(void **state)
{
	struct listen_socket *sock = NULL;
	struct so_error err = { .text = "" };
	char path[200];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(listen_socket__open(path, 0600, -1, &sock, &err), -ENAMETOOLONG);
	assert_int_equal(listen_socket__open("", 0600, -1, &sock, &err), -ENAMETOOLONG);
	assert_int_equal(listen_socket__open("/nonexistent/dir/sock", 0600, -1, &sock, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/dir"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(passes_requests_on, setup, teardown),
		cmocka_unit_test_setup_teardown(knows_the_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(keeps_connections_open, setup, teardown),
		cmocka_unit_test_setup_teardown(takes_the_largest_body, setup, teardown),
		cmocka_unit_test_setup_teardown(refuses_a_large_chunked_body, setup, teardown),
		cmocka_unit_test_setup_teardown(drops_an_endless_body, setup, teardown),
		cmocka_unit_test_setup_teardown(survives_what_is_not_http, setup, teardown),
		cmocka_unit_test_setup_teardown(refuses_endless_headers, setup, teardown),
		cmocka_unit_test_setup_teardown(slow_clients_delay_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(a_waiting_handler_delays_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(one_user_cannot_shut_out_others, setup, teardown),
		cmocka_unit_test_setup_teardown(refuses_a_second_daemon, setup, teardown),
		cmocka_unit_test(replaces_a_stale_socket),
		cmocka_unit_test(leaves_other_files_alone),
		cmocka_unit_test(names_what_is_wrong_with_a_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
