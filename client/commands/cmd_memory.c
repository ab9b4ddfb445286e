// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout memory: whether a process's memory grows, by how much, and which lines keep it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/commands/memory_look.h"
#include "client/commands/memory_past.h"
#include "client/commands/memory_reports.h"
#include "client/commands/running.h"
#include "client/render/format.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/output.h"
#include "client/session/profile_file.h"
#include "client/session/session.h"
#include "client/session/target.h"
#include "client/session/waiting_note.h"

#define DEFAULT_DURATION_S 60
#define DEFAULT_TOP        10
#define NO_DURATION        (-1.0) /* none was given */
/* It is asked while it is watched: what is in use is not known afterwards. So it ends later, if this one is killed. */
#define SPARE_S 30

struct memory_request {
	pid_t pid;
	const char *input, *base, *output, *format_word;
	enum format format;
	double duration_s;
	double budget_percent; /* of the probes of CUDA calls; 0: the default */
	unsigned top;
	bool as_json, so_far, gpu, allocations;
	struct past_options past;
	struct time_range range; /* of these */
};

static enum memory_kind kind_of(const struct memory_request *request)
{
	return request->gpu ? MEMORY_GPU : request->allocations ? MEMORY_ALLOCATIONS : MEMORY_PAGES;
}

static int download(struct api_client *api, const struct memory_request *request, uint32_t id, uint8_t **bytes,
		    size_t *length, struct so_error *err)
{
	if (request->allocations)
		return target__allocations(api, id, bytes, length, err);
	return request->gpu ? target__gpu_memory(api, id, bytes, length, err)
			    : target__memory(api, id, bytes, length, err);
}

/* Whoever waits for a minute is not to learn then that there was nothing to see. */
static int check_seen(struct api_client *api, const struct memory_request *request, struct target *target,
		      struct so_error *err)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t length;
	int ret;

	if (kind_of(request) == MEMORY_PAGES || request->duration_s <= MEMORY_LOOK_CHECK_S)
		return 0;
	ret = memory_look__wait(api, target, MEMORY_LOOK_CHECK_S, err);
	ret = ret ?: download(api, request, target->id, &bytes, &length, err);
	return ret ?: memory_reports__check(kind_of(request), bytes, length, err);
}

static int look(const struct globals *globals, const struct memory_request *request, uint8_t **bytes, size_t *length,
		struct so_error *err)
{
	_cleanup_(session) struct session *session = NULL;
	const struct attach_request attach = { .pid = request->pid,
					       .rate_hz = MEMORY_LOOK_RATE_HZ,
					       .duration_s = request->duration_s + SPARE_S,
					       .children = true,
					       .kernel = true,
					       .memory = kind_of(request) == MEMORY_PAGES,
					       .gpu_memory = request->gpu,
					       .allocations = request->allocations };
	struct waiting_note *note;
	struct target target;
	int ret = session__open(globals->socket, SESSION_ANY, &session, err);

	if (ret)
		return ret;
	note = waiting_note__begin("reading the tables of process %d", request->pid);
	ret = target__attach_at_any_rate(session__api(session), &attach, &target, err);
	waiting_note__end(note);
	if (ret)
		return ret;
	ret = check_seen(session__api(session), request, &target, err);
	ret = ret ?: memory_look__wait(session__api(session), &target, request->duration_s, err);
	ret = ret ?: download(session__api(session), request, target.id, bytes, length, err);
	/* A private daemon ends anyhow. */
	if (!session__private(session))
		target__detach(session__api(session), target.id, NULL);
	return ret;
}

/* Of a process that the daemon watches so anyway. */
static int take_so_far(const struct globals *globals, const struct memory_request *request, uint8_t **bytes,
		       size_t *length, struct so_error *err)
{
	_cleanup_(session) struct session *session = NULL;
	struct target target;
	int ret = session__open(globals->socket, SESSION_RUNNING, &session, err);

	ret = ret ?: target__find(session__api(session), request->pid, &target, err);
	return ret ?: download(session__api(session), request, target.id, bytes, length, err);
}

/* The stacks of what is in use. */
static int write_profile(const struct memory_request *request, const struct profile *in_use, const uint8_t *bytes,
			 size_t length, struct so_error *err)
{
	const struct format_source source = { bytes, length, in_use };
	const struct render_options options = { .value = "inuse_space" };
	_cleanup_(output) struct output *output = NULL;
	int ret = output__open(request->output, &output, err);

	ret = ret ?: format__write(request->format, &source, &options, output__file(output), err);
	return ret && ret != -EIO ? ret : output__commit(output, err);
}

static int write_json(json_t *json, FILE *out, struct so_error *err)
{
	int ret = 0;

	if (!json || json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12)))
		ret = so_err(err, -ENOMEM, "out of memory");
	else
		fputc('\n', out);
	json_decref(json);
	return ret;
}

static int print(const struct memory_request *request, const struct memory_reports *reports, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	int ret = output__open("-", &output, err);

	if (ret)
		return ret;
	if (request->as_json)
		ret = write_json(memory_reports__json(reports), output__file(output), err);
	else
		memory_reports__print(reports, request->top, output__file(output));
	return ret ?: output__commit(output, err);
}

/* Against the moment that --base has. */
static int compare(const struct memory_request *request, const struct memory_reports *reports, struct so_error *err)
{
	_cleanup_(memory_reports) struct memory_reports base = { .kind = reports->kind };
	_cleanup_(memory_moments) struct memory_moments moments = { .n = 0 };
	_cleanup_(profile_file) struct profile_file file = { .bytes = NULL };
	_cleanup_(output) struct output *output = NULL;
	int ret = profile_file__read(request->base, "inuse_space", &file, err);

	if (!ret && file.folded)
		ret = so_err(err, -EINVAL, "%s has folded stacks: give the pprof file", request->base);
	ret = ret ?: memory_reports__read(reports->kind, file.bytes, file.length, &base, err);
	if (ret)
		return ret;
	ret = memory_reports__compare(&base, reports, &moments);
	ret = ret ? so_err(err, ret, "out of memory") : output__open("-", &output, err);
	if (ret)
		return ret;
	if (request->as_json)
		ret = write_json(memory_moments__json(&moments), output__file(output), err);
	else
		memory_moments__print(&moments, request->top, output__file(output));
	return ret ?: output__commit(output, err);
}

/* Where PyTorch's allocator cannot be watched. err has the reason, which stays if there is nothing else to be seen. */
static int show_calls(const struct globals *globals, const struct memory_request *request, struct so_error *err)
{
	_cleanup_(cuda_memory) struct cuda_memory memory = { .report = NULL };
	_cleanup_(session) struct session *session = NULL;
	_cleanup_(output) struct output *output = NULL;
	const struct so_error why = *err;
	int ret = output__open("-", &output, err);

	ret = ret ?: session__open(globals->socket, SESSION_ANY, &session, err);
	if (!ret)
		ret = memory_look__by_call(session, request->pid, request->duration_s, request->budget_percent,
					   why.text, &memory, err);
	if (ret)
		return ret;
	if (request->as_json)
		ret = write_json(cuda_memory__json(&memory, why.text), output__file(output), err);
	else
		cuda_memory__print(&memory, why.text, request->top, output__file(output));
	return ret ?: output__commit(output, err);
}

static int show_report(const struct globals *globals, const struct memory_request *request, struct so_error *err)
{
	_cleanup_(memory_reports) struct memory_reports reports = { .kind = MEMORY_PAGES };
	enum memory_kind kind = kind_of(request);
	_cleanup_(profile_file) struct profile_file file = { .bytes = NULL };
	_cleanup_free_ uint8_t *looked = NULL;
	size_t length = 0;
	int ret;

	if (request->input)
		ret = profile_file__read(request->input, "inuse_space", &file, err);
	else if (request->so_far)
		ret = take_so_far(globals, request, &looked, &length, err);
	else
		ret = look(globals, request, &looked, &length, err);

	if (!ret && file.folded)
		ret = so_err(err, -EINVAL, "%s has folded stacks: give the pprof file", request->input);
	/* A file says itself what it has. */
	if (!ret && request->input && !request->gpu && alloc_report__is(file.bytes, file.length))
		kind = MEMORY_ALLOCATIONS;
	ret = ret ?: memory_reports__read(kind, looked ?: file.bytes, looked ? length : file.length, &reports, err);
	if (!ret && request->output)
		ret = write_profile(request, memory_reports__in_use(&reports), looked ?: file.bytes,
				    looked ? length : file.length, err);
	/* Standard output has the stacks then. */
	if (!ret && request->base)
		ret = compare(request, &reports, err);
	else if (!ret && request->output && !strcmp(request->output, "-"))
		memory_reports__print(&reports, request->top, stderr);
	else if (!ret)
		ret = print(request, &reports, err);
	return ret;
}

/* Calls have no stacks of what is in use, which -o is for. */
static int run(const struct globals *globals, const struct memory_request *request, struct so_error *err)
{
	int ret = show_report(globals, request, err);

	if (ret != -ENOTSUP || !request->gpu || !request->pid || request->so_far || request->output || request->base)
		return ret;
	return show_calls(globals, request, err);
}

/* The history has how much there was, and no stacks. */
static int check_past(struct memory_request *request, struct so_error *err)
{
	const char *option = request->duration_s >= 0  ? "-d"
			     : request->so_far         ? "--so-far"
			     : request->gpu            ? "--gpu"
			     : request->allocations    ? "--allocations"
			     : request->budget_percent ? "--budget"
			     : request->base           ? "--base"
			     : request->output         ? "-o"
			     : request->format_word    ? "-f"
			     : request->top            ? "--top"
						       : NULL;

	if (!request->pid || request->input)
		return so_err(err, -EINVAL, "--since, --until and --at are of a process: -p PID%s",
			      request->input ? ", and no file" : "");
	if (option)
		return so_err(err, -EINVAL, "%s does not go with --since, --until or --at", option);
	return past__range(&request->past, &request->range, err);
}

static int check(struct memory_request *request, struct so_error *err)
{
	int ret = 0;

	if (past__wanted(&request->past))
		return check_past(request, err);
	if (request->duration_s < 0)
		request->duration_s = DEFAULT_DURATION_S;
	if (!request->top)
		request->top = DEFAULT_TOP;

	if (!request->pid == !request->input)
		return so_err(err, -EINVAL, "which process? -p PID, or a file of 'stakeout memory -o FILE.pb.gz'%s",
			      request->pid ? ", not both" : "");
	if (request->gpu && request->allocations)
		return so_err(err, -EINVAL, "--gpu and --allocations are of different memory: one of them");
	if (request->budget_percent && (!request->gpu || request->so_far || request->input))
		return so_err(err, -EINVAL, "--budget limits the probes of CUDA calls: it needs -p PID --gpu");
	if (request->so_far && request->input)
		return so_err(err, -EINVAL, "--so-far is of a process, not of a file");
	if (request->base && request->output && !strcmp(request->output, "-"))
		return so_err(err, -EINVAL, "--base and -o - both want standard output");
	if (!request->output)
		return request->format_word ? so_err(err, -EINVAL, "-f needs -o: where to write") : 0;
	ret = request->format_word ? format__parse(request->format_word, request->output, &request->format, err)
				   : format__from_path(request->output, &request->format, err);
	if (!ret && request->format == FORMAT_TRACE)
		ret = so_err(err, -EINVAL, "memory has no time line: .pb.gz, .html or .folded");
	if (!ret && request->as_json && !strcmp(request->output, "-"))
		ret = so_err(err, -EINVAL, "--json and -o - both want standard output");
	return ret ?: format__check_terminal(request->format, request->output, err);
}

int cmd_memory(const struct globals *globals, int argc, char **argv)
{
	struct memory_request request = { .duration_s = NO_DURATION };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process; or its name, or its script's" },
		{ OPTION_DURATION, 'd', "duration", "SECONDS", &request.duration_s, "how long (60): 20, 5m" },
		{ OPTION_ON, 0, "so-far", NULL, &request.so_far,
		  "at once, of all the time since 'attach --memory'\n"
		  "or --gpu-memory or --allocations" },
		PAST_SINCE(request.past),
		PAST_UNTIL(request.past),
		PAST_AT(request.past),
		{ OPTION_ON, 0, "gpu", NULL, &request.gpu,
		  "of GPUs instead: what PyTorch has allocated and cached,\nby the line that asked for it; without "
		  "PyTorch by CUDA call" },
		{ OPTION_ON, 0, "allocations", NULL, &request.allocations,
		  "calls of malloc and its like instead: what each line\nallocated and freed" },
		{ OPTION_PERCENT, 0, "budget", "PERCENT", &request.budget_percent,
		  "with --gpu: limit on what counting CUDA calls may\ncost, in percent of the process's time "
		  "(default 3;\n100: no limit)" },
		{ OPTION_TEXT, 0, "base", "FILE", &request.base,
		  "an earlier -o FILE.pb.gz: what each line has in use by\nnow that it had not then" },
		{ OPTION_NUMBER, 0, "top", "N", OPTION_RANGE(&request.top, 1, 100000), "rows of the table (10)" },
		{ OPTION_TEXT, 'o', "output", "FILE", &request.output,
		  "write the stacks of what is in use: .pb.gz (pprof, with\nall values), .html (a flame graph), "
		  ".folded" },
		{ OPTION_TEXT, 'f', "format", "FORMAT", &request.format_word,
		  "of that file: folded, html, speedscope, firefox or pprof\n(by its ending, else folded)" },
		{ OPTION_ON, 'j', "json", NULL, &request.as_json, "as JSON, with all lines" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "memory -p PID [OPTION]... | memory FILE [--base FILE]",
		.about = "Whether a process's memory grows, by how much a minute, and which lines keep it. Pages\n"
			 "that are touched for the first time are sampled with their stacks; at the end it is\n"
			 "looked up which of them are there still. FILE: what -o FILE.pb.gz has kept. --since: how\n"
			 "much there was, of the history, also of a process that is gone.",
		.entries = entries,
		.find_process = named_process__find,
		.positional_value = &request.input,
	};
	struct so_error err = { .text = "" };
	int status = running__parse(&table, argc, argv);

	if (status >= 0)
		return status;
	if (check(&request, &err)) {
		message__error("%s (see stakeout memory --help)", err.text);
		return STATUS_USAGE;
	}
	interrupt__install();
	if (past__wanted(&request.past))
		return running__end(memory_past__show(globals, request.pid, &request.range, request.as_json, &err),
				    &err);
	return running__end(run(globals, &request, &err), &err);
}
