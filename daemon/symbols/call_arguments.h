/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What registers hold at a call, by the instructions before it: addresses that are loaded relative to rip or as 32-bit
 * constants, and what is read from memory at such an address, both also by way of other registers. Only straight code
 * is followed, so what is found holds where control comes to the call through it. x86-64 only.
 */
#ifndef STAKEOUT_CALL_ARGUMENTS_H
#define STAKEOUT_CALL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_file.h"
#include "stakeout/abi.h"
#include "stakeout/cleanup.h"

enum call_value_kind {
	CALL_VALUE_UNKNOWN,
	CALL_VALUE_ADDRESS, /* the address itself */
	CALL_VALUE_LOADED,  /* the 8 bytes that memory has at the address */
};

struct call_value {
	enum call_value_kind kind;
	uint64_t address; /* ELF virtual address, within a segment */
};

/* Holds the disassembler; for one thread at a time. */
struct call_arguments;
/*
 * elf: borrowed. max_instructions: decoded in all; where there are more, nothing is found any more. -ENOMEM, -ENOTSUP.
 */
int call_arguments__new(const struct elf_file *elf, uint64_t max_instructions, struct call_arguments **out);
void call_arguments__free(struct call_arguments *arguments);
CLEANUP_DEFINE(struct call_arguments *, call_arguments, call_arguments__free)

/*
 * code: what lies before the call, which is at vaddr; the first byte need not begin an instruction. wanted: registers,
 * bit 1 << enum so_reg. True: all of them are known, and values has them, by enum so_reg.
 */
bool call_arguments__find(struct call_arguments *arguments, const uint8_t *code, size_t size, uint64_t vaddr,
			  uint16_t wanted, struct call_value values[SO_NREGS]);

#endif
