// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout top: what processes do now, in the terminal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/output.h"
#include "client/session/session.h"
#include "client/top/top_draw.h"
#include "client/top/top_source.h"
#include "client/top/top_terminal.h"
#include "client/top/top_text.h"

#define DEFAULT_SPAN    5
#define ONCE_COLUMNS    160
#define ONCE_ROWS       10 /* of functions and lines */
#define PROCESSES_STEPS 5  /* to the next look at whose child is whose */

struct watching {
	struct top_request request;
	bool once;
	struct session *session;
	struct top_source *source;
	struct top_view view;
	struct top_screen screen;
	struct top_sums sums;
	struct process_list processes;
	struct top_memory memory;
	unsigned long looks; /* at the sums */
	size_t page;
	bool ended;
};

static void cleanup__watching(struct watching *w)
{
	top_terminal__close();
	top_source__free(w->source);
	session__free(w->session);
	top_sums__clear(&w->sums);
	top_memory__clear(&w->memory);
	process_list__release(&w->processes);
}

static int out_of_memory(int ret, struct so_error *err)
{
	return so_err(err, ret, ret == -EFBIG ? "the profile's names are too long" : "out of memory");
}

static int add_up(struct watching *w, struct so_error *err)
{
	int ret;

	top_sums__clear(&w->sums);
	ret = top_source__sum(w->source, &w->sums);
	ret = ret ?: top_memory__take(&w->memory, &w->sums, top_source__now_s());
	if (ret)
		return out_of_memory(ret, err);
	if (w->looks++ % PROCESSES_STEPS)
		return 0;
	process_list__release(&w->processes);
	w->processes = (struct process_list){ .n = 0 };
	return process_list__read(&w->processes, err);
}

static int step(struct watching *w, struct so_error *err)
{
	int ret = top_source__step(w->source, &w->ended, err);

	if (!ret && !w->view.frozen)
		ret = add_up(w, err);
	return ret;
}

static int draw(struct watching *w, FILE *out)
{
	_cleanup_(top_rows) struct top_rows rows = { .n = 0 };
	int ret = top_rows__of(&w->sums, &w->processes, &w->memory, &w->view, &rows);

	w->screen.sums = &w->sums;
	top_source__describe(w->source, &w->screen);
	if (w->once && w->view.table != TOP_THREADS)
		for (; rows.n > ONCE_ROWS; rows.n--)
			text__clear(&rows.list[rows.n - 1].text);
	if (!ret)
		top_draw(&w->screen, &rows, &w->view, out);
	w->page = top_draw__page(&w->screen);
	return ret;
}

static int draw_on_terminal(struct watching *w, struct so_error *err)
{
	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);
	int ret;

	if (!out)
		return out_of_memory(-ENOMEM, err);
	top_terminal__size(&w->screen.width, &w->screen.height);
	w->screen.terminal = true;
	ret = draw(w, out);
	if (fclose(out) || ret)
		return out_of_memory(-ENOMEM, err);
	ret = top_terminal__write(bytes, length);
	return ret && !interrupt__pending() ? so_err(err, ret, "cannot write to the terminal: %s", strerror(-ret)) : 0;
}

/* false: the user has enough. */
static bool take_keys(struct watching *w, const char *bytes, size_t n)
{
	size_t used;

	for (; n; bytes += used, n -= used)
		if (!top_view__take(&w->view, top_key__read(bytes, n, &used), w->page))
			return false;
	return true;
}

static int watch(struct watching *w, struct so_error *err)
{
	double next_ms = 1e3 * top_source__now_s() + TOP_STEP_MS;
	char bytes[256];
	ssize_t n;
	int ret = draw_on_terminal(w, err);

	while (!ret && !interrupt__pending() && !w->ended) {
		double left_ms = next_ms - 1e3 * top_source__now_s();

		n = top_terminal__read(bytes, sizeof(bytes), left_ms > 0 ? (unsigned)left_ms + 1 : 0);
		if (n < 0 || (n > 0 && !take_keys(w, bytes, (size_t)n)))
			return 0;
		if (1e3 * top_source__now_s() >= next_ms) {
			ret = step(w, err);
			next_ms = 1e3 * top_source__now_s() + TOP_STEP_MS;
		}
		ret = ret ?: draw_on_terminal(w, err);
	}
	return ret;
}

/* All tables, after as many recordings as are added up. */
static int print_once(struct watching *w, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	unsigned steps = 0;
	int ret = output__open("-", &output, err);

	while (!ret && !w->ended && !interrupt__pending() && steps++ < w->request.span) {
		interrupt__sleep_ms(TOP_STEP_MS);
		ret = step(w, err);
	}
	w->screen.width = ONCE_COLUMNS;
	for (unsigned table = 0; !ret && table < TOP_TABLES; table++) {
		w->view.table = table;
		if (table)
			fputc('\n', output__file(output));
		ret = draw(w, output__file(output));
	}
	return ret ? ret : output__commit(output, err);
}

static int show(const struct globals *globals, struct watching *w, struct so_error *err)
{
	enum session_need need = w->request.pid ? SESSION_ANY : SESSION_RUNNING;
	int ret = session__open(globals->socket, need, &w->session, err);

	ret = ret ?: top_source__new(w->session, &w->request, &w->source, err);
	if (ret || w->once)
		return ret ? ret : print_once(w, err);
	ret = top_terminal__open(err);
	ret = ret ?: watch(w, err);
	top_terminal__close();
	return ret;
}

static int parse(int argc, char **argv, struct watching *w)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &w->request.pid, "the process; without, all that the daemon watches" },
		{ OPTION_NUMBER, 'd', "duration", "SECONDS", OPTION_RANGE(&w->request.span, 1, TOP_MAX_SPAN),
		  "figures are of the last so many seconds (5)" },
		{ OPTION_ON, 'c', "cuda", NULL, &w->request.cuda, "time its CUDA calls, if it is not watched yet" },
		{ OPTION_ON, 0, "once", NULL, &w->once, "print one screen of each table as text, and end" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "top [PID] [OPTION]...",
		.about = "Shows what processes do now: each thread's running, runnable and waiting time and its\n"
			 "line, functions and lines of the last seconds. Keys: t threads, f functions, l lines,\n"
			 "s sort, m sort by memory, / filter, space freeze, ? help, q quit.",
		.entries = entries,
	};
	int status = running__parse(&table, argc, argv);

	if (status < 0 && w->request.cuda && !w->request.pid) {
		message__error("--cuda is of one process: give its ID with -p PID");
		return STATUS_USAGE;
	}
	return status;
}

int cmd_top(const struct globals *globals, int argc, char **argv)
{
	_cleanup_(watching) struct watching w = { .request = { .span = DEFAULT_SPAN } };
	struct so_error err = { .text = "" };
	int status = parse(argc, argv, &w), ret;

	if (status >= 0)
		return status;
	if (!w.once && !top_terminal__is_there(&err)) {
		message__error("%s", err.text);
		return STATUS_USAGE;
	}
	top_text__prepare();
	interrupt__install();
	ret = show(globals, &w, &err);
	if (!ret && w.ended && !w.once)
		message__note("process %d has ended", w.request.pid);
	return running__end(ret, &err);
}
