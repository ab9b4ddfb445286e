// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/common_lines.h"

#include <string.h>

#include "client/render/lines_missing.h"

static bool is_native(const struct profile_line *line)
{
	return !line->python && !line->kernel && line->address && *line->function;
}

/* Lines of one location follow each other: inlined functions, and last the one that they are inlined into. */
static bool is_inlined_into(const struct profile_line *line, const struct profile_line *next)
{
	return is_native(line) && line->address == next->address && !strcmp(line->mapping, next->mapping);
}

static size_t end_of_location(const struct profile *profile, const struct profile_sample *sample, size_t i)
{
	for (i++; i < sample->n_lines; i++)
		if (!is_inlined_into(&profile->lines[sample->lines[i - 1]], &profile->lines[sample->lines[i]]))
			break;
	return i;
}

int common_lines__note(struct common_lines *common, const struct profile *profile)
{
	uint32_t number;

	if (!profile__comment(profile, LINES_MISSING_COMMENT))
		return 0;
	for (size_t i = 0; i < profile->n_lines; i++) {
		const struct profile_line *line = &profile->lines[i];
		int ret = 0;

		if (is_native(line) && !line->line)
			ret = intern__add(&common->functions, line->function, strlen(line->function) + 1, &number);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static bool is_noted(const struct common_lines *common, const struct profile_line *line)
{
	uint32_t number;

	return is_native(line) && intern__find(&common->functions, line->function, strlen(line->function) + 1, &number);
}

static void apply_to_sample(const struct common_lines *common, struct profile *profile, struct profile_sample *sample)
{
	uint32_t *lines = (uint32_t *)sample->lines; /* the profile's own, of this sample alone */
	size_t n = 0;

	for (size_t i = 0, end; i < sample->n_lines; i = end) {
		struct profile_line *outer;

		end = end_of_location(profile, sample, i);
		outer = &profile->lines[lines[end - 1]];
		if (is_noted(common, outer)) {
			outer->line = 0;
			outer->filename = "";
			i = end - 1;
		}
		while (i < end)
			lines[n++] = lines[i++];
	}
	sample->n_lines = n;
}

void common_lines__apply(const struct common_lines *common, struct profile *profile)
{
	if (!common->functions.n_keys)
		return;
	for (size_t i = 0; i < profile->n_samples; i++)
		apply_to_sample(common, profile, &profile->samples[i]);
}

void common_lines__clear(struct common_lines *common)
{
	intern__clear(&common->functions);
}
