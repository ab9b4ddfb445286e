/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stakeoutd's command line. */
#ifndef STAKEOUT_DAEMON_OPTIONS_H
#define STAKEOUT_DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/error.h"

struct daemon_options {
	const char *socket; /* NULL: the default place */
	mode_t socket_mode;
	const char *cache_dir;      /* NULL: the default place; "": none */
	const char *store_dir;      /* of the history; NULL: none is kept */
	uint64_t retain_size_bytes; /* of the history; 0: the default */
	int64_t retain_age_ns;      /* 0: the default */
	unsigned window_s;          /* 0: the default */
	bool private;               /* belongs to one client and ends with it */
	int ready_fd;               /* -1: nobody waits */
	bool force_tail_calls;
	unsigned counts_entries; /* 0: chosen by rate */
	bool help, version, check_json;
};

/* The strings stay argv's. -EINVAL: wrong usage, in words. */
int daemon_options__parse(int argc, char **argv, struct daemon_options *out, struct so_error *err);
void daemon_options__print_help(void);

#endif
