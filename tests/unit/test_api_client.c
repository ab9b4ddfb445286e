// SPDX-License-Identifier: GPL-2.0-or-later
/* The client's side of the API against the daemon's, and daemons of a command's own played by shell scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/session/api_client.h"
#include "client/session/private_daemon.h"
#include "client/session/session.h"
#include "client/session/target.h"
#include "daemon/api/api.h"
#include "daemon/http/listen_socket.h"
#include "tests/unit/fake_engine.h"
#include "tests/unit/http_probe.h"

struct fixture {
	struct engine *engine;
	struct api *api;
	struct listen_socket *sock;
	struct http_server *server;
	struct api_client *client;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct so_error err = { .text = "" };
	const char *path = http_probe__socket_path();

	assert_non_null(f);
	setenv("http_proxy", "http://localhost:1", 1); /* must not matter */
	assert_int_equal(engine__new(NULL, &f->engine, &err), 0);
	assert_int_equal(api__new(f->engine, NULL, &f->api, &err), 0);
	assert_int_equal(listen_socket__open(path, 0600, -1, &f->sock, &err), 0);
	assert_int_equal(http_server__start(listen_socket__take_fd(f->sock), PEER_NO_GROUP, NULL, api__handle,
					    f->api, &f->server, &err),
			 0);
	assert_int_equal(api_client__new(path, &f->client, &err), 0);
	*state = f;
	return 0;
}

static void stop_server(struct fixture *f)
{
	http_server__free(f->server);
	listen_socket__free(f->sock);
	f->server = NULL;
	f->sock = NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	api_client__free(f->client);
	stop_server(f);
	api__free(f->api);
	engine__free(f->engine);
	free(f);
	return 0;
}

static const struct attach_request request = {
	.pid = 7, .rate_hz = 49, .duration_s = 2.5, .children = true, .kernel = false, .keep = true
};

static void a_target_from_begin_to_end(void **state)
{
	struct fixture *f = *state;
	struct so_error err = { .text = "" };
	struct attach_options got;
	struct target target, found;
	uint8_t *bytes = NULL;
	json_t *stats = NULL;
	size_t length = 0;

	assert_int_equal(target__attach(f->client, &request, &target, &err), 0);
	got = fake_engine__last_attach(f->engine);
	assert_int_equal(got.pid, 7);
	assert_int_equal(got.rate_hz, 49);
	assert_true(got.duration_s == 2.5 && got.children && !got.kernel && got.keep);
	assert_string_equal(target.state, "sampling");
	assert_string_equal(target.end, "");
	assert_string_equal(target.comm, "fake ??;"); /* no escape sequence reaches the terminal */
	assert_int_equal(target__find(f->client, 7, &found, &err), 0);
	assert_int_equal(found.id, target.id);
	assert_int_equal(target__stop(f->client, target.id, &target, &err), 0);
	assert_true(target__ended(&target));
	assert_int_equal(target__stats(f->client, target.id, &stats, &err), 0);
	assert_int_equal(json_integer_value(json_object_get(stats, "sample_hz")), 49);
	assert_int_equal(target__profile(f->client, target.id, &bytes, &length, &err), 0);
	assert_true(length > 20);
	assert_memory_equal(bytes, "\x1f\x8b", 2);
	assert_int_equal(target__detach(f->client, target.id, &err), 0);
	assert_int_equal(target__get(f->client, target.id, &target, &err), -ENOENT);
	assert_string_equal(err.text, "there is no target 1");
	json_decref(stats);
	free(bytes);
}

static void find_prefers_what_runs(void **state)
{
	struct fixture *f = *state;
	struct so_error err = { .text = "" };
	struct attach_request recording = request;
	struct target kept, running, found;

	assert_int_equal(target__attach(f->client, &request, &kept, &err), 0);
	fake_engine__exit(f->engine, kept.id);
	assert_int_equal(target__find(f->client, 7, &found, &err), 0);
	assert_int_equal(found.id, kept.id);
	recording.keep = false;
	assert_int_equal(target__attach(f->client, &recording, &running, &err), 0);
	assert_int_equal(target__find(f->client, 7, &found, &err), 0);
	assert_int_equal(found.id, running.id);
	assert_int_equal(target__find(f->client, 8, &found, &err), -ENOENT);
	assert_non_null(strstr(err.text, "stakeout attach -p 8"));
}

static void refusals_keep_their_words(void **state)
{
	static const int codes[] = { -EPERM, -ESRCH, -EEXIST, -EINVAL, -ENOSPC, -EIO };
	static const int want[] = { -EPERM, -ENOENT, -EEXIST, -EINVAL, -ENOSPC, -EIO };
	struct fixture *f = *state;
	struct so_error err;
	struct target target;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		fake_engine__fail_attach(f->engine, codes[i], "because");
		assert_int_equal(target__attach(f->client, &request, &target, &err), want[i]);
		assert_string_equal(err.text, "because");
	}
}

static void an_empty_profile_is_bytes_too(void **state)
{
	struct fixture *f = *state;
	struct so_error err = { .text = "" };
	struct target target;
	uint8_t *bytes = NULL;
	size_t length = 99;

	fake_engine__set_profile(f->engine, "", 0);
	assert_int_equal(target__attach(f->client, &request, &target, &err), 0);
	assert_int_equal(target__profile(f->client, target.id, &bytes, &length, &err), 0);
	assert_int_equal(length, 0);
	assert_non_null(bytes);
	free(bytes);
}

static void a_daemon_that_went_away(void **state)
{
	struct fixture *f = *state;
	struct so_error err = { .text = "" };
	struct target target;

	assert_int_equal(target__attach(f->client, &request, &target, &err), 0);
	stop_server(f);
	assert_int_equal(target__get(f->client, target.id, &target, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "no daemon listens on /"));
}

static void no_daemon(void **state)
{
	struct session *session = NULL;
	struct so_error err = { .text = "" };

	assert_int_equal(session__open("/nonexistent/sock", SESSION_ANY, &session, &err), 0);
	assert_int_equal(api_client__call(session__api(session), "GET", "/v1/status", NULL, NULL, &err),
			 -ECONNREFUSED);
	assert_string_equal(err.text, "no daemon listens on /nonexistent/sock");
	session__free(session);
}

/* A directory with a "stakeoutd" of its own, the only one on PATH besides the shell. */
static char dir[64];

static int setup_script(void **state)
{
	char path[128];

	strcpy(dir, "/tmp/stakeout-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", dir);
	setenv("PATH", path, 1);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	return 0;
}

static void script(const char *body)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/stakeoutd", dir);
	f = fopen(path, "w");
	fprintf(f, "#!/bin/sh\n%s\n", body);
	fclose(f);
	chmod(path, 0700);
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

static int teardown_script(void **state)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/stakeoutd", dir);
	unlink(path);
	assert_int_equal(rmdir(dir), 0); /* nothing else was left behind */
	return 0;
}

static void a_private_daemon(void **state)
{
	struct private_daemon *daemon = NULL;
	struct so_error err = { .text = "" };
	struct stat st;
	char sock_dir[128];

	script("[ \"$*\" = \"--private --ready-fd 3 --socket $5\" ] || exit 9\n"
	       ": > \"$5\"; echo ready >&3; exec sleep 60");
	if (private_daemon__start(&daemon, &err))
		fail_msg("%s", err.text);
	snprintf(sock_dir, sizeof(sock_dir), "%s", private_daemon__socket(daemon));
	assert_memory_equal(sock_dir, dir, strlen(dir));
	*strrchr(sock_dir, '/') = '\0';
	assert_int_equal(stat(sock_dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	private_daemon__free(daemon);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(errno, ECHILD);
	assert_int_equal(files(), 1);
}

static void a_private_daemon_that_fails(void **state)
{
	static const struct {
		const char *script;
		int code;
		const char *words;
	} cases[] = {
		{ "echo 'error: no BTF' >&3; exit 1", -EIO, "no BTF" },
		{ "echo 'denied: needs CAP_BPF' >&3; exit 1", -EPERM, "needs CAP_BPF" },
		{ "exit 5", -EIO, "ended with status 5" },
		{ "kill -9 $$", -EIO, "ended by signal 9" },
		{ "printf rea >&3; exit 0", -EIO, "ended with status 0" },
		{ "head -c 100000 /dev/zero 2>/dev/null >&3", -EIO, "before it was ready" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct private_daemon *daemon = NULL;
		struct so_error err = { .text = "" };

		script(cases[i].script);
		assert_int_equal(private_daemon__start(&daemon, &err), cases[i].code);
		if (!strstr(err.text, cases[i].words))
			fail_msg("%s: \"%s\"", cases[i].script, err.text);
		assert_null(daemon);
		assert_int_equal(files(), 1);
	}
}

static void no_binary(void **state)
{
	struct private_daemon *daemon = NULL;
	struct so_error err = { .text = "" };

	assert_int_equal(private_daemon__start(&daemon, &err), -EIO);
	assert_string_equal(err.text, "cannot start stakeoutd: No such file or directory");
}

/* Ctrl-C on the terminal reaches the daemon too; the client must not depend on it. */
static void the_ready_pipe_outlives_nobody(void **state)
{
	struct private_daemon *daemon = NULL;
	struct so_error err = { .text = "" };
	double start_s;

	/* ignores SIGTERM, and ends when its client closes the pipe */
	script("trap '' TERM; trap 'exit 0' PIPE; echo ready >&3; while echo x >&3; do sleep 0.05; done "
	       "2>/dev/null");
	assert_int_equal(private_daemon__start(&daemon, &err), 0);
	start_s = http_probe__now_s();
	private_daemon__free(daemon);
	assert_true(http_probe__now_s() - start_s < 3);
}

static void check_needs_no_daemon(void **state)
{
	struct so_error err = { .text = "" };
	char *text = NULL;

	script("[ \"$*\" = --check-json ] && echo '[]'");
	assert_int_equal(private_daemon__check(&text, &err), 0);
	assert_string_equal(text, "[]\n");
	free(text);
	text = NULL;
	script("exit 3");
	assert_int_equal(private_daemon__check(&text, &err), -EIO);
	assert_non_null(strstr(err.text, "status 3"));
	assert_null(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_target_from_begin_to_end, setup, teardown),
		cmocka_unit_test_setup_teardown(find_prefers_what_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(refusals_keep_their_words, setup, teardown),
		cmocka_unit_test_setup_teardown(an_empty_profile_is_bytes_too, setup, teardown),
		cmocka_unit_test_setup_teardown(a_daemon_that_went_away, setup, teardown),
		cmocka_unit_test(no_daemon),
		cmocka_unit_test_setup_teardown(a_private_daemon, setup_script, teardown_script),
		cmocka_unit_test_setup_teardown(a_private_daemon_that_fails, setup_script, teardown_script),
		cmocka_unit_test_setup_teardown(no_binary, setup_script, teardown_script),
		cmocka_unit_test_setup_teardown(the_ready_pipe_outlives_nobody, setup_script, teardown_script),
		cmocka_unit_test_setup_teardown(check_needs_no_daemon, setup_script, teardown_script),
	};

	signal(SIGPIPE, SIG_IGN);
	curl_global_init(CURL_GLOBAL_NOTHING);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
