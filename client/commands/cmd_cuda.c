// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout cuda: a process's CUDA calls, their times on the host, and the lines that make them. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/cuda/cuda_view.h"
#include "client/session/interrupt.h"
#include "client/session/named_process.h"
#include "client/session/message.h"
#include "client/session/output.h"
#include "client/session/past.h"
#include "client/commands/running.h"
#include "client/session/target.h"

#define POLL_MS         200
#define DEFAULT_RATE_HZ 99 /* samples are taken as well: they tell of new libraries, and of the host's time */
#define DEFAULT_ROWS    20
#define DEFAULT_S       10
#define NO_DURATION     (-1.0) /* none was given */

struct watching {
	pid_t pid;
	double duration_s;
	const char *path;
	double budget_percent;
	const char *step; /* the function that begins a step; NULL: none */
	bool children, quiet, all;
	struct past_options past;
	struct time_range range; /* of these */
	struct cuda_view view;
	struct output *output;
	struct session *session;
	struct target target;
	json_t *answer;
};

static void cleanup__watching(struct watching *w)
{
	json_decref(w->answer);
	session__free(w->session);
	output__free(w->output);
}

/* A process that the daemon samples already keeps its rate: what is counted here does not depend on it. */
static int attach(struct watching *w, struct so_error *err)
{
	struct attach_request request = { .pid = w->pid,
					  .rate_hz = DEFAULT_RATE_HZ,
					  .duration_s = w->duration_s,
					  .children = w->children,
					  .kernel = true,
					  .cuda = true,
					  .timed = w->step != NULL,
					  .step = w->step,
					  .cuda_budget_percent = w->budget_percent };
	struct api_client *api = session__api(w->session);
	struct target running;
	int ret = target__attach(api, &request, &w->target, err);

	if (ret != -EEXIST || target__find(api, w->pid, &running, NULL) || target__ended(&running))
		return ret;
	request.rate_hz = running.rate_hz;
	return target__attach(api, &request, &w->target, err);
}

static void show_progress(const struct watching *w, bool progress)
{
	char limit[32] = "";

	if (!progress)
		return;
	if (w->duration_s > 0)
		snprintf(limit, sizeof(limit), "/%.1f", w->duration_s);
	fprintf(stderr, "\r\033[Kwatching CUDA calls of %d (%s): %.1f%s s", w->pid, w->target.comm, w->target.elapsed_s,
		limit);
}

static int wait_for_end(struct watching *w, struct so_error *err)
{
	bool progress = !w->quiet && isatty(STDERR_FILENO);
	int ret = 0;

	while (!ret && !target__ended(&w->target) && !interrupt__pending()) {
		double left_ms = (w->duration_s - w->target.elapsed_s) * 1000;

		show_progress(w, progress);
		interrupt__sleep_ms(w->duration_s == 0 || left_ms > POLL_MS ? POLL_MS
				    : left_ms < 5                           ? 5
									    : (unsigned)left_ms + 1);
		if (!interrupt__pending())
			ret = target__get(session__api(w->session), w->target.id, &w->target, err);
	}
	if (progress)
		fputs("\r\033[K", stderr);
	return ret;
}

static int fetch(struct watching *w, struct so_error *err)
{
	struct api_client *api = session__api(w->session);
	int ret = target__stop(api, w->target.id, &w->target, err);

	if (!ret && !w->quiet && !strcmp(w->target.end, "exited"))
		message__note("process %d ended after %.1f s", w->pid, w->target.elapsed_s);
	ret = ret ?: target__cuda(api, w->target.id, &w->answer, err);
	if (!session__private(w->session))
		target__detach(api, w->target.id, NULL);
	if (!ret && w->step && json_integer_value(json_object_get(w->answer, "steps")) < 2)
		message__note("%s was not seen to be entered twice: there are no calls a step", w->step);
	return ret;
}

static int watch(const struct globals *globals, struct watching *w, struct so_error *err)
{
	int ret = output__open(w->path ?: "-", &w->output, err);

	ret = ret ?: session__open(globals->socket, SESSION_ANY, &w->session, err);
	if (!ret && interrupt__pending())
		ret = so_err(err, -EINTR, "interrupted before anything was watched");
	ret = ret ?: attach(w, err);
	ret = ret ?: wait_for_end(w, err);
	ret = ret ?: fetch(w, err);
	if (ret)
		return ret;
	/* -EIO: the output, which knows why. */
	ret = cuda_report__render(w->answer, &w->view, output__file(w->output), err);
	return ret && ret != -EIO ? ret : output__commit(w->output, err);
}

/* What the daemon's history has, of a process that may be gone. */
static int look_back(const struct globals *globals, struct watching *w, struct so_error *err)
{
	int ret = output__open(w->path ?: "-", &w->output, err);

	ret = ret ?: session__open(globals->socket, SESSION_RUNNING, &w->session, err);
	ret = ret ?: past__cuda(session__api(w->session), w->pid, &w->range, w->quiet, &w->answer, err);
	ret = ret ?: cuda_report__render(w->answer, &w->view, output__file(w->output), err);
	return ret && ret != -EIO ? ret : output__commit(w->output, err);
}

static unsigned width_of(FILE *out)
{
	struct winsize size;

	return isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, &size) ? size.ws_col : 0;
}

/* The past is as it was recorded. */
static int check_past(struct watching *w, struct so_error *err)
{
	const char *option = w->duration_s >= 0  ? "-d"
			     : w->budget_percent ? "--budget"
			     : w->step           ? "--step"
			     : w->view.probes    ? "--probes"
			     : !w->children      ? "--no-children"
						 : NULL;

	if (!past__wanted(&w->past)) {
		if (w->duration_s < 0)
			w->duration_s = DEFAULT_S;
		return 0;
	}
	if (option)
		return so_err(err, -EINVAL, "%s is of watching now: it does not go with --since, --until or --at",
			      option);
	return past__range(&w->past, &w->range, err);
}

static int parse(int argc, char **argv, struct watching *w)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &w->pid, "the process to watch" },
		{ OPTION_DURATION, 'd', "duration", "SECONDS", &w->duration_s,
		  "for how long, or 'unlimited' (10); Ctrl-C ends it too" },
		PAST_SINCE(w->past),
		PAST_UNTIL(w->past),
		PAST_AT(w->past),
		{ OPTION_TEXT, 'o', "output", "FILE", &w->path, "write there ('-': standard output)" },
		{ OPTION_ON, 'j', "json", NULL, &w->view.json, "write JSON: all rows, and the figures computed" },
		{ OPTION_ON, 0, "probes", NULL, &w->view.probes,
		  "list the probes: file, symbol, place, and why there" },
		{ OPTION_TEXT, 0, "step", "FUNCTION", &w->step,
		  "the function that begins a step of the program, as\nstakeout steps has it: calls a step, by kind" },
		{ OPTION_PERCENT, 0, "budget", "PERCENT", &w->budget_percent,
		  "what watching may cost of the process's time (3);\n100: no limit, every call is "
		  "counted" },
		{ OPTION_ON, 0, "stacks", NULL, &w->view.stacks, "show the stack of each wait" },
		{ OPTION_ON, 0, "python-only", NULL, &w->view.python_only, "name Python lines only" },
		{ OPTION_ON, 0, "all", NULL, &w->all, "all rows of each table, not the first 20" },
		{ OPTION_OFF, 0, "no-children", NULL, &w->children, "leave child processes out" },
		{ OPTION_ON, 'q', "quiet", NULL, &w->quiet, "no progress and no notes" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "cuda -p PID [OPTION]...",
		.about = "Times a process's CUDA calls on the host, runtime and driver, without stopping it:\n"
			 "launches by kernel, waits and copies by source line, allocations, and what to do\n"
			 "about them. Times are those of the calls, never of the kernels on the GPU.\n"
			 "--since and --at show the past of a process that is or was attached with --cuda.",
		.entries = entries,
		.find_process = named_process__find,
	};
	struct so_error err = { .text = "" };
	int status = running__parse_pid(&table, &w->pid, argc, argv);

	if (status >= 0 || !check_past(w, &err))
		return status;
	message__error("%s", err.text);
	return STATUS_USAGE;
}

int cmd_cuda(const struct globals *globals, int argc, char **argv)
{
	_cleanup_(watching) struct watching w = { .duration_s = NO_DURATION, .children = true };
	struct so_error err = { .text = "" };
	int status = parse(argc, argv, &w);

	if (status >= 0)
		return status;
	w.view.rows = w.all ? 0 : DEFAULT_ROWS;
	w.view.width = w.path && strcmp(w.path, "-") != 0 ? 0 : width_of(stdout);
	interrupt__install();
	status = past__wanted(&w.past) ? look_back(globals, &w, &err) : watch(globals, &w, &err);
	if (status && err.text[0])
		message__error("%s", err.text);
	return status ? STATUS_FAILED : STATUS_DONE;
}
