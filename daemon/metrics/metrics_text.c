// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/metrics/metrics_text.h"

#include <math.h>
#include <string.h>

#include "stakeout/utf8.h"

/* Above this, not every whole number is a double. */
#define MAX_WHOLE 9007199254740992.0

void metrics_text__family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_value(FILE *out, double value)
{
	if (isnan(value))
		fputs("NaN", out);
	else if (isinf(value))
		fputs(value > 0 ? "+Inf" : "-Inf", out);
	else if (value == trunc(value) && fabs(value) <= MAX_WHOLE)
		fprintf(out, "%.0f", value);
	else
		fprintf(out, "%.15g", value);
}

/* Backslash, quote and newline are escaped, as the format asks. */
static void print_label_value(FILE *out, const char *text)
{
	size_t left = strlen(text), n;

	for (; left; text += n, left -= n) {
		unsigned char first = (unsigned char)text[0];

		n = utf8__sequence(text, left);
		if (first == '\\' || first == '"') {
			fputc('\\', out);
			fputc(first, out);
		} else if (first == '\n') {
			fputs("\\n", out);
		} else if (!n || first < ' ' || first == 0x7f ||
			   (n == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0)) {
			fputc('?', out); /* 0xc2 0x80 … 0x9f are the controls of U+0080 … U+009F */
		} else {
			fwrite(text, 1, n, out);
		}
		n = n ? n : 1;
	}
}

void metrics_text__sample(FILE *out, const char *name, const struct metrics_label *labels, size_t n, double value)
{
	char before = '{';

	fputs(name, out);
	for (size_t i = 0; i < n; i++) {
		if (!labels[i].name)
			continue;
		fprintf(out, "%c%s=\"", before, labels[i].name);
		print_label_value(out, labels[i].value);
		fputc('"', out);
		before = ',';
	}
	fputs(before == ',' ? "} " : " ", out);
	print_value(out, value);
	fputc('\n', out);
}
