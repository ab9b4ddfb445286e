// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/session/interrupt.h"
#include "client/session/output.h"

static char dir[PATH_MAX];

static int setup(void **state)
{
	strcpy(dir, "/tmp/stakeout-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	return 0;
}

static int files(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

static int teardown(void **state)
{
	DIR *d = opendir(dir);

	for (struct dirent *e; (e = readdir(d));)
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(dir), 0);
	return 0;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static const char *content(const char *path)
{
	static char text[256];
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static struct output *open_output(const char *path)
{
	struct output *output = NULL;
	struct so_error err = { .text = "" };

	if (output__open(path, &output, &err))
		fail_msg("%s", err.text);
	return output;
}

static void write_new(const char *path)
{
	struct output *output = open_output(path);
	struct so_error err = { .text = "" };

	fputs("a 1\nb 2\n", output__file(output));
	assert_int_equal(output__commit(output, &err), 0);
	assert_int_equal(output__lines(output), 2);
	output__free(output);
}

static void a_new_file(void **state)
{
	struct stat st;
	mode_t mask = umask(027);

	write_new("new.folded");
	umask(mask);
	assert_string_equal(content("new.folded"), "a 1\nb 2\n");
	assert_int_equal(stat("new.folded", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(files(), 1);
}

/* Two that are written at the same time, and one that was there, are three files. */
static void a_new_name_replaces_nothing(void **state)
{
	struct output *first, *second;
	struct so_error err = { .text = "" };

	put("kept.pb.gz", "old\n");
	assert_int_equal(output__open_new("kept", ".pb.gz", &first, &err), 0);
	assert_int_equal(output__open_new("kept", ".pb.gz", &second, &err), 0);
	fputs("first\n", output__file(first));
	fputs("second\n", output__file(second));
	assert_int_equal(output__commit(second, &err), 0);
	assert_int_equal(output__commit(first, &err), 0);
	assert_string_equal(output__name(second), "kept-2.pb.gz");
	assert_string_equal(output__name(first), "kept-3.pb.gz");
	assert_string_equal(content("kept.pb.gz"), "old\n");
	assert_string_equal(content("kept-2.pb.gz"), "second\n");
	assert_string_equal(content("kept-3.pb.gz"), "first\n");
	output__free(first);
	output__free(second);
	assert_int_equal(output__open_new("none", ".x", &first, &err), 0);
	output__free(first);
	assert_int_equal(files(), 3);
	assert_int_equal(output__open_new("/nonexistent/x", ".y", &first, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cannot write /nonexistent/x.y"));
}

static void nothing_shows_before_the_commit(void **state)
{
	struct output *output;

	put("old", "old\n");
	output = open_output("old");
	fputs("new\n", output__file(output));
	fflush(output__file(output));
	assert_string_equal(content("old"), "old\n");
	output__free(output);
	assert_string_equal(content("old"), "old\n");
	output = open_output("never");
	output__free(output);
	assert_int_equal(files(), 1);
}

static void an_existing_file_keeps_its_mode(void **state)
{
	struct stat st;

	put("old", "old, and longer than what comes\n");
	assert_int_equal(chmod("old", 0604), 0);
	write_new("old");
	assert_string_equal(content("old"), "a 1\nb 2\n");
	assert_int_equal(stat("old", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0604);
}

static void a_link_stays_one(void **state)
{
	struct stat st;

	put("real", "old\n");
	assert_int_equal(symlink("real", "link"), 0);
	write_new("link");
	assert_int_equal(lstat("link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_string_equal(content("real"), "a 1\nb 2\n");
	assert_int_equal(symlink("not-there", "dangling"), 0);
	write_new("dangling");
	assert_string_equal(content("not-there"), "a 1\nb 2\n");
}

static void a_name_of_full_length(void **state)
{
	char name[NAME_MAX + 1];

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	write_new(name);
	assert_string_equal(content(name), "a 1\nb 2\n");
}

static void a_place_that_cannot_be_written(void **state)
{
	static const char *const bad[] = { "no/such/dir/x", "/proc/x", "/", "." };
	char name[NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct output *output = NULL;
		struct so_error err = { .text = "" };

		assert_true(output__open(bad[i], &output, &err) < 0);
		assert_null(output);
		assert_non_null(strstr(err.text, bad[i]));
	}
	memset(name, 'n', NAME_MAX + 1);
	name[NAME_MAX + 1] = '\0';
	assert_int_equal(output__open(name, &(struct output *){ NULL }, NULL), -ENAMETOOLONG);
}

/* As root, which may write everywhere, there is nothing to refuse: a child without rights tries. */
static void a_file_without_permission(void **state)
{
	int status = -1;
	pid_t pid;

	if (getuid())
		skip();
	put("mine", "old\n");
	assert_int_equal(chmod("mine", 0644), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	pid = fork();
	if (pid == 0) {
		struct output *output = NULL;

		if (setuid(65534))
			_exit(9);
		/* although the directory would let it be replaced */
		_exit(output__open("mine", &output, NULL) == -EACCES ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(chmod("mine", 0666), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	pid = fork();
	if (pid == 0) {
		struct output *output = NULL;

		if (setuid(65534) || output__open("mine", &output, NULL))
			_exit(9);
		fputs("n\n", output__file(output));
		_exit(output__commit(output, NULL) ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_string_equal(content("mine"), "n\n");
}

static void a_full_disk(void **state)
{
	struct output *output = open_output("/dev/full");
	struct so_error err = { .text = "" };

	fputs("a 1\n", output__file(output));
	assert_int_equal(output__commit(output, &err), -ENOSPC);
	assert_string_equal(err.text, "cannot write /dev/full: No space left on device");
	output__free(output);
}

/* A limit on file size stands in for a disk that fills up: the old content stays, nothing else is left. */
static void a_disk_that_fills_up(void **state)
{
	int status = -1;
	pid_t pid;

	put("old", "old\n");
	pid = fork();
	if (pid == 0) {
		struct output *output = open_output("old");
		int ret;

		signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 100000, 100000 }))
			_exit(9);
		for (int i = 0; i < 50000; i++)
			fputs("stack 1\n", output__file(output));
		ret = output__commit(output, NULL);
		output__free(output);
		_exit(ret == -EFBIG ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_string_equal(content("old"), "old\n");
	assert_int_equal(files(), 1);
}

static void a_reader_that_left(void **state)
{
	struct so_error err = { .text = "x" };
	char path[32];
	struct output *output;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[1]);
	output = open_output(path);
	close(fds[0]);
	fputs("a 1\n", output__file(output));
	assert_int_equal(output__commit(output, &err), -EPIPE);
	assert_string_equal(err.text, "");
	output__free(output);
	close(fds[1]);
}

/* /dev/fd/N of a regular file continues what the shell opened, here with >>. */
static void a_descriptor_is_not_replaced(void **state)
{
	char path[32];
	int fd;

	put("log", "first\n");
	fd = open("log", O_WRONLY | O_APPEND);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	write_new(path);
	close(fd);
	assert_string_equal(content("log"), "first\na 1\nb 2\n");
}

static void a_pipe_by_name(void **state)
{
	int status = -1;
	pid_t pid;

	assert_int_equal(mkfifo("fifo", 0600), 0);
	pid = fork();
	if (pid == 0)
		_exit(strcmp(content("fifo"), "a 1\nb 2\n") ? 1 : 0);
	write_new("fifo");
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void the_second_interrupt_removes_files(void **state)
{
	int status = -1;
	pid_t pid;

	put("old", "old\n");
	pid = fork();
	if (pid == 0) {
		interrupt__install();
		open_output("old");
		raise(SIGINT);
		if (!interrupt__pending() || files() != 2)
			_exit(9);
		raise(SIGINT);
		_exit(8);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(files(), 1);
	assert_string_equal(content("old"), "old\n");
}

#define OUTPUT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OUTPUT_TEST(a_new_file),
		OUTPUT_TEST(a_new_name_replaces_nothing),
		OUTPUT_TEST(nothing_shows_before_the_commit),
		OUTPUT_TEST(an_existing_file_keeps_its_mode),
		OUTPUT_TEST(a_link_stays_one),
		OUTPUT_TEST(a_name_of_full_length),
		OUTPUT_TEST(a_place_that_cannot_be_written),
		OUTPUT_TEST(a_file_without_permission),
		OUTPUT_TEST(a_full_disk),
		OUTPUT_TEST(a_disk_that_fills_up),
		OUTPUT_TEST(a_reader_that_left),
		OUTPUT_TEST(a_descriptor_is_not_replaced),
		OUTPUT_TEST(a_pipe_by_name),
		OUTPUT_TEST(the_second_interrupt_removes_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
