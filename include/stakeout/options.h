/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Command lines from tables: a command lists its options, and gets parsing, checking and --help from that. */
#ifndef STAKEOUT_OPTIONS_H
#define STAKEOUT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/error.h"

#define OPTIONS_MAX            32
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
	OPTION_HEADING,  /* no option: its help stands between others */
	OPTION_NONE,     /* const char *: becomes "" */
	OPTION_NOTHING,  /* accepted, because another tool's users type it; value unused */
	OPTION_TEXT,     /* const char *: not empty */
	OPTION_ANY_TEXT, /* the same, which may be empty */
	OPTION_TEXTS,    /* struct option_texts: may be given again */
	OPTION_PID,      /* pid_t: 1 … the kernel's pid_max; or a name (struct option_table) */
	OPTION_RATE,     /* unsigned: Hz */
	OPTION_DURATION, /* double: seconds above 0, or "unlimited" = 0 */
	OPTION_PERCENT,  /* double: above 0, up to 100 */
	OPTION_NUMBER,   /* struct option_range of an unsigned */
	OPTION_OCTAL,    /* the same */
	OPTION_SIZE,     /* of a uint64_t, bytes: "500M"; K, M, G, T are powers of 1024 */
	OPTION_AGE,      /* of an int64_t, ns: "7d"; s, m, h, d, of which one must be there */
	OPTION_TAKE,     /* struct option_taker */
};

/* A file of settings may have it, too. */
#define OPTION_SETTING 0x100

struct option_range {
	void *value;
	uint64_t min, max;
};
#define OPTION_RANGE(value, min, max) (&(struct option_range){ (value), (min), (max) })

struct option_taker {
	int (*take)(const char *text, struct so_error *err);
};

struct option_entry {
	unsigned kind; /* enum option_kind, and OPTION_SETTING */
	char letter;   /* 0: long form only */
	const char *name;
	const char *argument; /* how --help calls the value; NULL: takes none */
	void *value;
	const char *help; /* further lines begin after '\n' */
};

struct option_table {
	const char *program; /* NULL: a command of stakeout's, which argv[0] names */
	const char *usage;   /* "record -p PID [OPTION]..." */
	const char *about;   /* what the command does, and what it prints */
	const struct option_entry *entries;
	const char *end;               /* what --help ends with, or NULL */
	const char **positional_value; /* takes the one argument without a dash; NULL: there is none, but for a PID */
	struct option_texts *positionals; /* takes all of them instead */
	/* The process of a name, where one is given for a PID; as of options__parse(), *out is untouched on failure. */
	int (*find_process)(const char *name, pid_t *out, struct so_error *err);
	char ***command; /* takes what follows "--", argv's own, NULL at its end; NULL: nothing may */
};

enum options_result {
	OPTIONS_GO_ON,
	OPTIONS_HELP_SHOWN, /* on standard output */
};

/*
 * argv[0] is the command's name. A number without a dash is the value of the option for a PID, where there is one that
 * has none yet, unless a file is called so and one is asked for. Strings stay argv's. Returns an options_result, or
 * -EINVAL: wrong usage, in words.
 */
int options__parse(const struct option_table *table, int argc, char **argv, struct so_error *err);
/* The entry of a file of settings, by its full name; NULL: there is no such. */
const struct option_entry *options__setting(const struct option_table *table, const char *name);
/* Its value; one without an argument is "yes" or "no". -EINVAL, in words. */
int options__set(const struct option_entry *entry, const char *value, struct so_error *err);

/* "90", "1.5", "90s", "5m", "1h": seconds above 0; "unlimited": 0. -EINVAL, in words. */
int options__duration(const char *text, double *out, struct so_error *err);

#endif
