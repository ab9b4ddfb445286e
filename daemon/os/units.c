// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	char letter; /* 0: none is written */
	uint64_t value;
};

static const struct unit byte_units[] = {
	{ 0, 1 }, { 'K', 1u << 10 }, { 'M', 1u << 20 }, { 'G', 1u << 30 }, { 'T', (uint64_t)1 << 40 },
};

#define SECOND_NS ((uint64_t)1000000000)

static const struct unit age_units[] = {
	{ 's', SECOND_NS },
	{ 'm', 60 * SECOND_NS },
	{ 'h', 3600 * SECOND_NS },
	{ 'd', 86400 * SECOND_NS },
};

#define N(units) (sizeof(units) / sizeof((units)[0]))

static bool parse(const char *text, const struct unit *units, size_t n, uint64_t *out)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || strlen(end) > 1)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (*end == units[i].letter)
			return !__builtin_mul_overflow(value, units[i].value, out);
	}
	return false;
}

/* In the largest unit of which it is a whole number. */
static void print(char text[32], uint64_t value, const struct unit *units, size_t n)
{
	size_t i = n - 1;

	while (i && value % units[i].value)
		i--;
	snprintf(text, 32, "%" PRIu64 "%.1s", value / units[i].value, &units[i].letter);
}

static int out_of_range(const char *option, const char *text, uint64_t min, uint64_t max,
			const struct unit *units, size_t n, struct so_error *err)
{
	char from[32], to[32];

	print(from, min, units, n);
	print(to, max, units, n);
	return so_err(err, -EINVAL, "--%s needs a number from %s to %s, not '%s'", option, from, to, text);
}

int units__bytes(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		 struct so_error *err)
{
	uint64_t value;

	if (!parse(text, byte_units, N(byte_units), &value) || value < min || value > max)
		return out_of_range(option, text, min, max, byte_units, N(byte_units), err);
	*out = value;
	return 0;
}

int units__age(const char *option, const char *text, int64_t min_ns, int64_t max_ns, int64_t *out,
	       struct so_error *err)
{
	uint64_t value;

	if (!parse(text, age_units, N(age_units), &value) || value < (uint64_t)min_ns ||
	    value > (uint64_t)max_ns)
		return out_of_range(option, text, (uint64_t)min_ns, (uint64_t)max_ns, age_units, N(age_units),
				    err);
	*out = (int64_t)value;
	return 0;
}
