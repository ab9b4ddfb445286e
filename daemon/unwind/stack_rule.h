/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the state at a return, and that at an instruction before it, to the unwind rule of that instruction. */
#ifndef STAKEOUT_STACK_RULE_H
#define STAKEOUT_STACK_RULE_H

#include <stdbool.h>

#include "daemon/unwind/stack_state.h"
#include "stakeout/abi.h"

/* What the returns say, in terms of the entry (stack_state.h). */
struct stack_verdict {
	struct stack_value cfa;
	struct stack_value rbp, rbx; /* the caller's; STACK_UNKNOWN: lost */
};

/*
 * The state before a return, or before a jump that ends the function as one. False when it cannot be one: rsp is not
 * known there or does not lie where a return address could. A jump must also show an epilogue, that is a register
 * restored from the stack; without that it may as well lead to another part of the same function.
 */
bool stack_verdict__of_return(const struct stack_state *s, struct stack_verdict *out);
bool stack_verdict__of_tail_call(const struct stack_state *s, struct stack_verdict *out);

/* Whether the CFA is the same; registers on which the two do not agree are lost in the first. */
bool stack_verdict__agree(struct stack_verdict *v, const struct stack_verdict *other);

/* Looks at what an instruction on the way writes: a register whose place is overwritten is lost in the verdict. False
 * when the CFA is. */
bool stack_verdict__survives(struct stack_verdict *v, const struct stack_state *s, const struct stack_insn *insn);

/* The rule for an instruction with this state before it; false when it cannot be put in a rule. */
bool stack_verdict__rule(const struct stack_verdict *v, const struct stack_state *s, struct so_unwind_rule *out);

#endif
