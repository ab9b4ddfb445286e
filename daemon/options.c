// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/config_file.h"
#include "daemon/history/history.h"
#include "daemon/api/listen_socket.h"
#include "daemon/os/units.h"

enum option_code {
	OPTION_SOCKET = 256,
	OPTION_SOCKET_MODE,
	OPTION_GROUP,
	OPTION_LISTEN,
	OPTION_LISTEN_ANYWHERE,
	OPTION_TOKEN_FILE,
	OPTION_CONFIG,
	OPTION_CACHE_DIR,
	OPTION_NO_CACHE,
	OPTION_STORE,
	OPTION_NO_STORE,
	OPTION_RETAIN_SIZE,
	OPTION_RETAIN_AGE,
	OPTION_WINDOW,
	OPTION_CATEGORIES,
	OPTION_NO_SOURCE_LINES,
	OPTION_MATCH,
	OPTION_CHECK_JSON,
	OPTION_API_SCHEMA,
	OPTION_PRIVATE,
	OPTION_READY_FD,
	OPTION_FORCE_TAIL_CALLS,
	OPTION_COUNTS_ENTRIES,
	OPTION_GENERATION_BYTES,
	OPTION_FILES_IDLE_MS,
	OPTION_VERSION,
	OPTION_HELP,
};

static const char help[] =
	"Usage: stakeoutd [OPTION]...\n"
	"The sampling profiler daemon: watches processes for its clients (see stakeout --help) and\n"
	"for whoever speaks HTTP to its Unix socket. Runs in the foreground until SIGTERM.\n"
	"\n"
	"  --socket PATH        where to listen (root: /run/stakeout/stakeoutd.sock, otherwise\n"
	"                       $XDG_RUNTIME_DIR/stakeout/stakeoutd.sock)\n"
	"  --socket-mode OCTAL  who may connect, as the socket's file mode (0660 with a group,\n"
	"                       otherwise 0600)\n"
	"  --group NAME         whose members may connect, and do what root may; 'none': no one (root:\n"
	"                       " OPTIONS_GROUP ", if it exists; otherwise none)\n"
	"  --listen ADDR:PORT   also serve reading requests over TCP (127.0.0.1:PORT or [::1]:PORT);\n"
	"                       each must carry the token, and may then read what root may\n"
	"  --token-file FILE    the token of --listen: one line of 16 to 256 characters\n"
	"  --listen-anywhere    let --listen take an address that other machines can reach; nothing\n"
	"                       is encrypted, the token neither\n"
	"  --config FILE        more of these options, as 'option = value' lines\n"
	"                       (" OPTIONS_CONFIG_PATH ", if it exists)\n"
	"  --cache-dir DIR      where unwind tables are kept for the next start\n"
	"  --no-cache           keep none\n"
	"  --store DIR          keep the history of attached processes there; without it, none, but for a\n"
	"                       service with a StateDirectory= of systemd's: there\n"
	"  --no-store           keep none\n"
	"  --retain-size SIZE   how large it may become: bytes, or with K, M, G, T (1G)\n"
	"  --retain-age AGE     how old: with s, m, h or d (7d)\n"
	"  --window SECONDS     how long its shortest parts are (10)\n"
	"  --match RULE         watch each process that matches, now and later; may be repeated. RULE is\n"
	"                       a regular expression of the command line, 'python.*train', or terms:\n"
	"                       'cmd=PATTERN user=NAME cgroup=PATTERN rate=HZ cuda', a value with\n"
	"                       blanks in quotes: 'cmd=\"python .*train\" user=alice'\n"
	"  --categories FILE    rules for the categories of /metrics, beside or instead of the shipped\n"
	"                       ones, as for stakeout summary\n"
	"  --no-source-lines    leave native frames without the lines and inlined functions that debug\n"
	"                       information tells, and read none\n"
	"  --check-json         print what this machine offers and what it lacks, and exit\n"
	"  --api-schema         print the schema of the HTTP API (OpenAPI 3.0, JSON), and exit\n"
	"  --version            print the version and the build-id, and exit\n"
	"  --help               print this help and exit\n"
	"\n"
	"For the client's one-shot form:\n"
	"  --private            say nothing but errors, and exit with the process that started it\n"
	"  --ready-fd N         write one line to descriptor N: 'ready', 'error: WHY', or 'denied: WHY'\n"
	"                       when a privilege is missing\n"
	"\n"
	"For tests:\n"
	"  --force-tail-calls   use the unwinder of kernels that have no bpf_loop\n"
	"  --counts-entries N   capacity of the map of counts\n"
	"  --generation-bytes N how much of an attached target's samples makes a generation\n"
	"  --files-idle-ms N    how long files are kept that no process has mapped\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage.\n";

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "socket-mode", required_argument, NULL, OPTION_SOCKET_MODE },
	{ "group", required_argument, NULL, OPTION_GROUP },
	{ "listen", required_argument, NULL, OPTION_LISTEN },
	{ "listen-anywhere", no_argument, NULL, OPTION_LISTEN_ANYWHERE },
	{ "token-file", required_argument, NULL, OPTION_TOKEN_FILE },
	{ "config", required_argument, NULL, OPTION_CONFIG },
	{ "cache-dir", required_argument, NULL, OPTION_CACHE_DIR },
	{ "no-cache", no_argument, NULL, OPTION_NO_CACHE },
	{ "store", required_argument, NULL, OPTION_STORE },
	{ "no-store", no_argument, NULL, OPTION_NO_STORE },
	{ "retain-size", required_argument, NULL, OPTION_RETAIN_SIZE },
	{ "retain-age", required_argument, NULL, OPTION_RETAIN_AGE },
	{ "window", required_argument, NULL, OPTION_WINDOW },
	{ "categories", required_argument, NULL, OPTION_CATEGORIES },
	{ "no-source-lines", no_argument, NULL, OPTION_NO_SOURCE_LINES },
	{ "match", required_argument, NULL, OPTION_MATCH },
	{ "check-json", no_argument, NULL, OPTION_CHECK_JSON },
	{ "api-schema", no_argument, NULL, OPTION_API_SCHEMA },
	{ "private", no_argument, NULL, OPTION_PRIVATE },
	{ "ready-fd", required_argument, NULL, OPTION_READY_FD },
	{ "force-tail-calls", no_argument, NULL, OPTION_FORCE_TAIL_CALLS },
	{ "counts-entries", required_argument, NULL, OPTION_COUNTS_ENTRIES },
	{ "generation-bytes", required_argument, NULL, OPTION_GENERATION_BYTES },
	{ "files-idle-ms", required_argument, NULL, OPTION_FILES_IDLE_MS },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ 0 },
};

static int parse_number(const char *name, const char *text, int base, unsigned long max, unsigned long *out,
			struct so_error *err)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, base);
	if (errno || text[0] < '0' || text[0] > '9' || *end || value > max)
		return so_err(err, -EINVAL,
			      base == 8 ? "--%s needs an octal number up to 0%lo, not '%s'"
					: "--%s needs a whole number up to %lu, not '%s'",
			      name, max, text);
	*out = value;
	return 0;
}

/* What is wrong with a rule is known where it stands. */
static int take_match(const char *text, struct daemon_options *options, struct so_error *err)
{
	_cleanup_(match_rule) struct match_rule *rule = NULL;
	struct so_error why = { .text = "" };
	int rc = match_rule__parse(text, 0, &rule, &why);

	if (rc)
		return so_err(err, rc, "--match: %.400s", why.text);
	if (options->n_matches == MATCH_RULES_MAX)
		return so_err(err, -EINVAL, "--match: there are %d rules at most", MATCH_RULES_MAX);
	options->matches[options->n_matches++] = text;
	return 0;
}

static int take(int option, const char *argument, struct daemon_options *options, struct so_error *err)
{
	unsigned long value = 0;
	int rc = 0;

	switch (option) {
	case OPTION_SOCKET:
		options->socket = argument;
		break;
	case OPTION_SOCKET_MODE:
		rc = parse_number("socket-mode", argument, 8, 0777, &value, err);
		options->socket_mode = value;
		options->socket_mode_set = true;
		break;
	case OPTION_GROUP:
		options->group = argument;
		break;
	case OPTION_CACHE_DIR:
		options->cache_dir = argument;
		if (!argument[0])
			rc = so_err(err, -EINVAL, "--cache-dir needs a directory (to have none: --no-cache)");
		break;
	case OPTION_NO_CACHE:
		options->cache_dir = "";
		break;
	case OPTION_STORE:
		options->store_dir = argument;
		if (!argument[0])
			rc = so_err(err, -EINVAL, "--store needs a directory (to have none: --no-store)");
		break;
	case OPTION_NO_STORE:
		options->store_dir = "";
		break;
	case OPTION_RETAIN_SIZE:
		rc = units__bytes("retain-size", argument, STORE_MIN_SIZE_BYTES, UNITS_MAX_BYTES,
				  &options->retain_size_bytes, err);
		break;
	case OPTION_RETAIN_AGE:
		rc = units__age("retain-age", argument, HISTORY_MIN_AGE_NS, UNITS_MAX_AGE_NS,
				&options->retain_age_ns, err);
		break;
	case OPTION_WINDOW:
		rc = parse_number("window", argument, 10, HISTORY_MAX_WINDOW_S, &value, err);
		if (!rc && value < HISTORY_MIN_WINDOW_S)
			rc = so_err(err, -EINVAL, "--window needs %d second or more", HISTORY_MIN_WINDOW_S);
		options->window_s = value;
		break;
	case OPTION_CATEGORIES:
		options->categories = argument;
		if (!argument[0])
			rc = so_err(err, -EINVAL, "--categories needs a file");
		break;
	case OPTION_NO_SOURCE_LINES:
		options->no_source_lines = true;
		break;
	case OPTION_MATCH:
		rc = take_match(argument, options, err);
		break;
	case OPTION_LISTEN:
		options->listen = argument;
		break;
	case OPTION_LISTEN_ANYWHERE:
		options->listen_anywhere = true;
		break;
	case OPTION_TOKEN_FILE:
		options->token_file = argument;
		break;
	case OPTION_CONFIG:
		break; /* read before */
	case OPTION_CHECK_JSON:
		options->check_json = true;
		break;
	case OPTION_API_SCHEMA:
		options->api_schema = true;
		break;
	case OPTION_PRIVATE:
		options->private = true;
		break;
	case OPTION_READY_FD:
		rc = parse_number("ready-fd", argument, 10, INT_MAX, &value, err);
		options->ready_fd = (int)value;
		break;
	case OPTION_FORCE_TAIL_CALLS:
		options->force_tail_calls = true;
		break;
	case OPTION_COUNTS_ENTRIES:
		rc = parse_number("counts-entries", argument, 10, 1u << 26, &value, err);
		options->counts_entries = value;
		break;
	case OPTION_GENERATION_BYTES:
		rc = parse_number("generation-bytes", argument, 10, ENGINE_ALL_SAMPLES_BYTES, &value, err);
		options->generation_bytes = value;
		break;
	case OPTION_FILES_IDLE_MS:
		rc = parse_number("files-idle-ms", argument, 10, 86400000, &value, err);
		options->files_idle_ms = value;
		break;
	case OPTION_VERSION:
		options->version = true;
		break;
	case OPTION_HELP:
		options->help = true;
		break;
	}
	return rc;
}

/* What a file may set: not what is for one start only. */
static const int settings[] = {
	OPTION_SOCKET,          OPTION_SOCKET_MODE, OPTION_GROUP,       OPTION_LISTEN,
	OPTION_LISTEN_ANYWHERE, OPTION_TOKEN_FILE,  OPTION_CACHE_DIR,   OPTION_NO_CACHE,
	OPTION_STORE,           OPTION_NO_STORE,    OPTION_RETAIN_SIZE, OPTION_RETAIN_AGE,
	OPTION_WINDOW,          OPTION_MATCH,       OPTION_CATEGORIES,  OPTION_NO_SOURCE_LINES,
};

#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

struct file_reading {
	struct daemon_options options;
	bool seen[N_SETTINGS];
};

static const struct option *find_setting(const char *name, size_t *at)
{
	for (const struct option *o = long_options; o->name; o++)
		for (size_t i = 0; i < N_SETTINGS; i++)
			if (o->val == settings[i] && !strcmp(o->name, name)) {
				*at = i;
				return o;
			}
	return NULL;
}

static int take_setting(void *context, const char *name, const char *value, struct so_error *err)
{
	struct file_reading *reading = context;
	size_t at = 0;
	const struct option *option = find_setting(name, &at);

	if (!option)
		return so_err(err, -EINVAL, "unknown option '%.60s'", name);
	if (reading->seen[at] && option->val != OPTION_MATCH)
		return so_err(err, -EINVAL, "'%s' is set a second time", name);
	reading->seen[at] = true;
	if (option->has_arg == required_argument)
		return take(option->val, value, &reading->options, err);
	if (!strcmp(value, "no"))
		return 0;
	if (strcmp(value, "yes"))
		return so_err(err, -EINVAL, "'%s' is yes or no, not '%.60s'", name, value);
	return take(option->val, NULL, &reading->options, err);
}

int daemon_options__apply_config(char *text, size_t n, const char *path, struct daemon_options *options,
				 struct so_error *err)
{
	struct file_reading reading = { .options = *options };
	int rc = config_file__parse(text, n, path, take_setting, &reading, err);

	if (!rc)
		*options = reading.options;
	return rc;
}

/* *config: what --config says. */
static int parse_flags(int argc, char **argv, struct daemon_options *options, const char **config,
		       struct so_error *err)
{
	int option, rc;

	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		if (option == ':')
			return so_err(err, -EINVAL, "option '%s' needs a value", argv[optind - 1]);
		if (option == '?')
			return so_err(err, -EINVAL, "unknown option '%s' (see stakeoutd --help)",
				      argv[optind > 1 ? optind - 1 : 1]);
		if (option == OPTION_CONFIG)
			*config = optarg;
		rc = take(option, optarg, options, err);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return so_err(err, -EINVAL, "unexpected argument '%s' (see stakeoutd --help)", argv[optind]);
	return 0;
}

/* It prints something, and serves nobody. */
static bool only_prints(const struct daemon_options *options)
{
	return options->help || options->version || options->check_json || options->api_schema;
}

/* Which file to read; NULL: none. */
static const char *config_path(const struct daemon_options *flags, const char *named, const char *otherwise)
{
	if (only_prints(flags))
		return NULL;
	return named || flags->private ? named : otherwise;
}

static int read_config(const char *path, bool optional, struct daemon_options *options, struct so_error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int rc = config_file__read(path, &text, &n, err);

	if (rc)
		return optional && rc == -ENOENT ? 0 : rc;
	rc = daemon_options__apply_config(text, n, path, options, err);
	if (!rc)
		options->config_text = TAKE_PTR(text);
	return rc;
}

static int check_door(const struct daemon_options *options, struct so_error *err)
{
	if (only_prints(options))
		return 0;
	if (options->listen && !options->token_file)
		return so_err(err, -EINVAL,
			      "--listen needs --token-file: over TCP nobody is let in without a token");
	if (!options->listen && (options->token_file || options->listen_anywhere))
		return so_err(err, -EINVAL, "--%s is for --listen, which is not there",
			      options->token_file ? "token-file" : "listen-anywhere");
	return 0;
}

/* *out stays NULL where the variable names no directory. */
static int first_directory(const char *variable, char **out, struct so_error *err)
{
	const char *value = getenv(variable);

	if (!value || value[0] != '/')
		return 0;
	*out = strndup(value, strcspn(value, ":"));
	return *out ? 0 : so_err(err, -ENOMEM, "out of memory");
}

static int take_service_directories(struct daemon_options *options, struct so_error *err)
{
	const char *cache = getenv("STAKEOUT_CACHE_DIR");
	int rc = 0;

	if (only_prints(options) || options->private)
		return 0;
	if (!options->store_dir) {
		rc = first_directory("STATE_DIRECTORY", &options->state_directory, err);
		options->store_dir = options->state_directory;
	}
	if (!rc && !options->cache_dir && !(cache && cache[0])) {
		rc = first_directory("CACHE_DIRECTORY", &options->cache_directory, err);
		options->cache_dir = options->cache_directory;
	}
	return rc;
}

static int check_store(const struct daemon_options *options, struct so_error *err)
{
	if (!options->store_dir && (options->retain_size_bytes || options->retain_age_ns || options->window_s))
		return so_err(err, -EINVAL, "--retain-size, --retain-age and --window need --store DIR");
	return 0;
}

/* The command line is gone through twice: first to know the file, then over what the file has set. */
int daemon_options__parse(int argc, char **argv, const char *default_config, struct daemon_options *out,
			  struct so_error *err)
{
	const struct daemon_options defaults = { .ready_fd = -1, .socket_mode = LISTEN_SOCKET_DEFAULT_MODE };
	struct daemon_options flags = defaults, options = defaults;
	const char *named = NULL, *path;
	int rc = parse_flags(argc, argv, &flags, &named, err);

	if (rc)
		return rc;
	path = config_path(&flags, named, default_config);
	if (path)
		rc = read_config(path, !named, &options, err);
	if (!rc)
		rc = parse_flags(argc, argv, &options, &named, err);
	if (!rc)
		rc = check_door(&options, err);
	if (!rc)
		rc = take_service_directories(&options, err);
	if (!rc)
		rc = check_store(&options, err);
	if (rc) {
		daemon_options__release(&options);
		return rc;
	}
	*out = options;
	return 0;
}

void daemon_options__release(struct daemon_options *options)
{
	free(options->config_text);
	free(options->state_directory);
	free(options->cache_directory);
	options->config_text = options->state_directory = options->cache_directory = NULL;
}

void daemon_options__print_help(void)
{
	fputs(help, stdout);
}
