// SPDX-License-Identifier: GPL-2.0-or-later
/* The TCP door: who gets in, and where it may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/http/tcp_door.h"
#include "daemon/http/token.h"

#define SECRET "0123456789abcdefXYZ=="

static int read_text(const char *text, size_t n, mode_t mode, struct token **out, struct so_error *err)
{
	char path[] = "/tmp/stakeout-test-XXXXXX";
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	ret = token__read(path, out, err);
	unlink(path);
	return ret;
}

static struct token *made(void)
{
	struct token *token = NULL;

	assert_int_equal(read_text(SECRET "\n", sizeof(SECRET), 0600, &token, NULL), 0);
	return token;
}

static void only_the_token_matches(void **state)
{
	_cleanup_(token) struct token *token = made();

	assert_true(token__matches(token, "Bearer " SECRET));
	assert_true(token__matches(token, "bearer   " SECRET));
	assert_false(token__matches(token, NULL));
	assert_false(token__matches(token, ""));
	assert_false(token__matches(token, "Bearer"));
	assert_false(token__matches(token, "Bearer "));
	assert_false(token__matches(token, SECRET));
	assert_false(token__matches(token, "Basic " SECRET));
	assert_false(token__matches(token, "Bearer " SECRET "x"));
	assert_false(token__matches(token, "Bearer " SECRET " "));
	assert_false(token__matches(token, "Bearer " SECRET SECRET)); /* the token again and again */
	assert_false(token__matches(token, "Bearer 0123456789abcdefXYZ="));
	for (size_t i = 0; i < sizeof(SECRET) - 1; i++) {
		char wrong[] = "Bearer " SECRET;

		wrong[7 + i] ^= 1;
		assert_false(token__matches(token, wrong));
	}
}

static void files_that_hold_none(void **state)
{
	static const char *const texts[] = { "",
					     "\n",
					     "short",
					     "0123456789 abcdef",
					     "0123456789abcdef\nmore",
					     "0123456789abcdef\n\n",
					     "================",
					     "0123456789=abcdef" };
	char large[300];
	struct token *token = NULL;
	struct so_error err;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		err.text[0] = '\0';
		assert_int_equal(read_text(texts[i], strlen(texts[i]), 0600, &token, &err), -EINVAL);
		assert_non_null(strstr(err.text, "must hold one line"));
		assert_true(!texts[i][0] || texts[i][0] == '\n' || !strstr(err.text, texts[i]));
	}
	memset(large, 'a', sizeof(large));
	assert_int_equal(read_text(large, TOKEN_MAX_CHARS + 1, 0600, &token, &err), -EINVAL);
	assert_int_equal(read_text(large, sizeof(large), 0600, &token, &err), -EINVAL);
	assert_int_equal(read_text("0123456789abcdef\0x", 18, 0600, &token, &err), -EINVAL);
	assert_int_equal(token__read("/nonexistent", &token, &err), -ENOENT);
	assert_int_equal(token__read("/tmp", &token, &err), -EINVAL);
	assert_null(token);
	assert_int_equal(read_text(large, TOKEN_MAX_CHARS, 0600, &token, &err), 0);
	token__free(token);
}

static void files_that_others_know(void **state)
{
	struct token *token = NULL;
	struct so_error err = { "" };

	assert_int_equal(read_text(SECRET, sizeof(SECRET) - 1, 0644, &token, &err), -EACCES);
	assert_non_null(strstr(err.text, "chmod 600"));
	assert_int_equal(read_text(SECRET, sizeof(SECRET) - 1, 0620, &token, &err), -EACCES);
	assert_int_equal(read_text(SECRET, sizeof(SECRET) - 1, 0601, &token, &err), -EACCES);
	assert_null(token);
	assert_int_equal(read_text(SECRET, sizeof(SECRET) - 1, 0640, &token, &err), 0); /* a group of its own */
	token__free(token);
}

static int open_door(const char *text, bool anywhere, struct so_error *err)
{
	char name[TCP_DOOR_NAME];
	int fd = -1, ret = tcp_door__open(text, anywhere, &fd, name, err);

	assert_true(ret ? fd == -1 : fd >= 0);
	if (fd >= 0)
		close(fd);
	return ret;
}

static void doors(void **state)
{
	static const char *const bad[] = { "",
					   "9464",
					   ":9464",
					   "127.0.0.1",
					   "127.0.0.1:",
					   "localhost:1",
					   "127.0.0.1:65536",
					   "127.0.0.1:-1",
					   "127.0.0.1:1x",
					   "::1:80",
					   "[::1]",
					   "[]:80",
					   "[127.0.0.1]:80",
					   "127.0.0.1:000000",
					   "[::1:80" };
	struct so_error err = { "" };
	char name[TCP_DOOR_NAME] = "";
	int fd = -1, again = -1;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(open_door(bad[i], true, &err), -EINVAL);
	assert_int_equal(open_door("0.0.0.0:0", false, &err), -EPERM);
	assert_non_null(strstr(err.text, "--listen-anywhere"));
	assert_int_equal(open_door("[::]:0", false, &err), -EPERM);
	assert_int_equal(open_door("[::ffff:127.0.0.1]:0", false, &err), -EPERM);
	assert_int_equal(open_door("128.0.0.1:0", false, &err), -EPERM);
	assert_int_equal(open_door("0.0.0.0:0", true, &err), 0);
	assert_int_equal(open_door("127.8.8.8:0", false, &err), 0);
	assert_int_equal(tcp_door__open("127.0.0.1:0", false, &fd, name, &err), 0);
	assert_int_equal(strncmp(name, "127.0.0.1:", 10), 0);
	assert_true(atoi(name + 10) > 0);
	assert_int_equal(tcp_door__open(name, false, &again, name, &err), -EADDRINUSE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_token_matches),
		cmocka_unit_test(files_that_hold_none),
		cmocka_unit_test(files_that_others_know),
		cmocka_unit_test(doors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
