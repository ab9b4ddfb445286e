// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/memory_moments.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/summary/summary_parts.h"
#include "stakeout/intern.h"

#define MB 1e6
/* Of the normal distribution. */
#define ERRORS_95 1.96
/* What rounds to nothing is no row. */
#define LEAST_BYTES 50e3

static void set_interval(struct moment_line *line, double before_page_bytes, double now_page_bytes)
{
	double error = sqrt(line->before * before_page_bytes + line->now * now_page_bytes);

	line->change = line->now - line->before;
	line->low = line->change - ERRORS_95 * error;
	line->high = line->change + ERRORS_95 * error;
}

static int add_lines(struct memory_moments *m, struct intern *texts, const struct memory_lines *lines, bool now)
{
	for (size_t i = 0; i < lines->n; i++) {
		const struct memory_line *line = &lines->lines[i];
		struct moment_line *row;
		uint32_t number;
		int ret = intern__add(texts, line->text, strlen(line->text), &number);

		if (ret < 0)
			return ret;
		row = &m->lines[number];
		row->text = line->text;
		*(now ? &row->now : &row->before) += line->in_use;
		m->n = number + 1 > m->n ? number + 1 : m->n;
	}
	*(now ? &m->all.now : &m->all.before) = lines->in_use;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct moment_line *x = a, *y = b;

	if (fabs(x->change) != fabs(y->change))
		return fabs(x->change) < fabs(y->change) ? 1 : -1;
	return strcmp(x->text, y->text);
}

int memory_moments__compare(const struct memory_lines *before, double before_page_bytes, const struct memory_lines *now,
			    double now_page_bytes, struct memory_moments *out)
{
	struct intern texts = { 0 };
	int ret;

	*out = (struct memory_moments){ .lines = calloc(before->n + now->n + 1, sizeof(*out->lines)) };
	if (!out->lines)
		return -ENOMEM;
	ret = add_lines(out, &texts, before, false) ?: add_lines(out, &texts, now, true);
	intern__clear(&texts);
	if (ret)
		return ret;
	set_interval(&out->all, before_page_bytes, now_page_bytes);
	for (size_t i = 0; i < out->n; i++)
		set_interval(&out->lines[i], before_page_bytes, now_page_bytes);
	qsort(out->lines, out->n, sizeof(*out->lines), compare);
	return 0;
}

void memory_moments__clear(struct memory_moments *moments)
{
	free(moments->lines);
	*moments = (struct memory_moments){ .n = 0 };
}

void memory_moments__print(const struct memory_moments *m, unsigned top, FILE *out)
{
	size_t rows = 0;

	while (rows < m->n && rows < top && fabs(m->lines[rows].change) >= LEAST_BYTES)
		rows++;
	fprintf(out, "in use, by lines: %.1f MB at first, then %.1f: %+.1f MB [%+.1f, %+.1f]\n", m->all.before / MB,
		m->all.now / MB, m->all.change / MB, m->all.low / MB, m->all.high / MB);
	if (rows)
		fputs("   change, MB  [95 % interval]   at first       then  line\n", out);
	for (size_t i = 0; i < rows; i++) {
		const struct moment_line *l = &m->lines[i];
		char interval[48];

		snprintf(interval, sizeof(interval), "[%+.1f, %+.1f]", l->low / MB, l->high / MB);
		fprintf(out, "%+13.1f  %-16s %10.1f %10.1f  ", l->change / MB, interval, l->before / MB, l->now / MB);
		summary__print_name(l->text, strlen(l->text), out);
		fputc('\n', out);
	}
	if (m->n > rows)
		fprintf(out, "%*s  and %zu more lines\n", 13, "", m->n - rows);
}

static json_t *line_json(const struct moment_line *l)
{
	return json_pack("{s:s?, s:f, s:f, s:f, s:f, s:f}", "line", l->text, "before_bytes", l->before, "now_bytes",
			 l->now, "change_bytes", l->change, "change_bytes_low", l->low, "change_bytes_high", l->high);
}

json_t *memory_moments__json(const struct memory_moments *moments)
{
	json_t *lines = json_array();

	for (size_t i = 0; lines && i < moments->n; i++)
		json_array_append_new(lines, line_json(&moments->lines[i]));
	return json_pack("{s:o, s:o}", "all", line_json(&moments->all), "lines", lines);
}
