// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "stakeout/utf8.h"

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

/* Never 0, so that a loop over a text moves on. */
static size_t step(const char *text, size_t length)
{
	size_t n = utf8__sequence(text, length);

	return n ? n : 1;
}

unsigned cuda_text__columns(const char *text, size_t length)
{
	unsigned columns = 0;

	for (size_t i = 0; i < length; i += step(text + i, length - i))
		columns++;
	return columns;
}

void cuda_text__cell(const char *text, unsigned columns, FILE *out)
{
	unsigned own = cuda_text__columns(text, strlen(text));

	fprintf(out, "%*s%s", own < columns ? (int)(columns - own) : 0, "", text);
}

void cuda_text__unit_cell(const char *text, unsigned columns, FILE *out)
{
	const char *unit = strrchr(text, ' ');
	bool single = !unit || cuda_text__columns(unit + 1, strlen(unit + 1)) < 2;

	cuda_text__cell(text, single && columns ? columns - 1 : columns, out);
	if (single)
		fputc(' ', out);
}

void cuda_text__name(const char *text, unsigned columns, FILE *out)
{
	size_t length = strlen(text), i = 0;
	unsigned own = cuda_text__columns(text, length), tail = columns / 3, column = 0;

	if (!columns || own <= columns) {
		fputs(text, out);
		return;
	}
	for (; column < columns - 1 - tail; column++)
		i += step(text + i, length - i);
	fprintf(out, "%.*s…", (int)i, text);
	for (; column < own - tail; column++)
		i += step(text + i, length - i);
	fputs(text + i, out);
}

void cuda_text__paragraph(const char *text, unsigned indent, unsigned columns, FILE *out)
{
	unsigned column = indent;

	for (const char *word = text; *word;) {
		size_t blanks = strspn(word, " "), n = strcspn(word + blanks, " ");
		unsigned width = cuda_text__columns(word + blanks, n);

		word += blanks;
		if (columns && column > indent && column + blanks + width > columns) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
			blanks = 0;
		}
		if (n)
			fprintf(out, "%*s%.*s", (int)blanks, "", (int)n, word);
		column += (unsigned)blanks + width;
		word += n;
	}
	fputc('\n', out);
}
