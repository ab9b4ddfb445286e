// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/stack_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/selection.h"
#include "stakeout/array.h"

#define NO_TEXT UINT32_MAX

void stack_table__clear(struct stack_table *t)
{
	intern__clear(&t->texts);
	intern__clear(&t->stacks);
	text__clear(&t->text);
	free(t->of);
	free(t->counts);
	free(t->line_texts);
	free(t->sequence);
}

static int take_text(struct stack_table *t, uint32_t *number)
{
	int ret;

	t->text_bytes += t->text.length;
	if (t->text_bytes > STACK_TEXT_BUDGET_BYTES)
		return -EFBIG;
	if (ARRAY_RESERVE(t->of, t->of_capacity, t->texts.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&t->texts, t->text.bytes, t->text.length, number);
	if (ret > 0)
		t->of[*number] = (struct stack_text){ .line = NULL };
	return ret < 0 ? ret : 0;
}

static int thread_text(struct stack_table *t, const struct profile_sample *sample, uint32_t *number)
{
	int ret;

	t->text.length = 0;
	ret = frame_text__thread(sample, t->options->threads, &t->text);
	if (!ret && t->options->threads)
		ret = frame_text__thread_name(sample, '_', &t->text);
	ret = ret ?: take_text(t, number);
	if (!ret)
		t->of[*number].thread = t->of[*number].thread ?: sample;
	return ret;
}

static int line_text(struct stack_table *t, const struct profile_line *line, uint32_t *number)
{
	int ret;

	if (*number != NO_TEXT)
		return 0;
	t->text.length = 0;
	ret = frame_text__folded(line, t->options->functions, &t->text);
	ret = ret ?: take_text(t, number);
	if (!ret)
		t->of[*number].line = t->of[*number].line ?: line;
	return ret;
}

/* The frames that shall be seen, outermost first, into the sequence from [1] on. */
static int add_frames(struct stack_table *t, const struct profile *profile, const struct profile_sample *sample,
		      size_t *n)
{
	static const struct profile_line native = { .function = PROFILE_NATIVE, .filename = "", .mapping = "" };
	int ret = 0;

	for (size_t i = sample->n_lines; !ret && i-- > 0;) {
		uint32_t line = sample->lines[i];

		if (t->options->python_only && !profile->lines[line].python)
			continue;
		ret = line_text(t, &profile->lines[line], &t->line_texts[line]);
		t->sequence[++*n] = t->line_texts[line];
	}
	if (ret || *n || !t->options->python_only)
		return ret;
	ret = line_text(t, &native, &t->line_texts[profile->n_lines]);
	t->sequence[++*n] = t->line_texts[profile->n_lines];
	return ret;
}

static int add_sample(struct stack_table *t, const struct profile *profile, const struct profile_sample *sample)
{
	uint32_t stack;
	size_t n = 0;
	int ret;

	if (!selection__takes(t->options, sample))
		return 0;
	if (ARRAY_RESERVE(t->sequence, t->sequence_capacity, sample->n_lines + 2) ||
	    ARRAY_RESERVE(t->counts, t->counts_capacity, t->stacks.n_keys + 1))
		return -ENOMEM;
	ret = thread_text(t, sample, &t->sequence[0]);
	ret = ret ?: add_frames(t, profile, sample, &n);
	if (ret < 0)
		return ret;
	ret = intern__add(&t->stacks, t->sequence, (n + 1) * sizeof(*t->sequence), &stack);
	if (ret < 0)
		return ret;
	/* The sum fits: the profile's reader has checked the total. */
	t->counts[stack] = (ret ? 0 : t->counts[stack]) + sample->count;
	return 0;
}

int stack_table__build(struct stack_table *t, const struct profile *profile, const struct render_options *options)
{
	static const struct render_options all = { .threads = false };
	int ret = 0;

	t->options = options ?: &all;
	t->line_texts = malloc((profile->n_lines + 1) * sizeof(*t->line_texts));
	if (!t->line_texts)
		return -ENOMEM;
	for (size_t i = 0; i <= profile->n_lines; i++)
		t->line_texts[i] = NO_TEXT;
	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		ret = add_sample(t, profile, &profile->samples[i]);
	return ret;
}

int stack_table__say(int ret, const char *what, struct so_error *err)
{
	if (ret == -EFBIG)
		return so_err(err, ret, "cannot write %s: the profile's names add up to more than %zu GiB", what,
			      STACK_TEXT_BUDGET_BYTES >> 30);
	return so_err(err, ret, "cannot write %s: not enough memory", what);
}

static int compare_groups(const void *a, const void *b)
{
	const struct stack_group *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

/* of: by text, the group of that thread, NO_TEXT before there is one. */
static void count_groups(const struct stack_table *t, uint32_t *of, struct stack_groups *out)
{
	size_t length, first = 0;

	for (size_t i = 0; i < t->stacks.n_keys; i++) {
		uint32_t thread = stack_table__stack(t, i, &length)[0];

		if (of[thread] == NO_TEXT) {
			of[thread] = (uint32_t)out->n;
			out->list[out->n++] = (struct stack_group){ .thread = thread };
		}
		out->list[of[thread]].n++;
		out->list[of[thread]].total += t->counts[i];
	}
	for (size_t i = 0; i < out->n; i++) {
		out->list[i].first = first;
		first += out->list[i].n;
		out->list[i].n = 0;
	}
}

int stack_groups__of(const struct stack_table *t, struct stack_groups *out)
{
	size_t texts = t->texts.n_keys + 1, length;
	_cleanup_free_ uint32_t *of = malloc(texts * sizeof(*of));

	out->list = calloc(texts, sizeof(*out->list));
	out->stacks = calloc(t->stacks.n_keys + 1, sizeof(*out->stacks));
	if (!of || !out->list || !out->stacks)
		return -ENOMEM;
	memset(of, 0xff, texts * sizeof(*of));
	count_groups(t, of, out);
	for (size_t i = 0; i < t->stacks.n_keys; i++) {
		struct stack_group *group = &out->list[of[stack_table__stack(t, i, &length)[0]]];

		out->stacks[group->first + group->n++] = (uint32_t)i;
	}
	qsort(out->list, out->n, sizeof(*out->list), compare_groups);
	return 0;
}

void stack_groups__clear(struct stack_groups *groups)
{
	free(groups->list);
	free(groups->stacks);
	*groups = (struct stack_groups){ .n = 0 };
}
