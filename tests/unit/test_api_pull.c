// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Profiles that are pulled (/debug/pprof/profile), and recordings whose client is gone: what a connection's end does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/api_fixture.h"
#include "tests/unit/fake_engine.h"
#include "tests/unit/http_probe.h"

#define USER       1000
#define OTHER_USER 65534

static struct http_answer get(const char *url)
{
	return http_probe__request(http_probe__socket_path(), "GET", url, NULL);
}

static void pull_answers_a_profile(void **state)
{
	struct fixture *f = *state;
	double start_s = http_probe__now_s();
	struct http_answer a = get("/debug/pprof/profile?pid=5&seconds=0.3");

	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.headers, "application/octet-stream"));
	assert_memory_equal(a.body, "\x1f\x8b", 2);
	assert_true(http_probe__now_s() - start_s >= 0.3);
	assert_true(http_probe__now_s() - start_s < 2);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

/* An idle node is no failure of what pulls it: after the time there is a profile, of nothing. */
static void pull_of_all_when_nothing_is_watched(void **state)
{
	struct fixture *f = *state;
	double start_s = http_probe__now_s();
	struct http_answer a;

	api_fixture__attach(f, 0, "{\"pid\": 77}"); /* somebody's recording is not watched */
	a = get("/debug/pprof/profile?seconds=0.3");
	assert_int_equal(a.status, 200);
	assert_memory_equal(a.body, "\x1f\x8b", 2);
	assert_true(http_probe__now_s() - start_s >= 0.3);
	assert_int_equal(fake_engine__count(f->engine), 1);
}

static void pull_names_what_is_wrong(void **state)
{
	static const char *const bad[] = {
		"?pid=&seconds=1",
		"?pid=x",
		"?pid=0",
		"?pid=1x",
		"?pid=1&seconds=0",
		"?pid=1&seconds=",
		"?pid=1&seconds=nan",
		"?pid=1&seconds=-1",
		"?pid=1&seconds=3601",
	};
	struct fixture *f = *state;
	struct http_answer a;
	char url[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(url, sizeof(url), "/debug/pprof/profile%s", bad[i]);
		assert_int_equal(get(url).status, 400);
	}
	fake_engine__fail_attach(f->engine, -ESRCH, "no process 5");
	a = get("/debug/pprof/profile?pid=5&seconds=1");
	assert_int_equal(a.status, 404);
	assert_string_equal(a.body, "{\"error\":\"no process 5\"}\n");
}

static void wait_for_count(struct fixture *f, size_t want, double limit_s)
{
	double until_s = http_probe__now_s() + limit_s;

	while (fake_engine__count(f->engine) != want && http_probe__now_s() < until_s)
		usleep(2000);
	assert_int_equal(fake_engine__count(f->engine), want);
}

static void a_pull_ends_with_its_client(void **state)
{
	static const char request[] = "GET /debug/pprof/profile?pid=5&seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n";
	struct fixture *f = *state;
	int fd = http_probe__connect(http_probe__socket_path());

	http_probe__send(fd, request, sizeof(request) - 1);
	wait_for_count(f, 1, 60);
	close(fd);
	wait_for_count(f, 0, 50);
}

/* A client that only says that it will send no more still reads. */
static void a_half_closed_pull_goes_on(void **state)
{
	static const char request[] = "GET /debug/pprof/profile?pid=5&seconds=0.3 HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd = http_probe__connect(http_probe__socket_path());

	http_probe__send(fd, request, sizeof(request) - 1);
	shutdown(fd, SHUT_WR);
	assert_int_equal(http_probe__receive(fd).status, 200);
	close(fd);
}

static void a_pull_ends_with_its_target(void **state)
{
	static const char request[] = "GET /debug/pprof/profile?pid=5&seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n";
	struct fixture *f = *state;
	int fd = http_probe__connect(http_probe__socket_path());

	http_probe__send(fd, request, sizeof(request) - 1);
	wait_for_count(f, 1, 60);
	fake_engine__exit(f->engine, 1);
	assert_int_equal(http_probe__receive(fd).status, 200);
	wait_for_count(f, 0, 50);
	close(fd);
}

static void a_pull_ends_with_the_daemon(void **state)
{
	static const char request[] = "GET /debug/pprof/profile?pid=5&seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n";
	struct fixture *f = *state;
	int fd = http_probe__connect(http_probe__socket_path());
	struct http_answer a;

	http_probe__send(fd, request, sizeof(request) - 1);
	wait_for_count(f, 1, 60);
	api__cancel(f->api);
	a = http_probe__receive(fd);
	assert_int_equal(a.status, 503);
	assert_non_null(strstr(a.body, "shutting down"));
	wait_for_count(f, 0, 50);
	close(fd);
}

static void a_pull_delays_nobody(void **state)
{
	static const char request[] = "GET /debug/pprof/profile?pid=5&seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n";
	struct fixture *f = *state;
	int fd = http_probe__connect(http_probe__socket_path());
	double start_s = http_probe__now_s();

	http_probe__send(fd, request, sizeof(request) - 1);
	wait_for_count(f, 1, 60);
	assert_int_equal(get("/v1/targets").status, 200);
	assert_true(http_probe__now_s() - start_s < 2);
	close(fd);
}

static void a_whole_profile_comes_through(void **state)
{
	struct fixture *f = *state;
	size_t length = 7000;
	uint8_t *bytes = malloc(length);
	struct http_answer a;

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i * 7);
	fake_engine__set_profile(f->engine, bytes, length);
	api_fixture__attach(f, 0, "{\"pid\":1}");
	a = get("/v1/targets/1/profile");
	assert_int_equal(a.body_bytes, length);
	assert_memory_equal(a.body, bytes, length);
	free(bytes);
}

static void abandoned_recordings_end(void **state)
{
	struct fixture *f = *state;
	struct target_info info;

	api_fixture__attach(f, 0, "{\"pid\":1}");
	usleep(350 * 1000);
	assert_int_equal(engine__info(f->engine, 1, &info), 0);
	assert_int_equal(info.end, TARGET_END_STOPPED);
	wait_for_count(f, 0, 60);
}

static void asking_keeps_a_recording(void **state)
{
	struct fixture *f = *state;
	struct target_info info;

	api_fixture__attach(f, 0, "{\"pid\":1}");
	for (int i = 0; i < 12; i++) {
		usleep(50 * 1000);
		json_decref(api_fixture__call(f, 0, "GET", "/v1/targets/1", NULL, 200));
	}
	assert_int_equal(engine__info(f->engine, 1, &info), 0);
	assert_int_equal(info.state, TARGET_SAMPLING);
}

/* A duration ends a recording by itself; until then nobody needs to ask. */
static void a_duration_needs_no_asking(void **state)
{
	struct fixture *f = *state;
	struct target_info info;

	api_fixture__attach(f, 0, "{\"pid\":1,\"duration_s\":60}");
	api_fixture__attach(f, 0, "{\"pid\":2,\"keep\":true}");
	usleep(900 * 1000);
	assert_int_equal(engine__info(f->engine, 1, &info), 0);
	assert_int_equal(info.state, TARGET_SAMPLING);
	assert_int_equal(engine__info(f->engine, 2, &info), 0);
	assert_int_equal(info.state, TARGET_SAMPLING);
	fake_engine__exit(f->engine, 2);
	usleep(700 * 1000);
	assert_int_equal(engine__info(f->engine, 2, &info), 0); /* what is kept is kept */
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_fixture__setup, api_fixture__teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(pull_answers_a_profile),
		API_TEST(pull_of_all_when_nothing_is_watched),
		API_TEST(pull_names_what_is_wrong),
		API_TEST(a_pull_ends_with_its_client),
		API_TEST(a_half_closed_pull_goes_on),
		API_TEST(a_pull_ends_with_its_target),
		API_TEST(a_pull_ends_with_the_daemon),
		API_TEST(a_pull_delays_nobody),
		API_TEST(a_whole_profile_comes_through),
		cmocka_unit_test_setup_teardown(abandoned_recordings_end, api_fixture__setup_impatient,
						api_fixture__teardown),
		cmocka_unit_test_setup_teardown(asking_keeps_a_recording, api_fixture__setup_impatient,
						api_fixture__teardown),
		cmocka_unit_test_setup_teardown(a_duration_needs_no_asking, api_fixture__setup_impatient,
						api_fixture__teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
