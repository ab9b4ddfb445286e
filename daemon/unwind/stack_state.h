/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of the registers and of the stack at one instruction, in terms of what they held at another one from
 * which the code was followed (the "entry"; it may lie in the midst of a function).
 *
 * A value is a constant added to something that was there at the entry. Where nothing is known it is STACK_UNKNOWN,
 * and a join of two ways keeps what both agree on; so following a loop ends.
 */
#ifndef STAKEOUT_STACK_STATE_H
#define STAKEOUT_STACK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/unwind/stack_insn.h"

enum stack_value_kind {
	STACK_UNKNOWN,
	STACK_REG,  /* base + a */
	STACK_MEM,  /* *(base + a) + b */
	STACK_MEM2, /* *(*(base + a) + b) */
};

/* Bases are the registers at the entry (enum so_reg) and, from STACK_FIRST_FRESH on, the values of rsp that
 * realigning instructions met on the way have left. */
#define STACK_FIRST_FRESH SO_NREGS
#define STACK_N_FRESH     16

struct stack_value {
	uint8_t kind; /* enum stack_value_kind; fields that the kind does not use are 0 */
	uint8_t base;
	int32_t a, b;
};

/* Eight bytes of memory at base + off that were written on the way. */
struct stack_slot {
	uint8_t base;
	int32_t off;
	struct stack_value value; /* never STACK_UNKNOWN */
};

#define STACK_MAX_SLOTS 24

struct stack_state {
	struct stack_value regs[SO_NREGS];
	struct stack_slot slots[STACK_MAX_SLOTS];
	uint32_t n_slots;
	bool called;      /* a call was met whose rsp was that of the entry plus a constant, and that may not return */
	int32_t call_off; /* the greatest such constant */
};

/* Bytes below rsp that signal handlers leave alone (System V psABI x86-64, 3.2.2). */
#define STACK_RED_ZONE 128

static inline bool stack_value__same(struct stack_value x, struct stack_value y)
{
	return x.kind == y.kind && x.base == y.base && x.a == y.a && x.b == y.b;
}

/* x + add; unknown where that cannot be put. */
struct stack_value stack_value__plus(struct stack_value x, int64_t add);

/* Whether to == from + constant, and that constant. */
bool stack_value__distance(struct stack_value from, struct stack_value to, int32_t *distance);

/* At the entry. after_call: at a return address; registers that a call may change are unknown, rsp is a call's. */
void stack_state__start(struct stack_state *s, bool after_call);

/* Executes one instruction; `fresh` is the number of the base it makes if it realigns the stack, -1 for none. */
void stack_state__apply(struct stack_state *s, const struct stack_insn *insn, int fresh);

/* What `insn` is about to write: its address, its size and the value. False when it writes to no known address. */
bool stack_state__store(const struct stack_state *s, const struct stack_insn *insn, struct stack_value *address,
			uint32_t *bytes, struct stack_value *value);

/* Keeps in `s` what `other` agrees with; says whether that changed anything. */
bool stack_state__join(struct stack_state *s, const struct stack_state *other);

/* The slot that holds exactly the eight bytes at the address, or NULL. */
const struct stack_slot *stack_state__slot(const struct stack_state *s, struct stack_value address);

#endif
