// SPDX-License-Identifier: GPL-2.0-or-later
/* The log's lines about denials. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/http/denials.h"
#include "daemon/os/limits.h"

static char text[16384];
static FILE *log_file;
static int saved;

/* Standard error goes to a file from here on. */
static void begin(void)
{
	log_file = tmpfile();
	assert_non_null(log_file);
	saved = dup(STDERR_FILENO);
	dup2(fileno(log_file), STDERR_FILENO);
}

static unsigned end(void)
{
	unsigned lines = 0;
	size_t n;

	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(log_file);
	n = fread(text, 1, sizeof(text) - 1, log_file);
	text[n] = '\0';
	fclose(log_file);
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	return lines;
}

/* A second of its own, in which nothing was said yet. */
static void fresh_second(void)
{
	usleep(1050 * 1000);
	denials__flush();
}

static void a_line_says_who_and_what(void **state)
{
	uint64_t before = denials__count();

	fresh_second();
	begin();
	denials__add(
		&(struct denial){ .uid = 0, .pid = 42, .method = "GET", .path = "/v1/x", .why = "because" });
	denials__add(&(struct denial){
		.uid = 3999999999u, .pid = 43, .method = "GET", .path = "/v1/x", .why = "because" });
	denials__add(&(struct denial){ .uid = DENIALS_NO_UID,
				       .from = "127.0.0.1 port 7",
				       .method = "GET",
				       .path = "/",
				       .why = "no token" });
	assert_int_equal(end(), 3);
	assert_non_null(strstr(text, "denied: uid 0 (root), pid 42: GET \"/v1/x\": because\n"));
	assert_non_null(strstr(text, "denied: uid 3999999999, pid 43: GET \"/v1/x\": because\n"));
	assert_non_null(strstr(text, "denied: 127.0.0.1 port 7: GET \"/\": no token\n"));
	assert_int_equal(denials__count(), before + 3);
}

static void a_path_cannot_forge_a_line(void **state)
{
	char path[3000];

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	memcpy(path, "/\nx\": y\"\x1b[2J", 13);
	fresh_second();
	begin();
	denials__add(&(struct denial){ .uid = 0, .method = "GET\r", .path = path, .why = "w" });
	assert_int_equal(end(), 1);
	assert_non_null(strstr(text, "GET? \"/?x': y'?[2J"));
	assert_null(strchr(text, '\x1b'));
	assert_true(strlen(text) < 400);
	assert_non_null(strstr(text, "\": w\n"));
}

static void a_flood_becomes_a_sum(void **state)
{
	struct pollfd timer = { .fd = denials__timer_fd(), .events = POLLIN };

	assert_true(timer.fd >= 0);
	fresh_second();
	begin();
	for (int i = 0; i < DENIALS_LINES_A_SECOND + 90; i++)
		denials__add(&(struct denial){ .uid = 0, .method = "GET", .path = "/", .why = "w" });
	assert_int_equal(poll(&timer, 1, 0), 0);
	assert_int_equal(poll(&timer, 1, 10000), 1);
	denials__flush();
	assert_int_equal(poll(&timer, 1, 0), 0);
	denials__flush(); /* nothing more */
	assert_int_equal(end(), DENIALS_LINES_A_SECOND + 1);
	assert_non_null(strstr(text, "denied: 90 more\n"));
}

static void the_next_line_brings_the_sum(void **state)
{
	fresh_second();
	begin();
	for (int i = 0; i < DENIALS_LINES_A_SECOND + 5; i++)
		denials__add(&(struct denial){ .uid = 0, .method = "GET", .path = "/", .why = "w" });
	usleep(1050 * 1000);
	denials__add(&(struct denial){ .uid = 0, .method = "GET", .path = "/last", .why = "w" });
	assert_int_equal(end(), DENIALS_LINES_A_SECOND + 2);
	assert_non_null(strstr(text, "denied: 5 more\nstakeoutd: denied: uid 0 (root), pid 0: GET \"/last\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_says_who_and_what),
		cmocka_unit_test(a_path_cannot_forge_a_line),
		cmocka_unit_test(a_flood_becomes_a_sum),
		cmocka_unit_test(the_next_line_brings_the_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
