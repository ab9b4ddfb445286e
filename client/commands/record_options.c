// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/record_options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "stakeout/options.h"
#include "client/render/selection.h"
#include "client/session/named_process.h"
#include "client/session/target.h"

#define NO_REPEAT UINT_MAX

static int check_weight(struct record_options *options, const char *word, struct so_error *err)
{
	const struct so_cuda_event_info *event = &so_cuda_events[options->event];

	options->weight = word ? so_cuda_weight__find(word) : event->weight;
	if (options->weight == SO_CUDA_WEIGHT_COUNT)
		return so_err(err, -EINVAL, "unknown weight '%s': calls, time or bytes", word);
	options->render.value = so_cuda_weights[options->weight].type;
	if (options->weight == SO_CUDA_WEIGHT_BYTES && !event->has_bytes)
		return so_err(err, -EINVAL, "%s has no bytes: --weight calls or --weight time", event->word);
	if (word && options->format == FORMAT_PPROF)
		return so_err(err, -EINVAL,
			      "--weight chooses what stacks count; a pprof file has all: calls, host_time and bytes");
	return 0;
}

static int check_event(struct record_options *options, const char *event, const char *weight, struct so_error *err)
{
	if (!event && weight)
		return so_err(err, -EINVAL, "--weight is for the stacks of CUDA calls: it needs --event");
	if (!event && !options->cuda && options->budget_percent > 0)
		return so_err(
			err, -EINVAL,
			"--budget is for the probes of CUDA calls: it needs --event or --cuda (for samples: --rate)");
	if (!event)
		return 0;
	options->event = so_cuda_event__find(event);
	if (options->event == SO_CUDA_EVENT_COUNT)
		return so_err(err, -EINVAL, "unknown event '%s': " SO_CUDA_EVENT_LIST, event);
	if (options->wall)
		return so_err(err, -EINVAL, "--wall is for samples: with --event there are none");
	if (options->timeline)
		return so_err(err, -EINVAL, "--timeline is for samples: with --event there are none");
	if (options->render.gil)
		return so_err(err, -EINVAL, "--gil is for samples: with --event there are none");
	return check_weight(options, weight, err);
}

/* A file that every command reads; but what shapes folded stacks asks for these. */
static enum format default_format(const struct record_options *options, const char *weight)
{
	return weight || selection__refuse_for_pprof(&options->render, NULL) ? FORMAT_FOLDED : FORMAT_PPROF;
}

static int choose_format(struct record_options *options, const char *format, const char *weight, struct so_error *err)
{
	if (format)
		return format__parse(format, options->output, &options->format, err);
	if (options->output)
		return format__from_path(options->output, &options->format, err);
	options->format = default_format(options, weight);
	return 0;
}

static int check(struct record_options *options, const char *format, const char *weight, struct so_error *err)
{
	int ret;

	if (options->pid && options->command)
		return so_err(err, -EINVAL, "a process ID or a command, not both");
	if (!options->pid && !options->command)
		return so_err(err, -EINVAL,
			      "which process? Give its ID (-p PID), or a command to start (record -- COMMAND)");
	if (options->output && options->stats && !strcmp(options->output, options->stats))
		return so_err(err, -EINVAL, "the profile and the statistics cannot both go to '%s'", options->output);
	ret = choose_format(options, format, weight, err);
	if (!ret && options->output)
		ret = format__check_terminal(options->format, options->output, err);
	ret = ret ?: only__check(&options->render.only, err);
	if (!ret && options->format == FORMAT_TRACE)
		options->timeline = options->wall = true;
	if (!ret && options->step && !options->timeline && !options->schedule.in_steps)
		return so_err(err, -EINVAL, "--step needs --timeline: steps are moments");
	if (!ret && options->count.n && (!options->step || options->count.n > TARGET_MOST_COUNTED))
		return so_err(err, -EINVAL, "--count needs --step, and at most %d functions can be counted",
			      TARGET_MOST_COUNTED);
	if (!ret && options->cuda && !options->timeline)
		return so_err(err, -EINVAL, "--cuda needs --timeline, or a trace: it is about when calls were made");
	if (!ret && options->timeline && options->format != FORMAT_PPROF && options->format != FORMAT_TRACE)
		return so_err(err, -EINVAL, "--timeline is for pprof files and traces: only these have times");
	if (!ret && options->format == FORMAT_PPROF)
		ret = selection__refuse_for_pprof(&options->render, err);
	return ret;
}

static int check_schedule(struct record_options *options, const char *clock, const char *unit, unsigned repeat,
			  struct so_error *err)
{
	struct record_schedule *schedule = &options->schedule;
	int ret = clock ? record_schedule__parse_clock(clock, &schedule->clock_s, err) : 0;

	ret = ret ?: record_schedule__check(schedule, repeat != NO_REPEAT, err);
	ret = ret ?: record_schedule__take_unit(schedule, unit, err);
	if (ret || !record_schedule__is_set(schedule))
		return ret;
	if (options->duration_s >= 0)
		return so_err(err, -EINVAL, "--active or --duration, not both");
	schedule->repeat = repeat == NO_REPEAT ? 1 : repeat;
	if (options->output && !strcmp(options->output, "-") && schedule->repeat != 1)
		return so_err(err, -EINVAL, "each cycle has a file of its own: not standard output (-o -)");
	options->duration_s = schedule->in_steps ? 0 : schedule->active_s;
	if (schedule->in_steps && !options->step)
		return so_err(err, -EINVAL, "--unit steps needs --step: the function that begins one");
	if (schedule->in_steps && options->stats)
		return so_err(err, -EINVAL, "--stats is of all that was sampled, not of some steps: --unit seconds");
	return 0;
}

int record_options__parse(int argc, char **argv, struct record_options *out, struct so_error *err)
{
	struct record_options options = {
		.duration_s = -1,
		.rate_hz = RECORD_DEFAULT_RATE_HZ,
		.children = true,
		.kernel = true,
		.event = SO_CUDA_EVENT_COUNT,
	};
	const char *format = NULL, *event = NULL, *weight = NULL, *clock = NULL, *unit = NULL;
	unsigned repeat = NO_REPEAT;
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &options.pid, "the process to record; or its name, or its script's" },
		{ OPTION_DURATION, 'd', "duration", "SECONDS", &options.duration_s,
		  "how long (10; a command: to its end): 90, 5m, 1h,\n'unlimited': until Ctrl-C" },
		{ OPTION_DURATION, 0, "active", "SECONDS", &options.schedule.active_s,
		  "record in cycles, a file each (-1, -2 … in its name):\nso long in each cycle" },
		{ OPTION_DURATION, 0, "wait", "SECONDS", &options.schedule.wait_s,
		  "of each cycle: nothing is done for so long" },
		{ OPTION_DURATION, 0, "warmup", "SECONDS", &options.schedule.warmup_s,
		  "of each cycle: then attached for so long, and nothing\nkept" },
		{ OPTION_NUMBER, 0, "repeat", "N", OPTION_RANGE(&repeat, 0, RECORD_SCHEDULE_MAX_CYCLES),
		  "so many cycles (1); 0: until the process ends" },
		{ OPTION_TEXT, 0, "unit", "UNIT", &unit,
		  "of --wait, --warmup and --active: seconds, or steps\n(--step): a file begins and ends with one" },
		{ OPTION_TEXT, 0, "at-clock", "/SECONDS", &clock,
		  "begin at a multiple of it by the clock, UTC: /10s, so\nthat ranks record the same moment" },
		{ OPTION_RATE, 'r', "rate", "HZ", &options.rate_hz, "samples a second of CPU time (99)" },
		{ OPTION_TEXT, 'o', "output", "FILE", &options.output,
		  "where to write; '-' is standard output (a new file\nstakeout-NAME-PID-TIME.pb.gz)" },
		{ OPTION_TEXT, 'f', "format", "FORMAT", &format,
		  "folded, html (a flame graph), speedscope, firefox,\n"
		  "trace (a time line) or pprof (by the ending of FILE:\n"
		  ".folded .txt, .html, .speedscope.json, .firefox.json\n.json.gz, .trace.json, .pb.gz .pprof .pb; "
		  "else folded;\nwithout FILE pprof)" },
		{ OPTION_ON, 't', "threads", NULL, &options.render.threads, "tell threads apart: comm-PID/TID" },
		SELECTION_GIL(options.render),
		SELECTION_ONLY(options.render),
		SELECTION_FUNCTIONS(options.render),
		SELECTION_PYTHON_ONLY(options.render),
		{ OPTION_ON, 'w', "wall", NULL, &options.wall,
		  "wall time: where threads wait as well, not only where\nthey run; folded stacks count microseconds" },
		{ OPTION_ON, 0, "timeline", NULL, &options.timeline,
		  "keep when each sample was, in a pprof file; a trace\nhas times in any case, and wall time" },
		{ OPTION_TEXT, 0, "step", "FUNCTION", &options.step,
		  "with --timeline or --unit steps: the function that is\ncalled once a step of the program, as "
		  "stakeout steps\nhas it" },
		{ OPTION_TEXTS, 0, "count", "FUNCTION", &options.count,
		  "with --step: each call of this is counted, for stakeout\nsteps FILE; may be repeated, three in "
		  "all" },
		{ OPTION_ON, 0, "cuda", NULL, &options.cuda,
		  "with --timeline, or in a trace: when CUDA calls were\nmade, those that took 50 µs or longer" },
		{ OPTION_TEXT, 0, "event", "EVENT", &event,
		  "stacks of CUDA calls instead of samples:\ncuda-launch, cuda-sync, cuda-copy, cuda-alloc,\n"
		  "cuda-free, cuda-set" },
		{ OPTION_TEXT, 0, "weight", "WEIGHT", &weight,
		  "what the stacks of --event count: calls, time on\nthe host in ns, or bytes" },
		{ OPTION_PERCENT, 0, "budget", "PERCENT", &options.budget_percent,
		  "what the probes of --event or --cuda may cost of the\nprocess's time (3); 100: no limit" },
		{ OPTION_OFF, 0, "no-children", NULL, &options.children, "leave child processes out" },
		{ OPTION_OFF, 0, "no-kernel", NULL, &options.kernel, "leave kernel frames out" },
		{ OPTION_TEXT, 0, "stats", "FILE", &options.stats, "write figures about the recording as JSON" },
		{ OPTION_ON, 'q', "quiet", NULL, &options.quiet, "no progress, no summary; errors only" },
		{ OPTION_NOTHING, 's', "subprocesses", NULL, NULL, "as always; for habits from py-spy" },
		{ OPTION_NOTHING, 'n', "native", NULL, NULL, "as always; for habits from py-spy" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "record PID [OPTION]... | record [OPTION]... -- COMMAND...",
		.about = "Samples the stacks of a process, its threads and its children, and writes how often\n"
			 "each was seen. Ctrl-C ends it early and writes what was taken. A COMMAND is recorded\n"
			 "from its first instruction to its end, and its exit status is passed on.\n"
			 "Without -o and -f a pprof file is kept in the working directory, wherever standard\n"
			 "output goes; -o - writes folded stacks there.",
		.entries = entries,
		.find_process = named_process__find,
		.command = &options.command,
	};
	int ret = options__parse(&table, argc, argv, err);

	if (ret == OPTIONS_GO_ON)
		ret = check_schedule(&options, clock, unit, repeat, err);
	/* A command is recorded to its end. */
	if (options.duration_s < 0)
		options.duration_s = options.command ? 0 : RECORD_DEFAULT_DURATION_S;
	if (ret == OPTIONS_GO_ON)
		ret = check(&options, format, weight, err);
	if (ret == OPTIONS_GO_ON)
		ret = check_event(&options, event, weight, err);
	if (ret == OPTIONS_GO_ON)
		*out = options;
	return ret;
}

/* In front of the PID. */
static void write_name(const char *name, char *text, size_t size)
{
	size_t n = 0;

	for (; *name && n + 2 < size; name++)
		text[n++] = isalnum((unsigned char)*name) || strchr("._+-", *name) ? *name : '_';
	if (n)
		text[n++] = '-';
	text[n] = '\0';
}

void record_options__default_stem(const struct record_options *options, const char *name, time_t now,
				  char stem[RECORD_STEM_BYTES])
{
	char when[32], word[64];
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%S", &tm);
	write_name(name, word, sizeof(word));
	snprintf(stem, RECORD_STEM_BYTES, "stakeout-%s%d-%s", word, options->pid, when);
}
