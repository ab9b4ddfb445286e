// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/selection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

int selection__refuse_for_pprof(const struct render_options *options, struct so_error *err)
{
	const char *word = options->gil         ? "--gil"
			   : options->functions ? "--functions"
			   : options->only.n    ? "--only"
						: "--python-only";

	if (!options->gil && !options->functions && !options->python_only && !options->only.n)
		return 0;
	return so_err(err, -EINVAL,
		      "%s is not for a pprof file, which holds everything, and 'stakeout render FILE "
		      "%s' shows that part of it",
		      word, word);
}

struct counts {
	int64_t all, taken;
	int64_t chosen, disabled, python, held; /* of those that --only asks for; python: where there is a GIL */
};

static struct counts count(const struct profile *profile, const struct render_options *options)
{
	struct counts counts = { 0 };

	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		counts.all += sample->count;
		counts.taken += selection__takes(options, sample) ? sample->count : 0;
		if (!only__takes(&options->only, sample))
			continue;
		counts.chosen += sample->count;
		counts.disabled += sample->gil == PROFILE_GIL_DISABLED ? sample->count : 0;
		counts.python += sample->gil > PROFILE_GIL_DISABLED ? sample->count : 0;
		counts.held += sample->gil == PROFILE_GIL_HELD ? sample->count : 0;
	}
	return counts;
}

int selection__check(const struct profile *profile, const struct render_options *options, struct so_error *err)
{
	const char *problem = profile__comment(profile, "python.problem");
	struct counts counts = count(profile, options);

	if (options->only.n && counts.all && !counts.chosen)
		return only__refuse(&options->only, profile, err);
	if (!options->gil || counts.python ||
	    (!counts.disabled && !problem && profile__comment(profile, "python.version")))
		return 0;
	if (counts.disabled)
		return so_err(err, -ENODATA,
			      "--gil shows nothing here: this Python is free-threaded and runs without a GIL");
	return so_err(err, -ENODATA, "--gil shows nothing here: no sample is of a Python thread%s%s%s",
		      problem ? " (" : "", problem ? problem : "", problem ? ")" : "");
}

static bool has_python_frames(const struct profile *profile)
{
	for (size_t i = 0; i < profile->n_lines; i++)
		if (profile->lines[i].python)
			return true;
	return false;
}

bool selection__note(const struct profile *profile, const struct render_options *options, char *text, size_t size)
{
	struct counts counts = count(profile, options);

	if (options->gil && !options->only.n) {
		snprintf(text, size, "%" PRId64 " of %" PRId64 " samples left out: their threads did not hold the GIL",
			 counts.all - counts.held, counts.all);
		return true;
	}
	if (options->only.n) {
		/* What is counted may be bytes, or time. */
		snprintf(text, size, "%.1f %% of all was left out: not of --only%s",
			 counts.all ? 100 * (double)(counts.all - counts.taken) / (double)counts.all : 0.0,
			 options->gil ? ", or their threads did not hold the GIL" : "");
		return true;
	}
	if (options->python_only && counts.all && !has_python_frames(profile)) {
		snprintf(text, size, "no Python frames here: each stack reads " PROFILE_NATIVE);
		return true;
	}
	return false;
}
