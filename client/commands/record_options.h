/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of `stakeout record`. */
#ifndef STAKEOUT_CLIENT_RECORD_OPTIONS_H
#define STAKEOUT_CLIENT_RECORD_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "client/commands/record_schedule.h"
#include "client/render/format.h"
#include "stakeout/cuda_event.h"
#include "stakeout/error.h"
#include "stakeout/options.h"

#define RECORD_DEFAULT_DURATION_S 10
#define RECORD_DEFAULT_RATE_HZ    99

struct record_options {
	pid_t pid;
	char **command;    /* that is started to be recorded, in place of a PID; NULL: none */
	double duration_s; /* 0: until stopped; in a schedule that of its active parts */
	struct record_schedule schedule;
	unsigned rate_hz;
	const char *output; /* NULL: a new file in this directory */
	enum format format;
	const char *stats; /* NULL: none */
	struct render_options render;
	bool wall;                 /* threads that wait as well */
	bool timeline;             /* samples with their times */
	bool cuda;                 /* and CUDA calls with theirs */
	const char *step;          /* the function that begins a step; NULL: none */
	struct option_texts count; /* other functions, whose calls are counted */
	bool children, kernel, quiet;
	enum so_cuda_event event;   /* whose stacks are recorded; SO_CUDA_EVENT_COUNT: none, samples of CPU time */
	double budget_percent;      /* of the event's probes; 0: the daemon's own */
	enum so_cuda_weight weight; /* of the event: what folded stacks count */
};

/* An options_result, or -EINVAL: wrong usage, in words. Strings stay argv's. */
int record_options__parse(int argc, char **argv, struct record_options *out, struct so_error *err);

#define RECORD_STEM_BYTES 128
/*
 * How the file begins when -o is absent: stakeout-NAME-PID-YYYYmmddTHHMMSS, local time. name: of the process or
 * command, any bytes; what a shell would act on becomes '_'.
 */
void record_options__default_stem(const struct record_options *options, const char *name, time_t now,
				  char stem[RECORD_STEM_BYTES]);

#endif
