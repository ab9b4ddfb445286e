// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/growth_text.h"

#include <math.h>

#define MB         1e6
#define PER_MINUTE (60 / MB)

double growth_text__per_minute(double bytes_per_s)
{
	double mb = bytes_per_s * PER_MINUTE;

	return fabs(mb) < 0.05 ? 0 : mb;
}

void growth_text__print(const struct growth_kind *kind, FILE *out)
{
	fprintf(out, "%s: %+.1f MB a minute [%+.1f, %+.1f]", growth__word(kind->verdict),
		growth_text__per_minute(kind->rate), growth_text__per_minute(kind->low),
		growth_text__per_minute(kind->high));
}

static void print_other(const struct growth_kind *kind, const char *name, const char *meaning, FILE *out)
{
	if (kind->verdict == GROWTH_UNKNOWN || kind->verdict == GROWTH_NONE)
		return;
	fprintf(out, "%s ", name);
	growth_text__print(kind, out);
	fprintf(out, ": %s\n", meaning);
}

void growth_text__print_others(const struct growth *growth, FILE *out)
{
	print_other(&growth->files, "files", "page cache of mapped files, which the kernel can take back", out);
	print_other(&growth->shared, "shared memory",
		    "as a DataLoader's workers use it, counted in each process that maps it", out);
}

json_t *growth_text__json(const struct growth_kind *kind)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "verdict", growth__word(kind->verdict), "bytes", kind->last,
			 "growth_bytes", kind->last - kind->first, "bytes_per_s", kind->rate, "bytes_per_s_low",
			 kind->low, "bytes_per_s_high", kind->high);
}
