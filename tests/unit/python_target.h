/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CPythons of this machine, and one of them running a script as a child: it prints lines, which the test reads, and
 * reads lines, which the test writes. The child dies with the test.
 *
 *	struct python_interpreter found[PYTHON_TARGET_MAX];
 *	size_t n = python_target__list(found, PYTHON_TARGET_MAX);
 *	...
 *	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
 *	char line[256];
 *
 *	assert_int_equal(python_target__start(found[0].path, "print('ready', flush=True)\ninput()\n", &target), 0);
 *	assert_true(python_target__line(&target, line, sizeof(line)));
 */
#ifndef STAKEOUT_TESTS_PYTHON_TARGET_H
#define STAKEOUT_TESTS_PYTHON_TARGET_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

#define PYTHON_TARGET_MAX        32
#define PYTHON_TARGET_TIMEOUT_MS 30000

struct python_interpreter {
	char path[PATH_MAX];
	unsigned major, minor, micro;
};

struct python_target {
	pid_t pid;
	int output, input;
	char buffer[8192];
	size_t held;
};

#define PYTHON_TARGET_NONE                          \
	{                                           \
		.pid = 0, .output = -1, .input = -1 \
	}

static inline void python_target__close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Ends the child and closes its pipes; may be called again. */
static inline void python_target__stop(struct python_target *target)
{
	if (target->pid > 0) {
		kill(target->pid, SIGKILL);
		while (waitpid(target->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	target->pid = 0;
	python_target__close(&target->output);
	python_target__close(&target->input);
}

static inline void cleanup__python_target(struct python_target *target)
{
	python_target__stop(target);
}

/* Starts a program; its standard input and output become the target's pipes. argv ends in NULL. */
static inline int python_target__run(char *const *argv, struct python_target *out)
{
	struct python_target target = PYTHON_TARGET_NONE;
	int in[2], from[2];
	pid_t parent = getpid();

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(from, O_CLOEXEC) < 0) {
		int r = -errno;

		close(in[0]);
		close(in[1]);
		return r;
	}
	fflush(NULL);
	target.pid = fork();
	if (target.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(127);
		dup2(in[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execv(argv[0], argv);
		_exit(127);
	}
	close(in[0]);
	close(from[1]);
	target.input = in[1];
	target.output = from[0];
	if (target.pid < 0) {
		int r = -errno;

		python_target__stop(&target);
		return r;
	}
	*out = target;
	return 0;
}

/* Runs `path -s -E -W ignore -c script`. */
static inline int python_target__start(const char *path, const char *script, struct python_target *out)
{
	char *argv[] = { (char *)path,     (char *)"-s", (char *)"-E",   (char *)"-W",
			 (char *)"ignore", (char *)"-c", (char *)script, NULL };

	return python_target__run(argv, out);
}

/* The next line that the child printed, without its newline. False: it ended, said nothing in time, or too much. */
static inline bool python_target__line(struct python_target *target, char *line, size_t size)
{
	for (;;) {
		char *newline = (char *)memchr(target->buffer, '\n', target->held);
		struct pollfd ready = { .fd = target->output, .events = POLLIN };
		ssize_t n;

		if (newline) {
			size_t length = (size_t)(newline - target->buffer);

			snprintf(line, size, "%.*s", (int)length, target->buffer);
			target->held -= length + 1;
			memmove(target->buffer, newline + 1, target->held);
			return true;
		}
		if (target->held == sizeof(target->buffer))
			return false;
		if (poll(&ready, 1, PYTHON_TARGET_TIMEOUT_MS) <= 0)
			return false;
		n = read(target->output, target->buffer + target->held, sizeof(target->buffer) - target->held);
		if (n <= 0)
			return false;
		target->held += (size_t)n;
	}
}

/* Writes to the child's standard input. */
static inline bool python_target__say(struct python_target *target, const char *text)
{
	size_t length = strlen(text);

	return write(target->input, text, length) == (ssize_t)length;
}

static inline int python_target__compare(const void *a, const void *b)
{
	const struct python_interpreter *x = (const struct python_interpreter *)a;
	const struct python_interpreter *y = (const struct python_interpreter *)b;

	if (x->minor != y->minor)
		return x->minor < y->minor ? -1 : 1;
	if (x->micro != y->micro)
		return x->micro < y->micro ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* Asks one interpreter what it is; false when it is no CPython 3 that runs here. */
static inline bool python_target__ask(const char *path, struct python_interpreter *out)
{
	static const char script[] = "import sys; print(sys.implementation.name, *sys.version_info[:3])";
	struct python_target target = PYTHON_TARGET_NONE;
	bool good;
	char line[128];

	if (access(path, X_OK) < 0 || python_target__start(path, script, &target) < 0)
		return false;
	good = python_target__line(&target, line, sizeof(line)) &&
	       sscanf(line, "cpython %u %u %u", &out->major, &out->minor, &out->micro) == 3 && out->major == 3;
	python_target__stop(&target);
	snprintf(out->path, sizeof(out->path), "%s", path);
	return good;
}

static inline void python_target__add(const char *path, struct python_interpreter *out, size_t room, size_t *n)
{
	if (*n < room && python_target__ask(path, &out[*n]))
		(*n)++;
}

/*
 * All CPython 3 of pyenv ($PYENV_ROOT, else ~/.pyenv), /usr/bin/python3, and those that $STAKEOUT_PYTHONS lists, with
 * ":" between them; oldest first. Returns their number.
 */
static inline size_t python_target__list(struct python_interpreter *out, size_t room)
{
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME"), *more = getenv("STAKEOUT_PYTHONS");
	_cleanup_free_ char *listed = strdup(more ? more : "");
	char pattern[PATH_MAX], *rest = NULL;
	glob_t found;
	size_t n = 0;

	python_target__add("/usr/bin/python3", out, room, &n);
	for (char *path = strtok_r(listed, ":", &rest); path; path = strtok_r(NULL, ":", &rest))
		python_target__add(path, out, room, &n);
	if (root)
		snprintf(pattern, sizeof(pattern), "%s/versions/*/bin/python3", root);
	else
		snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/*/bin/python3", home ? home : "");
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			python_target__add(found.gl_pathv[i], out, room, &n);
		globfree(&found);
	}
	qsort(out, n, sizeof(*out), python_target__compare);
	return n;
}

#endif
