// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_column.h"

#include <stdbool.h>
#include <string.h>

#include "stakeout/utf8.h"

/* Never 0, so that a loop over a text moves on. */
static size_t step(const char *text, size_t length)
{
	size_t n = utf8__sequence(text, length);

	return n ? n : 1;
}

unsigned cuda_column__width(const char *text, size_t length)
{
	unsigned columns = 0;

	for (size_t i = 0; i < length; i += step(text + i, length - i))
		columns++;
	return columns;
}

void cuda_column__cell(const char *text, unsigned columns, FILE *out)
{
	unsigned own = cuda_column__width(text, strlen(text));

	fprintf(out, "%*s%s", own < columns ? (int)(columns - own) : 0, "", text);
}

void cuda_column__unit_cell(const char *text, unsigned columns, FILE *out)
{
	const char *unit = strrchr(text, ' ');
	bool single = !unit || cuda_column__width(unit + 1, strlen(unit + 1)) < 2;

	cuda_column__cell(text, single && columns ? columns - 1 : columns, out);
	if (single)
		fputc(' ', out);
}

void cuda_column__name(const char *text, unsigned columns, FILE *out)
{
	size_t length = strlen(text), i = 0;
	unsigned own = cuda_column__width(text, length), tail = columns / 3, column = 0;

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

void cuda_column__paragraph(const char *text, unsigned indent, unsigned columns, FILE *out)
{
	unsigned column = indent;

	for (const char *word = text; *word;) {
		size_t blanks = strspn(word, " "), n = strcspn(word + blanks, " ");
		unsigned width = cuda_column__width(word + blanks, n);

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
