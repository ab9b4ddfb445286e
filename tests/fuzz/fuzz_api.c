/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The input is requests: of each the first line is who asks (r root, u a user, o another user, t someone with the
 * token), a blank, the method, a blank, path and query; what follows, up to a line "---", is its body. They go to the
 * API over an engine without a kernel, in which root watches one process and the user another, with a history of both.
 * Whatever they are:
 *   - each is answered, by JSON where it says so; what is refused by {"error": "one line"};
 *   - the other user sees nothing of the two processes and changes nothing; who has the token changes nothing.
 */
#include <ctype.h>
#include <ftw.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/api/api.h"
#include "daemon/api/api_json.h"
#include "daemon/os/log.h"
#include "tests/unit/fake_engine.c"
#include "tests/fuzz/few_categories.h"

#define USER  1000
#define OTHER 65534

#define ROOTS_PID 4194301 /* no process has these, and answers show them nowhere else */
#define USERS_PID 4194302

#define MAX_REQUESTS  16
#define MAX_ARGUMENTS 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct arguments {
	const char *names[MAX_ARGUMENTS], *values[MAX_ARGUMENTS];
	size_t n;
};

/* In the server's place, which asks its HTTP library. */
const char *http_request__argument(const struct http_request *request, const char *name)
{
	const struct arguments *arguments = request->connection;

	for (size_t i = 0; i < arguments->n; i++) {
		if (!strcmp(arguments->names[i], name))
			return arguments->values[i];
	}
	return NULL;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

static void decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '%' && digit(text[1]) >= 0 && digit(text[2]) >= 0) {
			*to++ = (char)(digit(text[1]) * 16 + digit(text[2]));
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static void split_query(char *query, struct arguments *out)
{
	for (char *next; query && out->n < MAX_ARGUMENTS; query = next) {
		char *value;

		next = strchr(query, '&');
		if (next)
			*next++ = '\0';
		value = strchr(query, '=');
		if (value)
			*value++ = '\0';
		decode(query);
		if (value)
			decode(value);
		out->names[out->n] = query;
		out->values[out->n++] = value;
	}
}

struct world {
	struct engine *engine;
	struct match_scan *scan;
	struct history *history;
	struct api *api;
};

static char dir[] = "/tmp/fuzz-api-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static uint32_t watch(struct world *w, pid_t pid, uid_t uid)
{
	const struct attach_options options = {
		.pid = pid, .rate_hz = 99, .children = true, .kernel = true, .keep = true, .caller.uid = uid
	};
	uint32_t id = 0;

	if (engine__attach(w->engine, &options, &id, NULL))
		abort();
	history__watch(w->history, id);
	return id;
}

static void begin(struct world *w)
{
	struct history_options history = { .dir = dir };
	struct api_options options = { .ended_idle_s = 0 };

	if (engine__new(NULL, &w->engine, NULL) || match_scan__new(w->engine, NULL, NULL, &w->scan, NULL) ||
	    history__new(w->engine, &history, &w->history, NULL))
		abort();
	options.scan = w->scan;
	options.history = w->history;
	if (api__new(w->engine, &options, &w->api, NULL))
		abort();
	/* Those that would wait for a profile end at once. */
	api__cancel(w->api);
	if (watch(w, ROOTS_PID, 0) != 1 || watch(w, USERS_PID, USER) != 2)
		abort();
}

static void end(struct world *w)
{
	api__free(w->api);
	history__free(w->history);
	match_scan__free(w->scan);
	engine__free(w->engine);
}

static void check_error(const json_t *json)
{
	const char *text = json_string_value(json_object_get(json, "error"));

	if (json_object_size(json) != 1 || !text || !*text || strchr(text, '\n'))
		abort();
}

static void check_reply(const struct http_reply *reply)
{
	json_t *json;

	if (reply->status < 200 || reply->status > 599 || !reply->content_type ||
	    (reply->body_bytes && !reply->body && !reply->text))
		abort();
	if (strcmp(reply->content_type, "application/json") != 0) {
		if (reply->status >= 400)
			abort();
		return;
	}
	json = json_loadb((const char *)reply->body, reply->body_bytes, JSON_DECODE_ANY, NULL);
	if (!json)
		abort();
	if (reply->status >= 400)
		check_error(json);
	json_decref(json);
}

static bool shows(const struct http_reply *reply, pid_t pid)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", pid);

	return reply->body && memmem(reply->body, reply->body_bytes, text, (size_t)n);
}

static bool changes(const char *method)
{
	return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

static void check_rights(const struct http_request *request, const struct http_reply *reply, const char *asked)
{
	bool done = reply->status < 300;

	if (request->read_only && done && changes(request->method))
		abort();
	if (request->caller.uid != OTHER)
		return;
	/* What was asked may come back in words. */
	if (done && !strstr(asked, "419430") && (shows(reply, ROOTS_PID) || shows(reply, USERS_PID)))
		abort();
	if (done && (!strncmp(request->path, "/v1/targets/1", 13) || !strncmp(request->path, "/v1/targets/2", 13)) &&
	    !isdigit((unsigned char)request->path[13]))
		abort();
}

/* line: without its end. */
static void ask(struct world *w, char *line, const char *body, size_t body_bytes)
{
	_cleanup_free_ char *asked = NULL;
	char who = line[0], *method = line + 2, *path = strchr(method, ' '), *query;
	struct arguments arguments = { .n = 0 };
	struct http_request request = {
		.body = body,
		.body_bytes = body_bytes,
		.caller.uid = who == 'u'   ? USER
			      : who == 'o' ? OTHER
					   : 0,
		.read_only = who == 't',
		.fd = -1,
		.connection = &arguments,
	};
	struct http_reply reply = { .status = 0 };

	if (!path)
		return;
	*path++ = '\0';
	if (asprintf(&asked, "%s\n%.*s", path, (int)body_bytes, body) < 0)
		abort();
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	decode(path);
	split_query(query, &arguments);
	request.peer_uid = request.caller.uid;
	request.method = method;
	request.path = path;
	api__handle(w->api, &request, &reply);
	check_reply(&reply);
	check_rights(&request, &reply, asked);
	free(reply.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;
	_cleanup_free_ char *text = malloc(size + 1);
	char *at = text, *next;
	struct world w;

	if (!text)
		return 0;
	if (!begun && !mkdtemp(dir))
		abort();
	if (!begun)
		atexit(remove_dir);
	begun = true;
	log__set_quiet(true);
	memcpy(text, data, size);
	text[size] = '\0';
	begin(&w);
	for (unsigned i = 0; i < MAX_REQUESTS && at < text + size; i++, at = next) {
		char *stop = memmem(at, (size_t)(text + size - at), "\n---\n", 5), *body;

		next = stop ? stop + 5 : text + size;
		stop = stop ?: text + size;
		*stop = '\0';
		body = memchr(at, '\n', (size_t)(stop - at));
		if (body)
			*body++ = '\0';
		else
			body = stop;
		if (strlen(at) > 3 && at[1] == ' ')
			ask(&w, at, body, (size_t)(stop - body));
	}
	end(&w);
	return 0;
}
