/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unwinds by libdw's reading of the call-frame information, evaluating its location expressions for all registers.
 * libdwfl does the same, but libdw 0.188 forgets the caller's rbx wherever a function does not mention it (its table
 * of the ABI's defaults names another register), so that libdwfl stops early at frames whose CFA is taken from rbx.
 * Here callee-saved registers that are not mentioned keep their values, as the ABI says.
 */
#ifndef STAKEOUT_TESTS_CFI_WALK_H
#define STAKEOUT_TESTS_CFI_WALK_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/golden/tracee.h"

struct cfi_walk {
	Dwfl *dwfl;
	bool (*read)(void *context, uint64_t address, uint64_t *word);
	void *context;
	uint64_t regs[TRACEE_REGS];
	uint32_t known; /* a bit a register */
	bool exact;     /* the pc is an interrupted instruction, not a return address */
	bool leaped;    /* the last step took the caller's rsp from elsewhere than the CFA (longjmp) */
};

enum cfi_step {
	CFI_CALLER,    /* the registers are the caller's now */
	CFI_OUTERMOST, /* the return address is undefined */
	CFI_UNKNOWN,   /* no information, or it cannot be evaluated */
};

enum cfi_step cfi_walk__step(struct cfi_walk *w);

#endif
