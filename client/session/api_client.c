// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/api_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/session/interrupt.h"

#define MAX_ANSWER_BYTES ((size_t)1 << 30)

struct api_client {
	CURL *curl;
	struct curl_slist *headers;
	char *socket_path;
};

struct answer {
	char *bytes;
	size_t length, capacity;
	long status;
	int error; /* why receiving was given up */
};

static inline void cleanup__answer(struct answer *answer)
{
	free(answer->bytes);
}

static size_t on_data(char *data, size_t one, size_t size, void *context)
{
	struct answer *answer = context;

	if (size >= MAX_ANSWER_BYTES - answer->length) {
		answer->error = EFBIG;
		return 0;
	}
	if (answer->length + size > answer->capacity) {
		size_t capacity = 2 * (answer->length + size) + 4096;
		char *bytes = realloc(answer->bytes, capacity);

		if (!bytes) {
			answer->error = ENOMEM;
			return 0;
		}
		answer->bytes = bytes;
		answer->capacity = capacity;
	}
	memcpy(answer->bytes + answer->length, data, size);
	answer->length += size;
	return size;
}

int api_client__new(const char *socket_path, struct api_client **out, struct so_error *err)
{
	_cleanup_(api_client) struct api_client *client = calloc(1, sizeof(*client));

	if (!client)
		return so_err(err, -ENOMEM, "out of memory");
	client->curl = curl_easy_init();
	client->socket_path = strdup(socket_path);
	client->headers = curl_slist_append(NULL, "Content-Type: application/json");
	/* "Expect:" without a value: no waiting for "100 Continue" */
	if (!client->curl || !client->socket_path || !client->headers || !curl_slist_append(client->headers, "Expect:"))
		return so_err(err, -ENOMEM, "out of memory");
	curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(client->curl, CURLOPT_PROXY, ""); /* whatever the environment says */
	curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
	curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, on_data);
	if (curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, socket_path))
		return so_err(err, -EINVAL, "'%s' cannot be a socket's path", socket_path);
	*out = TAKE_PTR(client);
	return 0;
}

void api_client__free(struct api_client *client)
{
	if (!client)
		return;
	curl_easy_cleanup(client->curl);
	curl_slist_free_all(client->headers);
	free(client->socket_path);
	free(client);
}

static int no_connection(struct api_client *client, struct so_error *err)
{
	long error = 0;

	curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &error);
	if (error == ENOENT || error == ECONNREFUSED)
		return so_err(err, -ECONNREFUSED, "no daemon listens on %s", client->socket_path);
	if (error == EACCES || error == EPERM)
		return so_err(err, -EACCES, "you may not use the daemon's socket %s", client->socket_path);
	return so_err(err, -ECONNREFUSED, "cannot connect to %s: %s", client->socket_path,
		      error ? strerror((int)error) : "no connection");
}

static int transfer_error(struct api_client *client, CURLcode code, const struct answer *answer, struct so_error *err)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return no_connection(client, err);
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
		return so_err(err, -EIO, "the daemon closed the connection before its answer was complete");
	case CURLE_WRITE_ERROR:
		return so_err(err, -answer->error, "the daemon's answer is too large: %s", strerror(answer->error));
	case CURLE_ABORTED_BY_CALLBACK:
		return so_err(err, -ECANCELED, "interrupted");
	default:
		return so_err(err, -EIO, "talking to the daemon failed: %s", curl_easy_strerror(code));
	}
}

static int refusal(const struct answer *answer, struct so_error *err)
{
	static const struct {
		long status;
		int code;
	} codes[] = { { 400, -EINVAL }, { 403, -EPERM },   { 404, -ENOENT },
		      { 409, -EEXIST }, { 501, -ENOTSUP }, { 503, -ENOSPC } };
	json_t *root = answer->length ? json_loadb(answer->bytes, answer->length, 0, NULL) : NULL;
	const char *text = json_string_value(json_object_get(root, "error"));
	int code = -EIO;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].status == answer->status)
			code = codes[i].code;
	if (text)
		so_err(err, code, "%s", text);
	else
		so_err(err, code, "the daemon answered with HTTP status %ld", answer->status);
	json_decref(root);
	return code;
}

/* A connection that was kept open is asked first; curl itself tries again when the daemon had closed it. */
static int transfer(struct api_client *client, const char *method, const char *path, const char *body,
		    struct answer *answer, struct so_error *err)
{
	CURL *curl = client->curl;
	char url[256], error[CURL_ERROR_SIZE] = "";
	CURLcode code;

	if ((size_t)snprintf(url, sizeof(url), "http://localhost%s", path) >= sizeof(url))
		return so_err(err, -EINVAL, "the path is too long");
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L); /* undoes the former request's body */
	if (body) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	code = curl_easy_perform(curl);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
	if (code)
		return transfer_error(client, code, answer, err);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
	return 0;
}

static int perform(struct api_client *client, const char *method, const char *path, const char *body,
		   struct answer *answer, struct so_error *err)
{
	int ret = transfer(client, method, path, body, answer, err);

	if (ret)
		return ret;
	return answer->status >= 200 && answer->status < 300 ? 0 : refusal(answer, err);
}

int api_client__call(struct api_client *client, const char *method, const char *path, const json_t *body, json_t **out,
		     struct so_error *err)
{
	_cleanup_(answer) struct answer answer = { 0 };
	_cleanup_free_ char *text = NULL;
	json_t *root;
	int ret;

	if (body) {
		text = json_dumps(body, JSON_COMPACT);
		if (!text)
			return so_err(err, -ENOMEM, "out of memory");
	} else if (!strcmp(method, "POST")) {
		text = strdup("");
	}
	ret = perform(client, method, path, text, &answer, err);
	if (ret || !out)
		return ret;
	root = json_loadb(answer.bytes ? answer.bytes : "", answer.length, JSON_REJECT_DUPLICATES, NULL);
	if (!root)
		return so_err(err, -EIO, "the daemon's answer is not JSON");
	*out = root;
	return 0;
}

int api_client__download(struct api_client *client, const char *path, uint8_t **out, size_t *length,
			 struct so_error *err)
{
	_cleanup_(answer) struct answer answer = { 0 };
	int ret = perform(client, "GET", path, NULL, &answer, err);

	if (ret)
		return ret;
	if (!answer.bytes) {
		answer.bytes = malloc(1);
		if (!answer.bytes)
			return so_err(err, -ENOMEM, "out of memory");
	}
	*length = answer.length;
	*out = (uint8_t *)TAKE_PTR(answer.bytes);
	return 0;
}

const char *api_client__socket(const struct api_client *client)
{
	return client->socket_path;
}

static int is_given_up(void *context, curl_off_t total, curl_off_t now, curl_off_t total_up, curl_off_t now_up)
{
	return interrupt__pending();
}

static void take_header(CURL *curl, const char *name, char *text, size_t size)
{
	struct curl_header *header;

	text[0] = '\0';
	if (curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK)
		snprintf(text, size, "%s", header->value);
}

int api_client__pass(struct api_client *client, const char *path, struct api_answer *out, struct so_error *err)
{
	_cleanup_(answer) struct answer answer = { 0 };
	int ret;

	curl_easy_setopt(client->curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(client->curl, CURLOPT_XFERINFOFUNCTION, is_given_up);
	curl_easy_setopt(client->curl, CURLOPT_NOPROGRESS, 0L);
	ret = transfer(client, "GET", path, NULL, &answer, err);
	curl_easy_setopt(client->curl, CURLOPT_NOPROGRESS, 1L);
	if (ret)
		return ret;
	*out = (struct api_answer){ .status = (unsigned)answer.status, .length = answer.length };
	take_header(client->curl, "Content-Type", out->type, sizeof(out->type));
	take_header(client->curl, "Content-Security-Policy", out->policy, sizeof(out->policy));
	out->bytes = (uint8_t *)TAKE_PTR(answer.bytes);
	return 0;
}
