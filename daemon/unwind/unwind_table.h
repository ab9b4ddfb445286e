/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compiles one ELF file's .eh_frame into the table that the kernel-side unwinder searches (layout: stakeout/abi.h).
 *
 * A compiled table is position independent of the pool: index words are row numbers from 0, rule numbers count
 * within the table (0 and 1 are the reserved ones of abi.h, rules[i] is rule SO_FIRST_RULE + i). Whoever loads
 * it adds the pool's offsets.
 */
#ifndef STAKEOUT_UNWIND_TABLE_H
#define STAKEOUT_UNWIND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/abi.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* One table holds 4 GiB of text (entries beyond count as bad) and this many rows (more is -EINVAL). */
#define UNWIND_TABLE_MAX_BLOCKS ((1u << 22) + 1)
#define UNWIND_TABLE_MAX_ROWS   (64u << 20)

/*
 * Unless it is empty, a table begins with a row at the start of its first block and ends with a row of rule
 * SO_RULE_NONE at the end of the last function. Functions less than 16 bytes apart have no row between them: the
 * padding keeps the rule before it. Only what lies before a small function without instructions of its own has no rule.
 */
struct unwind_table {
	uint64_t first_block; /* number of the first block: virtual address >> SO_BLOCK_SHIFT */
	uint32_t n_blocks;
	uint32_t n_rows;
	uint32_t n_rules;
	uint32_t n_fdes;              /* entries read */
	uint32_t n_bad_fdes;          /* entries that were damaged or overlapped another; their text has rule 0 */
	uint32_t n_unsupported_rows;  /* rows whose rule is SO_CFA_UNSUPPORTED */
	uint32_t *index;              /* n_blocks + 1 words */
	uint32_t *rows;               /* n_rows words */
	struct so_unwind_rule *rules; /* n_rules */
};

/*
 * Reads the file open at elf_fd (borrowed; only pread is used on it, never a memory map, so a file that shrinks
 * while it is read is an error and not a SIGBUS) and compiles its table. A file without .eh_frame gives a table
 * with n_rows == 0 and 0 is returned. A file in which some entries are damaged gives a table of the sound ones,
 * the damaged ones counted. -EINVAL: not a 64-bit little-endian x86-64 ELF file, or headers that contradict the
 * file; -ENOMEM; -EIO. On failure *out is untouched.
 */
int unwind_table__compile(int elf_fd, struct unwind_table **out, struct so_error *err);

/* The same from an ELF image in memory (the vdso). */
int unwind_table__compile_memory(const void *image, size_t size, struct unwind_table **out, struct so_error *err);

/* The rule in force at a virtual address; NULL: none (SO_RULE_NONE). SO_RULE_UNAVAILABLE: an SO_CFA_UNSUPPORTED one. */
const struct so_unwind_rule *unwind_table__lookup(const struct unwind_table *table, uint64_t vaddr);

/*
 * Whether the numbers of a table from elsewhere (a cache file) agree with each other, so that a lookup stays inside
 * its arrays. The arrays must have the sizes that n_blocks, n_rows and n_rules say.
 */
bool unwind_table__sound(const struct unwind_table *table);

void unwind_table__free(struct unwind_table *table);
CLEANUP_DEFINE(struct unwind_table *, unwind_table, unwind_table__free)

#endif
