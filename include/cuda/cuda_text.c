// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define UNITS 5

/* Whatever rounds to 1000 takes the next unit. */
static void scale(double value, const char *const units[UNITS], char text[CUDA_TEXT_BYTES])
{
	size_t i = 0;

	if (!(value >= 0) || isinf(value)) {
		snprintf(text, CUDA_TEXT_BYTES, "-");
		return;
	}
	for (; value >= 999.5 && i + 1 < UNITS && units[i + 1]; i++)
		value /= 1000;
	snprintf(text, CUDA_TEXT_BYTES, "%.*f %s", !i || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, units[i]);
}

void cuda_text__time(double ns, char text[CUDA_TEXT_BYTES])
{
	static const char *const units[UNITS] = { "ns", "µs", "ms", "s" };

	scale(ns, units, text);
}

void cuda_text__bytes(double bytes, char text[CUDA_TEXT_BYTES])
{
	static const char *const units[UNITS] = { "B", "kB", "MB", "GB", "TB" };

	scale(bytes, units, text);
}

void cuda_text__share(double share, char text[CUDA_TEXT_BYTES])
{
	if (!(share >= 0) || isinf(share))
		snprintf(text, CUDA_TEXT_BYTES, "-");
	else if (share > 0 && share < 0.0005)
		snprintf(text, CUDA_TEXT_BYTES, "< 0.1 %%");
	else
		snprintf(text, CUDA_TEXT_BYTES, "%.1f %%", 100 * fmin(share, 1e15));
}

void cuda_text__rate(double per_s, char text[CUDA_TEXT_BYTES])
{
	if (!(per_s >= 0) || isinf(per_s))
		snprintf(text, CUDA_TEXT_BYTES, "-");
	else
		snprintf(text, CUDA_TEXT_BYTES, "%.*f",
			 per_s == 0 || per_s >= 99.95 ? 0
			 : per_s >= 9.995             ? 1
						      : 2,
			 per_s);
}

void cuda_text__count(uint64_t n, char text[CUDA_TEXT_BYTES])
{
	snprintf(text, CUDA_TEXT_BYTES, "%" PRIu64, n);
}
