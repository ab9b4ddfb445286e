/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stakeoutd's command line and settings file: "option = value", named as the flags (config_file.h). A flag wins. */
#ifndef STAKEOUT_DAEMON_OPTIONS_H
#define STAKEOUT_DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/rules/match_rule.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define OPTIONS_CONFIG_PATH "/etc/stakeout/stakeoutd.conf" /* read where it exists */
#define OPTIONS_MODE_UNSET  ((mode_t)-1)
#define OPTIONS_GROUP       "stakeout" /* root's daemon's, where it exists */

struct daemon_options {
	const char *socket;    /* NULL: the default place */
	mode_t socket_mode;    /* OPTIONS_MODE_UNSET: by the group */
	const char *group;     /* whose members have root's rights over the socket; NULL: the default one; "": none */
	const char *cache_dir; /* NULL: the default place (unwind_cache.h); "": none */
	const char *listen;    /* NULL: no TCP */
	bool listen_anywhere;  /* also where other machines reach it */
	const char *token_file;
	const char *store_dir;                /* of the history; NULL or "": none is kept */
	uint64_t retain_size_bytes;           /* of the history; 0: the default */
	int64_t retain_age_ns;                /* 0: the default */
	unsigned window_s;                    /* 0: the default */
	const char *categories;               /* file of rules; NULL: the shipped ones alone */
	const char *matches[MATCH_RULES_MAX]; /* rules, of the file before those of flags */
	size_t n_matches;
	bool no_source_lines; /* of native code */
	bool private;         /* belongs to one client and ends with it */
	int ready_fd;         /* -1: nobody waits */
	bool force_tail_calls;
	unsigned counts_entries; /* 0: chosen by rate */
	size_t generation_bytes; /* 0: the engine's own */
	unsigned files_idle_ms;  /* 0: the default */
	bool help;               /* which has been printed */
	bool version, check_json, api_schema;
	char *config_text;                       /* owned; strings of the file lie in it */
	char *state_directory, *cache_directory; /* owned; the service manager's, where they are taken */
};

/*
 * Reads the file that --config names, else default_config where that exists (NULL: none). A private daemon, and one
 * that only prints something, reads none but the one that --config names. Other strings stay argv's.
 *
 * Where neither says it, a daemon that serves takes store_dir of $STATE_DIRECTORY and cache_dir of $CACHE_DIRECTORY, if
 * a service manager set them (systemd.exec(5)): the first of several. $STAKEOUT_CACHE_DIR (unwind_cache.h) is before
 * the latter. A private daemon takes neither: they are those of a service that its client belongs to.
 *
 * -EINVAL: wrong usage, in words, or a wrong line in the file, with file and line; -ENOMEM; others from reading the
 * file.
 */
int daemon_options__parse(int argc, char **argv, const char *default_config, struct daemon_options *out,
			  struct so_error *err);
/*
 * Takes settings from a text as config_file__parse() does; a name given twice is -EINVAL, but "match". *options is
 * untouched on failure; its strings lie in the text.
 */
int daemon_options__apply_config(char *text, size_t n, const char *path, struct daemon_options *options,
				 struct so_error *err);
void daemon_options__release(struct daemon_options *options);

#endif
