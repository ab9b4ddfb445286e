// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/page_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET_BYTES   16
#define SECRET_CHARS   (2 * SECRET_BYTES)
#define BEARER         "Bearer "
#define CONNECTIONS    64
#define BACKLOG        64
#define IDLE_TIMEOUT_S 30

static const char *const page_paths[] = { "/", "/flamegraph.html" };
#define PAGES (sizeof(page_paths) / sizeof(page_paths[0]))

struct page_server {
	struct MHD_Daemon *mhd;
	char *socket_path;
	uint16_t port;
	char authorization[sizeof(BEARER) + SECRET_CHARS];
	char url[64 + SECRET_CHARS];
	struct api_answer pages[PAGES];
};

static enum MHD_Result answer(struct MHD_Connection *connection, const struct api_answer *what,
			      struct MHD_Response *response)
{
	bool ok = response && MHD_add_response_header(response, "Content-Type", what->type) == MHD_YES &&
		  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES &&
		  MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
		  MHD_add_response_header(response, "Referrer-Policy", "no-referrer") == MHD_YES &&
		  MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin") == MHD_YES &&
		  MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin") == MHD_YES;

	if (what->policy[0])
		ok = ok && MHD_add_response_header(response, "Content-Security-Policy", what->policy) == MHD_YES;
	ok = ok && MHD_queue_response(connection, what->status, response) == MHD_YES;
	if (response)
		MHD_destroy_response(response);
	return ok ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *words)
{
	const struct api_answer what = { .status = status, .type = "application/json" };
	json_auto_t *json = json_pack("{s:s}", "error", words);
	char *text = json ? json_dumps(json, 0) : NULL;

	return text ? answer(connection, &what,
			     MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE))
		    : MHD_NO;
}

/* Not by a name that somebody let point here, and not for a page of another origin. */
static bool is_ours(const struct page_server *server, const char *text, const char *before)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost" };
	char ours[64];

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		snprintf(ours, sizeof(ours), "%s%s:%u", before, hosts[i], (unsigned)server->port);
		if (text && !strcmp(text, ours))
			return true;
	}
	return false;
}

/* How long it takes does not depend on how much is right. */
static bool knows_secret(const struct page_server *server, const char *authorization)
{
	size_t n = authorization ? strlen(authorization) : 0;
	volatile unsigned char difference = n != sizeof(BEARER) - 1 + SECRET_CHARS;

	for (size_t i = 0; i < n; i++)
		difference |= (unsigned char)authorization[i] ^
			      (unsigned char)server->authorization[i % (sizeof(server->authorization) - 1)];
	return !difference;
}

static bool is_passed_on(const char *uri)
{
	if (strncmp(uri, "/v1/", 4) != 0)
		return false;
	for (; *uri; uri++)
		if (*uri <= ' ' || *uri > '~' || *uri == '#')
			return false;
	return true;
}

static enum MHD_Result pass_on(const struct page_server *server, struct MHD_Connection *connection, const char *uri)
{
	_cleanup_(api_client) struct api_client *client = NULL;
	struct so_error err = { .text = "" };
	struct api_answer what = { 0 };
	int ret = api_client__new(server->socket_path, &client, &err);

	ret = ret ?: api_client__pass(client, uri, &what, &err);
	if (ret)
		return refuse(connection, MHD_HTTP_BAD_GATEWAY, err.text);
	return answer(connection, &what,
		      MHD_create_response_from_buffer(what.length, what.bytes, MHD_RESPMEM_MUST_FREE));
}

static const struct api_answer *page_of(const struct page_server *server, const char *path)
{
	for (size_t i = 0; i < PAGES; i++)
		if (!strcmp(path, page_paths[i]))
			return &server->pages[i];
	return NULL;
}

/* Answers when the headers are there: a body is not waited for. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *data, size_t *size, void **uri)
{
	const struct page_server *server = context;
	const struct api_answer *page = page_of(server, path);
	const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");

	if (!is_ours(server, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"), ""))
		return refuse(connection, MHD_HTTP_FORBIDDEN, "this is for 127.0.0.1 and localhost alone");
	if (origin && !is_ours(server, origin, "http://"))
		return refuse(connection, MHD_HTTP_FORBIDDEN, "this is not for pages of other origins");
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is passed on to the daemon");
	if (page)
		return answer(connection, page,
			      MHD_create_response_from_buffer(page->length, page->bytes, MHD_RESPMEM_PERSISTENT));
	if (!knows_secret(server, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization")))
		return refuse(connection, MHD_HTTP_UNAUTHORIZED,
			      "this needs the secret of the address that 'stakeout open' printed");
	if (!*uri || !is_passed_on(*uri))
		return refuse(connection, MHD_HTTP_NOT_FOUND, "only what is below /v1/ is passed on to the daemon");
	return pass_on(server, connection, *uri);
}

/* As it was sent: path and query are the daemon's to decode. */
static void *keep_uri(void *context, const char *uri, struct MHD_Connection *connection)
{
	return strdup(uri);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **uri,
			 enum MHD_RequestTerminationCode code)
{
	free(*uri);
	*uri = NULL;
}

/* What a browser does wrong is its to hear. */
static void on_log(void *context, const char *fmt, va_list ap)
{
}

static int read_pages(struct page_server *server, struct api_client *api, struct so_error *err)
{
	for (size_t i = 0; i < PAGES; i++) {
		int ret = api_client__pass(api, page_paths[i], &server->pages[i], err);

		if (ret)
			return ret;
		if (server->pages[i].status != MHD_HTTP_OK || !server->pages[i].policy[0])
			return so_err(err, -ENOENT, "the daemon has no page: it is older than this command");
	}
	return 0;
}

static int make_secret(struct page_server *server, struct so_error *err)
{
	unsigned char bytes[SECRET_BYTES];
	char *text = server->authorization + sizeof(BEARER) - 1;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return so_err(err, -errno, "cannot get a random secret: %s", strerror(errno));
	memcpy(server->authorization, BEARER, sizeof(BEARER) - 1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int bind_and_listen(uint16_t port, uint16_t *bound, int *out, struct so_error *err)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(address);
	int on = 1;

	/* Connections of an earlier page that linger must not keep this one from its port. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&address, &size))
		return so_err(err, -errno, "cannot listen on 127.0.0.1:%u: %s", (unsigned)port, strerror(errno));
	*bound = ntohs(address.sin_port);
	*out = TAKE_FD(fd);
	return 0;
}

/* Takes the descriptor. */
static int serve(struct page_server *server, int fd, struct so_error *err)
{
	server->mhd = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
					       MHD_USE_ITC | MHD_USE_ERROR_LOG,
				       0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
				       MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
				       MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S,
				       MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, keep_uri, NULL,
				       MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
	if (!server->mhd) {
		close(fd);
		return so_err(err, -EIO, "cannot start the HTTP server: %s", strerror(errno));
	}
	return 0;
}

int page_server__start(struct api_client *api, uint16_t port, struct page_server **out, struct so_error *err)
{
	_cleanup_(page_server) struct page_server *server = calloc(1, sizeof(*server));
	_cleanup_close_ int fd = -1;
	int ret;

	if (!server)
		return so_err(err, -ENOMEM, "out of memory");
	server->socket_path = strdup(api_client__socket(api));
	if (!server->socket_path)
		return so_err(err, -ENOMEM, "out of memory");
	ret = read_pages(server, api, err);
	ret = ret ?: make_secret(server, err);
	ret = ret ?: bind_and_listen(port, &server->port, &fd, err);
	if (ret)
		return ret;
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u/#secret=%s", (unsigned)server->port,
		 server->authorization + sizeof(BEARER) - 1);
	ret = serve(server, TAKE_FD(fd), err);
	if (!ret)
		*out = TAKE_PTR(server);
	return ret;
}

const char *page_server__url(const struct page_server *server)
{
	return server->url;
}

void page_server__free(struct page_server *server)
{
	if (!server)
		return;
	if (server->mhd)
		MHD_stop_daemon(server->mhd);
	for (size_t i = 0; i < PAGES; i++)
		free(server->pages[i].bytes);
	free(server->socket_path);
	explicit_bzero(server, sizeof(*server));
	free(server);
}
