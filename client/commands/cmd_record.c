// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout record: attach, wait, write. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/cuda/cuda_event_summary.h"
#include "client/session/child_command.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/output.h"
#include "client/session/process_arguments.h"
#include "profile/profile.h"
#include "client/commands/record_options.h"
#include "client/render/render.h"
#include "client/render/selection.h"
#include "client/session/session.h"
#include "client/session/target.h"
#include "client/session/waiting_note.h"

#define POLL_MS 100

struct recording {
	struct record_options *options;
	struct child_command *command; /* that is recorded; NULL: a process that runs already */
	struct session *session;
	struct target target;
	struct target warm; /* attached before the recording begins, in a schedule */
	unsigned cycle;     /* of a schedule, from 1 */
	bool progress;      /* standard error is a terminal */
	struct output *output, *stats_output;
	json_t *stats;
	uint8_t *bytes; /* pprof */
	size_t length;
	struct profile *profile;
	bool written;
};

/* What one cycle took. */
static void forget_cycle(struct recording *recording)
{
	profile__free(TAKE_PTR(recording->profile));
	json_decref(TAKE_PTR(recording->stats));
	free(TAKE_PTR(recording->bytes));
	output__free(TAKE_PTR(recording->stats_output));
	output__free(TAKE_PTR(recording->output));
	recording->written = false;
}

static void cleanup__recording(struct recording *recording)
{
	forget_cycle(recording);
	child_command__free(recording->command);
	session__free(recording->session);
}

/* What the process or command is called; "": it has no arguments, or cannot be read. */
static void read_name(const struct record_options *options, char *name, size_t size)
{
	char arguments[4096];
	ssize_t n = 0;

	/* The command has not begun yet: its process is still a copy of this one. */
	if (options->command) {
		for (char **word = options->command; *word && (size_t)n + strlen(*word) < sizeof(arguments); word++)
			n += stpcpy(arguments + n, *word) + 1 - (arguments + n);
	} else {
		n = process_arguments__read(options->pid, arguments, sizeof(arguments));
	}
	snprintf(name, size, "%s", n > 0 ? process_arguments__name(arguments, (size_t)n) : "");
}

static int open_new(struct recording *recording, struct so_error *err)
{
	const struct record_options *options = recording->options;
	char name[64], stem[RECORD_STEM_BYTES];

	read_name(options, name, sizeof(name));
	record_options__default_stem(options, name, time(NULL), stem);
	return output__open_new(stem, format__ending(options->format), &recording->output, err);
}

/* In a schedule of several cycles with the cycle's number in the name. */
static int open_named(const struct recording *recording, const char *path, struct output **out, struct so_error *err)
{
	const struct record_schedule *schedule = &recording->options->schedule;
	_cleanup_free_ char *numbered = NULL;

	if (!record_schedule__is_set(schedule) || schedule->repeat == 1)
		return output__open(path, out, err);
	numbered = record_schedule__path(path, recording->cycle);
	return numbered ? output__open(numbered, out, err) : so_err(err, -ENOMEM, "out of memory");
}

static int open_outputs(struct recording *recording, struct so_error *err)
{
	const struct record_options *options = recording->options;
	int ret = options->output ? open_named(recording, options->output, &recording->output, err)
				  : open_new(recording, err);

	if (!ret && options->stats)
		ret = open_named(recording, options->stats, &recording->stats_output, err);
	return ret;
}

static bool of_event(const struct recording *recording)
{
	return recording->options->event != SO_CUDA_EVENT_COUNT;
}

static unsigned steps_before(const struct record_schedule *schedule)
{
	return (unsigned)(schedule->wait_s + schedule->warmup_s);
}

/* duration_s: 0: until it is detached. */
static int attach(struct recording *recording, double duration_s, struct target *target, struct so_error *err)
{
	const struct record_options *options = recording->options;
	const struct attach_request request = {
		.pid = options->pid,
		.rate_hz = options->rate_hz,
		.duration_s = duration_s,
		.children = options->children,
		.kernel = options->kernel,
		.wall = options->wall,
		.timed = options->timeline,
		.step = options->step,
		.counted = options->count.list,
		.n_counted = options->count.n,
		.skip_steps = options->schedule.in_steps ? steps_before(&options->schedule) : 0,
		.steps = options->schedule.in_steps ? (unsigned)options->schedule.active_s : 0,
		.cuda = of_event(recording) || options->cuda,
		.cuda_budget_percent = recording->options->budget_percent,
	};
	_cleanup_(waiting_note) struct waiting_note *note =
		recording->progress ? waiting_note__begin("reading the tables of process %d", options->pid) : NULL;

	if (of_event(recording))
		return target__attach_at_any_rate(session__api(recording->session), &request, target, err);
	return target__attach(session__api(recording->session), &request, target, err);
}

static void show_progress(const struct recording *recording)
{
	const struct target *target = &recording->target;
	char limit[32] = "";

	if (!recording->progress)
		return;
	if (recording->options->duration_s > 0)
		snprintf(limit, sizeof(limit), "/%.1f", recording->options->duration_s);
	if (of_event(recording)) {
		fprintf(stderr, "\r\033[Krecording %s of %d (%s): %.1f%s s",
			so_cuda_events[recording->options->event].word, target->pid, target->comm, target->elapsed_s,
			limit);
		return;
	}
	fprintf(stderr, "\r\033[Krecording %d (%s): %.1f%s s, %llu samples, %llu lost", target->pid, target->comm,
		target->elapsed_s, limit, (unsigned long long)target->samples, (unsigned long long)target->lost);
}

static void clear_progress(const struct recording *recording)
{
	if (recording->progress)
		fputs("\r\033[K", stderr);
}

/* Less than the usual step when the end is near, so that nothing is waited for in vain. */
static unsigned next_step_ms(const struct recording *recording)
{
	double left_ms = (recording->options->duration_s - recording->target.elapsed_s) * 1000;

	if (recording->options->duration_s == 0 || left_ms > POLL_MS)
		return POLL_MS;
	return left_ms < 5 ? 5 : (unsigned)left_ms + 1;
}

static int wait_for_end(struct recording *recording, struct so_error *err)
{
	struct target *target = &recording->target;
	int ret = 0;

	while (!ret && !target__ended(target) && !interrupt__pending()) {
		show_progress(recording);
		interrupt__sleep_ms(next_step_ms(recording));
		if (!interrupt__pending())
			ret = target__get(session__api(recording->session), target->id, target, err);
	}
	clear_progress(recording);
	return ret;
}

static void say_how_it_ended(const struct recording *recording)
{
	const struct target *target = &recording->target;

	if (recording->options->quiet)
		return;
	if (!strcmp(target->end, "exited"))
		message__note("process %d ended after %.1f s", target->pid, target->elapsed_s);
	else if (!strcmp(target->end, "stopped"))
		message__note("stopped after %.1f s; writing what was taken", target->elapsed_s);
}

static int fetch_profile(struct recording *recording, struct so_error *err)
{
	struct api_client *api = session__api(recording->session);

	if (!of_event(recording))
		return target__profile(api, recording->target.id, &recording->bytes, &recording->length, err);
	return target__cuda_profile(api, recording->target.id, so_cuda_events[recording->options->event].word,
				    &recording->bytes, &recording->length, err);
}

static int read_profile(struct recording *recording, struct so_error *err)
{
	const struct target *target = &recording->target;
	int ret;

	if (!of_event(recording))
		return profile__read(recording->bytes, recording->length, &recording->profile, err);
	ret = profile__read_value(recording->bytes, recording->length, so_cuda_weights[recording->options->weight].type,
				  &recording->profile, err);
	return ret ? ret : cuda_event_summary__check(recording->profile, target->pid, target->comm, err);
}

/* The figures are taken first: building the profile costs CPU time that is not the recording's. */
static int fetch(struct recording *recording, struct so_error *err)
{
	struct api_client *api = session__api(recording->session);
	uint32_t id = recording->target.id;
	int ret = target__stop(api, id, &recording->target, err);

	if (!ret && !strcmp(recording->target.end, "failed"))
		ret = so_err(err, -EIO, "sampling process %d failed", recording->target.pid);
	if (ret)
		return ret;
	say_how_it_ended(recording);
	ret = target__stats(api, id, &recording->stats, err);
	ret = ret ?: fetch_profile(recording, err);
	/* A daemon that runs on would keep it for minutes; a private one ends anyhow. */
	if (!session__private(recording->session))
		target__detach(api, id, NULL);
	return ret ? ret : read_profile(recording, err);
}

/* -EIO: the commit knows why. Where the part that was asked for is empty, all is written, and -ENODATA returned. */
static int write_outputs(struct recording *recording, struct so_error *err)
{
	const struct format_source source = { recording->bytes, recording->length, recording->profile };
	FILE *stats = recording->stats_output ? output__file(recording->stats_output) : NULL;
	struct render_options part = recording->options->render;
	struct so_error why;
	int ret, empty = selection__check(recording->profile, &part, &why);

	if (empty) {
		part.gil = false;
		part.only.n = 0;
		so_err(err, empty, "%s: all of it was written", why.text);
	}
	ret = format__write(recording->options->format, &source, &part, output__file(recording->output), err);
	if (ret && ret != -EIO)
		return ret;
	ret = output__commit(recording->output, err);
	recording->written = !ret;
	if (ret || !stats)
		return ret ? ret : empty;
	if (json_dumpf(recording->stats, stats, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) && !ferror(stats))
		return so_err(err, -ENOMEM, "out of memory");
	fputc('\n', stats);
	ret = output__commit(recording->stats_output, err);
	return ret ? ret : empty;
}

/* The name has nothing that a shell would act on. */
static void say_next(const struct recording *recording)
{
	const char *name = output__name(recording->output);
	int stem = (int)(strlen(name) - strlen(format__ending(recording->options->format)));

	if (recording->options->output || recording->options->format == FORMAT_HTML)
		return;
	message__note("next: stakeout summary %s", name);
	message__note("      stakeout render %s -o %.*s.html", name, stem, name);
}

/* What the time line lacks of CUDA's calls. */
static void say_calls(const struct profile *profile)
{
	const char *missed = profile__comment(profile, "calls_missed"),
		   *since = profile__comment(profile, "calls_since_ns");

	if (!profile__comment(profile, "calls"))
		message__note("no CUDA call that took 50 µs or longer was seen");
	if (profile__comment(profile, "calls_partial"))
		message__note("the budget left a part of the CUDA calls untimed: the time line lacks those (--budget "
			      "100: all)");
	if (missed)
		message__note("the time line lacks %s CUDA calls that came too fast", missed);
	if (since)
		message__note("only the latest CUDA calls are in the time line, from %.1f s on",
			      strtod(since, NULL) / 1e9);
}

/* Of very many steps the daemon has the latest part. */
static void say_forgotten(const struct profile *profile)
{
	if (profile__comment(profile, "forgotten"))
		message__note("the steps are too many to be in memory: this is the latest %.0f s of them",
			      (double)profile->duration_ns / 1e9);
}

/* selected: not more than was asked for. */
static void say_result(const struct recording *recording, bool selected)
{
	uint64_t stacks = recording->options->format == FORMAT_FOLDED ? output__lines(recording->output)
								      : recording->profile->n_samples;
	char note[160];

	if (recording->options->quiet)
		return;
	/* Figures are of all that was sampled. */
	if (recording->cycle > 0 && (recording->options->schedule.repeat != 1 || recording->options->schedule.in_steps))
		fprintf(stderr, "cycle %u: ", recording->cycle);
	else if (of_event(recording))
		cuda_event_summary__print(recording->bytes, recording->length,
					  &so_cuda_events[recording->options->event], recording->options->weight,
					  stderr);
	else
		render__summary(recording->profile, recording->stats, stderr, NULL);
	if (selected && selection__note(recording->profile, &recording->options->render, note, sizeof(note)))
		message__note("%s", note);
	if (recording->options->schedule.in_steps)
		say_forgotten(recording->profile);
	if (recording->options->cuda)
		say_calls(recording->profile);
	message__note("wrote %s (%llu stack%s)", output__name(recording->output), (unsigned long long)stacks,
		      stacks == 1 ? "" : "s");
	say_next(recording);
}

/* Before the daemon: it leaves itself out of what started it, and is no child of the command. */
static int start_command(struct recording *recording, struct so_error *err)
{
	struct record_options *options = recording->options;
	int ret = 0;

	if (options->command)
		ret = child_command__start(options->command, &recording->command, err);
	if (recording->command)
		options->pid = child_command__pid(recording->command);
	return ret;
}

/* A command that was interrupted, as the shell's Ctrl-C does, ends by itself or is waited for. */
static int end_command(struct recording *recording)
{
	return recording->command ? child_command__wait(recording->command) : STATUS_DONE;
}

static int interrupted(struct so_error *err)
{
	return so_err(err, -EINTR, "interrupted before sampling began");
}

static int wait_for_clock(const struct recording *recording, struct so_error *err)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	record_schedule__sleep_s(record_schedule__until_clock_s(&recording->options->schedule, now));
	return interrupt__pending() ? interrupted(err) : 0;
}

/* What comes before the n-th active part. */
static int prepare_cycle(struct recording *recording, struct so_error *err)
{
	const struct record_schedule *schedule = &recording->options->schedule;
	int ret = 0;

	/* The daemon counts these. */
	if (schedule->in_steps)
		return 0;
	record_schedule__sleep_s(schedule->wait_s);
	if (!interrupt__pending() && schedule->warmup_s > 0)
		ret = attach(recording, 0, &recording->warm, err);
	if (!ret && schedule->warmup_s > 0)
		record_schedule__sleep_s(schedule->warmup_s);
	return ret ?: wait_for_clock(recording, err);
}

static int record_once(struct recording *recording, struct so_error *err)
{
	int ret = recording->output ? 0 : open_outputs(recording, err);

	ret = ret ?: attach(recording, recording->options->duration_s, &recording->target, err);
	if (!ret && recording->command && !record_schedule__is_set(&recording->options->schedule))
		ret = child_command__go(recording->command, err);
	ret = ret ?: wait_for_end(recording, err);
	ret = ret ?: fetch(recording, err);
	ret = ret ?: write_outputs(recording, err);
	if (!ret || (ret == -ENODATA && recording->written))
		say_result(recording, !ret);
	return ret;
}

/* One that has ended and waits for its parent has no arguments any more. */
static bool has_ended(pid_t pid)
{
	char arguments[2];

	return !process_arguments__read(pid, arguments, sizeof(arguments));
}

/* Whether there was enough of it: some cycles were written, and then the process or its user ended it. */
static bool is_over(const struct recording *recording)
{
	return recording->cycle > 1 && (interrupt__pending() || has_ended(recording->options->pid));
}

static int record_cycles(struct recording *recording, struct so_error *err)
{
	const struct record_schedule *schedule = &recording->options->schedule;
	int ret = recording->command ? child_command__go(recording->command, err) : 0;

	for (recording->cycle = 1; !ret; recording->cycle++) {
		ret = prepare_cycle(recording, err) ?: record_once(recording, err);
		if (recording->warm.id)
			target__detach(session__api(recording->session), recording->warm.id, NULL);
		recording->warm = (struct target){ .id = 0 };
		if (ret && is_over(recording))
			return 0;
		if (ret || !record_schedule__goes_on(schedule, recording->cycle) || interrupt__pending() ||
		    !strcmp(recording->target.end, "exited"))
			break;
		forget_cycle(recording);
	}
	return ret;
}

/* *status: of the command, where it ran. */
static int record(const struct globals *globals, struct record_options *options, int *status, struct so_error *err)
{
	_cleanup_(recording) struct recording recording = { .options = options };
	bool cycles = record_schedule__is_set(&options->schedule);
	int ret;

	/* What a command prints and the progress of its recording would be in each other's way. */
	recording.progress = !options->quiet && !options->command && isatty(STDERR_FILENO);
	ret = start_command(&recording, err);
	if (!ret && !cycles)
		ret = open_outputs(&recording, err);
	ret = ret ?: session__open(globals->socket, SESSION_ANY, &recording.session, err);
	if (cycles)
		ret = ret ?: record_cycles(&recording, err);
	else
		ret = ret ?: wait_for_clock(&recording, err) ?: record_once(&recording, err);
	if (!ret)
		*status = end_command(&recording);
	return ret;
}

int cmd_record(const struct globals *globals, int argc, char **argv)
{
	struct record_options options;
	struct so_error err = { .text = "" };
	int status = STATUS_DONE;
	int ret = record_options__parse(argc, argv, &options, &err);

	if (ret)
		return running__parsed(ret, &err);
	interrupt__install();
	ret = record(globals, &options, &status, &err);
	return ret ? running__end(ret, &err) : status;
}
