/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stacks whose counts are yet to come, by hash: of the kernel's open window and the last. With the engine's lock. */
#ifndef STAKEOUT_PENDING_STACKS_H
#define STAKEOUT_PENDING_STACKS_H

#include "daemon/profile/accumulator.h"

struct pending_window {
	struct u64_table by_hash;
	struct stack **stacks;
	size_t n, capacity;
};

/* All zero is an empty one. */
struct pending_stacks {
	struct pending_window windows[2]; /* [0]: since the last drain */
};

/* As stack__new(). The stack, borrowed, if it is new; NULL: it is there, or there is no memory. */
struct stack *pending_stacks__add(struct pending_stacks *p, const struct so_stack_record *record,
				  const uint64_t *frames, struct python_functions *functions);
/* Borrowed; NULL: it has not arrived. */
const struct stack *pending_stacks__find(const struct pending_stacks *p, uint64_t hash);
/* A window ended: the stacks of the one before are let go. */
void pending_stacks__turn(struct pending_stacks *p);
void pending_stacks__forget(struct pending_stacks *p);
void pending_stacks__each(const struct pending_stacks *p, void (*visit)(void *context, const struct stack *stack),
			  void *context);

#endif
