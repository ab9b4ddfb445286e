// SPDX-License-Identifier: GPL-2.0-or-later
/* The API over a fake engine: its routes called directly, and through HTTP where the connection matters. */
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

#include "daemon/api/api_json.h"
#include "tests/unit/api_fixture.h"
#include "tests/unit/fake_engine.h"
#include "tests/unit/http_probe.h"

#define USER       1000
#define OTHER_USER 65534

static const char *path_of(uint32_t id, const char *what)
{
	static char path[64];

	snprintf(path, sizeof(path), "/v1/targets/%u%s", id, what);
	return path;
}

static void status_and_check_are_for_all(void **state)
{
	json_t *json = api_fixture__call(*state, USER, "GET", "/v1/status", NULL, 200);

	assert_string_equal(json_string_value(json_object_get(json, "version")), "fake");
	json_decref(json);
	json = api_fixture__call(*state, USER, "GET", "/v1/check", NULL, 200);
	assert_int_equal(json_array_size(json), 1);
	json_decref(json);
}

static void costs_are_of_a_users_own_targets(void **state)
{
	static const uid_t users[] = { 0, USER, OTHER_USER };
	json_t *json, *costs;

	api_fixture__attach(*state, USER, "{\"pid\": 77}");
	for (int i = 0; i < 3; i++) {
		json = api_fixture__call(*state, users[i], "GET", "/v1/status", NULL, 200);
		costs = json_object_get(json, "costs");
		assert_int_equal(json_array_size(costs), users[i] != OTHER_USER);
		if (users[i] != OTHER_USER)
			assert_int_equal(json_integer_value(json_object_get(json_array_get(costs, 0), "pid")), 77);
		assert_true(json_array_size(json_object_get(json, "limits")) >= 10);
		assert_non_null(json_object_get(json, "privileges"));
		json_decref(json);
	}
}

static char *metrics(struct fixture *f, uid_t uid)
{
	struct http_request request = { .method = "GET", .path = "/metrics", .body = "", .caller.uid = uid, .fd = -1 };
	struct http_reply reply = { 0 };
	char *text;

	api__handle(f->api, &request, &reply);
	assert_int_equal(reply.status, 200);
	assert_string_equal(reply.content_type, "text/plain; version=0.0.4; charset=utf-8");
	text = strndup((const char *)reply.body, reply.body_bytes);
	free(reply.body);
	return text;
}

static void metrics_show_a_users_own_targets(void **state)
{
	_cleanup_free_ char *own = NULL, *others = NULL, *all = NULL;

	api_fixture__attach(*state, USER, "{\"pid\": 77}");
	own = metrics(*state, USER);
	others = metrics(*state, OTHER_USER);
	all = metrics(*state, 0);
	assert_non_null(strstr(own, "pid=\"77\""));
	assert_non_null(strstr(all, "pid=\"77\""));
	assert_null(strstr(others, "pid=\"77\""));
	assert_non_null(strstr(others, "stakeout_targets{state=\"sampling\"} 0\n"));
}

static void categories_and_rules_are_of_ones_own(void **state)
{
	struct fixture *f = *state;
	_cleanup_(category_rules) struct category_rules *rules = NULL;
	_cleanup_(category_counters) struct category_counters *counters = NULL;
	_cleanup_(category_windows) struct category_windows *windows = NULL;
	_cleanup_(api) struct api *api = NULL;
	_cleanup_free_ char *own = NULL, *others = NULL, *again = NULL;
	static const char series[] = "stakeout_target_category_cpu_seconds_total{id=\"1\"";
	int64_t ns[CATEGORY_COUNTERS_MAX];
	struct api *first = f->api;
	uint32_t id;

	assert_int_equal(category_rules__load(NULL, &rules, NULL), 0);
	assert_int_equal(category_counters__new(f->engine, rules, &counters), 0);
	assert_int_equal(category_windows__new(f->engine, counters, &windows, NULL), 0);
	assert_int_equal(
		api__new(f->engine,
			 &(struct api_options){ .scan = f->scan, .categories = counters, .category_windows = windows },
			 &api, NULL),
		0);
	f->api = api;
	api_fixture__attach(f, USER, "{\"pid\": 77, \"keep\": true}");
	assert_int_equal(match_scan__add(f->scan, "cmd=x", (struct caller){ USER, 0 }, false, &id, NULL), 0);
	others = metrics(f, OTHER_USER);
	assert_null(strstr(others, series));
	assert_non_null(strstr(others, "\nstakeout_rules 0\n"));
	assert_false(category_counters__get(counters, 1, ns)); /* nor is there any work for them */
	own = metrics(f, USER);
	assert_non_null(strstr(own, series));
	assert_non_null(strstr(own, "\nstakeout_rules 1\n"));
	assert_true(category_counters__get(counters, 1, ns));
	again = metrics(f, OTHER_USER);
	assert_null(strstr(again, series));
	f->api = first;
}

/* A scraper asks for ever; a recording whose client is gone ends all the same. */
static void scraping_renews_no_lease(void **state)
{
	struct fixture *f = *state;
	double until_s = http_probe__now_s() + 60;

	api_fixture__attach(f, USER, "{\"pid\": 77}");
	while (fake_engine__count(f->engine) && http_probe__now_s() < until_s) {
		free(metrics(f, USER));
		usleep(10000);
	}
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static void read_only_callers_change_nothing(void **state)
{
	struct fixture *f = *state;
	uint32_t id = api_fixture__attach(f, 0, "{\"pid\": 77}");
	const struct {
		const char *method, *path;
		unsigned status;
	} cases[] = {
		{ "POST", "/v1/targets", 403 },
		{ "DELETE", "/v1/targets/1", 403 },
		{ "POST", "/v1/targets/1/stop", 403 },
		{ "GET", "/v1/targets", 200 },
		{ "GET", "/v1/targets/1", 200 },
		{ "GET", "/v1/targets/1/profile", 200 },
		{ "GET", "/v1/targets/1/stats", 200 },
		{ "GET", "/v1/status", 200 },
		{ "GET", "/metrics", 200 },
		{ "PUT", "/v1/targets", 405 },
		{ "GET", "/", 200 },
		{ "GET", "/flamegraph.html", 200 },
		{ "POST", "/", 405 },
		{ "GET", "/nowhere", 404 },
	};

	assert_int_equal(id, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_request request = { .method = cases[i].method,
						.path = cases[i].path,
						.body = "{\"pid\": 78}",
						.body_bytes = 11,
						.caller.uid = 0,
						.read_only = true,
						.fd = -1 };
		struct http_reply reply = { 0 };

		api__handle(f->api, &request, &reply);
		if (reply.status != cases[i].status)
			fail_msg("%s %s: %u", cases[i].method, cases[i].path, reply.status);
		free(reply.body);
	}
	assert_int_equal(fake_engine__count(f->engine), 1);
	assert_int_equal(fake_engine__last_attach(f->engine).pid, 77);
}

static void attach_has_defaults(void **state)
{
	struct fixture *f = *state;
	struct attach_options got;

	api_fixture__attach(f, USER, "{\"pid\": 4194304}");
	got = fake_engine__last_attach(f->engine);
	assert_int_equal(got.pid, 4194304);
	assert_int_equal(got.rate_hz, 99);
	assert_true(got.duration_s == 0);
	assert_true(got.children);
	assert_true(got.kernel);
	assert_false(got.keep);
	assert_int_equal(got.caller.uid, USER);
}

static void attach_passes_all_fields(void **state)
{
	struct fixture *f = *state;
	struct attach_options got;

	api_fixture__attach(
		f, 0,
		"{\"pid\":1,\"rate_hz\":10000,\"duration_s\":0.25,\"children\":false,\"kernel\":false,\"keep\":"
		"true}");
	got = fake_engine__last_attach(f->engine);
	assert_int_equal(got.rate_hz, 10000);
	assert_true(got.duration_s == 0.25);
	assert_false(got.children);
	assert_false(got.kernel);
	assert_true(got.keep);
	assert_int_equal(got.caller.uid, 0);
}

static void attach_names_what_is_wrong(void **state)
{
	static const char *const cases[][2] = {
		{ "", "not JSON" },
		{ "{", "not JSON" },
		{ "{\"pid\":1} x", "not JSON" },
		{ "\xff\xfe", "not JSON" },
		{ "{\"pid\":1,\"pid\":2}", "duplicate" },
		{ "[]", "object" },
		{ "null", "not JSON" }, /* jansson takes only arrays and objects at the top */
		{ "{}", "pid is missing" },
		{ "{\"pid\":\"1\"}", "pid must be a whole number" },
		{ "{\"pid\":1.0}", "pid must be a whole number" },
		{ "{\"pid\":0}", "pid must be a whole number" },
		{ "{\"pid\":-1}", "pid must be a whole number" },
		{ "{\"pid\":4194305}", "pid must be a whole number" },
		{ "{\"pid\":4294967297}", "pid must be a whole number" },
		{ "{\"pid\":99999999999999999999}", "not JSON" },
		{ "{\"pid\":1,\"rate_hz\":0}", "rate_hz must be a whole number from 1 to 10000" },
		{ "{\"pid\":1,\"rate_hz\":10001}", "rate_hz" },
		{ "{\"pid\":1,\"rate_hz\":null}", "rate_hz" },
		{ "{\"pid\":1,\"duration_s\":-1}", "duration_s" },
		{ "{\"pid\":1,\"duration_s\":1e300}", "duration_s" },
		{ "{\"pid\":1,\"duration_s\":true}", "duration_s" },
		{ "{\"pid\":1,\"children\":1}", "children must be true or false" },
		{ "{\"pid\":1,\"kernel\":\"no\"}", "kernel must be true or false" },
		{ "{\"pid\":1,\"keep\":0}", "keep must be true or false" },
		{ "{\"pid\":1,\"ppid\":2}", "unknown field 'ppid'" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		api_fixture__expect_error(f, 0, "POST", "/v1/targets", cases[i][0], 400, cases[i][1]);
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static uint32_t post_rule(struct fixture *f, uid_t uid, const char *body)
{
	json_t *json = api_fixture__call(f, uid, "POST", "/v1/rules", body, 201);
	uint32_t id = (uint32_t)json_integer_value(json_object_get(json, "id"));

	assert_int_not_equal(id, 0);
	assert_string_equal(json_string_value(json_object_get(json, "lasts")), "until the daemon ends");
	assert_int_equal(json_integer_value(json_object_get(json, "uid")), uid);
	json_decref(json);
	return id;
}

static size_t count_rules(struct fixture *f, uid_t uid)
{
	json_t *json = api_fixture__call(f, uid, "GET", "/v1/rules", NULL, 200);
	size_t n = json_array_size(json);

	json_decref(json);
	return n;
}

static void rules_are_set_and_removed(void **state)
{
	struct fixture *f = *state;
	uint32_t first = post_rule(f, 0, "{\"match\":\" cmd=x rate=7 cuda \"}"), second;
	const struct attach_options options = { .pid = 1, .rate_hz = 7, .rule = first };
	json_t *json, *rule;
	uint32_t target;
	char path[32];

	second = post_rule(f, USER, "{\"match\":\"python.*train\"}");
	assert_int_equal(engine__attach(f->engine, &options, &target, NULL), 0);
	json = api_fixture__call(f, 0, "GET", "/v1/rules", NULL, 200);
	assert_int_equal(json_array_size(json), 2);
	rule = json_array_get(json, 0);
	assert_string_equal(json_string_value(json_object_get(rule, "match")), "cmd=x rate=7 cuda");
	assert_int_equal(json_integer_value(json_object_get(rule, "rate_hz")), 7);
	assert_true(json_is_true(json_object_get(rule, "cuda")));
	assert_int_equal(json_integer_value(json_object_get(rule, "targets")), 1);
	assert_true(json_is_null(json_object_get(rule, "problem")));
	json_decref(json);
	json = api_fixture__call(f, 0, "GET", path_of(target, ""), NULL, 200);
	assert_int_equal(json_integer_value(json_object_get(json, "rule")), first);
	assert_true(json_is_object(json_object_get(json, "labels")));
	json_decref(json);
	/* Others neither see nor remove it. */
	assert_int_equal(count_rules(f, USER), 1);
	assert_int_equal(count_rules(f, OTHER_USER), 0);
	snprintf(path, sizeof(path), "/v1/rules/%u", first);
	api_fixture__expect_error(f, USER, "DELETE", path, NULL, 404, "no rule");
	json = api_fixture__call(f, 0, "DELETE", path, NULL, 200);
	assert_int_equal(json_integer_value(json_object_get(json, "detached")), 1);
	assert_true(json_is_true(json_object_get(json, "removed")));
	json_decref(json);
	assert_int_equal(fake_engine__count(f->engine), 0);
	api_fixture__expect_error(f, 0, "DELETE", path, NULL, 404, "no rule");
	snprintf(path, sizeof(path), "/v1/rules/%u", second);
	json_decref(api_fixture__call(f, USER, "DELETE", path, NULL, 200));
	assert_int_equal(count_rules(f, 0), 0);
}

static void rules_that_are_none(void **state)
{
	struct fixture *f = *state;

	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "", 400, "not JSON");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "[]", 400, "object");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{}", 400, "match must be");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{\"match\":1}", 400, "match must be");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{\"match\":\"x\",\"rate_hz\":1}", 400,
				  "unknown field 'rate_hz'");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{\"match\":\"(\"}", 400, "not a regular expression");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{\"match\":\"a\\u0000b\"}", 400, "not JSON");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{\"match\":\"a\\nb\"}", 400, "control character");
	api_fixture__expect_error(f, USER, "POST", "/v1/rules", "{\"match\":\"user=root\"}", 403, "only root");
	api_fixture__expect_error(f, 0, "PUT", "/v1/rules", "{}", 405, "only GET, POST");
	post_rule(f, 0, "{\"match\":\"x\"}");
	api_fixture__expect_error(f, 0, "POST", "/v1/rules", "{\"match\":\"x\"}", 409, "already");
	assert_int_equal(count_rules(f, 0), 1);
}

static void deep_json_is_refused(void **state)
{
	char body[60001];

	memset(body, '[', sizeof(body) - 1);
	body[sizeof(body) - 1] = '\0';
	api_fixture__expect_error(*state, 0, "POST", "/v1/targets", body, 400, "not JSON");
}

static void engine_errors_have_their_status(void **state)
{
	static const struct {
		int code;
		unsigned status;
	} cases[] = {
		{ -EPERM, 403 },  { -EACCES, 403 }, { -ESRCH, 404 }, { -ENOENT, 404 }, { -EEXIST, 409 },
		{ -ENOSPC, 503 }, { -EINVAL, 400 }, { -EIO, 500 },   { -ENOSYS, 500 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_engine__fail_attach(f->engine, cases[i].code, "words for \xff the user");
		api_fixture__expect_error(f, 0, "POST", "/v1/targets", "{\"pid\":1}", cases[i].status,
					  "words for ? the user");
	}
	api_fixture__attach(f, 0, "{\"pid\":1}");
	api_fixture__expect_error(f, 0, "POST", "/v1/targets", "{\"pid\":1}", 409, "already");
}

static void limits_the_number_of_targets(void **state)
{
	char body[64];

	for (int i = 1; i <= ENGINE_MAX_TARGETS; i++) {
		snprintf(body, sizeof(body), "{\"pid\":%d}", i);
		api_fixture__attach(*state, 0, body);
	}
	api_fixture__expect_error(*state, 0, "POST", "/v1/targets", "{\"pid\":1000}", 503, "no more than");
}

static void a_target_lives_through_its_routes(void **state)
{
	struct fixture *f = *state;
	uint32_t id = api_fixture__attach(f, USER, "{\"pid\":77}");
	json_t *json = api_fixture__call(f, USER, "GET", path_of(id, ""), NULL, 200);

	assert_string_equal(json_string_value(json_object_get(json, "state")), "sampling");
	assert_true(json_is_null(json_object_get(json, "end")));
	assert_int_equal(json_integer_value(json_object_get(json, "pid")), 77);
	assert_int_equal(json_integer_value(json_object_get(json, "uid")), USER);
	assert_string_equal(json_string_value(json_object_get(json, "comm")), "fake ?\x1b;");
	json_decref(json);
	for (int i = 0; i < 2; i++) { /* stopping twice is fine */
		json = api_fixture__call(f, USER, "POST", path_of(id, "/stop"), NULL, 200);
		assert_string_equal(json_string_value(json_object_get(json, "state")), "ended");
		assert_string_equal(json_string_value(json_object_get(json, "end")), "stopped");
		json_decref(json);
	}
	json = api_fixture__call(f, USER, "GET", path_of(id, "/stats"), NULL, 200);
	assert_int_equal(json_integer_value(json_object_get(json, "sample_hz")), 99);
	json_decref(json);
	assert_null(api_fixture__call(f, USER, "GET", path_of(id, "/profile"), NULL, 200));
	json_decref(api_fixture__call(f, USER, "DELETE", path_of(id, ""), NULL, 200));
	api_fixture__expect_error(f, USER, "DELETE", path_of(id, ""), NULL, 404, "no target");
	assert_int_equal(fake_engine__count(f->engine), 0);
}

static void an_exit_is_told(void **state)
{
	struct fixture *f = *state;
	uint32_t id = api_fixture__attach(f, 0, "{\"pid\":77}");
	json_t *json;

	fake_engine__exit(f->engine, id);
	json = api_fixture__call(f, 0, "GET", path_of(id, ""), NULL, 200);
	assert_string_equal(json_string_value(json_object_get(json, "end")), "exited");
	json_decref(json);
}

/* Through the socket: the server reads the query. */
static struct http_answer cuda_of(uint32_t id, const char *query)
{
	char url[96];

	snprintf(url, sizeof(url), "/v1/targets/%u/cuda%s", id, query);
	return http_probe__request(http_probe__socket_path(), "GET", url, NULL);
}

static void cuda_is_for_those_who_asked(void **state)
{
	struct fixture *f = *state;
	uint32_t without = api_fixture__attach(f, USER, "{\"pid\":77}"), with;
	struct http_answer a;
	json_t *json;

	api_fixture__expect_error(f, USER, "GET", path_of(without, "/cuda"), NULL, 409, "without \"cuda\"");
	api_fixture__expect_error(f, USER, "POST", "/v1/targets", "{\"pid\":78,\"cuda_budget_percent\":0}", 400,
				  "above 0");
	api_fixture__expect_error(f, USER, "POST", "/v1/targets", "{\"pid\":78,\"cuda_budget_percent\":101}", 400,
				  "up to 100");
	api_fixture__expect_error(f, USER, "POST", "/v1/targets", "{\"pid\":78,\"cuda\":1}", 400, "true or false");
	with = api_fixture__attach(f, USER, "{\"pid\":78,\"cuda\":true,\"cuda_budget_percent\":2.5}");
	json = api_fixture__call(f, USER, "GET", path_of(with, "/cuda"), NULL, 200);
	assert_int_equal(json_integer_value(json_object_get(json, "pid")), 78);
	assert_true(json_real_value(json_object_get(json, "budget")) == 2.5);
	assert_null(json_object_get(json, "summary"));
	json_decref(json);
	a = cuda_of(with, "?summary=1");
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.body, "\"findings\""));
	a = cuda_of(with, "?summary=yes");
	assert_int_equal(a.status, 400);
	assert_non_null(strstr(a.body, "summary is 1 or left out"));
}

static struct http_answer profile_of(uint32_t id, const char *event)
{
	char url[96];

	snprintf(url, sizeof(url), "/v1/targets/%u/profile?event=%s", id, event);
	return http_probe__request(http_probe__socket_path(), "GET", url, NULL);
}

/* Through the socket: the server reads the query. */
static void a_profile_may_be_of_an_event(void **state)
{
	struct fixture *f = *state;
	uint32_t without = api_fixture__attach(f, 0, "{\"pid\":77}"), with;
	struct http_answer a = profile_of(without, "cuda-sync");

	assert_int_equal(a.status, 409);
	assert_non_null(strstr(a.body, "without \\\"cuda\\\""));
	with = api_fixture__attach(f, 0, "{\"pid\":78,\"cuda\":true}");
	for (unsigned i = 0; i < SO_CUDA_EVENT_COUNT; i++) {
		a = profile_of(with, so_cuda_events[i].word);
		assert_int_equal(a.status, 200);
		assert_non_null(strstr(a.headers, "application/octet-stream"));
		assert_int_equal(a.body_bytes, strlen(so_cuda_events[i].word));
		assert_memory_equal(a.body, so_cuda_events[i].word, a.body_bytes);
	}
	a = profile_of(with, "cuda-lunch");
	assert_int_equal(a.status, 400);
	assert_non_null(strstr(a.body, "no event 'cuda-lunch', only " SO_CUDA_EVENT_LIST));
	assert_int_equal(profile_of(with, "").status, 400);
	assert_int_equal(profile_of(99, "cuda-sync").status, 404);
}

static void others_see_nothing(void **state)
{
	static const char *const routes[][2] = {
		{ "GET", "" },         { "DELETE", "" },    { "POST", "/stop" },
		{ "GET", "/profile" }, { "GET", "/stats" }, { "GET", "/cuda" },
	};
	struct fixture *f = *state;
	uint32_t mine = api_fixture__attach(f, USER, "{\"pid\":1}"),
		 theirs = api_fixture__attach(f, OTHER_USER, "{\"pid\":2}");
	json_t *json;

	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		api_fixture__expect_error(f, USER, routes[i][0], path_of(theirs, routes[i][1]), NULL, 403,
					  "another user");
	json = api_fixture__call(f, USER, "GET", "/v1/targets", NULL, 200);
	assert_int_equal(json_array_size(json), 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(json, 0), "id")), mine);
	json_decref(json);
	json = api_fixture__call(f, 0, "GET", "/v1/targets", NULL, 200);
	assert_int_equal(json_array_size(json), 2);
	json_decref(json);
	json_decref(api_fixture__call(f, 0, "DELETE", path_of(theirs, ""), NULL, 200));
}

/* Who attached is not who owns: root's recording of a user's process is that user's to see. */
static void the_owner_counts(void **state)
{
	struct fixture *f = *state;
	uint32_t id;

	fake_engine__set_owner(f->engine, USER);
	id = api_fixture__attach(f, 0, "{\"pid\":1}");
	json_decref(api_fixture__call(f, USER, "GET", path_of(id, ""), NULL, 200));
	api_fixture__expect_error(f, OTHER_USER, "GET", path_of(id, ""), NULL, 403, "another user");
}

static void unknown_paths_and_methods(void **state)
{
	static const char *const paths[] = {
		"",
		"//",
		"/flamegraph.html/",
		"/v1",
		"/v1/targets/",
		"/v1/targets/x",
		"/v1/targets/1x",
		"/v1/targets/1/x",
		"/v1/targets/-1",
		"/v1/targets/1/stop/",
		"/v1/statusx",
		"/v2/status",
		"/v1/targets/ID",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		api_fixture__expect_error(f, 0, "GET", paths[i], NULL, 404, "there is no");
	api_fixture__expect_error(f, 0, "GET", "/v1/targets/99", NULL, 404, "no target 99");
	api_fixture__expect_error(f, 0, "GET", "/v1/targets/4294967297", NULL, 404, "no target");
	api_fixture__expect_error(f, 0, "GET", "/v1/targets/99999999999999999999999", NULL, 404, "no target");
	api_fixture__expect_error(f, 0, "PUT", "/v1/targets", NULL, 405, "only GET, POST");
	api_fixture__expect_error(f, 0, "POST", "/v1/targets/1", NULL, 405, "only GET, DELETE");
	api_fixture__expect_error(f, 0, "GET", "/v1/targets/1/stop", NULL, 405, "only POST");
}

/* Through the socket: the kernel says who asks. */
static void the_peer_is_the_caller(void **state)
{
	struct fixture *f = *state;
	const char *sock = http_probe__socket_path();
	struct http_answer a;

	if (getuid())
		skip();
	api_fixture__attach(f, 0, "{\"pid\":1}");
	a = http_probe__request_as(OTHER_USER, sock, "GET", "/v1/targets", NULL);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "[]\n");
	a = http_probe__request_as(OTHER_USER, sock, "GET", "/v1/targets/1/profile", NULL);
	assert_int_equal(a.status, 403);
	a = http_probe__request_as(OTHER_USER, sock, "POST", "/v1/targets", "{\"pid\":2}");
	assert_int_equal(a.status, 201);
	assert_non_null(strstr(a.headers, "Location: /v1/targets/2\r\n"));
	assert_int_equal(fake_engine__last_attach(f->engine).caller.uid, OTHER_USER);
	assert_int_equal(http_probe__request(sock, "GET", "/v1/targets/1/profile", NULL).status, 200);
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_fixture__setup, api_fixture__teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(status_and_check_are_for_all),
		API_TEST(costs_are_of_a_users_own_targets),
		API_TEST(attach_has_defaults),
		API_TEST(attach_passes_all_fields),
		API_TEST(attach_names_what_is_wrong),
		API_TEST(rules_are_set_and_removed),
		API_TEST(rules_that_are_none),
		API_TEST(deep_json_is_refused),
		API_TEST(engine_errors_have_their_status),
		API_TEST(limits_the_number_of_targets),
		API_TEST(a_target_lives_through_its_routes),
		API_TEST(an_exit_is_told),
		API_TEST(cuda_is_for_those_who_asked),
		API_TEST(a_profile_may_be_of_an_event),
		API_TEST(others_see_nothing),
		API_TEST(the_owner_counts),
		API_TEST(unknown_paths_and_methods),
		API_TEST(the_peer_is_the_caller),
		API_TEST(metrics_show_a_users_own_targets),
		API_TEST(categories_and_rules_are_of_ones_own),
		API_TEST(read_only_callers_change_nothing),
		cmocka_unit_test_setup_teardown(scraping_renews_no_lease, api_fixture__setup_impatient,
						api_fixture__teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
