// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"

#define HELP_CODE  1000
#define FIRST_CODE 1001    /* getopt's code of entry i is FIRST_CODE + i */
#define PID_LIMIT  4194304 /* PID_MAX_LIMIT of the kernel's include/linux/threads.h */

static long pid_max(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
	long max;

	return f && fscanf(f, "%ld", &max) == 1 && max > 0 && max < PID_LIMIT ? max : PID_LIMIT;
}

/* Digits only: no blanks, no sign, no exponent. */
static int parse_whole(const char *text, long max, long *out)
{
	char *end;
	long value;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || value < 1 || value > max)
		return -EINVAL;
	*out = value;
	return 0;
}

static int parse_pid(const char *text, pid_t *out, struct so_error *err)
{
	long value, max = pid_max();

	if (parse_whole(text, max, &value))
		return so_err(err, -EINVAL, "'%s' is not a process ID: a whole number from 1 to %ld", text,
			      max);
	*out = (pid_t)value;
	return 0;
}

static int parse_rate(const char *text, unsigned *out, struct so_error *err)
{
	long value;

	if (parse_whole(text, OPTIONS_MAX_RATE_HZ, &value))
		return so_err(err, -EINVAL, "'%s' is not a sampling rate: a whole number of Hz from %d to %d",
			      text, OPTIONS_MIN_RATE_HZ, OPTIONS_MAX_RATE_HZ);
	*out = (unsigned)value;
	return 0;
}

static int parse_duration(const char *text, double *out, struct so_error *err)
{
	double value;
	char *end;

	if (!strcmp(text, "unlimited")) {
		*out = 0;
		return 0;
	}
	value = strtod(text, &end);
	/* Only digits and a point: strtod also knows "inf", "0x10" and leading blanks. */
	if (strspn(text, "0123456789.") != strlen(text) || end == text || *end || !(value > 0) ||
	    value > OPTIONS_MAX_DURATION_S)
		return so_err(err, -EINVAL,
			      "'%s' is not a duration: seconds above 0 and up to %d, or 'unlimited'", text,
			      OPTIONS_MAX_DURATION_S);
	*out = value;
	return 0;
}

static int parse_percent(const struct option_entry *entry, const char *text, struct so_error *err)
{
	char *end;
	double value = strtod(text, &end);

	if (strspn(text, "0123456789.") != strlen(text) || end == text || *end || !(value > 0 && value <= 100))
		return so_err(err, -EINVAL, "--%s: '%s' is no percentage above 0, up to 100", entry->name,
			      text);
	*(double *)entry->value = value;
	return 0;
}

static int take_text(const struct option_entry *entry, const char *text, struct so_error *err)
{
	struct option_texts *texts = entry->value;

	if (!text[0])
		return so_err(err, -EINVAL, "--%s needs a value that is not empty", entry->name);
	if (entry->kind == OPTION_TEXT) {
		*(const char **)entry->value = text;
		return 0;
	}
	if (texts->n == OPTION_TEXTS_MAX)
		return so_err(err, -EINVAL, "--%s is given more than %d times", entry->name, OPTION_TEXTS_MAX);
	texts->list[texts->n++] = text;
	return 0;
}

static int take(const struct option_entry *entry, const char *text, struct so_error *err)
{
	switch (entry->kind) {
	case OPTION_ON:
	case OPTION_OFF:
		*(bool *)entry->value = entry->kind == OPTION_ON;
		return 0;
	case OPTION_TEXT:
	case OPTION_TEXTS:
		return take_text(entry, text, err);
	case OPTION_PID:
		return parse_pid(text, entry->value, err);
	case OPTION_RATE:
		return parse_rate(text, entry->value, err);
	case OPTION_DURATION:
		return parse_duration(text, entry->value, err);
	case OPTION_PERCENT:
		return parse_percent(entry, text, err);
	case OPTION_NOTHING:
	case OPTION_END:
		break;
	}
	return 0;
}

/* The two forms that getopt_long() wants. */
struct getopt_tables {
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 8];
};

static void build(const struct option_table *table, struct getopt_tables *out)
{
	char *s = out->shorts;
	size_t n = 0;

	memset(out, 0, sizeof(*out));
	/* '+': options end at the first other word; ':': a missing value is told apart from an unknown option */
	*s++ = table->positional_value ? '-' : '+';
	*s++ = ':';
	*s++ = 'h';
	out->longs[n++] = (struct option){ "help", no_argument, NULL, HELP_CODE };
	for (size_t i = 0; i < OPTIONS_MAX && table->entries[i].kind != OPTION_END; i++) {
		const struct option_entry *entry = &table->entries[i];

		out->longs[n++] =
			(struct option){ entry->name, entry->argument ? required_argument : no_argument, NULL,
					 FIRST_CODE + (int)i };
		if (!entry->letter)
			continue;
		*s++ = entry->letter;
		if (entry->argument)
			*s++ = ':';
	}
}

static const struct option_entry *entry_of(const struct option_table *table, int code)
{
	if (code >= FIRST_CODE)
		return &table->entries[code - FIRST_CODE];
	for (const struct option_entry *entry = table->entries; entry->kind != OPTION_END; entry++)
		if (entry->letter == code)
			return entry;
	return NULL;
}

static int unknown(const char *command, char **argv, struct so_error *err)
{
	if (optopt > 0 && optopt < HELP_CODE)
		return so_err(err, -EINVAL, "unknown option '-%c' (see %s --help)", optopt, command);
	if (optopt >= HELP_CODE)
		return so_err(err, -EINVAL, "'%s': this option takes no value", argv[optind - 1]);
	return so_err(err, -EINVAL, "unknown option '%s' (see %s --help)", argv[optind - 1], command);
}

static int take_positional(const struct option_table *table, const char *command, const char *word,
			   struct so_error *err)
{
	if (!table->positional_value || *table->positional_value)
		return so_err(err, -EINVAL, "unexpected argument '%s' (see %s --help)", word, command);
	*table->positional_value = word;
	return 0;
}

int options__parse(const struct option_table *table, int argc, char **argv, struct so_error *err)
{
	struct getopt_tables tables;
	char command[64];
	int code, rc = 0;

	build(table, &tables);
	snprintf(command, sizeof(command), "stakeout%s%s", argv[0][0] ? " " : "", argv[0]);
	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while (!rc && (code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		if (code == 'h' || code == HELP_CODE) {
			options__print_help(table);
			return OPTIONS_HELP_SHOWN;
		}
		if (code == ':')
			return so_err(err, -EINVAL, "option '%s' needs a value", argv[optind - 1]);
		if (code == '?')
			return unknown(command, argv, err);
		rc = code == 1 ? take_positional(table, command, optarg, err)
			       : take(entry_of(table, code), optarg, err);
	}
	for (; !rc && optind < argc; optind++)
		rc = take_positional(table, command, argv[optind], err);
	return rc;
}

static void print_entry(const struct option_entry *entry)
{
	const char *line = entry->help;
	char left[48];
	int n;

	n = snprintf(left, sizeof(left), entry->letter ? "-%c, --%s" : "%c   --%s",
		     entry->letter ? entry->letter : ' ', entry->name);
	if (entry->argument && n > 0 && n < (int)sizeof(left))
		snprintf(left + n, sizeof(left) - (size_t)n, " %s", entry->argument);
	printf("  %-24s", left);
	for (const char *end; (end = strchr(line, '\n')); line = end + 1)
		printf(" %.*s\n  %-24s", (int)(end - line), line, "");
	printf(" %s\n", line);
}

void options__print_help(const struct option_table *table)
{
	static const struct option_entry help = { OPTION_NOTHING, 'h', "help", NULL, NULL, "print this help" };

	printf("Usage: stakeout %s\n%s\n\n", table->usage, table->about);
	for (const struct option_entry *entry = table->entries; entry->kind != OPTION_END; entry++)
		print_entry(entry);
	print_entry(&help);
}
