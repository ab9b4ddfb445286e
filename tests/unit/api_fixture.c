// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/unit/api_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/http_probe.h"

static struct fixture *open_fixture(const struct api_options *options)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct api_options with_rules = options ? *options : (struct api_options){ .scan = NULL };
	struct so_error err = { .text = "" };

	assert_non_null(f);
	assert_int_equal(engine__new(NULL, &f->engine, &err), 0);
	/* Without its thread: nothing is attached. */
	assert_int_equal(match_scan__new(f->engine, NULL, NULL, &f->scan, &err), 0);
	with_rules.scan = f->scan;
	assert_int_equal(api__new(f->engine, &with_rules, &f->api, &err), 0);
	assert_int_equal(listen_socket__open(http_probe__socket_path(), 0666, -1, &f->sock, &err), 0);
	assert_int_equal(http_server__start(listen_socket__take_fd(f->sock), PEER_NO_GROUP, NULL, api__handle, f->api,
					    &f->server, &err),
			 0);
	return f;
}

int api_fixture__setup(void **state)
{
	*state = open_fixture(NULL);
	return 0;
}

int api_fixture__setup_impatient(void **state)
{
	const struct api_options options = { .ended_idle_s = 0.4, .running_idle_s = 0.2 };

	*state = open_fixture(&options);
	return 0;
}

int api_fixture__teardown(void **state)
{
	struct fixture *f = *state;

	api__cancel(f->api);
	http_server__free(f->server);
	listen_socket__free(f->sock);
	api__free(f->api);
	match_scan__free(f->scan);
	engine__free(f->engine);
	free(f);
	return 0;
}

json_t *api_fixture__call(struct fixture *f, uid_t uid, const char *method, const char *path, const char *body,
			  unsigned status)
{
	struct http_request request = {
		.method = method, .path = path, .body = body ? body : "", .caller.uid = uid, .fd = -1
	};
	struct http_reply reply = { 0 };
	json_t *json = NULL;

	request.body_bytes = strlen(request.body);
	api__handle(f->api, &request, &reply);
	if (reply.status != status)
		fail_msg("%s %s: %u instead of %u: %.*s", method, path, reply.status, status, (int)reply.body_bytes,
			 (const char *)reply.body);
	assert_non_null(reply.content_type);
	if (!strcmp(reply.content_type, "application/json")) {
		json = json_loadb((const char *)reply.body, reply.body_bytes, 0, NULL);
		assert_non_null(json);
	}
	free(reply.body);
	return json;
}

void api_fixture__expect_error(struct fixture *f, uid_t uid, const char *method, const char *path, const char *body,
			       unsigned status, const char *words)
{
	json_t *json = api_fixture__call(f, uid, method, path, body, status);
	const char *text = json_string_value(json_object_get(json, "error"));

	assert_int_equal(json_object_size(json), 1);
	assert_non_null(text);
	assert_null(strchr(text, '\n'));
	if (!strstr(text, words))
		fail_msg("%s %s %s: \"%s\" does not say \"%s\"", method, path, body ? body : "", text, words);
	json_decref(json);
}

uint32_t api_fixture__attach(struct fixture *f, uid_t uid, const char *body)
{
	json_t *json = api_fixture__call(f, uid, "POST", "/v1/targets", body, 201);
	uint32_t id = (uint32_t)json_integer_value(json_object_get(json, "id"));

	assert_int_not_equal(id, 0);
	json_decref(json);
	return id;
}
