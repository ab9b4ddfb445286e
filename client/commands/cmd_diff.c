// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout diff: whether a program became faster, and what differs, from profiles of before and after. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/commands/diff_sides.h"
#include "client/commands/running.h"
#include "client/diff/compare.h"
#include "client/diff/gates.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/output.h"

#define DEFAULT_TOP 10

struct differing {
	pid_t pid;
	const char *base_range, *new_range;
	struct option_texts base;
	char **now; /* what follows "--" */
	const char *per, *format, *output;
	bool as_json, verbose;
	unsigned top;
	struct diff_selection selection;
	struct diff_sides sides;
	enum compare_unit unit;
	struct option_texts gate_words;
	struct gates gates;
};

static int check_files(struct differing *d, struct so_error *err)
{
	static char *none[] = { NULL };
	char **now = d->now ?: none;
	size_t n = 0;

	for (; now[n]; n++)
		if (now[n][0] == '-' && now[n][1])
			return so_err(err, -EINVAL, "'%.60s' stands behind '--', where files are: options go before it",
				      now[n]);
	if (d->pid)
		return d->base.n || n ? so_err(err, -EINVAL, "a process (-p PID) or files, not both") : 0;
	if (d->base_range || d->new_range)
		return so_err(err, -EINVAL, "--base and --new are ranges of a process's history: which? -p PID");
	if (!d->now && d->base.n == 2)
		return 0;
	if (!d->now)
		return so_err(err, -EINVAL, "which files? BASE NEW, or several a side: A1 A2 A3 -- B1 B2 B3");
	if (!d->base.n || !n)
		return so_err(err, -EINVAL, "%s side has no files: A1 A2 A3 -- B1 B2 B3",
			      d->base.n ? "the new" : "the base");
	return n > OPTION_TEXTS_MAX ? so_err(err, -EINVAL, "more than %d files", OPTION_TEXTS_MAX) : 0;
}

/* What is wrong with words, rules and patterns is wrong usage. */
static int prepare(struct differing *d, struct so_error *err)
{
	int ret = check_files(d, err);

	if (ret)
		return ret;
	if (d->pid && !(d->base_range && d->new_range))
		return so_err(err, -EINVAL, "which times of it? --base FROM..TO --new FROM..TO, as 03:00..03:10");
	d->unit = d->per ? compare_unit__find(d->per) : COMPARE_UNITS;
	if (d->per && d->unit == COMPARE_UNITS)
		return so_err(err, -EINVAL, "--per is step, run, second or cpu, not '%.60s'", d->per);
	if (d->format && strcmp(d->format, "text") && strcmp(d->format, "markdown") && strcmp(d->format, "json"))
		return so_err(err, -EINVAL, "-f is text, markdown or json, not '%.60s'", d->format);
	d->as_json |= d->format && !strcmp(d->format, "json");
	ret = diff_selection__prepare(&d->selection, err);
	return ret ?: gates__parse(&d->gate_words, d->selection.rules, d->selection.phases, &d->gates, err);
}

static int print_json(const struct differing *d, const struct comparison *comparison, FILE *out)
{
	json_t *json = compare__json(comparison);
	int ret = json ? json_object_set_new(json, "gates", gates__json(&d->gates)) : -1;

	ret = ret ?: json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12));

	json_decref(json);
	fputc('\n', out);
	return ret ? -ENOMEM : 0;
}

static int write_result(const struct differing *d, const struct comparison *comparison, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	bool markdown = d->format && !strcmp(d->format, "markdown");
	size_t limit = d->verbose ? SIZE_MAX : d->top;
	int ret = output__open(d->output, &output, err);
	FILE *out;

	if (ret)
		return ret;
	out = output__file(output);
	if (d->as_json)
		ret = print_json(d, comparison, out);
	else if (markdown)
		ret = compare__print_markdown(comparison, limit, d->verbose, out);
	else
		ret = compare__print(comparison, limit, d->verbose, out);
	if (!d->as_json)
		gates__print(&d->gates, markdown, out);
	return ret ? so_err(err, ret, "out of memory") : output__commit(output, err);
}

static int read_sides(const struct globals *globals, struct differing *d, struct so_error *err)
{
	const char *const *now = (const char *const *)d->now;
	int ret;

	if (d->pid)
		return diff_sides__of_past(globals, d->pid, d->base_range, d->new_range, &d->selection, &d->sides, err);
	if (!now)
		ret = diff_sides__read(&d->sides.base, d->base.list, 1, &d->selection, err)
			      ?: diff_sides__read(&d->sides.now, d->base.list + 1, 1, &d->selection, err);
	else
		ret = diff_sides__read(&d->sides.base, d->base.list, d->base.n, &d->selection, err)
			      ?: diff_sides__read(&d->sides.now, now, diff_sides__count(now), &d->selection, err);
	return ret;
}

static int run(const struct globals *globals, struct differing *d, struct so_error *err)
{
	_cleanup_(comparison) struct comparison *comparison = NULL;
	int ret = read_sides(globals, d, err);

	ret = ret ?: compare__new(d->sides.base, d->sides.now, d->unit, &comparison, err);
	ret = ret ?: gates__decide(&d->gates, comparison, err);
	return ret ?: write_result(d, comparison, err);
}

static int parse(int argc, char **argv, struct differing *d)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &d->pid, "of the daemon's history of this process, instead of files" },
		{ OPTION_TEXT, 0, "base", "TIMES", &d->base_range, "the time before: 03:00..03:10, or 2h..1h (ago)" },
		{ OPTION_TEXT, 0, "new", "TIMES", &d->new_range, "the time after" },
		{ OPTION_TEXT, 0, "per", "UNIT", &d->per,
		  "what is compared: time a step; a run (files of whole runs\n"
		  "that did the same work); CPU time a second; or cpu, shares\n"
		  "of the CPU time (step where both sides know steps, else cpu)" },
		{ OPTION_TEXTS, 0, "fail-on", "GATE", &d->gate_words,
		  "exit with status 3 where this is so with significance:\n"
		  "'total > 3 %', 'category:logging > 1 %' (of what it was),\n"
		  "'function:step > 2 pp' (points of its share); may be repeated" },
		{ OPTION_TEXT, 'o', "output", "FILE", &d->output, "where to write (-: standard output)" },
		{ OPTION_TEXT, 'f', "format", "FORMAT", &d->format, "text, markdown (for a merge request) or json" },
		{ OPTION_ON, 'j', "json", NULL, &d->as_json, "as -f json" },
		{ OPTION_NUMBER, 0, "top", "N", OPTION_RANGE(&d->top, 1, 100000), "rows of each table (10)" },
		{ OPTION_ON, 'v', "verbose", NULL, &d->verbose, "all rows, those without a difference too" },
		DIFF_SELECTION_ENTRIES(d->selection),
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "diff BASE NEW | A1 A2... -- B1 B2... | -p PID --base TIMES --new TIMES [OPTION]...",
		.about = "Says whether NEW is faster or slower than BASE, by how much, and what differs: functions,\n"
			 "lines, categories, phases, each with the 95 % interval of its change. The first line is\n"
			 "the verdict. Profiles of 'stakeout record --timeline' are compared by blocks of time,\n"
			 "several files a side from run to run.",
		.entries = entries,
		.find_process = named_process__find,
		.positionals = &d->base,
		.command = &d->now,
	};

	return running__parse(&table, argc, argv);
}

int cmd_diff(const struct globals *globals, int argc, char **argv)
{
	struct differing d = { .output = "-", .top = DEFAULT_TOP };
	struct so_error err = { .text = "" };
	int status = parse(argc, argv, &d);

	if (status >= 0)
		return status;
	if (prepare(&d, &err)) {
		message__error("%s", err.text);
		status = STATUS_USAGE;
	} else {
		interrupt__install();
		status = running__end(run(globals, &d, &err), &err);
		if (status == STATUS_DONE && gates__hit(&d.gates))
			status = STATUS_GATE;
	}
	diff_sides__clear(&d.sides);
	diff_selection__clear(&d.selection);
	return status;
}
