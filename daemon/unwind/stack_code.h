/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The instructions that can be reached from one address, and how they follow each other. */
#ifndef STAKEOUT_STACK_CODE_H
#define STAKEOUT_STACK_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/unwind/stack_insn.h"
#include "stakeout/cleanup.h"

#define STACK_CODE_MAX_INSNS  32768
#define STACK_CODE_MAX_BLOCKS 4096

/* Reads up to `size` bytes of code at `address`; returns the bytes read, 0 at the end of the mapping. */
typedef size_t (*effect_read_fn)(void *context, uint64_t address, void *buf, size_t size);

#define STACK_EDGE_NONE (-1) /* there is none, or it leads where nothing was decoded */
#define STACK_EDGE_OUT  (-2) /* a direct jump or branch out of the limits */

struct stack_node {
	struct stack_insn insn;
	int32_t next;   /* the node behind it, or an edge as above */
	int32_t target; /* the node that it branches or jumps to, or an edge as above */
	int32_t block;  /* its number, when more than one way can lead here or it is the first node; else -1 */
	int32_t fresh;  /* number of the base that a realigning instruction makes (stack_state.h); else -1 */
};

struct stack_code {
	struct stack_node *nodes; /* the first is the one at pc */
	uint32_t n, n_blocks;
	bool returned; /* the call before pc, if it is a direct one, can return */
	uint32_t capacity;
};

/*
 * Decodes breadth first from pc, within [low, high) and within the budgets above; what lies beyond a budget or cannot
 * be decoded is left out. `code` is empty or a former result, whose memory is used again. -ENOENT: nothing at pc;
 * -ENOMEM.
 */
int stack_code__discover(struct stack_code *code, struct stack_decoder *decoder, effect_read_fn read, void *context,
			 uint64_t pc, uint64_t low, uint64_t high);
void stack_code__release(struct stack_code *code);

#endif
