// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "stakeout/cleanup.h"
#include "stakeout/nearest.h"

#define HELP_CODE  1000
#define FIRST_CODE 1001    /* getopt's code of entry i is FIRST_CODE + i */
#define PID_LIMIT  4194304 /* PID_MAX_LIMIT of the kernel's include/linux/threads.h */

static enum option_kind kind_of(const struct option_entry *entry)
{
	return (enum option_kind)(entry->kind & ~OPTION_SETTING);
}

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
		return so_err(err, -EINVAL, "'%s' is not a process ID: a whole number from 1 to %ld", text, max);
	*out = (pid_t)value;
	return 0;
}

static int parse_rate(const char *text, unsigned *out, struct so_error *err)
{
	long value;

	if (parse_whole(text, OPTIONS_MAX_RATE_HZ, &value))
		return so_err(err, -EINVAL, "'%s' is not a sampling rate: a whole number of Hz from %d to %d", text,
			      OPTIONS_MIN_RATE_HZ, OPTIONS_MAX_RATE_HZ);
	*out = (unsigned)value;
	return 0;
}

/* "", "s", "m", "h" */
static bool take_unit(const char *unit, double *value)
{
	if (*unit && unit[1])
		return false;
	*value *= *unit == 'm' ? 60 : *unit == 'h' ? 3600 : 1;
	return strchr("smh", *unit) != NULL;
}

int options__duration(const char *text, double *out, struct so_error *err)
{
	double value;
	char *end;

	if (!strcmp(text, "unlimited")) {
		*out = 0;
		return 0;
	}
	value = strtod(text, &end);
	/* Only digits and a point: strtod also knows "inf", "0x10" and leading blanks. */
	if (strspn(text, "0123456789.") != (size_t)(end - text) || end == text || !take_unit(end, &value) ||
	    !(value > 0) || value > OPTIONS_MAX_DURATION_S)
		return so_err(err, -EINVAL,
			      "'%s' is not a duration: seconds above 0 and up to %d, or with a unit (90s, 5m, 1h), or "
			      "'unlimited'",
			      text, OPTIONS_MAX_DURATION_S);
	*out = value;
	return 0;
}

static int parse_percent(const struct option_entry *entry, const char *text, struct so_error *err)
{
	char *end;
	double value = strtod(text, &end);

	if (strspn(text, "0123456789.") != strlen(text) || end == text || *end || !(value > 0 && value <= 100))
		return so_err(err, -EINVAL, "--%s: '%s' is no percentage above 0, up to 100", entry->name, text);
	*(double *)entry->value = value;
	return 0;
}

struct unit {
	char letter; /* 0: none is written */
	uint64_t value;
};

#define N_UNITS   5 /* of sizes; of ages one less */
#define SECOND_NS ((uint64_t)1000000000)

static const struct unit byte_units[N_UNITS] = {
	{ 0, 1 }, { 'K', 1u << 10 }, { 'M', 1u << 20 }, { 'G', 1u << 30 }, { 'T', (uint64_t)1 << 40 },
};

static const struct unit age_units[N_UNITS] = {
	{ 's', SECOND_NS }, { 'm', 60 * SECOND_NS }, { 'h', 3600 * SECOND_NS }, { 'd', 86400 * SECOND_NS }, { 0, 0 },
};

static bool parse_units(const char *text, const struct unit *units, uint64_t *out)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || strlen(end) > 1)
		return false;
	for (size_t i = 0; i < N_UNITS && units[i].value; i++) {
		if (*end == units[i].letter)
			return !__builtin_mul_overflow(value, units[i].value, out);
	}
	return false;
}

/* In the largest unit of which it is a whole number. */
static void print_units(char text[32], uint64_t value, const struct unit *units)
{
	size_t i = N_UNITS - 1;

	while (i && (!units[i].value || value % units[i].value))
		i--;
	snprintf(text, 32, "%" PRIu64 "%.1s", value / units[i].value, &units[i].letter);
}

static int take_units(const struct option_entry *entry, const char *text, const struct unit *units,
		      struct so_error *err)
{
	const struct option_range *range = entry->value;
	char from[32], to[32];
	uint64_t value;

	if (!parse_units(text, units, &value) || value < range->min || value > range->max) {
		print_units(from, range->min, units);
		print_units(to, range->max, units);
		return so_err(err, -EINVAL, "--%s needs a number from %s to %s, not '%s'", entry->name, from, to, text);
	}
	*(uint64_t *)range->value = value;
	return 0;
}

static int take_number(const struct option_entry *entry, const char *text, int base, struct so_error *err)
{
	const struct option_range *range = entry->value;
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, base);
	if (!errno && text[0] >= '0' && text[0] <= '9' && !*end && value >= range->min && value <= range->max) {
		*(unsigned *)range->value = (unsigned)value;
		return 0;
	}
	if (base == 8)
		return so_err(err, -EINVAL, "--%s needs an octal number up to 0%lo, not '%s'", entry->name,
			      (unsigned long)range->max, text);
	return so_err(err, -EINVAL, "--%s needs a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'", entry->name,
		      range->min, range->max, text);
}

static int take_text(const struct option_entry *entry, const char *text, struct so_error *err)
{
	struct option_texts *texts = entry->value;

	if (!text[0] && kind_of(entry) != OPTION_ANY_TEXT)
		return so_err(err, -EINVAL, "--%s needs a value that is not empty", entry->name);
	if (kind_of(entry) != OPTION_TEXTS) {
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
	switch (kind_of(entry)) {
	case OPTION_ON:
	case OPTION_OFF:
		*(bool *)entry->value = kind_of(entry) == OPTION_ON;
		return 0;
	case OPTION_TEXT:
	case OPTION_ANY_TEXT:
	case OPTION_TEXTS:
		return take_text(entry, text, err);
	case OPTION_PID:
		return parse_pid(text, entry->value, err);
	case OPTION_RATE:
		return parse_rate(text, entry->value, err);
	case OPTION_DURATION:
		return options__duration(text, entry->value, err);
	case OPTION_PERCENT:
		return parse_percent(entry, text, err);
	case OPTION_NONE:
		*(const char **)entry->value = "";
		return 0;
	case OPTION_NUMBER:
		return take_number(entry, text, 10, err);
	case OPTION_OCTAL:
		return take_number(entry, text, 8, err);
	case OPTION_SIZE:
		return take_units(entry, text, byte_units, err);
	case OPTION_AGE:
		return take_units(entry, text, age_units, err);
	case OPTION_TAKE:
		return ((const struct option_taker *)entry->value)->take(text, err);
	case OPTION_HEADING:
	case OPTION_NOTHING:
	case OPTION_END:
		break;
	}
	return 0;
}

/* What is no process's number may be its name. */
static int take_option(const struct option_table *table, const struct option_entry *entry, const char *text,
		       struct so_error *err)
{
	if (kind_of(entry) == OPTION_PID && table->find_process && strspn(text, "0123456789") < strlen(text))
		return table->find_process(text, entry->value, err) ? -EINVAL : 0;
	return take(entry, text, err);
}

/* The one that takes a process's number; NULL: there is none. */
static const struct option_entry *pid_entry(const struct option_table *table)
{
	for (const struct option_entry *entry = table->entries; kind_of(entry) != OPTION_END; entry++)
		if (kind_of(entry) == OPTION_PID)
			return entry;
	return NULL;
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
	/* '+': options end at the first other word; ':': a missing value is not an unknown option */
	*s++ = table->positional_value || table->positionals || pid_entry(table) ? '-' : '+';
	*s++ = ':';
	*s++ = 'h';
	out->longs[n++] = (struct option){ "help", no_argument, NULL, HELP_CODE };
	for (size_t i = 0; i < OPTIONS_MAX && kind_of(&table->entries[i]) != OPTION_END; i++) {
		const struct option_entry *entry = &table->entries[i];

		if (kind_of(entry) == OPTION_HEADING)
			continue;
		out->longs[n++] = (struct option){ entry->name, entry->argument ? required_argument : no_argument, NULL,
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
	for (const struct option_entry *entry = table->entries; kind_of(entry) != OPTION_END; entry++)
		if (entry->letter == code)
			return entry;
	return NULL;
}

/* "; did you mean --output?", or "" */
static void suggest(const struct option_table *table, const char *word, char *text, size_t size)
{
	size_t distance = NEAREST_FAR;

	text[0] = '\0';
	if (strncmp(word, "--", 2) != 0)
		return;
	for (const struct option_entry *entry = table->entries; kind_of(entry) != OPTION_END; entry++)
		if (entry->name && nearest__is_nearer(word + 2, entry->name, &distance))
			snprintf(text, size, "; did you mean --%s?", entry->name);
}

static int unknown(const struct option_table *table, const char *command, char **argv, struct so_error *err)
{
	char meant[80];

	if (optopt > 0 && optopt < HELP_CODE)
		return so_err(err, -EINVAL, "unknown option '-%c' (see %s --help)", optopt, command);
	if (optopt >= HELP_CODE)
		return so_err(err, -EINVAL, "'%s': this option takes no value", argv[optind - 1]);
	suggest(table, argv[optind - 1], meant, sizeof(meant));
	return so_err(err, -EINVAL, "unknown option '%s'%s (see %s --help)", argv[optind - 1], meant, command);
}

static int take_positional(const struct option_table *table, const char *command, const char *word,
			   struct so_error *err)
{
	const struct option_entry *pid = pid_entry(table);
	bool number = strspn(word, "0123456789") == strlen(word) && *word;

	if (table->positionals) {
		if (table->positionals->n == OPTION_TEXTS_MAX)
			return so_err(err, -EINVAL, "more than %d files (see %s --help)", OPTION_TEXTS_MAX, command);
		table->positionals->list[table->positionals->n++] = word;
		return 0;
	}
	if (pid && !*(pid_t *)pid->value && number && (!table->positional_value || access(word, F_OK)))
		return parse_pid(word, pid->value, err);
	if (!table->positional_value || *table->positional_value)
		return so_err(err, -EINVAL, "unexpected argument '%s'%s (see %s --help)", word,
			      pid && !*(pid_t *)pid->value && table->find_process ? "; a process's name goes with -p"
										  : "",
			      command);
	*table->positional_value = word;
	return 0;
}

static void print_entry(const struct option_entry *entry)
{
	const char *line = entry->help;
	char left[48];
	int n = snprintf(left, sizeof(left), entry->letter ? "-%c, --%s" : "%c   --%s",
			 entry->letter ? entry->letter : ' ', entry->name);

	if (entry->argument && n > 0 && n < (int)sizeof(left))
		snprintf(left + n, sizeof(left) - (size_t)n, " %s", entry->argument);
	printf("  %-24s", left);
	for (const char *end; (end = strchr(line, '\n')); line = end + 1)
		printf(" %.*s\n  %-24s", (int)(end - line), line, "");
	printf(" %s\n", line);
}

static void print_help(const struct option_table *table)
{
	static const struct option_entry help = { OPTION_NOTHING, 'h', "help", NULL, NULL, "print this help" };
	bool listed = false;

	printf("Usage: %s %s\n%s\n\n", table->program ?: "stakeout", table->usage, table->about);
	for (const struct option_entry *entry = table->entries; kind_of(entry) != OPTION_END; entry++) {
		if (kind_of(entry) != OPTION_HEADING) {
			print_entry(entry);
			continue;
		}
		if (!listed)
			print_entry(&help);
		listed = true;
		printf("\n%s\n", entry->help);
	}
	if (!listed)
		print_entry(&help);
	if (table->end)
		printf("\n%s\n", table->end);
}

int options__parse(const struct option_table *table, int argc, char **argv, struct so_error *err)
{
	struct getopt_tables tables;
	char command[64];
	int code, ret = 0;

	build(table, &tables);
	snprintf(command, sizeof(command), "%s%s%s", table->program ?: "stakeout", table->program ? "" : " ",
		 table->program ? "" : argv[0]);
	optind = 0; /* glibc: start afresh */
	opterr = 0;
	while (!ret && (code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		if (code == 'h' || code == HELP_CODE) {
			print_help(table);
			return OPTIONS_HELP_SHOWN;
		}
		if (code == ':')
			return so_err(err, -EINVAL, "option '%s' needs a value", argv[optind - 1]);
		if (code == '?')
			return unknown(table, command, argv, err);
		ret = code == 1 ? take_positional(table, command, optarg, err)
				: take_option(table, entry_of(table, code), optarg, err);
	}
	if (!ret && optind < argc && table->command) {
		*table->command = &argv[optind];
		return 0;
	}
	for (; !ret && optind < argc; optind++)
		ret = take_positional(table, command, argv[optind], err);
	return ret;
}

const struct option_entry *options__setting(const struct option_table *table, const char *name)
{
	for (const struct option_entry *entry = table->entries; kind_of(entry) != OPTION_END; entry++)
		if (entry->kind & OPTION_SETTING && !strcmp(entry->name, name))
			return entry;
	return NULL;
}

int options__set(const struct option_entry *entry, const char *value, struct so_error *err)
{
	if (entry->argument)
		return take(entry, value, err);
	if (!strcmp(value, "no"))
		return 0;
	if (strcmp(value, "yes"))
		return so_err(err, -EINVAL, "'%s' is yes or no, not '%.60s'", entry->name, value);
	return take(entry, NULL, err);
}
