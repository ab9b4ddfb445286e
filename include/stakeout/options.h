/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Command lines from tables: each command lists its options, and gets parsing, checking and --help from that. */
#ifndef STAKEOUT_CLIENT_OPTIONS_H
#define STAKEOUT_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "stakeout/error.h"

#define OPTIONS_MAX            24
#define OPTIONS_MIN_RATE_HZ    1
#define OPTIONS_MAX_RATE_HZ    10000
#define OPTIONS_MAX_DURATION_S 2592000 /* 30 days; "unlimited" is 0 */

#define OPTION_TEXTS_MAX 16

struct option_texts {
	const char *list[OPTION_TEXTS_MAX];
	size_t n;
};

enum option_kind {
	OPTION_END,      /* the last entry of a table */
	OPTION_ON,       /* bool becomes true */
	OPTION_OFF,      /* bool becomes false */
	OPTION_NOTHING,  /* accepted, because another tool's users type it; value unused */
	OPTION_TEXT,     /* const char * */
	OPTION_TEXTS,    /* struct option_texts: may be given again */
	OPTION_PID,      /* pid_t: 1 … the kernel's pid_max */
	OPTION_RATE,     /* unsigned: Hz */
	OPTION_DURATION, /* double: seconds above 0, or "unlimited" = 0 */
	OPTION_PERCENT,  /* double: above 0, up to 100 */
};

struct option_entry {
	enum option_kind kind;
	char letter; /* 0: long form only */
	const char *name;
	const char *argument; /* how --help calls the value; NULL: takes none */
	void *value;
	const char *help; /* further lines begin after '\n' */
};

struct option_table {
	const char *usage; /* "record -p PID [OPTION]..." */
	const char *about; /* what the command does, and what it prints */
	const struct option_entry *entries;
	const char **positional_value; /* takes the one argument without a dash; NULL: there is none */
};

enum options_result {
	OPTIONS_GO_ON,
	OPTIONS_HELP_SHOWN, /* on standard output */
};

/*
 * argv[0] is the command's name. Strings stay argv's. Returns an options_result, or -EINVAL: wrong usage, in
 * words.
 */
int options__parse(const struct option_table *table, int argc, char **argv, struct so_error *err);
void options__print_help(const struct option_table *table);

#endif
