// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/pending_stacks.h"

#include <stdlib.h>

#include "stakeout/array.h"

static void release(struct pending_window *w)
{
	for (size_t i = 0; i < w->n; i++)
		stack__unref(w->stacks[i]);
	free(w->stacks);
	u64_table__release(&w->by_hash);
	*w = (struct pending_window){ 0 };
}

void pending_stacks__forget(struct pending_stacks *p)
{
	release(&p->windows[0]);
	release(&p->windows[1]);
}

void pending_stacks__turn(struct pending_stacks *p)
{
	release(&p->windows[1]);
	p->windows[1] = p->windows[0];
	p->windows[0] = (struct pending_window){ 0 };
}

struct stack *pending_stacks__add(struct pending_stacks *p, const struct so_stack_record *record,
				  const uint64_t *frames, struct python_functions *functions)
{
	struct pending_window *w = &p->windows[0];
	struct stack *stack;
	uint32_t at;

	if (u64_table__get(&w->by_hash, record->hash, &at) || ARRAY_RESERVE(w->stacks, w->capacity, w->n + 1))
		return NULL;
	stack = stack__new(record, frames, functions);
	if (!stack)
		return NULL;
	if (u64_table__set(&w->by_hash, record->hash, w->n)) {
		stack__unref(stack);
		return NULL;
	}
	w->stacks[w->n++] = stack;
	return stack;
}

const struct stack *pending_stacks__find(const struct pending_stacks *p, uint64_t hash)
{
	uint32_t at;

	for (unsigned i = 0; i < 2; i++) {
		if (u64_table__get(&p->windows[i].by_hash, hash, &at))
			return p->windows[i].stacks[at];
	}
	return NULL;
}

void pending_stacks__each(const struct pending_stacks *p, void (*visit)(void *context, const struct stack *stack),
			  void *context)
{
	for (unsigned i = 0; i < 2; i++) {
		for (size_t j = 0; j < p->windows[i].n; j++)
			visit(context, p->windows[i].stacks[j]);
	}
}
