// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/history/history.h"
#include "daemon/os/config_file.h"
#include "stakeout/options.h"

#define MOST_BYTES  ((uint64_t)1 << 50)
#define MOST_AGE_NS ((uint64_t)3660 * 86400 * 1000000000) /* ten years */

static const struct daemon_options defaults = { .ready_fd = -1, .socket_mode = OPTIONS_MODE_UNSET };
/* What the table's entries write to. */
static struct daemon_options taken;
static const char *named_config;

/* What is wrong with a rule is known where it stands. */
static int take_match(const char *text, struct so_error *err)
{
	_cleanup_(match_rule) struct match_rule *rule = NULL;
	struct so_error why = { .text = "" };
	int ret = match_rule__parse(text, 0, &rule, &why);

	if (ret)
		return so_err(err, ret, "--match: %.400s", why.text);
	if (taken.n_matches == MATCH_RULES_MAX)
		return so_err(err, -EINVAL, "--match: there are %d rules at most", MATCH_RULES_MAX);
	taken.matches[taken.n_matches++] = text;
	return 0;
}

static const struct option_entry entries[] = {
	{ OPTION_TEXT | OPTION_SETTING, 0, "socket", "PATH", &taken.socket,
	  "where to listen (root: /run/stakeout/stakeoutd.sock, otherwise\n"
	  "$XDG_RUNTIME_DIR/stakeout/stakeoutd.sock)" },
	{ OPTION_OCTAL | OPTION_SETTING, 0, "socket-mode", "OCTAL", OPTION_RANGE(&taken.socket_mode, 0, 0777),
	  "who may connect, as the socket's file mode (0660 with a group,\n"
	  "otherwise 0600)" },
	{ OPTION_ANY_TEXT | OPTION_SETTING, 0, "group", "NAME", &taken.group,
	  "whose members may connect, and do what root may; 'none': no one\n"
	  "(root: " OPTIONS_GROUP ", if it exists; otherwise none)" },
	{ OPTION_TEXT | OPTION_SETTING, 0, "listen", "ADDR:PORT", &taken.listen,
	  "also serve reading requests over TCP (127.0.0.1:PORT or\n"
	  "[::1]:PORT); each must carry the token, and may then read what\n"
	  "root may" },
	{ OPTION_TEXT | OPTION_SETTING, 0, "token-file", "FILE", &taken.token_file,
	  "the token of --listen: one line of 16 to 256 characters" },
	{ OPTION_ON | OPTION_SETTING, 0, "listen-anywhere", NULL, &taken.listen_anywhere,
	  "let --listen take an address that other machines can reach;\n"
	  "nothing is encrypted, the token neither" },
	{ OPTION_TEXT, 0, "config", "FILE", &named_config,
	  "more of these options, as 'option = value' lines\n"
	  "(" OPTIONS_CONFIG_PATH ", if it exists)" },
	{ OPTION_TEXT | OPTION_SETTING, 0, "cache-dir", "DIR", &taken.cache_dir,
	  "where unwind tables are kept for the next start" },
	{ OPTION_NONE | OPTION_SETTING, 0, "no-cache", NULL, &taken.cache_dir, "keep none" },
	{ OPTION_TEXT | OPTION_SETTING, 0, "store", "DIR", &taken.store_dir,
	  "keep the history of attached processes there; without it, none,\n"
	  "but for a service with a StateDirectory= of systemd's: there" },
	{ OPTION_NONE | OPTION_SETTING, 0, "no-store", NULL, &taken.store_dir, "keep none" },
	{ OPTION_SIZE | OPTION_SETTING, 0, "retain-size", "SIZE",
	  OPTION_RANGE(&taken.retain_size_bytes, STORE_MIN_SIZE_BYTES, MOST_BYTES),
	  "how large it may become: bytes, or with K, M, G, T (1G)" },
	{ OPTION_AGE | OPTION_SETTING, 0, "retain-age", "AGE",
	  OPTION_RANGE(&taken.retain_age_ns, HISTORY_MIN_AGE_NS, MOST_AGE_NS), "how old: with s, m, h or d (7d)" },
	{ OPTION_NUMBER | OPTION_SETTING, 0, "window", "SECONDS",
	  OPTION_RANGE(&taken.window_s, HISTORY_MIN_WINDOW_S, HISTORY_MAX_WINDOW_S),
	  "how long its shortest parts are (10)" },
	{ OPTION_TAKE | OPTION_SETTING, 0, "match", "RULE", &(struct option_taker){ take_match },
	  "watch each process that matches, now and later; may be repeated.\n"
	  "RULE is a regular expression of the command line,\n"
	  "'python.*train', or terms: 'cmd=PATTERN user=NAME cgroup=PATTERN\n"
	  "rate=HZ cuda', a value with blanks in quotes:\n"
	  "'cmd=\"python .*train\" user=alice'" },
	{ OPTION_TEXT | OPTION_SETTING, 0, "categories", "FILE", &taken.categories,
	  "rules for the categories of /metrics, beside or instead of the\n"
	  "shipped ones, as for stakeout summary" },
	{ OPTION_ON | OPTION_SETTING, 0, "no-source-lines", NULL, &taken.no_source_lines,
	  "leave native frames without the lines and inlined functions that\n"
	  "debug information has, and read none" },
	{ OPTION_ON, 0, "check-json", NULL, &taken.check_json,
	  "print what this machine offers and what it lacks, and exit" },
	{ OPTION_ON, 0, "api-schema", NULL, &taken.api_schema,
	  "print the schema of the HTTP API (OpenAPI 3.0, JSON), and exit" },
	{ OPTION_ON, 0, "version", NULL, &taken.version, "print the version and the build-id, and exit" },
	{ OPTION_HEADING, .help = "For the client's one-shot form:" },
	{ OPTION_ON, 0, "private", NULL, &taken.private,
	  "say nothing but errors, and exit with the process that started it" },
	{ OPTION_NUMBER, 0, "ready-fd", "N", OPTION_RANGE(&taken.ready_fd, 0, INT_MAX),
	  "write one line to descriptor N: 'ready', 'error: WHY', or\n"
	  "'denied: WHY' when a privilege is missing" },
	{ OPTION_HEADING, .help = "For tests:" },
	{ OPTION_ON, 0, "force-tail-calls", NULL, &taken.force_tail_calls,
	  "use the unwinder of kernels that have no bpf_loop" },
	{ OPTION_NUMBER, 0, "counts-entries", "N", OPTION_RANGE(&taken.counts_entries, 0, 1u << 26),
	  "capacity of the map of counts" },
	{ OPTION_SIZE, 0, "generation-bytes", "N", OPTION_RANGE(&taken.generation_bytes, 0, ENGINE_ALL_SAMPLES_BYTES),
	  "how much of an attached target's samples makes a generation" },
	{ OPTION_NUMBER, 0, "files-idle-ms", "N", OPTION_RANGE(&taken.files_idle_ms, 0, 86400000),
	  "how long files are kept that no process has mapped" },
	{ OPTION_END },
};

static const struct option_table table = {
	.program = "stakeoutd",
	.usage = "[OPTION]...",
	.about = "The sampling profiler daemon: watches processes for its clients (see stakeout --help) and\n"
		 "for whoever speaks HTTP to its Unix socket. Runs in the foreground until SIGTERM.",
	.entries = entries,
	.end = "Exit status: 0 done, 1 failed, 2 wrong usage.",
};

/* context: bool of each entry, whether the file has set it. */
static int take_setting(void *context, const char *name, const char *value, struct so_error *err)
{
	const struct option_entry *entry = options__setting(&table, name);
	bool *seen = context;

	if (!entry)
		return so_err(err, -EINVAL, "unknown option '%.60s'", name);
	if (seen[entry - entries] && entry->kind != (OPTION_TAKE | OPTION_SETTING))
		return so_err(err, -EINVAL, "'%s' is set a second time", name);
	seen[entry - entries] = true;
	return options__set(entry, value, err);
}

int daemon_options__apply_config(char *text, size_t n, const char *path, struct daemon_options *options,
				 struct so_error *err)
{
	bool seen[sizeof(entries) / sizeof(entries[0])] = { false };
	int ret;

	taken = *options;
	ret = config_file__parse(text, n, path, take_setting, seen, err);
	if (!ret)
		*options = taken;
	return ret;
}

static int parse_flags(int argc, char **argv, struct daemon_options *options, struct so_error *err)
{
	int ret;

	taken = *options;
	ret = options__parse(&table, argc, argv, err);
	taken.help = ret == OPTIONS_HELP_SHOWN;
	*options = taken;
	return ret < 0 ? ret : 0;
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
	int ret = config_file__read(path, &text, &n, err);

	if (ret)
		return optional && ret == -ENOENT ? 0 : ret;
	ret = daemon_options__apply_config(text, n, path, options, err);
	if (!ret)
		options->config_text = TAKE_PTR(text);
	return ret;
}

static int check_door(const struct daemon_options *options, struct so_error *err)
{
	if (only_prints(options))
		return 0;
	if (options->listen && !options->token_file)
		return so_err(err, -EINVAL, "--listen needs --token-file: over TCP nobody is let in without a token");
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
	int ret = 0;

	if (only_prints(options) || options->private)
		return 0;
	if (!options->store_dir) {
		ret = first_directory("STATE_DIRECTORY", &options->state_directory, err);
		options->store_dir = options->state_directory;
	}
	if (!ret && !options->cache_dir && !(cache && cache[0])) {
		ret = first_directory("CACHE_DIRECTORY", &options->cache_directory, err);
		options->cache_dir = options->cache_directory;
	}
	return ret;
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
	struct daemon_options flags = defaults, options = defaults;
	const char *path;
	int ret;

	named_config = NULL;
	ret = parse_flags(argc, argv, &flags, err);
	if (ret)
		return ret;
	path = config_path(&flags, named_config, default_config);
	if (path)
		ret = read_config(path, !named_config, &options, err);
	if (!ret)
		ret = flags.help ? (options.help = true, 0) : parse_flags(argc, argv, &options, err);
	if (!ret)
		ret = check_door(&options, err);
	ret = ret ?: take_service_directories(&options, err);
	ret = ret ?: check_store(&options, err);
	if (ret) {
		daemon_options__release(&options);
		return ret;
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
