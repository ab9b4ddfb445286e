/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What one x86-64 instruction does to the general registers and to the stack, as far as it matters for finding the
 * caller: everything else about it is forgotten. Capstone decodes; vector instructions (VEX, EVEX), which make up most
 * of a numeric kernel and do not touch general registers, are only measured.
 */
#ifndef STAKEOUT_STACK_INSN_H
#define STAKEOUT_STACK_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/abi.h"
#include "stakeout/cleanup.h"

#define STACK_INSN_MAX_BYTES 15
#define STACK_NO_REG         0xff

enum stack_flow {
	STACK_FLOW_NEXT,
	STACK_FLOW_CALL,   /* goes on behind the call */
	STACK_FLOW_BRANCH, /* goes on behind it or at the target */
	STACK_FLOW_JUMP,   /* goes on at the target */
	STACK_FLOW_RETURN,
	STACK_FLOW_STOP, /* where it goes is not known, or nowhere: indirect jumps, traps */
};

enum stack_op {
	STACK_OP_NONE,
	STACK_OP_LEA,       /* reg = base + disp */
	STACK_OP_LOAD,      /* reg = the 8 bytes at base + disp */
	STACK_OP_STORE,     /* the bytes at base + disp = reg, or anything */
	STACK_OP_PUSH,      /* of reg, or of anything */
	STACK_OP_POP,       /* into reg, or into nothing that is tracked */
	STACK_OP_POP_STORE, /* into the memory at base + disp */
	STACK_OP_LEAVE,
	STACK_OP_ENTER,   /* with a frame of disp bytes */
	STACK_OP_REALIGN, /* rsp becomes something else: an alignment, a frame of variable size */
};

struct stack_insn {
	uint64_t address;
	uint64_t target; /* of a direct branch or jump */
	int32_t disp;
	uint16_t written; /* registers that it changes in another way than op says: bit 1 << enum so_reg */
	uint8_t length;
	uint8_t flow;  /* enum stack_flow */
	uint8_t op;    /* enum stack_op */
	uint8_t reg;   /* enum so_reg or STACK_NO_REG */
	uint8_t base;  /* enum so_reg */
	uint8_t bytes; /* of a store, push or pop */
	bool returns;  /* of a call: stack_code.c saw that the callee can return */
	bool element;  /* loads an element of an array: perhaps of a jump table */
	bool by_reg;   /* of STACK_FLOW_STOP: a jump to where `reg` points */
};

/* Holds the disassembler; for one thread at a time. -ENOMEM, -ENOTSUP: the library has no x86. */
struct stack_decoder;
int stack_decoder__new(struct stack_decoder **out);
void stack_decoder__free(struct stack_decoder *decoder);
CLEANUP_DEFINE(struct stack_decoder *, stack_decoder, stack_decoder__free)

/* Decodes the instruction at the start of `code`, which lies at `address`. -EILSEQ: none that is known, or cut off. */
int stack_decoder__decode(struct stack_decoder *decoder, const uint8_t *code, size_t size, uint64_t address,
			  struct stack_insn *out);

#endif
