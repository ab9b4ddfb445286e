/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which native frames of a stack are calls of a Python interpreter's loop, and whether each has its Python frames. */
#ifndef STAKEOUT_PYTHON_CALLS_H
#define STAKEOUT_PYTHON_CALLS_H

#include "daemon/files/file_registry.h"
#include "daemon/profile/accumulator.h"
#include "daemon/python/python_merge.h"

struct python_calls {
	struct merge_input in;
	uint8_t loops[SO_MAX_USER_FRAMES], entries[SO_MAX_PYTHON_FRAMES + 1]; /* in's */
};

/* For python_merge(); out->in refers to *out. entries[] has room for one more, which ends a call. */
void python_calls__describe(struct file_registry *files, struct stack *stack, struct python_calls *out);
/*
 * Whether the stack has a call of the loop whose Python frames were not found. False where that is not known: one of
 * the two stacks was cut, the interpreter was not known yet, or its loop has no name.
 */
bool python_calls__are_missing(struct file_registry *files, struct stack *stack);

#endif
