// SPDX-License-Identifier: GPL-2.0-or-later
/* Categories in words. All shares are of the whole, so that they can be compared with each other. */
#include <string.h>

#include "client/summary/summary_categories.h"
#include "client/summary/summary_parts.h"

#define FUNCTIONS 5 /* of a category */
#define CALLERS   2
#define MEANS     4

/* "a 12.0 %, b 3.1 %": those that round to more than nothing, the first one always. */
static void print_parts(const struct parts *parts, size_t max, const struct scope *scope, FILE *out)
{
	for (size_t i = 0; i < parts->n && i < max; i++) {
		const struct part *part = &parts->list[i];
		double percent = summary__percent(&part->share, &scope->total);

		if (i && percent < 0.05)
			break;
		if (i)
			fprintf(out, ", ");
		summary__print_short(part->text, part->length, out);
		fprintf(out, " %.1f %%", percent);
	}
	fputc('\n', out);
}

static void print_list(const char *indent, const char *what, const struct parts *parts, size_t max,
		       const struct scope *scope, FILE *out)
{
	if (!parts->n)
		return;
	fprintf(out, "%s%s: ", indent, what);
	print_parts(parts, max, scope, out);
}

/* How the lines that are given with a category relate to it. */
static const char *caller_word(const struct category_row *row)
{
	return !strcmp(row->kind, "activity") ? "called from" : "in line";
}

/* Means say something where there is more than one. */
static void print_details(const struct category_row *row, const struct scope *scope, FILE *out)
{
	print_list(SUMMARY_INDENT, "functions", &row->functions, FUNCTIONS, scope, out);
	print_list(SUMMARY_INDENT, caller_word(row), &row->callers, CALLERS, scope, out);
	if (!strcmp(row->kind, "activity"))
		print_list(SUMMARY_INDENT, "by", &row->means, MEANS, scope, out);
}

void summary_categories__print(const struct category_table *table, const struct scope *scope, FILE *out)
{
	summary__title(scope, "Activities: what the time was for", out);
	fprintf(out, "  share  [95 %% interval]  %s category (all shares are of the whole)\n",
		summary__seconds_head(scope));
	for (size_t i = 0; i < table->n; i++) {
		summary__print_share(&table->rows[i].share, scope, out);
		fprintf(out, "%s\n", table->rows[i].name);
		if (scope->style->details)
			print_details(&table->rows[i], scope, out);
	}
}

void summary_categories__print_means(const struct category_table *table, const struct scope *scope, FILE *out)
{
	summary__title(scope, "Mechanisms: by what means", out);
	fprintf(out, "  share  [95 %% interval]  %s by what means, in all categories together\n",
		summary__seconds_head(scope));
	for (size_t i = 0; i < table->n_means; i++) {
		summary__print_share(&table->means[i].share, scope, out);
		fwrite(table->means[i].text, 1, table->means[i].length, out);
		fputc('\n', out);
	}
}
