// SPDX-License-Identifier: GPL-2.0-or-later
#include <math.h>
#include <string.h>

#include "client/diff/compare.h"

/* JSON has no infinity: null. */
static json_t *number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *side_json(const struct side *side, enum compare_blocks blocks)
{
	static const char *const names[] = {
		[COMPARE_RUNS] = "runs",
		[COMPARE_TIME] = "time",
		[COMPARE_COUNTS] = "samples",
		[COMPARE_BORROWED] = "borrowed",
	};

	return json_pack("{s:f, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:s, s:s}", "amount", side->all.amount, "measure",
			 side->measure == SIDE_CPU    ? "cpu_ns"
			 : side->measure == SIDE_WALL ? "wall_ns"
						      : side->value,
			 "observations", side->all.observations, "duration_s", side->wall_ns / 1e9, "steps",
			 side->steps, "runs", (json_int_t)side->n_runs, "blocks", (json_int_t)side->n_blocks,
			 "processes", (json_int_t)side->processes, "program", side->program, "variance_by",
			 names[blocks]);
}

static json_t *figures_json(const struct compared *row)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "base", number(row->base.value), "new",
			 number(row->now.value), "change_percent", number(row->change.percent), "low_percent",
			 number(row->change.low), "high_percent", number(row->change.high), "p", number(row->change.p),
			 "smallest_percent", number(row->change.smallest), "tested", row->tested, "significant",
			 row->significant);
}

static int add_name(json_t *json, const struct compared *row)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	return compared__text(row, text) ||
	       json_object_set_new(json, "name", json_stringn(text->bytes, text->length)) ||
	       (row->line && json_object_set_new(json, "line", json_integer(row->line))) ||
	       (row->line_now && json_object_set_new(json, "line_new", json_integer(row->line_now)));
}

static json_t *row_json(const struct compared *row)
{
	json_t *json = figures_json(row);

	if (!json || add_name(json, row) || json_object_set_new(json, "kind", json_string(row_kind__name(row->kind))) ||
	    json_object_set_new(json, "share_base", json_real(row->share_base)) ||
	    json_object_set_new(json, "share_new", json_real(row->share_now)) ||
	    json_object_set_new(json, "observations", json_real(row->observations)) ||
	    json_object_set_new(json, "q", row->tested ? json_real(row->q) : json_null()) ||
	    json_object_set_new(json, "presence",
				json_string(!row->in_base ? "new"
					    : row->in_now ? "both"
							  : "gone"))) {
		json_decref(json);
		return NULL;
	}
	return json;
}

/* The lines of the text, so that a program need not make them. */
static json_t *sentence(int (*print)(const struct comparison *c, FILE *out), const struct comparison *c)
{
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	int ret = out ? print(c, out) : -1;

	if (out && fclose(out))
		ret = -1;
	return ret ? NULL : json_stringn(text, length);
}

static int caveat(const struct comparison *c, FILE *out)
{
	compare__caveat(c, out);
	return 0;
}

json_t *compare__json(const struct comparison *c)
{
	static const char *const verdicts[] = {
		[VERDICT_NONE] = "no difference found",
		[VERDICT_FASTER] = "faster",
		[VERDICT_SLOWER] = "slower",
		[VERDICT_DIFFERENT] = "different",
	};
	json_t *rows = json_array(), *json;

	for (size_t i = 0; rows && i < c->n; i++)
		if (json_array_append_new(rows, row_json(&c->rows[i]))) {
			json_decref(rows);
			return NULL;
		}
	json = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "verdict", verdicts[c->verdict], "per",
			 compare_unit__name(c->unit), "sentence", sentence(compare__verdict, c), "leading",
			 sentence(compare__leading, c), "known_by", sentence(caveat, c), "base",
			 side_json(c->base, c->blocks[0]), "new", side_json(c->now, c->blocks[1]), "tested",
			 (json_int_t)c->n_tested, "different", (json_int_t)c->n_significant, "functions_without_lines",
			 (json_int_t)c->now->without_lines);
	if (!json)
		json_decref(rows);
	if (!json || json_object_set_new(json, "rows", rows) ||
	    (c->unit != COMPARE_SHARE && json_object_set_new(json, "total", figures_json(&c->total))) ||
	    (c->amount.tested && json_object_set_new(json, "amount", figures_json(&c->amount)))) {
		json_decref(json);
		return NULL;
	}
	return json;
}
