// SPDX-License-Identifier: GPL-2.0-or-later
/* The summary by source line. */
#include <string.h>

#include "client/summary/summary_parts.h"

static void print_row(const struct share *share, const struct share *total, const char *text, size_t length,
		      const struct scope *scope, FILE *out)
{
	char interval[32];

	summary__interval(scope->profile, share->samples, scope->total.samples, interval);
	fprintf(out, "%5.1f %%  %-15s  ", summary__percent(share, &scope->total), interval);
	if (total)
		fprintf(out, "%5.1f %%  ", summary__percent(total, &scope->total));
	else
		fprintf(out, "%5s    ", "");
	summary__print_cell(scope, 36, text, length, out);
	fputc('\n', out);
}

void summary__lines(const struct rows *rows, const struct names *names, const struct scope *scope, FILE *out)
{
	size_t n = 0;

	if (!rows->n)
		return;
	summary__title(scope, "Innermost lines", out);
	fprintf(out, "   line  [95 %% interval]    total  function (file:line), with the native code it calls\n");
	for (; n < rows->n && n < scope->style->top && rows->list[n].self.samples; n++) {
		const struct row *row = &rows->list[n];

		print_row(&row->self, &row->total, row->text, row->length, scope, out);
	}
	summary__print_rest(rows, n, rows->n - n == 1 ? "line" : "lines", out);
	if (rows->none.samples)
		print_row(&rows->none, NULL, names->none, strlen(names->none), scope, out);
}
