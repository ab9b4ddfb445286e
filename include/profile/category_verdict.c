// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/category_verdict.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/frame_pattern.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

static const char *const leftover_names[] = {
#define X(id, name) name,
	CATEGORY_LEFTOVER_LIST(X)
#undef X
};

size_t category_verdict__count(const struct category_rules *rules)
{
	return category_rules__count(rules) + CATEGORY_LEFTOVERS;
}

const char *category_verdict__name(const struct category_rules *rules, size_t category)
{
	size_t n = category_rules__count(rules);

	return category < n ? category_rules__name(rules, category) : leftover_names[category - n];
}

void category_memory__clear(struct category_memory *memory)
{
	intern__clear(&memory->functions);
	free(memory->ranks);
	*memory = (struct category_memory){ .asked = memory->asked };
}

void category_lines__clear(struct category_lines *lines)
{
	free(lines->ranks);
	free(lines->ranks_of_line);
	*lines = (struct category_lines){ 0 };
}

/* What rules look at in a line. */
#define KEY_TEXTS 3
struct key {
	char bytes[1 + KEY_TEXTS * (FRAME_PATTERN_TEXT_BYTES + 1)];
	size_t length;
};

static void make_key(const struct profile_line *line, struct key *out)
{
	const char *const texts[KEY_TEXTS] = { line->function, line->filename, line->mapping };

	out->bytes[0] = (char)line->kernel;
	out->length = 1;
	for (size_t i = 0; i < KEY_TEXTS; i++) {
		size_t n = strnlen(texts[i], FRAME_PATTERN_TEXT_BYTES);

		memcpy(out->bytes + out->length, texts[i], n);
		out->bytes[out->length + n] = '\0';
		out->length += n + 1;
	}
}

/* By name, since a profile's strings end with it. */
static int recall(struct category_memory *memory, const struct category_rules *rules, const struct profile_line *line,
		  struct category_ranks *out)
{
	struct key key;
	uint32_t number;
	int ret;

	make_key(line, &key);
	if (memory->functions.n_keys >= CATEGORY_MEMORY_MAX_FUNCTIONS ||
	    memory->functions.bytes_used + key.length > CATEGORY_MEMORY_MAX_BYTES)
		category_memory__clear(memory);
	if (ARRAY_RESERVE(memory->ranks, memory->capacity, memory->functions.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&memory->functions, key.bytes, key.length, &number);
	if (ret < 0)
		return ret;
	if (ret) {
		category_rules__match(rules, line, &memory->ranks[number]);
		memory->asked++;
	}
	*out = memory->ranks[number];
	return 0;
}

/* Two lines that no rule can tell apart. */
struct matter {
	const char *function, *filename, *mapping;
	uint64_t kernel;
};

int category_lines__match(const struct category_rules *rules, const struct profile *profile,
			  struct category_memory *memory, struct category_lines *out)
{
	struct intern known = { .n_keys = 0 };
	size_t capacity = 0;
	int ret = 0;

	*out = (struct category_lines){ .rules = rules, .profile = profile };
	out->ranks_of_line = calloc(profile->n_lines + 1, sizeof(*out->ranks_of_line));
	if (!out->ranks_of_line)
		return -ENOMEM;
	for (size_t i = 0; ret >= 0 && i < profile->n_lines; i++) {
		const struct profile_line *line = &profile->lines[i];
		const struct matter matter = { line->function, line->filename, line->mapping, line->kernel };

		if (ARRAY_RESERVE(out->ranks, capacity, known.n_keys + 1))
			ret = -ENOMEM;
		else
			ret = intern__add(&known, &matter, sizeof(matter), &out->ranks_of_line[i]);
		if (ret > 0 && memory)
			ret = recall(memory, rules, line, &out->ranks[out->ranks_of_line[i]]);
		else if (ret > 0)
			category_rules__match(rules, line, &out->ranks[out->ranks_of_line[i]]);
	}
	intern__clear(&known);
	return ret < 0 ? ret : 0;
}

static const struct profile_line *line_at(const struct category_lines *lines, const struct profile_sample *sample,
					  size_t frame)
{
	return &lines->profile->lines[sample->lines[frame]];
}

/* The C library and what the kernel lends a process: they work for their callers. */
static bool is_c_library(const struct profile_line *line)
{
	const char *name = short_path(line->mapping);

	return !line->kernel && (!strncmp(name, "libc.so", 7) || !strncmp(name, "libc-", 5) ||
				 !strncmp(name, "ld-", 3) || !strcmp(name, "[vdso]"));
}

/* The leaf, the C library's frames passed over if there is anything else. n_lines above 0. */
static size_t leaf_of(const struct category_lines *lines, const struct profile_sample *sample)
{
	for (size_t i = 0; i < sample->n_lines; i++)
		if (!is_c_library(line_at(lines, sample, i)))
			return i;
	return 0;
}

/* The number of the leftover that a sample would be. */
static size_t leftover_of(const struct category_lines *lines, const struct profile_sample *sample)
{
	enum category_leftover what;

	if (!sample->n_lines)
		what = CATEGORY_LEFT_NO_STACK;
	else if (line_at(lines, sample, 0)->kernel)
		what = CATEGORY_LEFT_KERNEL;
	else if (line_at(lines, sample, 0)->python)
		what = CATEGORY_LEFT_PYTHON;
	else
		what = CATEGORY_LEFT_NATIVE;
	return category_rules__count(lines->rules) + what;
}

/* The frame that decides, or n_lines. */
static size_t activity_frame(const struct category_lines *lines, const struct profile_sample *sample)
{
	for (size_t i = 0; i < sample->n_lines; i++)
		if (category_lines__ranks(lines, sample, i)->activity != CATEGORY_NO_RANK)
			return i;
	return sample->n_lines;
}

/* The first mechanism in the rules' order among what the innermost Python frame called, within the activity. */
static size_t means_of(const struct category_lines *lines, const struct profile_sample *sample, size_t activity_frame)
{
	enum category_gil gil = sample->gil == PROFILE_GIL_HELD       ? CATEGORY_GIL_HELD
				: sample->gil == PROFILE_GIL_DISABLED ? CATEGORY_GIL_DISABLED
								      : CATEGORY_GIL_RELEASED;
	uint32_t rank = CATEGORY_NO_RANK;
	size_t leaf;

	if (!sample->n_lines)
		return leftover_of(lines, sample);
	leaf = leaf_of(lines, sample);
	for (size_t i = 0; i < sample->n_lines && i <= activity_frame && !line_at(lines, sample, i)->python; i++) {
		const struct category_ranks *ranks = category_lines__ranks(lines, sample, i);
		/* Up to the leaf it is the leaf's frame; a memcpy() may be meant, or who called it. */
		uint32_t here = i <= leaf ? ranks->leaf[gil] : ranks->mechanism[gil];

		rank = here < rank ? here : rank;
	}
	return rank == CATEGORY_NO_RANK ? leftover_of(lines, sample) : category_rules__of_rank(lines->rules, rank);
}

struct category_verdict category_lines__judge(const struct category_lines *lines, const struct profile_sample *sample)
{
	struct category_verdict verdict = { .frame = activity_frame(lines, sample) };

	verdict.means = means_of(lines, sample, verdict.frame);
	verdict.category = verdict.means;
	if (verdict.frame < sample->n_lines)
		verdict.category = category_rules__of_rank(
			lines->rules, category_lines__ranks(lines, sample, verdict.frame)->activity);
	return verdict;
}
