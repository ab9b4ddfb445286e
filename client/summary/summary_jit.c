/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much is in code that a just-in-time compiler made, and what is not known of it. */
#include <string.h>

#include "client/summary/summary_parts.h"

#define MUCH_JIT 0.3

/* What code without a name belongs to. */
enum jit { JIT_NONE, JIT_CPYTHON, JIT_OTHER };

static bool is_jit(const struct profile_line *line)
{
	return !strcmp(line->function, "[jit]");
}

/* From here CPython's loop goes on in its own code: itself, or from 3.15 on by a function. */
static bool is_loop(const struct profile_line *line)
{
	return line->python || !strcmp(line->function, "_PyJIT_Entry");
}

/* CPython's own is what its loop calls. Of a sample with both kinds it is the other that could have names. */
static enum jit jit_of(const struct profile *profile, const struct profile_sample *sample)
{
	enum jit found = JIT_NONE, here = JIT_NONE;
	bool loop = false;

	for (size_t i = sample->n_lines; i-- > 0;) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (!is_jit(line))
			here = JIT_NONE;
		else if (here == JIT_NONE)
			here = loop ? JIT_CPYTHON : JIT_OTHER;
		if (here > found)
			found = here;
		loop = is_loop(line);
	}
	return found;
}

static bool has_python(const struct profile *profile, const struct profile_sample *sample)
{
	for (size_t i = 0; i < sample->n_lines; i++)
		if (profile->lines[sample->lines[i]].python)
			return true;
	return false;
}

void summary__jit(const struct profile *profile, int64_t total, FILE *out)
{
	int64_t counts[] = { [JIT_NONE] = 0, [JIT_CPYTHON] = 0, [JIT_OTHER] = 0 }, python = 0;

	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		counts[jit_of(profile, sample)] += sample->count;
		python += has_python(profile, sample) ? sample->count : 0;
	}
	/* It writes down where it is in a function only now and then. */
	if (counts[JIT_CPYTHON])
		fprintf(out,
			"%.1f %% of the Python samples are in code of CPython's just-in-time compiler, or called from "
			"it: "
			"their lines may be earlier ones of the same function\n",
			100 * (double)counts[JIT_CPYTHON] / (double)python);
	if (counts[JIT_OTHER] && (double)counts[JIT_OTHER] >= MUCH_JIT * (double)total)
		fprintf(out,
			"%.0f %% is in just-in-time code without names ([jit]) or called from it; to have them: node "
			"--perf-basic-prof, "
			"or of a JVM 'jcmd PID Compiler.perfmap'\n",
			100 * (double)counts[JIT_OTHER] / (double)total);
}
