/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A golden stack: one stopped thread, and the frames that independent unwinders found on its stack. A text file:
 *
 *   stakeout-stack 1
 *   title WORDS
 *   regs HEX...                     the general registers by DWARF number, then the program counter
 *   file NUMBER NAME                from 1; what follows belongs to it
 *   fde START LENGTH AUGMENTATION CODE_ALIGNMENT DATA_ALIGNMENT RA_COLUMN INITIAL PROGRAM
 *                                   call-frame information of a function on the stack: addresses of the file in hex,
 *                                   the two programs in hex bytes ("-": none)
 *   map START END BIAS FILE         an executable mapping; BIAS: process address minus the file's
 *   stack ADDRESS                   and on the next lines its words, all in hex
 *   frame FILE ADDRESS RSP NAME     innermost first; ADDRESS is the file's, that of the instruction to attribute
 *   end complete|cut
 *
 * The call-frame information is compiled anew at each replay, so a golden stack does not depend on the tables' layout.
 */
#ifndef STAKEOUT_TESTS_SNAPSHOT_H
#define STAKEOUT_TESTS_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define SNAPSHOT_REGS 17

struct snapshot_fde {
	uint64_t start, length;
	bool signal_frame;
	uint64_t code_align, ra_column;
	int64_t data_align;
	uint8_t *initial, *program;
	size_t initial_bytes, program_bytes;
	unsigned file;
};

struct snapshot_map {
	uint64_t start, end, bias;
	unsigned file;
};

struct snapshot_stack {
	uint64_t address;
	uint64_t *words;
	size_t n;
};

struct snapshot_frame {
	unsigned file;
	uint64_t address, sp;
	char name[64]; /* for messages */
};

struct snapshot {
	char title[128];
	uint64_t regs[SNAPSHOT_REGS];
	unsigned n_files;
	struct snapshot_fde *fdes;
	struct snapshot_map *maps;
	struct snapshot_stack *stacks;
	struct snapshot_frame *frames;
	size_t n_fdes, n_maps, n_stacks, n_frames;
	bool complete;
};

/* -EBADMSG when the file is none; *out is then released. */
int snapshot__read(const char *path, struct snapshot *out, struct so_error *err);
/*
 * An ELF image (malloc'ed) whose .eh_frame has the entries of one file, for unwind_table__compile_memory(). NULL: out
 * of memory.
 */
void *snapshot__elf_image(const struct snapshot *snapshot, unsigned file, size_t *size);
/* All or nothing. A page of which a part is known can be read whole; what is not known of it has no meaning. */
bool snapshot__read_memory(const struct snapshot *snapshot, void *dst, size_t bytes, uint64_t address);
/* The word at an address of the stack; NULL when it is not one. */
uint64_t *snapshot__word(struct snapshot *snapshot, uint64_t address);
void snapshot__release(struct snapshot *snapshot);

static inline void cleanup__snapshot(struct snapshot *snapshot)
{
	snapshot__release(snapshot);
}

#endif
