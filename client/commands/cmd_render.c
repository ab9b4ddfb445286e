// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout render: any tool's pprof file or folded stacks as folded stacks, as a flame graph, or in a few lines. */
#include <errno.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/render/format.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/output.h"
#include "profile/profile.h"
#include "client/session/profile_file.h"
#include "client/render/render.h"
#include "client/commands/running.h"
#include "client/render/selection.h"

struct render_request {
	struct option_texts inputs;
	const char *input; /* the first of them; NULL: there is none */
	const char *output, *format, *value;
	struct render_options render;
};

static int render(const struct render_request *request, enum format format, bool summary, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	_cleanup_(profile_file) struct profile_file file = { .bytes = NULL };
	char note[160];
	int ret = output__open(request->output, &output, err);

	ret = ret ?: profile_file__read(request->input, request->value, &file, err);
	if (!ret && file.folded && !summary && format == FORMAT_PPROF)
		ret = so_err(err, -EINVAL, "%s has folded stacks, and these lack what a pprof file has",
			     request->input);
	ret = ret ?: selection__check(file.profile, &request->render, err);
	if (ret)
		return ret;
	if (summary)
		ret = render__summary_of(file.profile, NULL, &request->render, output__file(output), err);
	else
		ret = format__write(format, &(struct format_source){ file.bytes, file.length, file.profile },
				    &request->render, output__file(output), err);
	if (!ret || ret == -EIO)
		ret = output__commit(output, err);
	if (!ret && !summary && selection__note(file.profile, &request->render, note, sizeof(note)))
		message__note("%s", note);
	return ret;
}

/* Several on one time line. */
static int render_together(const struct render_request *request, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	struct profile_file files[OPTION_TEXTS_MAX] = { 0 };
	const struct profile *profiles[OPTION_TEXTS_MAX];
	int ret = output__open(request->output, &output, err);

	for (size_t i = 0; !ret && i < request->inputs.n; i++) {
		ret = profile_file__read(request->inputs.list[i], NULL, &files[i], err);
		profiles[i] = files[i].profile;
		ret = ret ?: selection__check(profiles[i], &request->render, err);
	}
	ret = ret ?: render__traces(profiles, request->inputs.n, &request->render, output__file(output), err);
	if (!ret || ret == -EIO)
		ret = output__commit(output, err);
	for (size_t i = 0; i < request->inputs.n; i++)
		profile_file__release(&files[i]);
	return ret;
}

static int fail(int status, const struct so_error *err)
{
	message__error("%s", err->text);
	return status;
}

int cmd_render(const struct globals *globals, int argc, char **argv)
{
	struct render_request request = { .output = "-" };
	const struct option_entry entries[] = {
		{ OPTION_TEXT, 'o', "output", "FILE", &request.output, "where to write (-: standard output)" },
		{ OPTION_TEXT, 'f', "format", "FORMAT", &request.format,
		  "folded, html (a flame graph), speedscope, firefox,\n"
		  "trace (of a profile with times), pprof, or summary (by\nthe ending of FILE, else folded)" },
		{ OPTION_TEXT, 0, "value", "TYPE", &request.value,
		  "what stacks count, where the file has several values:\ncalls, host_time, bytes, inuse_space, ..." },
		{ OPTION_ON, 't', "threads", NULL, &request.render.threads, "tell threads apart: comm-PID/TID" },
		SELECTION_GIL(request.render),
		SELECTION_ONLY(request.render),
		SELECTION_FUNCTIONS(request.render),
		SELECTION_PYTHON_ONLY(request.render),
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "render FILE... [OPTION]...",
		.about = "Turns a pprof file or folded stacks, of any tool, into another form. FILE '-' is\n"
			 "standard input. Several files make one trace: the ranks of a job, by their clocks.",
		.entries = entries,
		.positionals = &request.inputs,
	};
	enum format format = FORMAT_FOLDED;
	struct so_error err = { .text = "" };
	int status = running__parse(&table, argc, argv);
	bool summary;

	if (status >= 0)
		return status;
	request.input = request.inputs.n ? request.inputs.list[0] : NULL;
	summary = request.format && !strcmp(request.format, "summary");
	if (!request.input) {
		so_err(&err, -EINVAL, "which file?");
		return fail(STATUS_USAGE, &err);
	}
	if (!summary && (request.format ? format__parse(request.format, request.output, &format, &err)
					: format__from_path(request.output, &format, &err)))
		return fail(STATUS_USAGE, &err);
	if (!summary && format__check_terminal(format, request.output, &err))
		return fail(STATUS_USAGE, &err);
	if (request.value && (summary || format == FORMAT_PPROF)) {
		so_err(&err, -EINVAL, "--value is not for a pprof file or a summary: these have all values");
		return fail(STATUS_USAGE, &err);
	}
	if (summary && request.render.functions) {
		so_err(&err, -EINVAL,
		       "--functions is for folded stacks and flame graphs; a summary has both functions and lines");
		return fail(STATUS_USAGE, &err);
	}
	if (only__check(&request.render.only, &err))
		return fail(STATUS_USAGE, &err);
	if (!summary && format == FORMAT_PPROF && selection__refuse_for_pprof(&request.render, &err))
		return fail(STATUS_USAGE, &err);
	request.render.value = request.value;
	if (request.inputs.n > 1 && (summary || format != FORMAT_TRACE || request.value)) {
		so_err(&err, -EINVAL, "several files make a trace only: -o all.trace.json");
		return fail(STATUS_USAGE, &err);
	}
	interrupt__install();
	if (request.inputs.n > 1)
		return render_together(&request, &err) ? fail(STATUS_FAILED, &err) : STATUS_DONE;
	return render(&request, format, summary, &err) ? fail(STATUS_FAILED, &err) : STATUS_DONE;
}
