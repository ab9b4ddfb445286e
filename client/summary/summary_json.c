// SPDX-License-Identifier: GPL-2.0-or-later
/* The summary as JSON. Keys are stable; what is not known is null. */
#include <errno.h>
#include <string.h>

#include "client/summary/summary.h"
#include "client/summary/summary_parts.h"
#include "client/summary/summary_tables.h"

#define SUMMARY_VERSION 1

static json_t *number_or_null(bool known, double value)
{
	return known ? json_real(value) : json_null();
}

/* Adds samples, percent, its interval and seconds. */
static void set_share(json_t *object, const struct share *share, const struct scope *scope)
{
	double low, high;

	share_interval(scope->profile, share->samples, scope->total.samples, &low, &high);
	json_object_set_new(object, "samples", json_integer(share->samples));
	json_object_set_new(object, "percent", json_real(summary__percent(share, &scope->total)));
	json_object_set_new(object, "low_percent", json_real(100 * low));
	json_object_set_new(object, "high_percent", json_real(100 * high));
	json_object_set_new(object, "cpu_s", number_or_null(scope__timed(scope), share->ns / 1e9));
}

static json_t *share_of(const struct share *share, const struct scope *scope)
{
	json_t *object = json_object();

	set_share(object, share, scope);
	return object;
}

/* Texts were cleaned: they are UTF-8. */
static json_t *named(const char *text, size_t length)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", json_stringn(text, length));
	return object;
}

static json_t *parts_of(const struct part *parts, size_t n, const struct scope *scope)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *object = named(parts[i].text, parts[i].length);

		set_share(object, &parts[i].share, scope);
		json_array_append_new(array, object);
	}
	return array;
}

#define CATEGORY_PARTS 5 /* functions and callers of each */

static json_t *few(const struct parts *parts, const struct scope *scope)
{
	return parts_of(parts->list, parts->n < CATEGORY_PARTS ? parts->n : CATEGORY_PARTS, scope);
}

static json_t *categories_of(const struct category_table *table, const struct scope *scope)
{
	json_t *array = json_array();

	for (size_t i = 0; i < table->n; i++) {
		const struct category_row *row = &table->rows[i];
		json_t *object = named(row->name, strlen(row->name));

		json_object_set_new(object, "kind", json_string(row->kind));
		set_share(object, &row->share, scope);
		json_object_set_new(object, "functions", few(&row->functions, scope));
		json_object_set_new(object, "callers", few(&row->callers, scope));
		json_object_set_new(object, "means", parts_of(row->means.list, row->means.n, scope));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *name_of(const struct names *names, uint32_t name)
{
	return json_stringn(intern__key(&names->texts, name), intern__length(&names->texts, name));
}

static json_t *phase_of(const struct phase_result *phase, const struct names *names, const struct scope *scope)
{
	json_t *object = named(phase->name, strlen(phase->name)), *functions = json_array(), *similar = json_array(),
	       *pattern = json_string(phase->pattern);

	/* The command line's bytes may be no UTF-8. */
	json_object_set_new(object, "pattern", pattern ? pattern : json_null());
	set_share(object, &phase->share, scope);
	json_object_set_new(object, "matched_functions", json_integer((json_int_t)phase->n_matched));
	for (size_t i = 0; i < phase->n_functions; i++) {
		json_t *function = json_object();

		json_object_set_new(function, "name", name_of(names, phase->functions[i].name));
		set_share(function, &phase->functions[i].share, scope);
		json_array_append_new(functions, function);
	}
	json_object_set_new(object, "functions", functions);
	for (size_t i = 0; i < phase->n_hints; i++)
		json_array_append_new(similar, name_of(names, phase->hints[i]));
	json_object_set_new(object, "similar", similar);
	return object;
}

static int phases_of(const struct phases *phases, const struct summary_tables *tables, json_t *array)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < phases__count(phases); i++) {
		struct phase_result phase;

		ret = phases__measure(phases, i, &tables->scope, &tables->all_names, &phase);
		if (!ret)
			json_array_append_new(array, phase_of(&phase, &tables->all_names, &tables->scope));
	}
	return ret;
}

/* Another tool's label may be any text. */
static json_t *label_of(const char *label)
{
	json_t *text = label && *label ? json_string(label) : NULL;

	return text ? text : json_null();
}

/* Whose rows: of functions and lines, which have a place in the source, or of threads. */
static json_t *rows_of(const struct rows *rows, const struct scope *scope, bool places)
{
	json_t *array = json_array();

	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->list[i];
		const struct profile_line *line = row->line == ROW_NO_LINE ? NULL : &scope->profile->lines[row->line];
		json_t *object = named(row->text, row->length), *file = NULL;

		if (places) {
			if (line && (*line->filename || *line->mapping))
				file = json_string(*line->filename && (line->python || !*line->mapping)
							   ? line->filename
							   : line->mapping);
			json_object_set_new(object, "file", file ? file : json_null());
			json_object_set_new(object, "self", share_of(&row->self, scope));
			json_object_set_new(object, "total", share_of(&row->total, scope));
		} else {
			set_share(object, &row->total, scope);
			json_object_set_new(object, "rank", label_of(row->rank));
			json_object_set_new(object, "container", label_of(row->container));
		}
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *only_of(const struct option_texts *only)
{
	json_t *array = json_array();

	for (size_t i = 0; i < only->n; i++)
		json_array_append_new(array, label_of(only->list[i]));
	return array;
}

static void set_head(json_t *object, const struct scope *scope, const json_t *figures)
{
	static const char *const copied[] = { "complete", "truncated", "lost", "python", "overhead_percent" };
	const struct profile *profile = scope->profile;
	double seconds = (double)profile->duration_ns / 1e9,
	       hz = profile->period_ns > 0 ? 1e9 / (double)profile->period_ns : 0;

	figures__number(figures, "duration_s", &seconds);
	figures__number(figures, "sample_hz", &hz);
	json_object_set_new(object, "version", json_integer(SUMMARY_VERSION));
	json_object_set_new(object, "samples", json_integer(scope->total.samples));
	json_object_set_new(object, "cpu_s", number_or_null(scope__timed(scope), scope->total.ns / 1e9));
	json_object_set_new(object, "duration_s", number_or_null(seconds > 0, seconds));
	json_object_set_new(object, "sample_hz", number_or_null(hz > 0, hz));
	json_object_set_new(object, "gil_only", json_boolean(scope->options->gil));
	json_object_set_new(object, "only", only_of(&scope->options->only));
	for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++) {
		json_t *value = json_object_get(figures, copied[i]);

		json_object_set(object, copied[i], value ? value : json_null());
	}
	if (json_object_get(figures, "forgotten"))
		json_object_set(object, "forgotten", json_object_get(figures, "forgotten"));
}

static int build(const struct profile *profile, const json_t *figures, const struct summary_request *request,
		 json_t *object)
{
	_cleanup_(summary_tables) struct summary_tables *tables = &(struct summary_tables){ .categories = NULL };
	struct summary_request all = *request;
	int ret;
	const struct scope *scope = &tables->scope;
	json_t *phases;

	all.style.native_interpreter = true;
	ret = summary_tables__init(profile, &all, tables);
	if (ret < 0)
		return ret;
	phases = json_array();
	ret = phases_of(request->phases, tables, phases);
	set_head(object, scope, figures);
	json_object_set_new(object, "categories", categories_of(tables->categories, scope));
	json_object_set_new(object, "means", parts_of(tables->categories->means, tables->categories->n_means, scope));
	json_object_set_new(object, "phases", phases);
	json_object_set_new(object, "wall", summary_wall__json(tables->wall));
	json_object_set_new(object, "functions", rows_of(&tables->functions, scope, true));
	json_object_set_new(object, "lines", rows_of(&tables->lines, scope, true));
	json_object_set_new(object, "own_lines", rows_of(&tables->own, scope, true));
	json_object_set_new(object, "threads", rows_of(&tables->threads, scope, false));
	json_object_set_new(object, "processes", rows_of(&tables->processes, scope, false));
	return ret;
}

int summary__print_json(const struct profile *profile, const json_t *stats, const struct summary_request *request,
			FILE *out, struct so_error *err)
{
	json_t *object = json_object(), *kept = figures__of(profile, stats);
	int ret = build(profile, kept ? kept : stats, request, object);

	if (!ret && (json_dumpf(object, out, JSON_INDENT(2)) || fputc('\n', out) == EOF || fflush(out)))
		ret = so_err(err, -EIO, "cannot write the summary: %s", strerror(errno ? errno : EIO));
	else if (ret == -EFBIG)
		so_err(err, ret, "cannot summarise: the profile's names are too long");
	else if (ret < 0)
		so_err(err, ret, "cannot summarise: not enough memory");
	json_decref(object);
	json_decref(kept);
	return ret;
}
