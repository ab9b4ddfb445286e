// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/http/denials.h"
#include "daemon/os/limits.h"
#include "daemon/http/pages.h"
#include "daemon/http/peer.h"

/* A body beyond its limit is read on this far, so that its sender gets to read the answer. */
#define DRAIN_BYTES (16 * HTTP_MAX_BODY_BYTES)
/* Request line and headers of one connection. */
#define CONNECTION_MEMORY_BYTES 32768
/* Connections beyond the limit that may be answered so at the same time; further ones are closed without a word. */
#define TURNED_AWAY 32

struct user {
	uid_t uid;
	unsigned connections;
};

struct http_server {
	struct MHD_Daemon *mhd;
	http_handler_fn *handler;
	void *context;
	const struct token *token; /* NULL: a Unix socket, whose peers the kernel names */
	gid_t group;               /* whose members may do what root may; PEER_NO_GROUP: none */
	pthread_mutex_t lock;      /* guards users */
	unsigned others;           /* connections of users without root's rights */
	struct user users[HTTP_MAX_CONNECTIONS + TURNED_AWAY];
};

/* What is known of one connection, for as long as it lasts. */
struct peer {
	struct peer_identity who;
	bool counted; /* among its user's, and */
	bool taken;   /* among all connections */
};

/* One request while it comes in. */
struct exchange {
	char *body;
	size_t bytes, capacity;
	size_t dropped;     /* beyond the limit */
	size_t reply_bytes; /* on their way to the peer */
	uid_t uid;          /* whose they are */
};

static struct user *find_user(struct http_server *server, uid_t uid)
{
	struct user *unused = NULL;

	for (size_t i = 0; i < sizeof(server->users) / sizeof(server->users[0]); i++) {
		struct user *user = &server->users[i];

		if (user->connections && user->uid == uid)
			return user;
		if (!user->connections && !unused)
			unused = user;
	}
	if (unused)
		unused->uid = uid;
	return unused;
}

static bool has_rights_of_root(const struct peer_identity *who)
{
	return who->uid == 0 || who->member;
}

/* Counts the connection in; otherwise says which limit it met. */
static bool admit(struct http_server *server, const struct peer_identity *who, enum limit *met)
{
	bool root = has_rights_of_root(who), all, own;
	struct user *user;

	pthread_mutex_lock(&server->lock);
	user = find_user(server, who->uid);
	own = user && (who->uid == 0 || user->connections < HTTP_MAX_USER_CONNECTIONS);
	all = root || server->others < HTTP_MAX_CONNECTIONS - HTTP_RESERVED_CONNECTIONS;
	if (own && all) {
		user->connections++;
		server->others += !root;
	}
	pthread_mutex_unlock(&server->lock);
	*met = own ? LIMIT_CONNECTIONS : LIMIT_USER_CONNECTIONS;
	if (!own || !all)
		limits__hit(*met, 1);
	return own && all;
}

static void dismiss(struct http_server *server, const struct peer_identity *who)
{
	struct user *user;

	pthread_mutex_lock(&server->lock);
	user = find_user(server, who->uid);
	if (user && user->connections)
		user->connections--;
	server->others -= !has_rights_of_root(who);
	pthread_mutex_unlock(&server->lock);
}

/* Answers before any request is read: one who has too many connections may never send one. */
static void turn_away(int fd, enum limit met)
{
	const char *body = met == LIMIT_USER_CONNECTIONS ? "{\"error\": \"too many connections of one user\"}\n"
							 : "{\"error\": \"too many connections\"}\n";
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
			 "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
			 strlen(body), body);

	send(fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL); /* who does not read it is refused all the same */
	shutdown(fd, SHUT_RDWR);
}

static enum limit connections_of(const struct http_server *server)
{
	return server->token ? LIMIT_TCP_CONNECTIONS : LIMIT_CONNECTIONS;
}

static void on_closed(struct http_server *server, struct peer *peer)
{
	if (peer && peer->counted)
		dismiss(server, &peer->who);
	if (peer && peer->taken)
		limits__give(connections_of(server), 1);
	free(peer);
}

/* Who it is, is not known over TCP before its token is: those connections are limited in all, not by user. */
static bool let_in(struct http_server *server, struct peer *peer, enum limit *met)
{
	if (server->token) {
		peer->who.uid = (uid_t)-1;
	} else {
		peer->counted = admit(server, &peer->who, met);
		if (!peer->counted)
			return false;
	}
	*met = connections_of(server);
	peer->taken = limits__take(*met, 1);
	return peer->taken;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
			  enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct http_server *server = context;
	struct peer *peer = *state;
	enum limit met;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		on_closed(server, peer);
		*state = NULL;
		return;
	}
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (!info)
		return;
	peer = calloc(1, sizeof(*peer));
	if (!peer || (!server->token && peer__identify(info->connect_fd, server->group, &peer->who))) {
		free(peer); /* a request without a peer is refused */
		return;
	}
	if (!let_in(server, peer, &met))
		turn_away(info->connect_fd, met);
	*state = peer;
}

static bool add_headers(struct MHD_Response *response, const struct http_reply *reply)
{
	const struct http_header one = { reply->header, reply->header_value };
	bool ok = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type) == MHD_YES &&
		  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES &&
		  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES;

	if (one.name)
		ok = ok && MHD_add_response_header(response, one.name, one.value) == MHD_YES;
	for (const struct http_header *more = reply->more_headers; more && more->name; more++)
		ok = ok && MHD_add_response_header(response, more->name, more->value) == MHD_YES;
	return ok;
}

static struct MHD_Response *make_response(const struct http_reply *reply)
{
	/* The library takes what it does not change as void *. */
	if (reply->text)
		return MHD_create_response_from_buffer(reply->body_bytes, (void *)(uintptr_t)reply->text,
						       MHD_RESPMEM_PERSISTENT);
	return MHD_create_response_from_buffer_with_free_callback(reply->body_bytes, reply->body, free);
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct http_reply *reply)
{
	struct MHD_Response *response = make_response(reply);
	enum MHD_Result ret = MHD_NO;

	if (!response) {
		free(reply->body);
		return MHD_NO;
	}
	if (add_headers(response, reply))
		ret = MHD_queue_response(connection, reply->status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *json)
{
	struct http_reply reply = { .status = status, .content_type = "application/json" };

	reply.body = (uint8_t *)strdup(json);
	if (!reply.body)
		return MHD_NO;
	reply.body_bytes = strlen(json);
	return send_reply(connection, &reply);
}

static enum MHD_Result refuse_large(struct MHD_Connection *connection)
{
	_Static_assert(HTTP_MAX_BODY_BYTES == 65536, "the message names the limit");
	limits__hit(LIMIT_BODY_BYTES, 1);
	return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "{\"error\": \"the body is larger than 65536 bytes\"}\n");
}

/* Numbers only: no names are looked up. */
static void address_of(struct MHD_Connection *connection, char *text, size_t size)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;
	char host[INET6_ADDRSTRLEN] = "?";
	in_port_t port = 0;

	if (address && address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host, sizeof(host));
		port = ((const struct sockaddr_in *)address)->sin_port;
	} else if (address && address->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, host, sizeof(host));
		port = ((const struct sockaddr_in6 *)address)->sin6_port;
	}
	snprintf(text, size, "%s port %u", host, (unsigned)ntohs(port));
}

static enum MHD_Result refuse_stranger(struct MHD_Connection *connection, const char *method, const char *path)
{
	char from[INET6_ADDRSTRLEN + 16];
	static const char body[] = "{\"error\": \"this needs the daemon's token: Authorization: Bearer TOKEN\"}\n";
	struct http_reply reply = {
		.status = MHD_HTTP_UNAUTHORIZED,
		.content_type = "application/json",
		.header = MHD_HTTP_HEADER_WWW_AUTHENTICATE,
		.header_value = "Bearer realm=\"stakeoutd\"",
		.body = (uint8_t *)strdup(body),
		.body_bytes = sizeof(body) - 1,
	};

	address_of(connection, from, sizeof(from));
	denials__add(&(struct denial){ .uid = DENIALS_NO_UID,
				       .from = from,
				       .method = method,
				       .path = path,
				       .why = "no token, or a wrong one" });
	return reply.body ? send_reply(connection, &reply) : MHD_NO;
}

/* What needs no token: it says nothing of this machine. */
static enum MHD_Result answer_stranger(struct MHD_Connection *connection, const char *method, const char *path)
{
	struct http_reply reply = { 0 };

	if (!strcmp(method, MHD_HTTP_METHOD_GET) && pages__get(path, &reply))
		return send_reply(connection, &reply);
	return refuse_stranger(connection, method, path);
}

static enum MHD_Result begin(struct http_server *server, struct MHD_Connection *connection, const char *url,
			     const char *method, void **state)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
	struct exchange *exchange;

	if (server->token && !token__matches(server->token, MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
											MHD_HTTP_HEADER_AUTHORIZATION)))
		return answer_stranger(connection, method, url);
	if (length && strtoull(length, NULL, 10) > HTTP_MAX_BODY_BYTES)
		return refuse_large(connection);
	exchange = calloc(1, sizeof(*exchange));
	if (!exchange)
		return MHD_NO;
	*state = exchange;
	return MHD_YES;
}

static bool append(struct exchange *exchange, const char *data, size_t size)
{
	if (exchange->dropped || size > HTTP_MAX_BODY_BYTES - exchange->bytes) {
		exchange->dropped += size;
		return exchange->dropped <= DRAIN_BYTES;
	}
	if (exchange->bytes + size > exchange->capacity) {
		size_t capacity = exchange->bytes + size < 1024 ? 1024 : 2 * (exchange->bytes + size);
		char *body = realloc(exchange->body, capacity + 1);

		if (!body)
			return false;
		exchange->body = body;
		exchange->capacity = capacity;
	}
	memcpy(exchange->body + exchange->bytes, data, size);
	exchange->bytes += size;
	exchange->body[exchange->bytes] = '\0';
	return true;
}

static enum MHD_Result dispatch(struct http_server *server, struct MHD_Connection *connection, const char *url,
				const char *method, struct exchange *exchange)
{
	const union MHD_ConnectionInfo *peer = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_request request = {
		.method = method,
		.path = url,
		.body = exchange->body ? exchange->body : "",
		.body_bytes = exchange->bytes,
		.connection = connection,
	};
	struct http_reply reply = { 0 };
	const struct peer *from = peer ? peer->socket_context : NULL;

	if (!from || !fd)
		return refuse(connection, MHD_HTTP_FORBIDDEN,
			      "{\"error\": \"the kernel did not say who is asking\"}\n");
	request.read_only = server->token != NULL;
	if (!server->token && !from->who.member)
		request.caller = (struct caller){ from->who.uid, from->who.gid };
	request.peer_uid = from->who.uid;
	request.peer_pid = from->who.pid;
	request.fd = fd->connect_fd;
	server->handler(server->context, &request, &reply);
	if (reply.text)
		return send_reply(connection, &reply);
	if (!limits__take_of(LIMIT_REPLY_BYTES, request.caller.uid, reply.body_bytes)) {
		free(reply.body);
		return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			      "{\"error\": \"too many large answers wait to be read: try again later\"}\n");
	}
	exchange->reply_bytes = reply.body_bytes;
	exchange->uid = request.caller.uid;
	return send_reply(connection, &reply);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
				  const char *version, const char *data, size_t *size, void **state)
{
	struct exchange *exchange = *state;

	if (!exchange)
		return begin(context, connection, url, method, state);
	if (*size) {
		bool ok = append(exchange, data, *size);

		*size = 0;
		return ok ? MHD_YES : MHD_NO;
	}
	if (exchange->dropped)
		return refuse_large(connection);
	return dispatch(context, connection, url, method, exchange);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
			 enum MHD_RequestTerminationCode code)
{
	struct exchange *exchange = *state;

	if (exchange) {
		limits__give_of(LIMIT_REPLY_BYTES, exchange->uid, exchange->reply_bytes);
		free(exchange->body);
	}
	free(exchange);
	*state = NULL;
}

/* What clients do wrong is theirs to hear, not the daemon's log's. */
static void on_log(void *context, const char *fmt, va_list ap)
{
}

const char *http_request__argument(const struct http_request *request, const char *name)
{
	if (!request->connection)
		return NULL;
	return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

int http_server__start(int listen_fd, gid_t group, const struct token *token, http_handler_fn *handler, void *context,
		       struct http_server **out, struct so_error *err)
{
	/* poll, not select: descriptors may exceed FD_SETSIZE. */
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
			 MHD_USE_ERROR_LOG;
	struct http_server *server = calloc(1, sizeof(*server));

	if (!server) {
		close(listen_fd);
		return so_err(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_init(&server->lock, NULL);
	server->token = token;
	server->group = group;
	server->handler = handler;
	server->context = context;
	/* The logger comes first: it is in force from where it stands. */
	server->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log,
				       NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
				       (unsigned)(HTTP_MAX_CONNECTIONS + TURNED_AWAY), MHD_OPTION_CONNECTION_TIMEOUT,
				       (unsigned)HTTP_IDLE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				       (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
				       MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
				       on_completed, server, MHD_OPTION_END);
	if (!server->mhd) {
		pthread_mutex_destroy(&server->lock);
		free(server);
		return so_err(err, -EIO, "cannot start the HTTP server: %s", strerror(errno));
	}
	*out = server;
	return 0;
}

void http_server__free(struct http_server *server)
{
	if (!server)
		return;
	MHD_stop_daemon(server->mhd);
	pthread_mutex_destroy(&server->lock);
	free(server);
}
