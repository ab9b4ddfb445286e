// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeoutd: from the command line to a serving daemon, and back down in order. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <libgen.h>
#include <unistd.h>

#include "daemon/api/api.h"
#include "daemon/api/api_schema.h"
#include "daemon/metrics/category_windows.h"
#include "daemon/http/denials.h"
#include "daemon/engine/engine.h"
#include "daemon/http/heartbeat.h"
#include "daemon/history/history.h"
#include "daemon/http/http_server.h"
#include "daemon/incidents/incidents.h"
#include "daemon/http/listen_socket.h"
#include "daemon/os/log.h"
#include "daemon/rules/match_scan.h"
#include "daemon/options.h"
#include "daemon/http/peer.h"
#include "daemon/os/memory_helper.h"
#include "daemon/os/privileges.h"
#include "daemon/python/python_task_helper.h"
#include "daemon/os/sd_notify.h"
#include "daemon/symbols/source_reader.h"
#include "daemon/http/tcp_door.h"
#include "daemon/http/token.h"
#include "stakeout/build_id.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* Tells who waits at the ready descriptor; a reader that is gone is an error, since it will not come back. */
static int say_ready(const struct daemon_options *options, const char *word, const char *text)
{
	char line[sizeof(struct so_error) + 16];
	int n = snprintf(line, sizeof(line), "%s%s\n", word, text);

	if (options->ready_fd < 0)
		return 0;
	return write(options->ready_fd, line, n) == n ? 0 : -EPIPE;
}

static int fail(const struct daemon_options *options, int ret, const struct so_error *err)
{
	if (options->ready_fd < 0)
		log__error("%s", err->text);
	else
		say_ready(options, ret == -EPERM || ret == -EACCES ? "denied: " : "error: ", err->text);
	return EXIT_FAILURE;
}

/* Takes the reference. */
static int print_json(json_t *value)
{
	int ret = value ? json_dumpf(value, stdout, JSON_INDENT(2)) : -1;

	json_decref(value);
	if (ret || putchar('\n') == EOF || fflush(stdout)) {
		log__error("cannot print: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* PEER_NO_GROUP: none. A group that was named has to be there. */
static int find_group(const struct daemon_options *options, gid_t *out, struct so_error *err)
{
	const char *name = options->group;
	const struct group *group;

	*out = PEER_NO_GROUP;
	if (!name && !options->private && !geteuid())
		name = OPTIONS_GROUP;
	if (!name || !name[0] || !strcmp(name, "none"))
		return 0;
	group = getgrnam(name);
	if (group)
		*out = group->gr_gid;
	else if (options->group)
		return so_err(err, -EINVAL, "--group: there is no group '%.60s'", name);
	return 0;
}

static mode_t socket_mode(const struct daemon_options *options, gid_t group)
{
	if (options->socket_mode != OPTIONS_MODE_UNSET)
		return options->socket_mode;
	return group == PEER_NO_GROUP ? LISTEN_SOCKET_DEFAULT_MODE : LISTEN_SOCKET_GROUP_MODE;
}

/* Many targets have many maps, files and connections. A limit that cannot be raised is only met later. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		log__info("cannot raise the limit of open files: %s", strerror(errno));
}

/* Signals become readable on *fd; blocked before there are threads. A private daemon leaves SIGINT to its client. */
static int take_signals(bool private, int *fd, struct so_error *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (private) {
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
	} else {
		sigaddset(&set, SIGINT);
		sigaddset(&set, SIGHUP);
	}
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return so_err(err, -errno, "cannot block signals: %s", strerror(errno));
	*fd = signalfd(-1, &set, SFD_CLOEXEC);
	return *fd < 0 ? so_err(err, -errno, "cannot make a signalfd: %s", strerror(errno)) : 0;
}

static int take_ready_fd(const struct daemon_options *options, struct so_error *err)
{
	if (options->ready_fd < 0)
		return 0;
	if (options->ready_fd <= STDERR_FILENO || fcntl(options->ready_fd, F_SETFD, FD_CLOEXEC))
		return so_err(err, -EBADF, "--ready-fd %d is not an open descriptor above 2", options->ready_fd);
	return 0;
}

/*
 * A private daemon ends with its client in two independent ways: the kernel signals the parent's death (which a
 * parent that died before this call no longer does), and the ready pipe, whose reading end the client keeps,
 * reports an error once it is closed.
 */
static void wait_for_end(const struct daemon_options *options, int signal_fd)
{
	struct pollfd fds[] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = options->private ? options->ready_fd : -1 },
		{ .fd = denials__timer_fd(), .events = POLLIN },
	};

	for (;;) {
		int n = poll(fds, 3, -1);

		if ((n < 0 && errno != EINTR) || (n > 0 && (fds[0].revents || fds[1].revents)))
			return;
		if (n > 0)
			denials__flush();
	}
}

static void begin_categories(void *counters, uint32_t id)
{
	category_counters__begin(counters, id);
}

static void add_categories(void *counters, uint32_t id, const struct engine_window *window)
{
	struct so_error err = { .text = "" };

	if (category_counters__add(counters, id, window->profile, window->length, &err))
		log__error("metrics: a window of target %u has no categories: %s", id, err.text);
}

static int open_history(const struct daemon_options *options, struct engine *engine, struct category_counters *counters,
			struct history **out, struct so_error *err)
{
	struct history_options history = { .dir = options->store_dir,
					   .retain_size_bytes = options->retain_size_bytes,
					   .retain_age_ns = options->retain_age_ns,
					   .window_s = options->window_s };

	if (counters)
		history.listener = (struct history_listener){ counters, begin_categories, add_categories };

	return options->store_dir && options->store_dir[0] ? history__new(engine, &history, out, err) : 0;
}

/* What is served over TCP, where that is asked for; empty otherwise. */
struct door {
	struct token *token;
	int fd; /* -1: none, or the server's */
	char name[TCP_DOOR_NAME];
};

static void door__close(struct door *door)
{
	cleanup__close(&door->fd);
	token__free(door->token);
}

static int door__open(const struct daemon_options *options, struct door *door, struct so_error *err)
{
	int ret;

	if (!options->listen)
		return 0;
	ret = token__read(options->token_file, &door->token, err);
	return ret ? ret : tcp_door__open(options->listen, options->listen_anywhere, &door->fd, door->name, err);
}

static int door__serve(struct door *door, struct api *api, struct http_server **out, struct so_error *err)
{
	int ret;

	if (door->fd < 0)
		return 0;
	ret = http_server__start(TAKE_FD(door->fd), PEER_NO_GROUP, door->token, api__handle, api, out, err);
	if (!ret)
		log__info("listens on %s, for requests that carry the token", door->name);
	return ret;
}

/* With the rules of the command line and the configuration file. */
static int open_scan(const struct daemon_options *options, struct engine *engine, struct history *history,
		     struct match_scan **out, struct so_error *err)
{
	_cleanup_(match_scan) struct match_scan *scan = NULL;
	uint32_t id;
	int ret = match_scan__new(engine, history, NULL, &scan, err);

	for (size_t i = 0; !ret && i < options->n_matches; i++) {
		ret = match_scan__add(scan, options->matches[i], (struct caller){ 0 }, true, &id, err);
		ret = ret == -EEXIST ? 0 : ret; /* a flag says what the file says */
	}
	ret = ret ?: match_scan__start(scan, err);
	if (!ret)
		*out = TAKE_PTR(scan);
	return ret;
}

/* What the watchdog asks. */
struct vital {
	struct engine *engine;
	const char *socket_path;
	unsigned patience_ms;
};

static bool is_alive(void *context)
{
	const struct vital *vital = context;

	return engine__collects(vital->engine, vital->patience_ms) &&
	       heartbeat__serves(vital->socket_path, vital->patience_ms);
}

/* A private daemon may have inherited a service manager's variables, which are meant for others. */
static int say_started(const struct daemon_options *options, struct vital *vital, struct sd_watchdog **watchdog,
		       struct so_error *err)
{
	uint64_t watchdog_us;
	int ret = say_ready(options, "ready", "");

	if (ret)
		return so_err(err, ret, "nobody reads descriptor %d any more", options->ready_fd);
	if (options->private)
		return 0;
	ret = sd_notify__send("READY=1");
	if (ret < 0)
		log__error("cannot tell the service manager (NOTIFY_SOCKET) that all is ready: %s", strerror(-ret));
	/* It asks twice in the time; both questions together take at most half of what is between. */
	watchdog_us = sd_notify__watchdog_us();
	vital->patience_ms = (unsigned)(watchdog_us / 8 / 1000);
	return sd_watchdog__start(watchdog_us, is_alive, vital, watchdog, err);
}

/* Before there are threads, all of which inherit what is left. */
static int give_up_privileges(struct so_error *err)
{
	char kept[PRIVILEGES_TEXT], missing[PRIVILEGES_TEXT];
	int ret = privileges__drop(err);

	if (ret)
		return ret;
	privileges__names(privileges__now(), kept);
	privileges__missing(missing);
	log__info("keeps the capabilities %s%s%s", kept, missing[0] ? "; works without " : "", missing);
	return 0;
}

/* Given to what takes the windows: the history, or a thread for it alone. A private daemon has nobody to count for. */
static int open_counters(const struct category_rules *rules, struct engine *engine, struct category_counters **out,
			 struct so_error *err)
{
	return rules && category_counters__new(engine, rules, out) ? so_err(err, -ENOMEM, "out of memory") : 0;
}

static int open_incidents(const struct daemon_options *options, struct engine *engine, struct incidents **out,
			  struct so_error *err)
{
	_cleanup_free_ char *dir = NULL;

	if (!options->store_dir || !options->store_dir[0])
		return 0;
	if (asprintf(&dir, "%s/incidents", options->store_dir) < 0)
		return so_err(err, -ENOMEM, "out of memory");
	if (!incidents__new(engine, dir, out, err))
		return 0;
	/* A full or read-only disk: as the history, the daemon serves on without. */
	log__error("%s", err->text);
	return 0;
}

static int serve(const struct daemon_options *options, const struct category_rules *rules, struct engine *engine,
		 struct listen_socket *sock, gid_t group, struct door *door, int signal_fd, struct so_error *err)
{
	struct vital vital = { .engine = engine, .socket_path = listen_socket__path(sock) };
	_cleanup_(category_counters) struct category_counters *counters = NULL; /* ends after all that counts */
	_cleanup_(category_windows) struct category_windows *windows = NULL;
	_cleanup_(history) struct history *history = NULL;
	_cleanup_(incidents) struct incidents *incidents = NULL;
	_cleanup_(match_scan) struct match_scan *scan = NULL;     /* ends before the history */
	_cleanup_(api) struct api *api = NULL;                    /* ends before the history and the rules */
	_cleanup_(http_server) struct http_server *server = NULL; /* servers end before the api */
	_cleanup_(http_server) struct http_server *tcp_server = NULL;
	_cleanup_(sd_watchdog) struct sd_watchdog *watchdog = NULL;
	int ret = open_counters(rules, engine, &counters, err);

	ret = ret ?: open_history(options, engine, counters, &history, err);
	if (!ret && counters && !history)
		ret = category_windows__new(engine, counters, &windows, err);
	ret = ret ?: open_incidents(options, engine, &incidents, err);
	ret = ret ?: open_scan(options, engine, history, &scan, err);
	if (!ret)
		ret = api__new(engine,
			       &(struct api_options){ .history = history,
						      .incidents = incidents,
						      .scan = scan,
						      .categories = counters,
						      .category_windows = windows },
			       &api, err);
	ret = ret ?: http_server__start(listen_socket__take_fd(sock), group, NULL, api__handle, api, &server, err);
	ret = ret ?: door__serve(door, api, &tcp_server, err);
	if (ret)
		return ret;
	memory_helper__enable(!options->private);
	log__info("version %s listens on %s", STAKEOUT_VERSION, listen_socket__path(sock));
	ret = say_started(options, &vital, &watchdog, err);
	if (ret)
		return ret;
	wait_for_end(options, signal_fd);
	log__info("ending");
	if (!options->private)
		sd_notify__send("STOPPING=1");
	api__cancel(api);
	denials__flush();
	return 0;
}

/* The client made a directory for the socket alone; if it was killed, nobody else removes it. */
static void remove_private_dir(const struct daemon_options *options)
{
	_cleanup_free_ char *path = options->private && options->socket ? strdup(options->socket) : NULL;

	if (path)
		rmdir(dirname(path));
}

static int run(const struct daemon_options *options, const struct category_rules *rules, struct so_error *err)
{
	const struct engine_options engine_options = {
		.cache_dir = options->cache_dir,
		.no_source_lines = options->no_source_lines,
		/* Of a private daemon there is no later profile, which would have what takes long. */
		.lines_patience_ns = options->private ? 4 * ENGINE_LINES_PATIENCE_NS : ENGINE_LINES_PATIENCE_NS,
		.force_tail_calls = options->force_tail_calls,
		.counts_entries = options->counts_entries,
		.generation_bytes = options->generation_bytes,
		.files_idle_ms = options->files_idle_ms,
		.loaded = give_up_privileges,
	};
	gid_t group = PEER_NO_GROUP;
	_cleanup_(engine) struct engine *engine = NULL;
	_cleanup_(listen_socket) struct listen_socket *sock = NULL;
	__attribute__((cleanup(door__close))) struct door door = { .fd = -1 };
	_cleanup_close_ int signal_fd = -1;
	int ret = take_ready_fd(options, err);

	ret = ret ?: take_signals(options->private, &signal_fd, err);
	ret = ret ?: find_group(options, &group, err);
	ret = ret ?: listen_socket__open(options->socket, socket_mode(options, group), group, &sock, err);
	ret = ret ?: door__open(options, &door, err);
	ret = ret ?: engine__new(&engine_options, &engine, err);
	return ret ? ret : serve(options, rules, engine, sock, group, &door, signal_fd, err);
}

static void print_version(void)
{
	char build_id[BUILD_ID_TEXT];

	build_id__self(build_id);
	printf("stakeoutd %s (build-id %s)\n", STAKEOUT_VERSION, build_id);
}

int main(int argc, char **argv)
{
	_cleanup_(category_rules) struct category_rules *rules = NULL;
	struct daemon_options options;
	struct so_error err = { .text = "" };
	int ret;

	memory_helper__set_work(python_task_helper__work);
	/* What the daemon starts itself as. */
	if (argc == 2 && !strcmp(argv[1], SOURCE_READER_ARGUMENT))
		source_reader__run();
	if (argc == 2 && !strcmp(argv[1], MEMORY_HELPER_ARGUMENT))
		memory_helper__run();
	ret = daemon_options__parse(argc, argv, OPTIONS_CONFIG_PATH, &options, &err);

	if (ret) {
		log__error("%s", err.text);
		return 2;
	}
	if (options.help)
		return EXIT_SUCCESS;
	if (options.version) {
		print_version();
		return EXIT_SUCCESS;
	}
	json_object_seed(0); /* before threads, as jansson asks */
	if (options.check_json)
		return print_json(engine__check());
	if (options.api_schema)
		return print_json(api_schema__json());
	if (!options.private && category_rules__load(options.categories, &rules, &err)) {
		log__error("%s", err.text);
		daemon_options__release(&options);
		return 2;
	}
	log__set_quiet(options.private);
	if (options.private)
		prctl(PR_SET_PDEATHSIG, SIGTERM);
	raise_file_limit();
	ret = run(&options, rules, &err);
	memory_helper__kill_all();
	remove_private_dir(&options);
	ret = ret ? fail(&options, ret, &err) : EXIT_SUCCESS;
	daemon_options__release(&options);
	return ret;
}
