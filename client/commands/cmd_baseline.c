// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout baseline: keeps what recordings had in a small file, and compares later ones with it. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/commands/commands.h"
#include "client/commands/diff_sides.h"
#include "client/commands/diff_view.h"
#include "client/commands/running.h"
#include "client/diff/baseline.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/output.h"

#define DEFAULT_DIR ".stakeout/baselines"
#define ENDING      ".json"
#define PATH_BYTES  4096
#define NAME_BYTES  100

struct baselining {
	struct option_texts words; /* verb, name, files */
	const char *dir, *command;
	bool anyway;
	struct diff_view view;
	struct diff_selection selection;
	struct baseline_facts here;
	char path[PATH_BYTES];
};

static const char *verb(const struct baselining *b)
{
	return b->words.n ? b->words.list[0] : "";
}

static bool is_name(const char *name)
{
	const char *c = name;

	while (isalnum((unsigned char)*c) || (c > name && strchr("._-", *c) && *c))
		c++;
	return c > name && !*c && c - name <= NAME_BYTES;
}

static int check_words(struct baselining *b, struct so_error *err)
{
	bool list = !strcmp(verb(b), "list");
	int n;

	if (!list && strcmp(verb(b), "save") && strcmp(verb(b), "check"))
		return so_err(err, -EINVAL, "what? save NAME FILE..., check NAME FILE... or list");
	if (list)
		return b->words.n == 1 ? 0 : so_err(err, -EINVAL, "list takes no name");
	if (b->words.n < 2 || !is_name(b->words.list[1]))
		return so_err(err, -EINVAL, "%s which? A name has letters, digits and . _ -, %d at most", verb(b),
			      NAME_BYTES);
	if (b->words.n < 3)
		return so_err(err, -EINVAL, "%s %s of which files? One of each run, of 'stakeout record --timeline'",
			      verb(b), b->words.list[1]);
	n = snprintf(b->path, sizeof(b->path), "%s/%s" ENDING, b->dir, b->words.list[1]);
	return n < (int)sizeof(b->path) ? 0 : so_err(err, -EINVAL, "--dir is too long");
}

static int prepare(struct baselining *b, struct so_error *err)
{
	int ret = check_words(b, err);

	ret = ret ?: diff_selection__prepare(&b->selection, err);
	ret = ret ?: diff_view__prepare(&b->view, &b->selection, err);
	if (!ret && baseline_facts__here(b->command, &b->here))
		ret = so_err(err, -ENOMEM, "out of memory");
	return ret;
}

static int read_files(const struct baselining *b, struct side **out, struct so_error *err)
{
	_cleanup_(diff_files) struct diff_files *files = &(struct diff_files){ .n = 0 };
	int ret = diff_files__read(b->words.list + 2, b->words.n - 2, &b->selection, files, err);

	return ret ?: diff_files__side(files, &b->selection, out, err);
}

/* Saving. */

/* The directory, and those above it. */
static int make_dirs(const char *dir, struct so_error *err)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/", dir);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0777) && errno != EEXIST)
			return so_err(err, -errno, "cannot make the directory %s: %s", path, strerror(errno));
		*slash = '/';
	}
	return 0;
}

/* What a check must divide by: the best that the side knows. */
static int choose_unit(const struct baselining *b, const struct side *side, enum compare_unit *out,
		       struct so_error *err)
{
	enum compare_unit unit = b->view.unit;

	if (unit == COMPARE_UNITS)
		unit = side->steps > 0 ? COMPARE_STEP : COMPARE_SHARE;
	if (unit == COMPARE_STEP && !(side->steps > 0))
		return so_err(err, -EINVAL,
			      "--per step: the files know no steps: record with --timeline --step FUNCTION");
	*out = unit;
	return 0;
}

static int save(struct baselining *b, struct so_error *err)
{
	_cleanup_(baseline) struct baseline baseline = { .gil = b->selection.request.render.gil,
							 .python_only = b->selection.request.render.python_only,
							 .categories = strdup(b->selection.categories ?: ""),
							 .phases = b->selection.phase_words,
							 .only = b->selection.request.render.only };
	_cleanup_(output) struct output *output = NULL;
	int ret = baseline.categories ? read_files(b, &baseline.side, err) : so_err(err, -ENOMEM, "out of memory");

	ret = ret ?: choose_unit(b, baseline.side, &baseline.unit, err);
	ret = ret ?: make_dirs(b->dir, err);
	ret = ret ?: output__open(b->path, &output, err);
	if (ret)
		return ret;
	baseline.facts = b->here;
	ret = baseline__write(&baseline, output__file(output));
	baseline.facts = (struct baseline_facts){ .cpu = NULL };
	if (ret)
		return so_err(err, ret,
			      ret == -EFBIG ? "too many blocks for a baseline: save fewer files" : "out of memory");
	ret = output__commit(output, err);
	if (!ret)
		message__note("saved %s; compare later recordings with: stakeout baseline check %s FILE...", b->path,
			      b->words.list[1]);
	return ret;
}

/* Checking. */

/* The new files are read as those of the baseline were. */
static int select_as(struct baselining *b, const struct baseline *baseline, struct so_error *err)
{
	struct render_options *render = &b->selection.request.render;

	if (render->gil != baseline->gil || render->python_only != baseline->python_only || render->only.n ||
	    b->selection.phase_words.n)
		return so_err(
			err, -EINVAL,
			"a check takes --phase and --only from the baseline, and goes with the --gil and --python-only "
			"with which that was saved");
	if (strcmp(b->selection.categories ?: "", baseline->categories))
		return so_err(err, -EINVAL, "the baseline was saved with %s%s: give the same",
			      *baseline->categories ? "--categories " : "the shipped categories", baseline->categories);
	diff_selection__clear(&b->selection);
	b->selection.rules = NULL;
	b->selection.phases = NULL;
	render->only = baseline->only;
	b->selection.phase_words = baseline->phases;
	return diff_selection__prepare(&b->selection, err);
}

static void note_versions(const struct baselining *b, const struct baseline *baseline)
{
	const struct baseline_facts *f = &baseline->facts;

	if (strcmp(f->version, b->here.version))
		message__note("the baseline was saved by stakeout %s, this is %s: rules for categories may differ",
			      f->version, b->here.version);
	if (strcmp(f->kernel, b->here.kernel))
		message__note("the baseline was saved under Linux %s, this is %s", f->kernel, b->here.kernel);
}

/* Without rules of the user's own, what is slower fails. */
static bool fails(const struct baselining *b, const struct comparison *c)
{
	return b->view.fail_rules.n ? fail_rules__hit(&b->view.fail_rules) : c->verdict == VERDICT_SLOWER;
}

static int check(struct baselining *b, bool *failed, struct so_error *err)
{
	_cleanup_(baseline) struct baseline baseline = { .side = NULL };
	_cleanup_(comparison) struct comparison *comparison = NULL;
	_cleanup_(side) struct side *now = NULL;
	struct so_error why = { .text = "" };
	int ret = baseline__read(b->path, &baseline, err);

	ret = ret ?: select_as(b, &baseline, err);
	ret = ret ?: diff_view__prepare(&b->view, &b->selection, err);
	ret = ret ?: read_files(b, &now, err);
	if (ret)
		return ret;
	ret = baseline__check(&baseline, now, &b->here, &why);
	if (ret && !b->anyway)
		return so_err(err, ret, "%.380s (--anyway compares all the same)", why.text);
	if (ret)
		message__note("%s", why.text);
	note_versions(b, &baseline);
	ret = compare__new(baseline.side, now, b->view.unit == COMPARE_UNITS ? baseline.unit : b->view.unit,
			   &comparison, err);
	ret = ret ?: diff_view__write(&b->view, comparison, err);
	*failed = !ret && fails(b, comparison);
	return ret;
}

/* Listing. */

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_baseline(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > strlen(ENDING) && !strcmp(entry->d_name + length - strlen(ENDING), ENDING);
}

static void print_one(const char *name, const struct baseline *b)
{
	printf("%-24.*s  %s  %s, %u run%s, %.1f s, per %s, %s\n", (int)(strlen(name) - strlen(ENDING)), name,
	       b->facts.saved, b->side->program, b->side->n_runs, b->side->n_runs == 1 ? "" : "s",
	       b->side->wall_ns / 1e9, compare_unit__name(b->unit),
	       *b->facts.command ? b->facts.command : b->facts.cpu);
}

static int list(const struct baselining *b, struct so_error *err)
{
	struct dirent **entries;
	int n = scandir(b->dir, &entries, is_baseline, compare_names);

	if (n < 0 && errno != ENOENT)
		return so_err(err, -errno, "cannot read %s: %s", b->dir, strerror(errno));
	if (n <= 0)
		message__note("no baselines in %s: 'stakeout baseline save NAME FILE...' makes one", b->dir);
	for (int i = 0; i < n; i++) {
		_cleanup_(baseline) struct baseline baseline = { .side = NULL };
		struct so_error why = { .text = "" };
		char path[PATH_BYTES];

		if (snprintf(path, sizeof(path), "%s/%s", b->dir, entries[i]->d_name) >= (int)sizeof(path))
			message__note("%s is left out: its path is too long", entries[i]->d_name);
		else if (baseline__read(path, &baseline, &why))
			message__note("%s", why.text);
		else
			print_one(entries[i]->d_name, &baseline);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return 0;
}

static int parse(int argc, char **argv, struct baselining *b)
{
	const struct option_entry entries[] = {
		{ OPTION_TEXT, 0, "dir", "DIR", &b->dir, "where baselines are (" DEFAULT_DIR ")" },
		{ OPTION_TEXT, 0, "command", "TEXT", &b->command,
		  "what was run, kept with the baseline; a check refuses\nanother one" },
		{ OPTION_ON, 0, "anyway", NULL, &b->anyway, "check: compare in spite of another machine or program" },
		{ OPTION_TEXT, 'f', "format", "FORMAT", &b->view.format,
		  "text, markdown (for a merge request) or json" },
		DIFF_VIEW_ENTRIES(b->view),
		DIFF_SELECTION_ENTRIES(b->selection),
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "baseline save NAME FILE... | check NAME FILE... | list [OPTION]...",
		.about = "Keeps what recordings had, a run in each FILE, in a file of 200 KB at most that goes under\n"
			 "version control; check compares others with it, as diff does, and exits with status 3 where\n"
			 "a --fail-on is hit or, without any, where the verdict is slower. Both belong on the machine\n"
			 "where the recordings were made.",
		.entries = entries,
		.positionals = &b->words,
	};

	return running__parse(&table, argc, argv);
}

static int run(struct baselining *b)
{
	struct so_error err = { .text = "" };
	bool failed = false;
	int ret = !strcmp(verb(b), "save")    ? save(b, &err)
		  : !strcmp(verb(b), "check") ? check(b, &failed, &err)
					      : list(b, &err);

	return ret || !failed ? running__end(ret, &err) : STATUS_FAIL_RULE;
}

int cmd_baseline(const struct globals *globals, int argc, char **argv)
{
	struct baselining b = { .dir = DEFAULT_DIR, .view = { DIFF_VIEW_DEFAULTS } };
	struct so_error err = { .text = "" };
	int status = parse(argc, argv, &b);

	if (status >= 0)
		return status;
	if (prepare(&b, &err)) {
		message__error("%s", err.text);
		status = STATUS_USAGE;
	} else {
		interrupt__install();
		status = run(&b);
	}
	diff_selection__clear(&b.selection);
	baseline_facts__clear(&b.here);
	return status;
}
