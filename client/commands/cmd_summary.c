// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout summary: where a watched process has spent its time so far, or a recorded one, in words or JSON. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/commands/look.h"
#include "client/session/interrupt.h"
#include "client/session/named_process.h"
#include "client/session/message.h"
#include "client/session/output.h"
#include "client/session/past.h"
#include "profile/profile.h"
#include "client/session/profile_file.h"
#include "client/commands/running.h"
#include "client/session/session.h"
#include "client/render/selection.h"
#include "client/summary/summary.h"
#include "client/session/target.h"

#define DEFAULT_TOP 10

/* What the command line says, and what becomes of it. */
struct summarising {
	pid_t pid;
	struct past_options past;
	struct time_range range; /* of these */
	double duration_s;       /* of a look; 0: not asked for */
	const char *input;       /* NULL: the process */
	bool as_json, print_categories;
	bool verbose;
	unsigned top;
	const char *report, *categories;
	struct option_texts phase_words;
	struct summary_request request;
	struct category_rules *rules;
	struct phases *phases;
	struct output *output, *report_output;
	struct profile *profile;
	json_t *stats;
};

static void cleanup__summarising(struct summarising *s)
{
	category_rules__free(s->rules);
	phases__free(s->phases);
	output__free(s->output);
	output__free(s->report_output);
	profile__free(s->profile);
	json_decref(s->stats);
}

/* Before any work is done: a place that cannot be written is known at once. */
static int open_outputs(struct summarising *s, struct so_error *err)
{
	int ret = output__open("-", &s->output, err);

	if (!ret && s->report)
		ret = output__open(s->report, &s->report_output, err);
	return ret;
}

/* Where writing failed, the commit knows the system's reason. */
static int commit(struct output *output, int ret, struct so_error *err)
{
	return ret && ret != -EIO ? ret : output__commit(output, err);
}

/* https://no-color.org: set, to whatever. */
static bool shows_color(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

static void fit_to_terminal(struct summary_style *style)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return;
	style->color = shows_color();
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		style->columns = size.ws_col;
}

static int write_all(struct summarising *s, struct so_error *err)
{
	FILE *out = output__file(s->output);
	int ret = selection__check(s->profile, &s->request.render, err);

	if (ret)
		return ret;
	s->request.style.page = true;
	s->request.style.details = s->verbose;
	s->request.style.top = s->verbose ? SIZE_MAX : s->top;
	/* First the report: who reads standard output may have left. */
	if (s->report_output) {
		ret = summary__print(s->profile, s->stats, &s->request, output__file(s->report_output), err);
		ret = commit(s->report_output, ret, err);
	}
	if (ret)
		return ret;
	fit_to_terminal(&s->request.style);
	ret = s->as_json ? summary__print_json(s->profile, s->stats, &s->request, out, err)
			 : summary__print(s->profile, s->stats, &s->request, out, err);
	return commit(s->output, ret, err);
}

/* The daemon's figures are of all the time that it watched, so those of a range are the profile's own. */
static int get_past(struct api_client *api, struct summarising *s, struct so_error *err)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t length = 0;
	int ret = past__profile(api, s->pid, &s->range, &bytes, &length, err);

	ret = ret ?: profile__read(bytes, length, &s->profile, err);
	if (!ret)
		past__tell_profile(s->profile);
	return ret;
}

static int summarise_past(struct api_client *api, void *context, struct so_error *err)
{
	int ret = get_past(api, context, err);

	return ret ? ret : write_all(context, err);
}

/* What the daemon has of it; a process that is not watched is looked at for some seconds. */
static int get_present(struct session *session, struct summarising *s, uint8_t **bytes, size_t *length,
		       struct so_error *err)
{
	struct api_client *api = session__api(session);
	struct target target;
	int ret = session__private(session) ? -ENOENT : target__find(api, s->pid, &target, err);

	if (ret == -ENOENT && !session__private(session) && kill(s->pid, 0) && errno == ESRCH)
		return ret;
	if (ret == -ENOENT || (!ret && s->duration_s > 0))
		return look__at(session, s->pid, s->duration_s > 0 ? s->duration_s : LOOK_DEFAULT_S, bytes, length,
				&s->stats, err);
	ret = ret ?: target__profile(api, target.id, bytes, length, err);
	return ret ?: target__stats(api, target.id, &s->stats, err);
}

static int summarise_process(const struct globals *globals, struct summarising *s, struct so_error *err)
{
	_cleanup_(session) struct session *session = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t length = 0;
	int ret = session__open(globals->socket, SESSION_ANY, &session, err);

	ret = ret ?: get_present(session, s, &bytes, &length, err);
	ret = ret ?: profile__read(bytes, length, &s->profile, err);
	if (!ret)
		err->text[0] = '\0';
	return ret ? ret : write_all(s, err);
}

static int summarise_file(struct summarising *s, struct so_error *err)
{
	_cleanup_(profile_file) struct profile_file file = { .bytes = NULL };
	int ret = profile_file__read(s->input, NULL, &file, err);

	s->profile = TAKE_PTR(file.profile);
	return ret ? ret : write_all(s, err);
}

/* What is wrong with words, rules and patterns is wrong usage. */
static int prepare(struct summarising *s, struct so_error *err)
{
	int ret;

	if (!s->pid && !s->input && past__wanted(&s->past))
		return so_err(err, -EINVAL,
			      "which process? Give its ID with -p PID: 'stakeout history' lists those of the past");
	if (!s->pid == !s->input)
		return so_err(err, -EINVAL, "which process? Give its ID with -p PID, or a file%s",
			      s->pid ? ", not both" : "");
	if (past__wanted(&s->past) && s->input)
		return so_err(err, -EINVAL, "--since, --until and --at are of a process, not of a file");
	ret = only__check(&s->request.render.only, err);
	if (ret)
		return ret;
	if (past__wanted(&s->past)) {
		ret = past__range(&s->past, &s->range, err);
		if (ret)
			return ret;
	}
	ret = category_rules__load(s->categories, &s->rules, err);
	ret = ret ?: phases__new(s->phase_words.list, s->phase_words.n, &s->phases, err);
	s->request.rules = s->rules;
	s->request.phases = s->phases;
	return ret;
}

static int parse(int argc, char **argv, struct summarising *s)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &s->pid, "the process" },
		{ OPTION_DURATION, 'd', "duration", "SECONDS", &s->duration_s,
		  "look at it for so long, in wall time; 5 for a process\nthat is not watched" },
		PAST_SINCE(s->past),
		PAST_UNTIL(s->past),
		PAST_AT(s->past),
		{ OPTION_NUMBER, 0, "top", "N", OPTION_RANGE(&s->top, 1, 100000), "rows of each table (10)" },
		{ OPTION_ON, 'v', "verbose", NULL, &s->verbose,
		  "all rows, the innermost lines, what is in a category,\nand each short-lived process" },
		{ OPTION_ON, 0, "native-interpreter", NULL, &s->request.style.native_interpreter,
		  "Python's own C functions as others, not as a part of\nthe Python function that they run" },
		{ OPTION_TEXTS, 0, "phase", "NAME=PATTERN", &s->phase_words,
		  "the time under the functions that match this regular\n"
		  "expression, all that they call included; may be repeated" },
		{ OPTION_TEXT, 0, "categories", "FILE", &s->categories,
		  "rules of your own for categories, before the shipped ones" },
		{ OPTION_ON, 0, "print-categories", NULL, &s->print_categories,
		  "print the shipped rules, which show their format" },
		{ OPTION_TEXT, 0, "report", "FILE", &s->report, "write the text to a file as well" },
		{ OPTION_ON, 'j', "json", NULL, &s->as_json, "write JSON, with all functions and lines" },
		SELECTION_GIL(s->request.render),
		SELECTION_ONLY(s->request.render),
		SELECTION_PYTHON_ONLY(s->request.render),
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "summary PID | FILE [OPTION]...",
		.about = "Shows where a process spends its time: who runs, who waits and for what; categories,\n"
			 "phases, functions, source lines, threads and processes. A watched process's since it\n"
			 "is watched, another's in the next seconds. FILE: a recorded pprof file, or folded\n"
			 "stacks, instead; '-' is standard input.",
		.entries = entries,
		.find_process = named_process__find,
		.positional_value = &s->input,
	};

	return running__parse(&table, argc, argv);
}

static int print_categories(void)
{
	_cleanup_(output) struct output *output = NULL;
	struct so_error err = { .text = "" };
	int ret = output__open("-", &output, &err);

	if (!ret) {
		fputs(category_shipped_text, output__file(output));
		ret = output__commit(output, &err);
	}
	return running__end(ret, &err);
}

int cmd_summary(const struct globals *globals, int argc, char **argv)
{
	_cleanup_(summarising) struct summarising s = { .top = DEFAULT_TOP };
	struct so_error err = { .text = "" };
	int status = parse(argc, argv, &s), ret;

	if (status >= 0)
		return status;
	if (s.print_categories)
		return print_categories();
	ret = prepare(&s, &err);
	if (ret) {
		message__error("%s", err.text);
		return STATUS_USAGE;
	}
	interrupt__install();
	ret = open_outputs(&s, &err);
	if (!ret && s.pid && past__wanted(&s.past))
		return running__do(globals, summarise_past, &s);
	if (!ret && s.pid)
		return running__end(summarise_process(globals, &s, &err), &err);
	ret = ret ?: summarise_file(&s, &err);
	return running__end(ret, &err);
}
