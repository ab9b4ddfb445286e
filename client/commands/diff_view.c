// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/diff_view.h"

#include <errno.h>
#include <string.h>

#include "client/session/output.h"

int diff_view__prepare(struct diff_view *v, const struct diff_selection *selection, struct so_error *err)
{
	v->unit = v->per ? compare_unit__find(v->per) : COMPARE_UNITS;
	if (v->per && v->unit == COMPARE_UNITS)
		return so_err(err, -EINVAL, "--per is step, run, second or cpu, not '%.60s'", v->per);
	if (v->format && !v->html && strcmp(v->format, "text") && strcmp(v->format, "markdown") &&
	    strcmp(v->format, "json"))
		return so_err(err, -EINVAL, "-f is text, markdown or json (of diff also html), not '%.60s'", v->format);
	v->as_json |= v->format && !strcmp(v->format, "json");
	return fail_rules__parse(&v->fail_words, selection->rules, selection->phases, &v->fail_rules, err);
}

static int print_json(const struct diff_view *v, const struct comparison *comparison, FILE *out)
{
	json_t *json = compare__json(comparison);
	int ret = json ? json_object_set_new(json, "fail_on", fail_rules__json(&v->fail_rules)) : -1;

	ret = ret ?: json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	json_decref(json);
	fputc('\n', out);
	return ret ? -ENOMEM : 0;
}

int diff_view__write(struct diff_view *v, const struct comparison *comparison, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	bool markdown = v->format && !strcmp(v->format, "markdown");
	size_t limit = v->verbose ? SIZE_MAX : v->top;
	int ret = fail_rules__decide(&v->fail_rules, comparison, err);
	FILE *out;

	ret = ret ?: output__open(v->output ?: "-", &output, err);
	if (ret)
		return ret;
	out = output__file(output);
	if (v->as_json)
		ret = print_json(v, comparison, out);
	else if (markdown)
		ret = compare__print_markdown(comparison, limit, v->verbose, out);
	else
		ret = compare__print(comparison, limit, v->verbose, out);
	if (!v->as_json)
		fail_rules__print(&v->fail_rules, markdown, out);
	return ret ? so_err(err, ret, "out of memory") : output__commit(output, err);
}

enum exit_status diff_view__status(const struct diff_view *v)
{
	return fail_rules__hit(&v->fail_rules) ? STATUS_FAIL_RULE : STATUS_DONE;
}
