// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/baseline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VERSION      2
#define FILE_BYTES   (1 << 20) /* that are read; ours are smaller */
#define MOST_BLOCKS  (SIDE_MAX_RUNS * SIDE_BLOCKS)
#define MOST_WHOLE   1e18
#define MOST_NUMBER  1e36 /* squares of times */
#define DOCUMENT_KEY "stakeout_baseline"

void baseline__clear(struct baseline *b)
{
	side__free(b->side);
	baseline_facts__clear(&b->facts);
	free(b->categories);
	json_decref(b->json);
	*b = (struct baseline){ .side = NULL };
}

/* Writing. */

static const char *measure_name(enum side_measure measure)
{
	return measure == SIDE_CPU ? "cpu" : measure == SIDE_WALL ? "wall" : "count";
}

static json_t *texts_json(const struct option_texts *texts)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < texts->n; i++)
		if (json_array_append_new(list, json_string(texts->list[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* Times are whole microseconds, counts are whole: enough, and short. */
static double scale_of(const struct side *side)
{
	return side->measure == SIDE_COUNT ? 1 : 1e3;
}

static json_t *whole(double value)
{
	return json_integer((json_int_t)llround(value < MOST_WHOLE ? value : MOST_WHOLE));
}

static json_t *head_json(const struct baseline *b)
{
	const struct side *s = b->side;
	const struct baseline_facts *f = &b->facts;

	return json_pack(
		"{s:i, s:s, s:s, s:{s:s, s:i, s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:I, s:I, s:b, s:b, "
		"s:s, s:o, s:o, s:[f, f]}",
		DOCUMENT_KEY, VERSION, "saved", f->saved, "version", f->version, "machine", "cpu", f->cpu, "cpus",
		(int)f->cpus, "gpu", f->gpu, "kernel", f->kernel, "command", f->command, "program", s->program, "per",
		compare_unit__name(b->unit), "measure", measure_name(s->measure), "event", s->event, "value", s->value,
		"rate_hz", s->rate_hz, "processes", (json_int_t)s->processes, "runs", (json_int_t)s->n_runs, "gil",
		b->gil, "python_only", b->python_only, "categories", b->categories ?: "", "phases",
		texts_json(&b->phases), "only", texts_json(&b->only), "all", s->all.squares, s->all.observations);
}

/* Of each block: run, its length and the time of its steps in microseconds, amount, steps. */
static json_t *blocks_json(const struct side *s)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < s->n_blocks; i++) {
		const struct side_block *block = &s->blocks[i];

		if (json_array_append_new(list, json_pack("[i, o, o, o, f]", (int)block->run,
							  whole(block->wall_ns / 1e3), whole(block->step_ns / 1e3),
							  whole(block->amount / scale_of(s)), block->steps))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Kind, name, line, squares, observations; then of each block. */
static json_t *row_json(const struct side *s, size_t row)
{
	const struct side_row *r = &s->rows[row];
	json_t *cells = json_array(), *json;

	for (size_t i = 0; cells && i < s->n_blocks; i++)
		if (json_array_append_new(cells, whole(side__cells(s, row)[i] / scale_of(s)))) {
			json_decref(cells);
			return NULL;
		}
	json = cells ? json_pack("[s, s, I, f, f, O]", row_kind__name(r->kind), r->text, (json_int_t)r->line,
				 r->squares, r->observations, cells)
		     : NULL;
	json_decref(cells);
	return json;
}

static int by_amount(const void *a, const void *b, void *side)
{
	const struct side_row *rows = ((const struct side *)side)->rows;
	double x = rows[*(const uint32_t *)a].amount, y = rows[*(const uint32_t *)b].amount;

	return (x < y) - (x > y);
}

static char *dump(json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

	json_decref(json);
	return text;
}

/* As many of the largest rows as fit, a line each. */
static int write_rows(const struct side *s, size_t room, FILE *out)
{
	_cleanup_free_ uint32_t *order = calloc(s->n + 1, sizeof(*order));
	double left_out = 0;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++)
		order[i] = i;
	qsort_r(order, s->n, sizeof(*order), by_amount, (void *)s);
	fputs("\"rows\":[", out);
	for (size_t i = 0; i < s->n; i++) {
		_cleanup_free_ char *text = dump(row_json(s, order[i]));
		size_t length = text ? strlen(text) + 2 : 0;

		if (!text)
			return -ENOMEM;
		if (length > room) {
			left_out = s->rows[order[i]].amount / s->all.amount;
			break;
		}
		room -= length;
		fprintf(out, "%s\n%s", i ? "," : "", text);
	}
	/* The largest that is not there: what the file lacks may have been so much. */
	fprintf(out, "\n],\n\"left_out\":%.9g}\n", left_out);
	return 0;
}

#define TAIL_BYTES 64 /* of write_rows(), around the rows */

int baseline__write(const struct baseline *b, FILE *out)
{
	_cleanup_free_ char *head = dump(head_json(b)), *blocks = dump(blocks_json(b->side));
	size_t used;

	if (!head || !blocks)
		return -ENOMEM;
	used = strlen(head) + strlen(blocks) + TAIL_BYTES;
	if (used > BASELINE_BYTES)
		return -EFBIG;
	/* The object goes on behind its head. */
	fprintf(out, "%.*s,\n\"blocks\":%s,\n", (int)strlen(head) - 1, head, blocks);
	return write_rows(b->side, BASELINE_BYTES - used, out);
}

/* Reading. */

struct reading {
	const char *path;
	struct baseline *b;
	struct side *s;
	struct so_error *err;
};

static int damaged(const struct reading *r, const char *what)
{
	return so_err(r->err, -EINVAL, "%s is no baseline, or a damaged one: %s", r->path, what);
}

/* A name, cleaned: a file may be anybody's. NULL: no text of that name, or no memory. */
static char *text_of(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	if (!value || text__append_clean(text, value, ' '))
		return NULL;
	return strndup(text->bytes ?: "", text->length);
}

static bool number_of(const json_t *json, double *out)
{
	double value = json_number_value(json);

	if (!json_is_number(json) || !(value >= 0) || value > MOST_NUMBER)
		return false;
	*out = value;
	return true;
}

static bool texts_of(const json_t *list, struct option_texts *out)
{
	json_t *one;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > OPTION_TEXTS_MAX)
		return false;
	json_array_foreach (list, i, one) {
		if (!json_is_string(one))
			return false;
		out->list[out->n++] = json_string_value(one);
	}
	return true;
}

static bool read_facts(const json_t *json, struct baseline_facts *f)
{
	const json_t *machine = json_object_get(json, "machine");
	double cpus;

	f->cpu = text_of(machine, "cpu");
	f->gpu = text_of(machine, "gpu");
	f->kernel = text_of(machine, "kernel");
	f->version = text_of(json, "version");
	f->saved = text_of(json, "saved");
	f->command = text_of(json, "command");
	if (!number_of(json_object_get(machine, "cpus"), &cpus) || cpus > 1e6)
		return false;
	f->cpus = (unsigned)cpus;
	return f->cpu && f->gpu && f->kernel && f->version && f->saved && f->command;
}

static bool read_side_facts(const json_t *json, struct side *s)
{
	const char *measure = json_string_value(json_object_get(json, "measure"));
	const json_t *all = json_object_get(json, "all");
	double processes, runs;

	s->program = text_of(json, "program");
	s->event = text_of(json, "event");
	s->value = text_of(json, "value");
	if (!measure || !s->program || !s->event || !s->value)
		return false;
	s->measure = !strcmp(measure, "cpu") ? SIDE_CPU : !strcmp(measure, "wall") ? SIDE_WALL : SIDE_COUNT;
	if (!number_of(json_object_get(json, "rate_hz"), &s->rate_hz) ||
	    !number_of(json_object_get(json, "processes"), &processes) || processes > MOST_WHOLE ||
	    !number_of(json_object_get(json, "runs"), &runs) || !(runs >= 1 && runs <= SIDE_MAX_RUNS) ||
	    !number_of(json_array_get(all, 0), &s->all.squares) ||
	    !number_of(json_array_get(all, 1), &s->all.observations) ||
	    !number_of(json_object_get(json, "left_out"), &s->left_out))
		return false;
	s->processes = (size_t)processes;
	s->runnable = -1;
	s->n_runs = (unsigned)runs;
	return true;
}

/* Runs stand behind each other, none is missing. */
static bool read_blocks(const json_t *list, struct side *s)
{
	unsigned last = 0;

	s->n_blocks = json_array_size(list);
	if (!s->n_blocks || s->n_blocks > MOST_BLOCKS)
		return false;
	s->blocks = calloc(s->n_blocks, sizeof(*s->blocks));
	for (size_t i = 0; s->blocks && i < s->n_blocks; i++) {
		const json_t *json = json_array_get(list, i);
		struct side_block *block = &s->blocks[i];
		double run;

		if (!number_of(json_array_get(json, 0), &run) || !number_of(json_array_get(json, 1), &block->wall_ns) ||
		    !number_of(json_array_get(json, 2), &block->step_ns) ||
		    !number_of(json_array_get(json, 3), &block->amount) ||
		    !number_of(json_array_get(json, 4), &block->steps) || (run != last && run != last + 1) ||
		    run >= s->n_runs)
			return false;
		last = block->run = (unsigned)run;
		block->wall_ns *= 1e3;
		block->step_ns *= 1e3;
		block->amount *= scale_of(s);
	}
	s->in_time = s->blocks && side__has_blocks(s);
	return s->blocks && last + 1 == s->n_runs;
}

static bool read_row(const json_t *json, struct side *s)
{
	const char *kind_name = json_string_value(json_array_get(json, 0)),
		   *name = json_string_value(json_array_get(json, 1));
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	const json_t *cells = json_array_get(json, 5);
	enum row_kind kind = 0;
	double line, value;
	uint32_t row;

	while (kind_name && kind < ROW_KINDS && strcmp(row_kind__name(kind), kind_name))
		kind++;
	if (!kind_name || kind == ROW_KINDS || !name || !number_of(json_array_get(json, 2), &line) ||
	    line > MOST_WHOLE || json_array_size(cells) != s->n_blocks || text__append_clean(text, name, ' ') ||
	    !text->length || side__row(s, kind, text->bytes, text->length, (int64_t)line, &row) ||
	    !number_of(json_array_get(json, 3), &s->rows[row].squares) ||
	    !number_of(json_array_get(json, 4), &s->rows[row].observations))
		return false;
	for (size_t i = 0; i < s->n_blocks; i++) {
		if (!number_of(json_array_get(cells, i), &value))
			return false;
		side__cells(s, row)[i] = value * scale_of(s);
	}
	return true;
}

static int read_side(const struct reading *r, const json_t *json)
{
	const json_t *rows = json_object_get(json, "rows");

	if (!read_side_facts(json, r->s))
		return damaged(r, "what it is of");
	if (!read_blocks(json_object_get(json, "blocks"), r->s))
		return damaged(r, "its blocks");
	if (!json_is_array(rows))
		return damaged(r, "it has no rows");
	for (size_t i = 0; i < json_array_size(rows); i++)
		if (!read_row(json_array_get(rows, i), r->s))
			return damaged(r, "one of its rows");
	if (side__settle(r->s))
		return so_err(r->err, -ENOMEM, "out of memory");
	return r->s->all.amount > 0 ? 0 : damaged(r, "it has no samples");
}

static int read_all(const struct reading *r, const json_t *json)
{
	const char *per = json_string_value(json_object_get(json, "per"));
	struct baseline *b = r->b;
	double version;

	if (!number_of(json_object_get(json, DOCUMENT_KEY), &version))
		return damaged(r, "it does not say that it is one");
	if (version != VERSION)
		return so_err(r->err, -EINVAL, "%s is of another version of stakeout: save it anew", r->path);
	b->unit = per ? compare_unit__find(per) : COMPARE_UNITS;
	b->gil = json_is_true(json_object_get(json, "gil"));
	b->python_only = json_is_true(json_object_get(json, "python_only"));
	b->categories = text_of(json, "categories");
	if (b->unit == COMPARE_UNITS || !b->categories || !read_facts(json, &b->facts) ||
	    !texts_of(json_object_get(json, "phases"), &b->phases) ||
	    !texts_of(json_object_get(json, "only"), &b->only))
		return damaged(r, "what it was saved with");
	return read_side(r, json);
}

int baseline__parse(const char *name, const void *bytes, size_t length, struct baseline *out, struct so_error *err)
{
	_cleanup_(baseline) struct baseline b = { .side = calloc(1, sizeof(*b.side)) };
	struct reading r = { name, &b, b.side, err };
	json_error_t why;
	int ret;

	if (!b.side)
		return so_err(err, -ENOMEM, "out of memory");
	b.json = json_loadb(bytes, length, 0, &why);
	if (!b.json)
		return so_err(err, -EINVAL, "%s is no baseline, or a damaged one: line %d: %.100s", name, why.line,
			      why.text);
	ret = read_all(&r, b.json);
	if (ret)
		return ret;
	*out = b;
	b = (struct baseline){ .side = NULL };
	return 0;
}

int baseline__read(const char *path, struct baseline *out, struct so_error *err)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *bytes = malloc(FILE_BYTES);
	size_t length;

	if (!bytes)
		return so_err(err, -ENOMEM, "out of memory");
	if (!file)
		return so_err(err, -errno, "cannot read the baseline %s: %s", path, strerror(errno));
	length = fread(bytes, 1, FILE_BYTES, file);
	if (ferror(file))
		return so_err(err, -errno, "cannot read the baseline %s: %s", path, strerror(errno));
	if (length == FILE_BYTES)
		return so_err(err, -EFBIG, "%s is too large for a baseline", path);
	return baseline__parse(path, bytes, length, out, err);
}
