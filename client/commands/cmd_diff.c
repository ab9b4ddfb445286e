// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout diff: whether a program became faster, and what differs, from profiles of before and after. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/commands/diff_page.h"
#include "client/commands/diff_sides.h"
#include "client/commands/diff_view.h"
#include "client/commands/running.h"
#include "client/diff/compare.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/named_process.h"

struct differing {
	pid_t pid;
	const char *base_range, *new_range;
	struct option_texts base;
	char **now; /* what follows "--" */
	struct diff_view view;
	struct diff_selection selection;
	struct diff_sides sides;
	struct diff_files base_files, new_files;
};

static int check_files(const struct differing *d, struct so_error *err)
{
	size_t n = 0;

	for (; d->now && d->now[n]; n++)
		if (d->now[n][0] == '-' && d->now[n][1])
			return so_err(err, -EINVAL, "'%.60s' stands behind '--', where files are: options go before it",
				      d->now[n]);
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
	if (d->view.format && !strcmp(d->view.format, "html")) {
		if (d->pid)
			return so_err(err, -EINVAL, "-f html is of files, not of the history");
		if (!d->view.output && isatty(STDOUT_FILENO))
			return so_err(err, -EINVAL, "-f html is not for a terminal: where to? -o FILE.html");
		d->view.html = true;
	}
	ret = diff_selection__prepare(&d->selection, err);
	return ret ?: diff_view__prepare(&d->view, &d->selection, err);
}

/* Those of the base are the first of d->base. */
static int read_files(struct differing *d, struct so_error *err)
{
	const char *const *now = (const char *const *)d->now ?: d->base.list + 1;
	int ret = diff_files__read(d->base.list, d->now ? d->base.n : 1, &d->selection, &d->base_files, err);
	size_t without_lines = 0;

	ret = ret ?: diff_files__read(now, d->now ? diff_sides__count(now) : 1, &d->selection, &d->new_files, err);
	ret = ret ?: diff_files__keep_common_lines(&d->base_files, &d->new_files, &without_lines, err);
	ret = ret ?: diff_files__side(&d->base_files, &d->selection, &d->sides.base, err);
	ret = ret ?: diff_files__side(&d->new_files, &d->selection, &d->sides.now, err);
	if (!ret)
		d->sides.base->without_lines = d->sides.now->without_lines = without_lines;
	return ret;
}

static int run(const struct globals *globals, struct differing *d, struct so_error *err)
{
	_cleanup_(comparison) struct comparison *comparison = NULL;
	int ret = d->pid ? diff_sides__of_past(globals, d->pid, d->base_range, d->new_range, &d->selection, &d->sides,
					       err)
			 : read_files(d, err);

	ret = ret ?: compare__new(d->sides.base, d->sides.now, d->view.unit, &comparison, err);
	if (ret || !d->view.html)
		return ret ?: diff_view__write(&d->view, comparison, err);
	ret = fail_rules__decide(&d->view.fail_rules, comparison, err);
	return ret
		       ?: diff_page__write(&d->base_files, &d->new_files, &d->selection, comparison,
					   d->view.output ?: "-", err);
}

static int parse(int argc, char **argv, struct differing *d)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &d->pid, "of the daemon's history of this process, instead of files" },
		{ OPTION_TEXT, 0, "base", "TIMES", &d->base_range, "the time before: 03:00..03:10, or 2h..1h (ago)" },
		{ OPTION_TEXT, 0, "new", "TIMES", &d->new_range, "the time after" },
		{ OPTION_TEXT, 'f', "format", "FORMAT", &d->view.format,
		  "text, markdown (for a merge request), json, or html (a\nflame graph coloured by change)" },
		DIFF_VIEW_ENTRIES(d->view),
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
	struct differing d = { .view = { DIFF_VIEW_DEFAULTS } };
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
		status = status == STATUS_DONE ? (int)diff_view__status(&d.view) : status;
	}
	diff_sides__clear(&d.sides);
	diff_files__clear(&d.base_files);
	diff_files__clear(&d.new_files);
	diff_selection__clear(&d.selection);
	return status;
}
