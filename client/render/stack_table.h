/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile's distinct stacks and how often each was seen, for the forms that list them all.
 *
 * Each distinct frame text gets a number, and a stack is a sequence of such numbers: a million stacks take four bytes a
 * frame, and merging them needs no text.
 */
#ifndef STAKEOUT_CLIENT_STACK_TABLE_H
#define STAKEOUT_CLIENT_STACK_TABLE_H

#include "client/render/frame_text.h"
#include "client/render/render.h"
#include "stakeout/cleanup.h"
#include "stakeout/intern.h"

/* Of names read, repetitions included: a file of a few MB could otherwise ask for terabytes of text. */
#define STACK_TEXT_BUDGET_BYTES ((size_t)4 << 30)

/* What first had a text, in the profile; a text may be that of frames and of threads. */
struct stack_text {
	const struct profile_line *line;     /* NULL: no frame */
	const struct profile_sample *thread; /* NULL: no thread */
};

/* All zero is an empty one. */
struct stack_table {
	const struct render_options *options;
	struct intern texts;   /* frames and threads, as frame_text__folded() and frame_text__thread() have them */
	struct stack_text *of; /* of each text */
	struct intern stacks;  /* uint32_t text numbers: the thread, then frames from the outermost one */
	int64_t *counts;       /* by stack */
	size_t of_capacity, counts_capacity;
	uint32_t *line_texts; /* by line of the profile, until needed none; behind them PROFILE_NATIVE's */
	uint32_t *sequence;
	size_t sequence_capacity;
	struct text text;
	size_t text_bytes;
};

/*
 * Of the samples that the options (NULL: none) let through. Profile and options must live longer. -ENOMEM; -EFBIG: too
 * long names.
 */
int stack_table__build(struct stack_table *table, const struct profile *profile, const struct render_options *options);
void stack_table__clear(struct stack_table *table);
CLEANUP_DEFINE_OF(struct stack_table, stack_table, stack_table__clear)
/* That error in words: what cannot be written. */
int stack_table__say(int ret, const char *what, struct so_error *err);

/* The texts of a stack, n of them. */
static inline const uint32_t *stack_table__stack(const struct stack_table *table, size_t stack, size_t *n)
{
	*n = intern__length(&table->stacks, stack) / sizeof(uint32_t);
	return intern__key(&table->stacks, stack);
}

/* Stacks of one thread, or of those of one name. */
struct stack_group {
	uint32_t thread; /* its text */
	size_t first, n; /* in stack_groups.stacks */
	int64_t total;   /* of their counts */
};

struct stack_groups {
	struct stack_group *list; /* those with most first */
	size_t n;
	uint32_t *stacks; /* numbers of stacks, group by group */
};

/* *out is to be cleared in any case. -ENOMEM. */
int stack_groups__of(const struct stack_table *table, struct stack_groups *out);
void stack_groups__clear(struct stack_groups *groups);
CLEANUP_DEFINE_OF(struct stack_groups, stack_groups, stack_groups__clear)

#endif
