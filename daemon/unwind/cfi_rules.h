/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a call-frame state means as an so_unwind_rule (stakeout/abi.h), and the set of different rules of one file. */
#ifndef STAKEOUT_CFI_RULES_H
#define STAKEOUT_CFI_RULES_H

#include "daemon/unwind/cfi_program.h"
#include "stakeout/abi.h"
#include "stakeout/cleanup.h"

/*
 * signal_frame: the CIE says so. Such a state becomes SO_CFA_SIGNAL when its return address is where the kernel
 * puts the interrupted rip (rsp + 168); code that is marked as a signal frame but has an ordinary rule gets that
 * rule. A state that a rule cannot hold becomes SO_CFA_UNSUPPORTED.
 */
void cfi_rules__translate(const struct cfi_state *state, bool signal_frame, struct so_unwind_rule *out);

struct cfi_rules {
	struct so_unwind_rule *rules; /* rules[i] has number SO_FIRST_RULE + i */
	uint32_t n;
	uint32_t room;
	uint32_t *slots; /* hash table of numbers, 0 is free */
	uint32_t n_slots;
	uint64_t seed[2]; /* a file cannot be made so that its rules collide */
};

/* 0 or -ENOMEM. */
int cfi_rules__init(struct cfi_rules *set);

/* The rule's number, SO_RULE_UNAVAILABLE once the set is full. 0 or -ENOMEM. */
int cfi_rules__number(struct cfi_rules *set, const struct so_unwind_rule *rule, uint32_t *number);

void cfi_rules__release(struct cfi_rules *set);
CLEANUP_DEFINE_OF(struct cfi_rules, cfi_rules, cfi_rules__release)

#endif
