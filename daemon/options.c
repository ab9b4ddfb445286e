// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/history.h"
#include "daemon/listen_socket.h"
#include "daemon/units.h"

enum option_code {
	OPTION_SOCKET = 256,
	OPTION_SOCKET_MODE,
	OPTION_CACHE_DIR,
	OPTION_NO_CACHE,
	OPTION_STORE,
	OPTION_RETAIN_SIZE,
	OPTION_RETAIN_AGE,
	OPTION_WINDOW,
	OPTION_CHECK_JSON,
	OPTION_PRIVATE,
	OPTION_READY_FD,
	OPTION_FORCE_TAIL_CALLS,
	OPTION_COUNTS_ENTRIES,
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
	"  --socket-mode OCTAL  who may connect, as the socket's file mode (0600)\n"
	"  --cache-dir DIR      where unwind tables are kept for the next start\n"
	"  --no-cache           keep none\n"
	"  --store DIR          keep the history of attached processes there; without it, none\n"
	"  --retain-size SIZE   how large it may become: bytes, or with K, M, G, T (1G)\n"
	"  --retain-age AGE     how old: with s, m, h or d (7d)\n"
	"  --window SECONDS     how long its shortest parts are (10)\n"
	"  --check-json         print what this machine offers and what it lacks, and exit\n"
	"  --version            print the version and exit\n"
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
	"\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage.\n";

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "socket-mode", required_argument, NULL, OPTION_SOCKET_MODE },
	{ "cache-dir", required_argument, NULL, OPTION_CACHE_DIR },
	{ "no-cache", no_argument, NULL, OPTION_NO_CACHE },
	{ "store", required_argument, NULL, OPTION_STORE },
	{ "retain-size", required_argument, NULL, OPTION_RETAIN_SIZE },
	{ "retain-age", required_argument, NULL, OPTION_RETAIN_AGE },
	{ "window", required_argument, NULL, OPTION_WINDOW },
	{ "check-json", no_argument, NULL, OPTION_CHECK_JSON },
	{ "private", no_argument, NULL, OPTION_PRIVATE },
	{ "ready-fd", required_argument, NULL, OPTION_READY_FD },
	{ "force-tail-calls", no_argument, NULL, OPTION_FORCE_TAIL_CALLS },
	{ "counts-entries", required_argument, NULL, OPTION_COUNTS_ENTRIES },
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
			rc = so_err(err, -EINVAL, "--store needs a directory");
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
	case OPTION_CHECK_JSON:
		options->check_json = true;
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
	case OPTION_VERSION:
		options->version = true;
		break;
	case OPTION_HELP:
		options->help = true;
		break;
	}
	return rc;
}

int daemon_options__parse(int argc, char **argv, struct daemon_options *out, struct so_error *err)
{
	struct daemon_options options = { .ready_fd = -1, .socket_mode = LISTEN_SOCKET_DEFAULT_MODE };
	int option, rc;

	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		if (option == ':')
			return so_err(err, -EINVAL, "option '%s' needs a value", argv[optind - 1]);
		if (option == '?')
			return so_err(err, -EINVAL, "unknown option '%s' (see stakeoutd --help)",
				      argv[optind > 1 ? optind - 1 : 1]);
		rc = take(option, optarg, &options, err);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return so_err(err, -EINVAL, "unexpected argument '%s' (see stakeoutd --help)", argv[optind]);
	if (!options.store_dir && (options.retain_size_bytes || options.retain_age_ns || options.window_s))
		return so_err(err, -EINVAL, "--retain-size, --retain-age and --window need --store DIR");
	*out = options;
	return 0;
}

void daemon_options__print_help(void)
{
	fputs(help, stdout);
}
