/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which instruction of an x86-64 function to put an entry probe on. What a uprobe costs depends on its instruction:
 * some are emulated by the kernel, the others executed out of line with single-stepping, which takes about ten times
 * as long, and some are refused. So the site is the first instruction that is emulated, as long as everything before
 * it leaves a call as it was at the entry: rsp, the argument registers rdi rsi rdx rcx r8 r9, and all memory.
 *
 * Source: Linux, arch/x86/kernel/uprobes.c: good_insns_64, is_prefix_bad(), branch_setup_xol_ops(),
 * push_setup_xol_ops(). Emulated by every kernel from 5.10 on: push of a whole general register (since e7ed9d9bd037),
 * nop of one byte, and call, jmp and jcc with a displacement. Longer nops since 6.16 (610f6e14c29d), single-stepped
 * before.
 */
#ifndef STAKEOUT_PROBE_SITE_H
#define STAKEOUT_PROBE_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

struct probe_site {
	uint32_t offset;      /* bytes from the function's entry */
	bool emulated;        /* by every kernel that is supported; false: single-stepped by some or all */
	bool long_nop;        /* by some: a nop of several bytes */
	char instruction[48]; /* in Intel's syntax */
	const char *why;      /* why there and no other, in words; never freed */
};

/* The bytes of a function, from its entry on. Worth giving: all of it, or some kilobytes. */
struct probe_code {
	const uint8_t *bytes; /* borrowed */
	size_t size;
	uint64_t address; /* of the entry; for the words only */
	bool whole;       /* no part of the function is missing */
	/* So many of the argument registers say something, the first ones; 0: all six. */
	unsigned arguments;
	bool repeats; /* it does no harm if a call passes the site several times */
};

#define PROBE_CODE_MAX_BYTES (16u << 10)

/* Holds a disassembler; for one thread at a time. -ENOMEM, -ENOTSUP: the library has no x86. */
struct probe_decoder;
int probe_decoder__new(struct probe_decoder **out);
void probe_decoder__free(struct probe_decoder *decoder);
CLEANUP_DEFINE(struct probe_decoder *, probe_decoder, probe_decoder__free)

/*
 * Chooses the site. It is passed once in each call as far as the given bytes tell: branches from elsewhere, such as a
 * part that the compiler moved away, are not seen. -EILSEQ: no instruction is known there; -ENOTSUP: the kernel
 * refuses a probe at the entry, and nothing else will do.
 */
int probe_site__choose(struct probe_decoder *decoder, const struct probe_code *code, struct probe_site *out);

#endif
