// SPDX-License-Identifier: GPL-2.0-or-later
/* `stakeout dump` against the daemon's API with an engine that is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/session/message.h"
#include "daemon/api/api.h"
#include "daemon/http/listen_socket.h"
#include "daemon/profile/profile_builder.h"
#include "tests/unit/fake_engine.h"
#include "tests/unit/http_probe.h"

#define MAX_WORDS 16

struct fixture {
	struct engine *engine;
	struct api *api;
	struct listen_socket *sock;
	struct http_server *server;
	struct globals globals;
	pid_t child; /* a process to look at; 0: none yet */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct so_error err = { .text = "" };

	assert_non_null(f);
	f->globals.socket = http_probe__socket_path();
	assert_int_equal(engine__new(NULL, &f->engine, &err), 0);
	assert_int_equal(api__new(f->engine, NULL, &f->api, &err), 0);
	assert_int_equal(listen_socket__open(f->globals.socket, 0600, -1, &f->sock, &err), 0);
	assert_int_equal(http_server__start(listen_socket__take_fd(f->sock), PEER_NO_GROUP, NULL, api__handle, f->api,
					    &f->server, &err),
			 0);
	*state = f;
	return 0;
}

static void end_child(struct fixture *f)
{
	if (f->child) {
		kill(f->child, SIGKILL);
		waitpid(f->child, NULL, 0);
	}
	f->child = 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	end_child(f);
	http_server__free(f->server);
	listen_socket__free(f->sock);
	api__free(f->api);
	engine__free(f->engine);
	free(f);
	return 0;
}

struct outcome {
	int status;
	char out[65536], err[2048];
};

static void read_all(FILE *file, char *text, size_t size)
{
	rewind(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	fclose(file);
}

/* Runs the command with its standard output in `out`. */
static int call(const struct globals *globals, const char *line, int out, int err)
{
	char copy[256], *argv[MAX_WORDS + 1], *save = NULL;
	int argc = 0, saved_out = dup(1), saved_err = dup(2), status;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(argc < MAX_WORDS);
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	fflush(NULL);
	dup2(out, 1);
	dup2(err, 2);
	status = cmd_dump(globals, argc, argv);
	fflush(NULL);
	dup2(saved_out, 1);
	dup2(saved_err, 2);
	close(saved_out);
	close(saved_err);
	return status;
}

static const struct outcome *dump(const struct fixture *f, const char *format, pid_t pid)
{
	static struct outcome outcome;
	FILE *out = tmpfile(), *err = tmpfile();
	char line[256];

	assert_true(out && err);
	snprintf(line, sizeof(line), format, (int)pid);
	outcome.status = call(&f->globals, line, fileno(out), fileno(err));
	read_all(out, outcome.out, sizeof(outcome.out));
	read_all(err, outcome.err, sizeof(outcome.err));
	return &outcome;
}

static void read_cmdline(pid_t pid, char *text, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	file = fopen(path, "r");
	text[file ? fread(text, 1, size - 1, file) : 0] = '\0';
	if (file)
		fclose(file);
}

/* A process that does nothing and whose command line is this one's end. */
static pid_t start(struct fixture *f, const char *argument)
{
	char text[16];
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	f->child = fork();
	if (!f->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[0], 0);
		dup2(fds[1], 3); /* its own writing end, so that reading never ends */
		execl("/bin/sh", "idle", "-c", "read x", argument, "", NULL);
		_exit(127);
	}
	close(fds[0]);
	close(fds[1]);
	for (int i = 0; i < 5000; i++) {
		read_cmdline(f->child, text, sizeof(text));
		if (!strcmp(text, "idle"))
			return f->child;
		usleep(1000);
	}
	fail_msg("the process did not start");
	return 0;
}

/* The main thread with the lock, in Python called from C; another in the kernel. */
static void set_threads_without_lines(struct fixture *f, pid_t pid, const char *problem, bool gil,
				      const char *lines_missing)
{
	_cleanup_(profile_builder) struct profile_builder *b = profile_builder__new(1, 0, 0);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct profile_mapping exe = { .filename = "/usr/bin/x" }, kernel = { .filename = "[kernel.kallsyms]" };
	struct profile_frame python = { .name = "step", .filename = "/a/env.py", .line = 42, .start_line = 40 };
	struct profile_frame native = { .name = "main", .address = 16 };
	struct profile_frame waits = { .name = "futex_wait", .address = 32 };
	struct profile_labels labels = { .pid = pid, .tid = pid, .comm = "x", .state = "running" };
	uint64_t stack[2], in_kernel[2];
	size_t length;

	native.mapping_id = profile_builder__mapping(b, &exe);
	waits.mapping_id = profile_builder__mapping(b, &kernel);
	stack[0] = profile_builder__location(b, &python);
	stack[1] = in_kernel[1] = profile_builder__location(b, &native);
	in_kernel[0] = profile_builder__location(b, &waits);
	labels.gil = gil ? "held" : NULL;
	assert_int_equal(profile_builder__sample_labelled(b, stack, 2, 1, &labels), 0);
	labels = (struct profile_labels){ .pid = pid, .tid = pid + 1, .comm = "y", .state = "sleeping" };
	assert_int_equal(profile_builder__sample_labelled(b, in_kernel, 2, 1, &labels), 0);
	if (problem)
		assert_int_equal(profile_builder__comment(b, "python.problem", problem), 0);
	if (lines_missing)
		assert_int_equal(profile_builder__comment(b, "lines-missing", lines_missing), 0);
	assert_int_equal(profile_builder__finish(b, &bytes, &length), 0);
	fake_engine__set_profile(f->engine, bytes, length);
}

static void set_threads(struct fixture *f, pid_t pid, const char *problem, bool gil)
{
	set_threads_without_lines(f, pid, problem, gil, NULL);
}

static void assert_outcome(const struct outcome *got, int status, const char *out, const char *err)
{
	if (got->status != status)
		fail_msg("status %d: %s", got->status, got->err);
	assert_string_equal(got->out, out);
	assert_string_equal(got->err, err);
}

static void a_look_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "a;b\n");
	struct attach_options asked;
	char expected[512];

	set_threads(f, pid, NULL, true);
	snprintf(expected, sizeof(expected),
		 "Process %d: idle -c read x a;b?\n"
		 "\nThread %d (running, holds the GIL): x (MainThread)\n    step (/a/env.py:42)\n    main (x)\n"
		 "\nThread %d (sleeping): y\n    futex_wait [kernel]\n    main (x)\n",
		 pid, pid, pid + 1);
	assert_outcome(dump(f, "dump -p %d", pid), STATUS_DONE, expected, "");
	asked = fake_engine__last_attach(f->engine);
	assert_int_equal(asked.pid, pid);
	assert_int_equal(asked.rate_hz, 999);
	assert_true(asked.kernel && !asked.children && !asked.keep);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static void a_process_without_a_command_line(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");
	char expected[64];

	end_child(f);
	set_threads(f, pid, NULL, true);
	snprintf(expected, sizeof(expected), "Process %d: fake ??;\n\nThread %d ", pid, pid);
	assert_memory_equal(dump(f, "dump -p %d", pid)->out, expected, strlen(expected));
}

static void a_long_command_line_is_cut(void **state)
{
	struct fixture *f = *state;
	char argument[6000];
	const char *line_end;
	const struct outcome *got;
	pid_t pid;

	memset(argument, 'a', sizeof(argument) - 1);
	argument[sizeof(argument) - 1] = '\0';
	pid = start(f, argument);
	set_threads(f, pid, NULL, true);
	got = dump(f, "dump -p %d", pid);
	line_end = strchr(got->out, '\n');
	assert_in_range(line_end - got->out, 4000, 4200);
	assert_memory_equal(line_end - 6, "aaa…", 6);
}

/* Each as a user types it. */
static void options_choose_the_part(void **state)
{
	static const struct {
		const char *line;
		bool other_thread, native, kernel, json;
	} cases[] = {
		{ "dump -p %d -n --nonblocking", true, true, true, false },
		{ "dump --pid=%d --no-kernel", true, true, false, false },
		{ "dump --python-only --pid %d", true, false, false, false },
		{ "dump -p%d -g", false, true, false, false },
		{ "dump -p %d --gil --python-only", false, false, false, false },
		{ "dump -jp %d", true, true, true, true },
		{ "dump --json -p %d --no-kernel --gil", false, true, false, true },
	};
	struct fixture *f = *state;
	pid_t pid = start(f, "");

	set_threads(f, pid, NULL, true);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct outcome *got = dump(f, cases[i].line, pid);
		json_t *json = json_loads(got->out, 0, NULL);

		assert_int_equal(got->status, STATUS_DONE);
		assert_non_null(strstr(got->out, "step"));
		assert_int_equal(!!strstr(got->out, "sleeping"), cases[i].other_thread);
		assert_int_equal(!!strstr(got->out, "main"), cases[i].native);
		assert_int_equal(!!strstr(got->out, "futex_wait"), cases[i].kernel);
		assert_int_equal(!!json, cases[i].json);
		assert_string_equal(
			got->err, cases[i].other_thread ? "" : "1 of 2 threads left out: they did not hold the GIL\n");
		json_decref(json);
	}
}

/* What could not be read of Python is said in every form. */
static void problems_are_said(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");
	char expected[160];

	set_threads(f, pid, "CPython 3.7 is not\x1bsupported", false);
	assert_non_null(strstr(dump(f, "dump -p %d", pid)->out, "\nPython: CPython 3.7 is not?supported\n\n"));
	assert_string_equal(dump(f, "dump -p %d --json", pid)->err, "Python: CPython 3.7 is not?supported\n");
	snprintf(expected, sizeof(expected),
		 "stakeout: --gil shows nothing here: no thread of process %d is a Python thread "
		 "(CPython 3.7 is not?supported)\n",
		 pid);
	assert_outcome(dump(f, "dump -p %d --gil", pid), STATUS_FAILED, "", expected);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static void missing_lines_are_said(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");

	set_threads_without_lines(f, pid, NULL, true, "1");
	assert_string_equal(dump(f, "dump -p %d", pid)->err,
			    "source lines: 1 address of native code is without, for want of time to read their "
			    "debug information\n");
	set_threads_without_lines(f, pid, NULL, true, "12");
	assert_string_equal(dump(f, "dump -p %d --json", pid)->err,
			    "source lines: 12 addresses of native code are without, for want of time to read their "
			    "debug information\n");
}

static void a_watched_process_stays_watched(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");
	struct attach_options options = { .pid = pid, .rate_hz = 99, .children = true, .kernel = true, .keep = true };
	uint32_t id;

	set_threads(f, pid, NULL, true);
	options.caller.uid = getuid();
	assert_int_equal(engine__attach(f->engine, &options, &id, NULL), 0);
	assert_int_equal(dump(f, "dump -p %d", pid)->status, STATUS_DONE);
	assert_int_equal(fake_engine__count(f->engine), 1);
	assert_int_equal(engine__detach(f->engine, id, NULL), 0);
}

/* As of a launcher that is watched with its ranks. */
static void a_child_is_looked_at_through_its_target(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");
	const struct attach_options other = { .pid = 1, .rate_hz = 99, .keep = true },
				    launcher = { .pid = getpid(), .rate_hz = 99, .keep = true };
	const struct outcome *got;
	uint32_t ids[2];
	char expected[64];

	set_threads(f, pid, NULL, true);
	fake_engine__set_child(f->engine, pid);
	snprintf(expected, sizeof(expected), "stakeout: process %d is sampled already, as a child\n", pid);
	assert_outcome(dump(f, "dump -p %d", pid), STATUS_FAILED, "", expected);
	assert_int_equal(engine__attach(f->engine, &other, &ids[0], NULL), 0);
	assert_int_equal(engine__attach(f->engine, &launcher, &ids[1], NULL), 0);
	assert_int_equal(engine__stop(f->engine, ids[0], NULL), 0);
	snprintf(expected, sizeof(expected), "\n\nThread %d (running, holds the GIL): x (MainThread)\n", pid);
	got = dump(f, "dump -p %d", pid);
	assert_int_equal(got->status, STATUS_DONE);
	assert_string_equal(got->err, "");
	assert_non_null(strstr(got->out, expected));
	assert_int_equal(fake_engine__count(f->engine), 2);
	assert_int_equal(engine__detach(f->engine, ids[0], NULL), 0);
	assert_int_equal(engine__detach(f->engine, ids[1], NULL), 0);
	fake_engine__set_child(f->engine, 0);
}

/* This one, its child that idles, and one that has ended. All have the threads of the same profile. */
static void a_process_with_its_children(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, ""), gone = fork();
	const struct outcome *got;
	struct attach_options asked;
	char expected[512];
	siginfo_t info;
	json_t *json;

	if (!gone)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)gone, &info, WEXITED | WNOWAIT), 0);
	set_threads(f, pid, NULL, true);
	got = dump(f, "dump --children -p %d", getpid());
	assert_int_equal(got->status, STATUS_DONE);
	assert_string_equal(got->err, "");
	snprintf(expected, sizeof(expected), "\nProcess %d: idle -c read x\n", pid);
	if (!strstr(got->out, expected))
		fail_msg("%s", got->out);
	snprintf(expected, sizeof(expected),
		 "\nProcess %d (test_dump_comma) is left out: ended, and not waited for by its parent\n", gone);
	assert_non_null(strstr(got->out, expected));
	snprintf(expected, sizeof(expected), "\nMain thread (running, holds the GIL): x\n  PID %d\n    step", pid);
	assert_non_null(strstr(got->out, expected));
	asked = fake_engine__last_attach(f->engine);
	assert_true(asked.kernel && asked.children && !asked.keep);
	assert_int_equal(fake_engine__count(f->engine), 0);

	json = json_loads(dump(f, "dump --json --children -p %d", getpid())->out, 0, NULL);
	assert_int_equal(json_array_size(json), 3);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(json, 0), "pid")), getpid());
	assert_int_equal(json_integer_value(json_object_get(json_array_get(json, 1), "ppid")), getpid());
	json_decref(json);
	/* This is no launcher. */
	got = dump(f, "dump -p %d", getpid());
	snprintf(expected, sizeof(expected), "Process %d: ", getpid());
	assert_memory_equal(got->out, expected, strlen(expected));
	assert_null(strstr(got->out, "idle -c read x"));
	waitpid(gone, NULL, 0);
}

/* A shell as it is called brings its children; what a script gets is not changed by that. */
static void a_launcher_brings_its_children(void **state)
{
	static const struct {
		const char *line;
		bool child, json_of_processes;
	} cases[] = {
		{ "dump -p %d", true, false },
		{ "dump -p %d --no-children", false, false },
		{ "dump -p %d --json", false, false },
		{ "dump -p %d --json --children", true, true },
	};
	struct fixture *f = *state;
	pid_t pid = fork();

	f->child = pid;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", "sleep 20 & wait", NULL);
		_exit(127);
	}
	for (int i = 0; i < 500 && !strstr(dump(f, "dump -p %d", pid)->out, ": sleep 20\n"); i++) {
		set_threads(f, pid, NULL, true);
		usleep(10000);
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct outcome *got = dump(f, cases[i].line, pid);

		assert_int_equal(got->status, STATUS_DONE);
		if ((strstr(got->out, ": sleep 20\n") || strstr(got->out, "\"sleep 20\"")) != cases[i].child)
			fail_msg("%s: %s", cases[i].line, got->out);
		assert_int_equal(!!strstr(got->out, "\"ppid\""), cases[i].json_of_processes);
	}
}

static void processes_by_their_command_line(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "job-of-this-test");
	const struct outcome *got;
	char expected[256];
	json_t *json;

	set_threads(f, pid, NULL, true);
	snprintf(expected, sizeof(expected), "Process %d: idle -c read x job-of-this-test\n\nThread %d ", pid, pid);
	got = dump(f, "dump --match job-of-[a-z]*-test$", 0);
	assert_string_equal(got->err, "");
	assert_memory_equal(got->out, expected, strlen(expected));
	json = json_loads(dump(f, "dump --json --match job-of-this-test", 0)->out, 0, NULL);
	assert_int_equal(json_array_size(json), 1);
	assert_int_equal(json_array_size(json_object_get(json_array_get(json, 0), "threads")), 2);
	json_decref(json);
	assert_outcome(dump(f, "dump --match no-such-[j]ob", 0), STATUS_FAILED, "",
		       "stakeout: no process has a command line that matches 'no-such-[j]ob'\n");
	assert_non_null(strstr(dump(f, "dump --match (", 0)->err, "stakeout: --match '(': "));
	fake_engine__fail_attach(f->engine, -EPERM, "not yours");
	got = dump(f, "dump --match job-of-this-test", 0);
	assert_int_equal(got->status, STATUS_FAILED);
	assert_non_null(strstr(got->err, "stakeout: not yours\n"));
	assert_int_equal(fake_engine__count(f->engine), 0);
}

/* More than are attached at the same time. */
static void many_processes(void **state)
{
	enum { N = 20 };
	struct fixture *f = *state, others[N];
	json_t *json;

	for (int i = 0; i < N; i++) {
		others[i] = (struct fixture){ 0 };
		start(&others[i], "one-of-many-here");
	}
	set_threads(f, others[0].child, NULL, true);
	json = json_loads(dump(f, "dump --no-kernel --json --match one-of-many-here$", 0)->out, 0, NULL);
	for (int i = 0; i < N; i++)
		end_child(&others[i]);
	assert_int_equal(json_array_size(json), N);
	for (int i = 0; i < N; i++)
		assert_true(json_is_null(json_object_get(json_array_get(json, (size_t)i), "error")));
	json_decref(json);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

/* The others are shown. */
static void one_that_is_refused(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");
	const struct outcome *got;
	char expected[128];

	set_threads(f, pid, NULL, true);
	fake_engine__fail_attach(f->engine, -EPERM, "not yours");
	got = dump(f, "dump --children -p %d", getpid());
	assert_int_equal(got->status, STATUS_DONE);
	snprintf(expected, sizeof(expected), "Process %d (", getpid());
	if (!strstr(got->out, expected) || !strstr(got->out, ") is left out: not yours\n\nMain thread "))
		fail_msg("%s", got->out);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static void failures_keep_the_daemon_s_words(void **state)
{
	_cleanup_(profile_builder) struct profile_builder *b = profile_builder__new(1, 0, 0);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct fixture *f = *state;
	char expected[64];
	size_t length;
	pid_t pid = start(f, "");

	fake_engine__fail_attach(f->engine, -ESRCH, "there is no such process");
	assert_outcome(dump(f, "dump -p %d", pid), STATUS_FAILED, "", "stakeout: there is no such process\n");
	/* As a child of another target is refused. */
	fake_engine__fail_attach(f->engine, -EEXIST, "it is sampled as a child");
	assert_outcome(dump(f, "dump -p %d", pid), STATUS_FAILED, "", "stakeout: it is sampled as a child\n");
	fake_engine__set_profile(f->engine, "garbage", 7);
	assert_int_equal(dump(f, "dump -p %d", pid)->status, STATUS_FAILED);
	assert_int_equal(profile_builder__finish(b, &bytes, &length), 0);
	fake_engine__set_profile(f->engine, bytes, length);
	snprintf(expected, sizeof(expected), "stakeout: process %d has ended\n", pid);
	assert_outcome(dump(f, "dump -p %d", pid), STATUS_FAILED, "", expected);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static void nobody_there(void **state)
{
	struct fixture f = { .globals = { .socket = "/nonexistent/sock" } };

	assert_outcome(dump(&f, "dump -p %d", getpid()), STATUS_FAILED, "",
		       "stakeout: no daemon listens on /nonexistent/sock\n");
}

static void wrong_usage(void **state)
{
	static const char *const cases[][2] = {
		{ "dump", "-p PID" },
		{ "dump --children", "--match PATTERN" },
		{ "dump -p 1 --match x", "exclude each other" },
		{ "dump -p 1 --children --no-children", "exclude each other" },
		{ "dump --match", "needs a value" },
		{ "dump -p", "'-p' needs a value" },
		{ "dump -p 0", "process ID" },
		{ "dump -p x", "'x' is not a process ID" },
		{ "dump -x", "unknown option '-x' (see stakeout dump --help)" },
		{ "dump -p 1 --subprocesses", "unknown option '--subprocesses'" },
		{ "dump -p 1 --json=yes", "takes no value" },
		{ "dump -p 1 2", "unexpected argument '2'" },
		{ "dump x", "unexpected argument 'x'; a process's name goes with -p" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct outcome *got = dump(f, cases[i][0], 0);

		assert_int_equal(got->status, STATUS_USAGE);
		assert_string_equal(got->out, "");
		if (!strstr(got->err, cases[i][1]))
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i][0], got->err, cases[i][1]);
		assert_ptr_equal(strchr(got->err, '\n'), got->err + strlen(got->err) - 1);
	}
	assert_int_equal(fake_engine__last_attach(f->engine).pid, 0);
}

static void help(void **state)
{
	const struct outcome *got = dump(*state, "dump -h", 0);

	assert_int_equal(got->status, STATUS_DONE);
	assert_string_equal(got->err, "");
	assert_memory_equal(got->out, "Usage: stakeout dump -p PID", 27);
}

/* An unwritable place is told by its error; a reader that left needs no words. */
static void standard_output_fails(void **state)
{
	struct fixture *f = *state;
	FILE *err = tmpfile();
	pid_t pid = start(f, "");
	int full = open("/dev/full", O_WRONLY), pipes[2];
	char line[64], text[256];

	assert_int_equal(pipe(pipes), 0);
	close(pipes[0]);
	set_threads(f, pid, NULL, true);
	snprintf(line, sizeof(line), "dump -p %d", pid);
	assert_int_equal(call(&f->globals, line, pipes[1], fileno(err)), STATUS_FAILED);
	assert_int_equal(ftell(err) + lseek(fileno(err), 0, SEEK_CUR), 0);
	assert_int_equal(call(&f->globals, line, full, fileno(err)), STATUS_FAILED);
	read_all(err, text, sizeof(text));
	assert_non_null(strstr(text, "No space left on device"));
	assert_int_equal(fake_engine__count(f->engine), 0);
	close(pipes[1]);
	close(full);
}

/* In a process of its own. */
static pid_t start_dump(struct fixture *f, pid_t pid, int out)
{
	pid_t client = fork();
	char line[64];

	if (client)
		return client;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(line, sizeof(line), "dump -p %d", pid);
	_exit(call(&f->globals, line, out, out));
}

/*
 * A recording through whose target the threads would be looked at. Had it ended before or after, all would be well,
 * too.
 */
static void a_recording_that_ends_meanwhile(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, ""), client;
	struct attach_options options = { .pid = pid, .rate_hz = 99, .kernel = true };
	char text[256];
	FILE *out = tmpfile();
	uint32_t id;
	int status;

	set_threads(f, pid, NULL, true);
	options.caller.uid = getuid();
	assert_int_equal(engine__attach(f->engine, &options, &id, NULL), 0);
	client = start_dump(f, pid, fileno(out));
	usleep(70000);
	assert_int_equal(engine__detach(f->engine, id, NULL), 0);
	waitpid(client, &status, 0);
	read_all(out, text, sizeof(text));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != STATUS_DONE)
		fail_msg("%s", text);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

/* The first Ctrl-C: the target is given back, nothing is written. */
static int interrupted_dump(struct fixture *f, pid_t pid, int out)
{
	pid_t client = start_dump(f, pid, out), ended;
	int status;

	for (ended = 0; !ended && !fake_engine__count(f->engine); ended = waitpid(client, &status, WNOHANG))
		usleep(1000);
	if (!ended) {
		kill(client, SIGINT);
		waitpid(client, &status, 0);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void an_interrupt_detaches(void **state)
{
	struct fixture *f = *state;
	pid_t pid = start(f, "");
	int status = STATUS_DONE;
	char text[256];

	set_threads(f, pid, NULL, true);
	/* On a busy machine the command may be done before the signal comes. */
	for (int i = 0; i < 20 && status == STATUS_DONE; i++) {
		FILE *out = tmpfile();

		status = interrupted_dump(f, pid, fileno(out));
		read_all(out, text, sizeof(text));
		assert_int_equal(fake_engine__count(f->engine), 0);
	}
	assert_int_equal(status, STATUS_FAILED);
	assert_string_equal(text, "stakeout: interrupted before the threads were looked at\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_look_leaves_nothing_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(a_process_without_a_command_line, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_command_line_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(options_choose_the_part, setup, teardown),
		cmocka_unit_test_setup_teardown(problems_are_said, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_lines_are_said, setup, teardown),
		cmocka_unit_test_setup_teardown(a_watched_process_stays_watched, setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_is_looked_at_through_its_target, setup, teardown),
		cmocka_unit_test_setup_teardown(a_process_with_its_children, setup, teardown),
		cmocka_unit_test_setup_teardown(a_launcher_brings_its_children, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_by_their_command_line, setup, teardown),
		cmocka_unit_test_setup_teardown(many_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(failures_keep_the_daemon_s_words, setup, teardown),
		cmocka_unit_test(nobody_there),
		cmocka_unit_test_setup_teardown(wrong_usage, setup, teardown),
		cmocka_unit_test_setup_teardown(help, setup, teardown),
		cmocka_unit_test_setup_teardown(standard_output_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(a_recording_that_ends_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(an_interrupt_detaches, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN);
	curl_global_init(CURL_GLOBAL_NOTHING);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
