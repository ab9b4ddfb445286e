// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout steps: how long a program's steps take, and what the slow ones did. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/commands/look.h"
#include "client/commands/running.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/output.h"
#include "client/session/profile_file.h"
#include "client/session/session.h"
#include "client/session/target.h"
#include "client/steps/step_callers.h"
#include "client/steps/step_episodes.h"
#include "client/steps/step_phases.h"
#include "client/steps/steps.h"
#include "client/steps/steps_counted.h"
#include "profile/profile.h"

#define DEFAULT_DURATION_S 30
#define DEFAULT_RATE_HZ    199
#define DEFAULT_LAST_S     30
#define MOST_FACTOR        1000
/* Once a backward pass, in every PyTorch of 2.x and the late 1.x. */
#define PYTORCH_STEP "torch::autograd::Engine::execute"

struct steps_request {
	pid_t pid;
	const char *input, *step, *keep, *episode, *callers;
	double duration_s;
	unsigned rate_hz;
	bool as_json, by_samples;
	const char *until_slow;                       /* as it is given; NULL: for a time */
	double factor, last_s;                        /* of it */
	struct option_texts count;                    /* functions whose calls are counted */
	const char *counted[TARGET_MOST_COUNTED + 1]; /* these, and the episodes' */
	size_t n_counted;
	struct option_texts phase_words;
	struct phases *phases; /* NULL: none */
};

/* Where nobody has said what a step is, and the program is none of PyTorch's. */
static void explain(const struct steps_request *request, struct so_error *err)
{
	if (!request->step)
		so_err(err, -ENOENT,
		       "process %d has no %s, which begins PyTorch's steps: name the function that begins yours "
		       "(--step FUNCTION)",
		       request->pid, PYTORCH_STEP);
}

static int keep(const struct steps_request *request, const uint8_t *bytes, size_t length, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	int ret = request->keep ? output__open(request->keep, &output, err) : 0;

	if (ret || !output)
		return ret;
	fwrite(bytes, 1, length, output__file(output));
	return output__commit(output, err);
}

static int look(const struct globals *globals, const struct steps_request *request, struct profile **out,
		struct so_error *err)
{
	_cleanup_(session) struct session *session = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct look_request look = { .pid = request->pid,
				     .duration_s = request->until_slow ? 0 : request->duration_s,
				     .rate_hz = request->rate_hz,
				     .step = request->by_samples ? NULL : request->step ?: PYTORCH_STEP,
				     .counted = request->counted,
				     .n_counted = request->by_samples ? 0 : request->n_counted,
				     .until_slow = request->factor,
				     .last_s = request->until_slow ? request->last_s : 0 };
	json_t *stats = NULL;
	size_t length = 0;
	int ret = session__open(globals->socket, SESSION_ANY, &session, err);

	ret = ret ?: look__closely(session, &look, &bytes, &length, &stats, err);
	json_decref(stats);
	if (ret == -ENOENT)
		explain(request, err);
	if (!ret && look.slow_step_ns)
		message__note("a step took %.1f ms, where 95 in 100 took no more than %.1f ms: the %.0f s up to it",
			      (double)look.slow_step_ns / 1e6, (double)look.usual_step_ns / 1e6, request->last_s);
	ret = ret ?: keep(request, bytes, length, err);
	return ret ?: profile__read(bytes, length, out, err);
}

/* episodes, callers: NULL: none are wanted. */
static int print(const struct steps *steps, const struct phases *phases, const struct step_episodes *episodes,
		 const struct step_callers *callers, bool as_json, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	int ret = output__open("-", &output, err);
	json_t *json;

	if (ret)
		return ret;
	if (!as_json) {
		steps__print(steps, output__file(output));
		if (step_phases__print(steps, phases, output__file(output)) ||
		    steps_counted__print(steps, output__file(output)))
			return so_err(err, -ENOMEM, "out of memory");
		if (callers)
			step_callers__print(callers, output__file(output));
		if (episodes)
			step_episodes__print(episodes, output__file(output));
		return output__commit(output, err);
	}
	json = steps__json(steps);
	if (!json || json_object_set_new(json, "phases", step_phases__json(steps, phases)) ||
	    json_object_set_new(json, "counted", steps_counted__json(steps)) ||
	    json_object_set_new(json, "callers", callers ? step_callers__json(callers) : json_null()) ||
	    json_object_set_new(json, "episodes", episodes ? step_episodes__json(episodes) : json_null()) ||
	    json_dumpf(json, output__file(output), JSON_INDENT(2) | JSON_REAL_PRECISION(12)))
		ret = so_err(err, -ENOMEM, "out of memory");
	json_decref(json);
	if (!ret)
		fputc('\n', output__file(output));
	return ret ?: output__commit(output, err);
}

/* One more than can be, lest it be overlooked. */
static void list_counted(struct steps_request *request, bool episode)
{
	request->n_counted = 0;
	if (episode)
		request->counted[request->n_counted++] = request->episode;
	for (size_t i = 0; i < request->count.n && request->n_counted <= TARGET_MOST_COUNTED; i++) {
		size_t at = 0;

		while (at < request->n_counted && strcmp(request->counted[at], request->count.list[i]) != 0)
			at++;
		if (at == request->n_counted)
			request->counted[request->n_counted++] = request->count.list[i];
	}
}

/*
 * What cannot be counted is taken from samples: the episode's function, which may not be one that can be counted, and
 * then, where watchpoints do not fire, steps.
 */
static int look_somehow(const struct globals *globals, struct steps_request *request, struct profile **out,
			struct so_error *err)
{
	int ret = look(globals, request, out, err);

	if (request->episode && !request->by_samples && (ret == -ENOTSUP || ret == -ENOENT || ret == -EEXIST)) {
		struct so_error first = *err;

		list_counted(request, false);
		ret = look(globals, request, out, err);
		if (!ret)
			message__note("episodes are by samples, as their calls cannot be counted: %s", first.text);
	}
	if (ret != -ENOTSUP || !request->step || request->until_slow)
		return ret;
	message__note("this machine's watchpoints do not fire: steps are taken from samples%s",
		      request->count.n ? ", and --count cannot be" : "");
	request->by_samples = true;
	return look(globals, request, out, err);
}

static int run(const struct globals *globals, struct steps_request *request, struct so_error *err)
{
	_cleanup_(profile_file) struct profile_file file = { .bytes = NULL };
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_(steps) struct steps *steps = NULL;
	_cleanup_(step_callers) struct step_callers *callers = NULL;
	struct step_episodes episodes = { .n = 0 };
	int ret = request->input ? profile_file__read(request->input, NULL, &file, err)
				 : look_somehow(globals, request, &profile, err);

	ret = ret ?: steps__of(profile ?: file.profile, request->by_samples ? request->step : NULL, &steps, err);
	if (ret == -ENODATA && request->step && !request->by_samples)
		so_err(err, ret,
		       "fewer than two steps of '%s' were seen in %.0f s: it is not called so often, or in Python "
		       "not by this name: FILE.py:FUNCTION or FILE.py:LINE, of a line in the loop",
		       request->step, request->duration_s);
	if (!ret && request->episode)
		ret = step_episodes__measure(steps, request->episode, &episodes, err);
	if (!ret && request->callers)
		ret = step_callers__of(steps, request->callers, &callers, err);
	ret = ret ?: print(steps, request->phases, request->episode ? &episodes : NULL, callers, request->as_json, err);
	step_episodes__clear(&episodes);
	return ret;
}

static int check(const struct steps_request *request, struct so_error *err)
{
	if (request->pid && request->input)
		return so_err(err, -EINVAL, "a process (-p PID) or a file, not both");
	if (!request->pid && !request->input)
		return so_err(err, -EINVAL,
			      "which process? -p PID, or a file of 'stakeout record --timeline --step FUNCTION'");
	if (request->input && request->keep)
		return so_err(err, -EINVAL, "-o is for a process: this is a file already");
	if (request->input && request->count.n)
		return so_err(err, -EINVAL, "--count is for a process: a file has the calls that were counted");
	if (request->n_counted > TARGET_MOST_COUNTED)
		return so_err(err, -EINVAL, "at most %d functions can be counted, that of --episode among them",
			      TARGET_MOST_COUNTED);
	if (request->by_samples && request->count.n)
		return so_err(err, -EINVAL, "--count needs each call as it is made, not samples");
	if (request->by_samples && !request->step)
		return so_err(err, -EINVAL, "--by-samples needs --step: a line, or a function");
	return request->by_samples && request->until_slow
		       ? so_err(err, -EINVAL, "--until-slow needs each step as it begins, not samples")
		       : 0;
}

/* "2", "2.5", "3x": so many times the 95th percentile. */
static int check_factor(struct steps_request *request, struct so_error *err)
{
	char *end;

	if (!request->until_slow)
		return 0;
	request->factor = strtod(request->until_slow, &end);
	if (end == request->until_slow || (*end && strcmp(end, "x")) ||
	    !(request->factor >= 1 && request->factor <= MOST_FACTOR))
		return so_err(err, -EINVAL,
			      "--until-slow %s: how many times the 95th percentile a step must take, from 1 to %d",
			      request->until_slow, MOST_FACTOR);
	return request->input ? so_err(err, -EINVAL, "--until-slow is for a process") : 0;
}

int cmd_steps(const struct globals *globals, int argc, char **argv)
{
	struct steps_request request = { .duration_s = DEFAULT_DURATION_S,
					 .rate_hz = DEFAULT_RATE_HZ,
					 .last_s = DEFAULT_LAST_S };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process; or its name, or its script's" },
		{ OPTION_TEXT, 's', "step", "FUNCTION", &request.step,
		  "the function that is called once a step, as stakeout\nshows it, without parameters (of "
		  "PyTorch:\n" PYTORCH_STEP ");\nof Python train.py:FUNCTION, or train.py:LINE" },
		{ OPTION_ON, 0, "by-samples", NULL, &request.by_samples,
		  "without a probe: each arrival at the line, or at that of\nthe function where it stays longest, that "
		  "samples show" },
		{ OPTION_DURATION, 'd', "duration", "SECONDS", &request.duration_s, "how long (30): 90, 5m" },
		{ OPTION_RATE, 'r', "rate", "HZ", &request.rate_hz, "samples a second of CPU time (199)" },
		{ OPTION_TEXT, 0, "until-slow", "FACTOR", &request.until_slow,
		  "instead of -d: wait until a step takes so many times\nthe 95th percentile (2), or is under way for "
		  "so long" },
		{ OPTION_DURATION, 0, "last", "SECONDS", &request.last_s, "with --until-slow: what led to it (30)" },
		{ OPTION_TEXTS, 0, "phase", "NAME=PATTERN", &request.phase_words,
		  "what a step spends under the functions that match this\nregular expression; may be repeated" },
		{ OPTION_TEXTS, 0, "count", "FUNCTION", &request.count,
		  "how often a step calls this, counted exactly; may be\nrepeated, three in all: the actions of a "
		  "simulator" },
		{ OPTION_TEXT, 0, "episode", "FUNCTION", &request.episode,
		  "how many steps there are from one call of this to the\nnext, as of a simulator's reset; of a "
		  "FILE, or where calls\ncannot be counted: from one arrival at its line, or at the\nline of it where "
		  "it "
		  "stays longest, by samples" },
		{ OPTION_TEXT, 0, "callers", "FUNCTION", &request.callers,
		  "who calls this, with share and calls a step, by samples:\nthe actions of a simulator that all go "
		  "through it" },
		{ OPTION_TEXT, 'o', "output", "FILE", &request.keep, "keep what was recorded, as pprof with times" },
		{ OPTION_ON, 0, "json", NULL, &request.as_json, "as JSON" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "steps -p PID [--step FUNCTION] [OPTION]... | steps FILE",
		.about =
			"How long the steps of a program take, exactly and without a change of it: a probe tells each\n"
			"entry of the function that begins one. Then the slowest, each with what it did for longer\n"
			"than a typical step did. FILE: of 'stakeout record --timeline --step FUNCTION'; of one\n"
			"without steps --step says where they begin, by samples.",
		.entries = entries,
		.find_process = named_process__find,
		.positional_value = &request.input,
	};
	struct so_error err = { .text = "" };
	int status = running__parse(&table, argc, argv), ret;

	if (status >= 0)
		return status;
	/* The steps that a file has are those of the function that it was recorded with. */
	request.by_samples |= request.input && request.step;
	list_counted(&request, request.episode && !request.input);
	if (check(&request, &err) || check_factor(&request, &err) ||
	    phases__new(request.phase_words.list, request.phase_words.n, &request.phases, &err)) {
		message__error("%s (see stakeout steps --help)", err.text);
		return STATUS_USAGE;
	}
	interrupt__install();
	ret = run(globals, &request, &err);
	phases__free(request.phases);
	return ret ? running__end(ret, &err) : STATUS_DONE;
}
