/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options that show a part of a profile: what they leave out, and what is reported of it. */
#ifndef STAKEOUT_CLIENT_SELECTION_H
#define STAKEOUT_CLIENT_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "client/render/only.h"
#include "stakeout/options.h"
#include "client/render/render.h"

/* Entries of an option table; o: a struct render_options. */
#define SELECTION_GIL(o)                                                                             \
	{                                                                                            \
		OPTION_ON, 'g', "gil", NULL, &(o).gil, "only samples whose thread held Python's GIL" \
	}
#define SELECTION_FUNCTIONS(o)                                                                                    \
	{                                                                                                         \
		OPTION_ON, 'F', "functions", NULL, &(o).functions, "Python functions as a whole: no line numbers" \
	}
#define SELECTION_PYTHON_ONLY(o)                                                       \
	{                                                                              \
		OPTION_ON, 0, "python-only", NULL, &(o).python_only,                   \
			"only Python frames (" PROFILE_NATIVE " where there are none)" \
	}

#define SELECTION_ONLY(o)                                                           \
	{                                                                           \
		OPTION_TEXTS, 0, "only", "KEY=VALUE", &(o).only,                    \
			"only samples of this pid, tid, comm, rank or container;\n" \
			"may be repeated: one of each key's values"                 \
	}

static inline bool selection__takes(const struct render_options *options, const struct profile_sample *sample)
{
	return sample->count > 0 && (!options->gil || sample->gil == PROFILE_GIL_HELD) &&
	       only__takes(&options->only, sample);
}

/* -EINVAL, in words, when one of the options is set: for forms that always hold everything. */
int selection__refuse_for_pprof(const struct render_options *options, struct so_error *err);
/*
 * -ENODATA, in words: samples that held the GIL are asked for, and the profile knows no interpreter that has one; or no
 * sample is one of those that --only asks for. A process that was never seen running, Python or not, is no error.
 */
int selection__check(const struct profile *profile, const struct render_options *options, struct so_error *err);
/* What the user should know of the parts that were left out, one line; false when there is nothing to say. */
bool selection__note(const struct profile *profile, const struct render_options *options, char *text, size_t size);

#endif
