// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of settings, and the daemon's options out of them and out of flags. */
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

#include "daemon/os/config_file.h"
#include "daemon/options.h"
#include "stakeout/cleanup.h"

static const struct daemon_options defaults = { .ready_fd = -1, .socket_mode = 0600 };

struct log {
	char text[512];
};

static int note(void *context, const char *name, const char *value, struct so_error *err)
{
	struct log *log = context;

	strcat(strcat(strcat(strcat(log->text, name), "="), value), ";");
	return strcmp(name, "bad") ? 0 : so_err(err, -ERANGE, "bad it is");
}

static int parse(const char *text, size_t n, struct log *log, struct so_error *err)
{
	_cleanup_free_ char *copy = malloc(n + 1);

	assert_non_null(copy);
	memcpy(copy, text, n);
	copy[n] = '\0';
	return config_file__parse(copy, n, "file", note, log, err);
}

static void settings_come_in_order(void **state)
{
	static const char text[] = "# a comment\n\n a = b \r\n\tc-d=e = f # g\n  # = x\nlast =\tz";
	struct log log = { "" };

	assert_int_equal(parse(text, sizeof(text) - 1, &log, NULL), 0);
	assert_string_equal(log.text, "a=b;c-d=e = f # g;last=z;");
	log.text[0] = '\0';
	assert_int_equal(parse("", 0, &log, NULL), 0);
	assert_string_equal(log.text, "");
}

static void expect_bad(const char *text, size_t n, int code, const char *words)
{
	struct so_error err = { "" };
	struct log log = { "" };

	assert_int_equal(parse(text, n, &log, &err), code);
	if (strcmp(err.text, words))
		fail_msg("\"%s\" instead of \"%s\"", err.text, words);
}

static void errors_name_file_and_line(void **state)
{
	expect_bad("a = b\nword\n", 11, -EINVAL, "file:2: not 'option = value': 'word'");
	expect_bad("\n\n= b", 5, -EINVAL, "file:3: not 'option = value': '= b'");
	expect_bad("a =  \n", 6, -EINVAL, "file:1: 'a' has no value");
	expect_bad("a = b\nc = \0d\n", 13, -EINVAL, "file:2: a NUL byte, this is no text");
	expect_bad("a = b\nbad = c\nd = e\n", 20, -ERANGE, "file:2: bad it is");
}

static const char *made_file(const char *text)
{
	static char path[64];
	FILE *f;
	int fd;

	strcpy(path, "/tmp/stakeout-test-XXXXXX");
	fd = mkstemp(path);
	f = fdopen(fd, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	return path;
}

static void files_that_are_none(void **state)
{
	struct so_error err = { "" };
	_cleanup_free_ char *large = malloc(CONFIG_FILE_MAX_BYTES + 2);
	char *text = NULL;
	const char *path;
	size_t n = 7;

	assert_int_equal(config_file__read("/nonexistent/file", &text, &n, &err), -ENOENT);
	assert_int_equal(config_file__read("/tmp", &text, &n, &err), -EINVAL);
	assert_int_equal(config_file__read("/dev/zero", &text, &n, &err), -EINVAL);
	memset(large, '#', CONFIG_FILE_MAX_BYTES + 1);
	large[CONFIG_FILE_MAX_BYTES + 1] = '\0';
	path = made_file(large);
	assert_int_equal(config_file__read(path, &text, &n, &err), -EFBIG);
	assert_null(text);
	assert_int_equal(n, 7);
	unlink(path);
	large[CONFIG_FILE_MAX_BYTES] = '\0';
	path = made_file(large);
	assert_int_equal(config_file__read(path, &text, &n, &err), 0);
	assert_int_equal(n, CONFIG_FILE_MAX_BYTES);
	assert_string_equal(text, large);
	free(text);
	unlink(path);
}

static int apply(const char *text, struct daemon_options *options, struct so_error *err)
{
	/* The options point into it. */
	static char copy[512];

	assert_true(strlen(text) < sizeof(copy));
	strcpy(copy, text);
	return daemon_options__apply_config(copy, strlen(copy), "file", options, err);
}

static void file_sets_options(void **state)
{
	struct daemon_options options = defaults;

	assert_int_equal(
		apply("socket = /a b\nsocket-mode = 0660\nlisten = 127.0.0.1:9\nlisten-anywhere = yes\n"
		      "token-file = /t\ncache-dir = /c\nno-cache = no\n",
		      &options, NULL),
		0);
	assert_string_equal(options.socket, "/a b");
	assert_int_equal(options.socket_mode, 0660);
	assert_string_equal(options.listen, "127.0.0.1:9");
	assert_true(options.listen_anywhere);
	assert_string_equal(options.token_file, "/t");
	assert_string_equal(options.cache_dir, "/c");
	options = defaults;
	assert_int_equal(apply("no-cache = yes", &options, NULL), 0);
	assert_string_equal(options.cache_dir, "");
}

static void file_sets_nothing_else(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "private = yes", "file:1: unknown option 'private'" },
		{ "ready-fd = 3", "file:1: unknown option 'ready-fd'" },
		{ "config = /x", "file:1: unknown option 'config'" },
		{ "help = yes", "file:1: unknown option 'help'" },
		{ "sock = /x", "file:1: unknown option 'sock'" }, /* no abbreviations, as flags have them */
		{ "--socket = /x", "file:1: unknown option '--socket'" },
		{ "socket = /a\n\nsocket = /b", "file:3: 'socket' is set a second time" },
		{ "no-cache = true", "file:1: 'no-cache' is yes or no, not 'true'" },
		{ "socket-mode = 888", "file:1: --socket-mode needs an octal number up to 0777, not '888'" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct daemon_options options = defaults;
		struct so_error err = { "" };

		assert_int_equal(apply(cases[i].text, &options, &err), -EINVAL);
		if (strcmp(err.text, cases[i].words))
			fail_msg("\"%s\" instead of \"%s\"", err.text, cases[i].words);
		assert_memory_equal(&options, &defaults, sizeof(options));
	}
}

#define PARSE(default_config, out, err, ...)                                                                   \
	({                                                                                                     \
		char *argv_[] = { "stakeoutd", __VA_ARGS__ __VA_OPT__(, ) NULL };                              \
		daemon_options__parse((int)(sizeof(argv_) / sizeof(argv_[0])) - 1, argv_, default_config, out, \
				      err);                                                                    \
	})

static void flags_win(void **state)
{
	const char *path = made_file("socket = /of/file\ncache-dir = /cache\nsocket-mode = 640\n");
	struct daemon_options options;

	assert_int_equal(PARSE(path, &options, NULL, "--no-cache", "--socket", "/of/flag"), 0);
	assert_string_equal(options.socket, "/of/flag");
	assert_string_equal(options.cache_dir, "");
	assert_int_equal(options.socket_mode, 0640);
	daemon_options__release(&options);
	/* A file that is named takes the place of the default one. */
	assert_int_equal(PARSE("/nonexistent", &options, NULL, "--config", (char *)path), 0);
	assert_string_equal(options.socket, "/of/file");
	daemon_options__release(&options);
	unlink(path);
}

static void which_file_is_read(void **state)
{
	const char *path = made_file("nonsense\n");
	struct daemon_options options;
	struct so_error err = { "" };

	assert_int_equal(PARSE("/nonexistent", &options, NULL), 0);
	assert_null(options.socket);
	assert_int_equal(PARSE(NULL, &options, &err, "--config", "/nonexistent"), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent"));
	assert_int_equal(PARSE(path, &options, &err), -EINVAL);
	assert_non_null(strstr(err.text, ":1: not 'option = value'"));
	/* Not for one client's own daemon, and not where something is only printed. */
	assert_int_equal(PARSE(path, &options, NULL, "--private"), 0);
	assert_int_equal(PARSE(path, &options, NULL, "--help"), 0);
	assert_int_equal(PARSE(path, &options, NULL, "--version"), 0);
	assert_int_equal(PARSE(path, &options, NULL, "--check-json"), 0);
	assert_int_equal(PARSE(NULL, &options, &err, "--private", "--config", (char *)path), -EINVAL);
	unlink(path);
}

static void tcp_needs_a_token(void **state)
{
	struct daemon_options options;
	struct so_error err = { "" };

	assert_int_equal(PARSE(NULL, &options, &err, "--listen", "127.0.0.1:1"), -EINVAL);
	assert_non_null(strstr(err.text, "--token-file"));
	assert_int_equal(PARSE(NULL, &options, &err, "--token-file", "/t"), -EINVAL);
	assert_int_equal(PARSE(NULL, &options, &err, "--listen-anywhere"), -EINVAL);
	assert_int_equal(PARSE(NULL, &options, &err, "--listen", "127.0.0.1:1", "--token-file", "/t"), 0);
}

static void check_places(const char *config, const char *flag, const char *value, const char *store,
			 const char *cache)
{
	const char *path = made_file(config);
	struct daemon_options options;
	int ret = flag ? PARSE(path, &options, NULL, (char *)flag, (char *)value) : PARSE(path, &options, NULL);

	assert_int_equal(ret, 0);
	if (store)
		assert_string_equal(options.store_dir, store);
	else
		assert_null(options.store_dir);
	if (cache)
		assert_string_equal(options.cache_dir, cache);
	else
		assert_null(options.cache_dir);
	daemon_options__release(&options);
	unlink(path);
}

static void a_service_has_its_directories(void **state)
{
	struct daemon_options options;

	check_places("", NULL, NULL, NULL, NULL);
	setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two", 1);
	setenv("CACHE_DIRECTORY", "/var/cache/one:/var/cache/two", 1);
	check_places("", NULL, NULL, "/var/lib/one", "/var/cache/one");
	/* With it, the options of a history need no "store". */
	check_places("retain-size = 1G\n", NULL, NULL, "/var/lib/one", "/var/cache/one");
	/* The file wins, and so do flags. */
	check_places("store = /s\ncache-dir = /c\n", NULL, NULL, "/s", "/c");
	check_places("no-store = yes\nno-cache = yes\nwindow = 5\n", NULL, NULL, "", "");
	check_places("no-store = no\n", NULL, NULL, "/var/lib/one", "/var/cache/one");
	check_places("no-store = yes\n", "--store", "/f", "/f", "/var/cache/one");
	check_places("store = /s\n", "--cache-dir", "/f", "/s", "/f");
	/* Not those of a service that a client or a command belongs to. */
	assert_int_equal(PARSE(NULL, &options, NULL, "--private"), 0);
	assert_null(options.store_dir);
	assert_null(options.cache_dir);
	assert_int_equal(PARSE(NULL, &options, NULL, "--check-json"), 0);
	assert_null(options.store_dir);
	assert_int_equal(PARSE(NULL, &options, NULL, "--no-store", "--retain-age", "1d"), 0);
	assert_string_equal(options.store_dir, "");
	daemon_options__release(&options);
	setenv("STAKEOUT_CACHE_DIR", "/of/the/user", 1);
	check_places("", NULL, NULL, "/var/lib/one", NULL);
	setenv("STAKEOUT_CACHE_DIR", "", 1);
	setenv("STATE_DIRECTORY", "", 1);
	setenv("CACHE_DIRECTORY", "relative", 1);
	check_places("", NULL, NULL, NULL, NULL);
	setenv("STATE_DIRECTORY", "/var/lib/one", 1);
	check_places("", NULL, NULL, "/var/lib/one", NULL);
	unsetenv("STATE_DIRECTORY");
	unsetenv("CACHE_DIRECTORY");
	unsetenv("STAKEOUT_CACHE_DIR");
}

static void rules_add_up(void **state)
{
	const char *path = made_file("match = cmd=\"a b\" user=root\nsocket = /s\nmatch=train\n");
	struct daemon_options options;
	struct so_error err = { "" };
	char many[MATCH_RULES_MAX * 16] = "";

	assert_int_equal(PARSE(path, &options, NULL, "--match", "x = y", "--match", "z"), 0);
	assert_int_equal(options.n_matches, 4);
	assert_string_equal(options.matches[0], "cmd=\"a b\" user=root");
	assert_string_equal(options.matches[1], "train");
	assert_string_equal(options.matches[2], "x = y");
	assert_string_equal(options.matches[3], "z");
	daemon_options__release(&options);
	unlink(path);
	options = defaults;
	assert_int_equal(apply("socket = /s\nmatch = a(", &options, &err), -EINVAL);
	assert_non_null(strstr(err.text, "file:2: --match: 'a(': not a regular expression"));
	assert_int_equal(options.n_matches, 0);
	assert_int_equal(PARSE(NULL, &options, &err, "--match", ""), -EINVAL);
	assert_string_equal(err.text, "--match: a rule without a word");
	for (int i = 0; i < MATCH_RULES_MAX; i++)
		strcat(many, "match=a\n");
	options = defaults;
	assert_int_equal(apply(many, &options, &err), 0);
	assert_int_equal(options.n_matches, MATCH_RULES_MAX);
	strcat(many, "match=a");
	options = defaults;
	assert_int_equal(apply(many, &options, &err), -EINVAL);
	assert_string_equal(err.text, "file:33: --match: there are 32 rules at most");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_come_in_order), cmocka_unit_test(errors_name_file_and_line),
		cmocka_unit_test(files_that_are_none),    cmocka_unit_test(file_sets_options),
		cmocka_unit_test(file_sets_nothing_else), cmocka_unit_test(flags_win),
		cmocka_unit_test(which_file_is_read),     cmocka_unit_test(tcp_needs_a_token),
		cmocka_unit_test(rules_add_up),           cmocka_unit_test(a_service_has_its_directories),
	};

	/* Of whoever runs this. */
	unsetenv("STATE_DIRECTORY");
	unsetenv("CACHE_DIRECTORY");
	unsetenv("STAKEOUT_CACHE_DIR");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
