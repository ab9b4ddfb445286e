/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Function symbols of one ELF file, from the first of these that has them: .symtab of the file itself, of its
 * separate debug file (by build-id, then by .gnu_debuglink, below the debug roots), .gnu_debugdata
 * (xz-compressed "mini debuginfo"), the table of a Go program (elf/go_functions.h), always completed by .dynsym. Of a
 * file without full symbols that registers CUDA kernels, their host functions have the kernels' names
 * (cuda_registered.h). Compact: addresses are kept sorted, names
 * stay in the file and are read when asked for.
 */
#ifndef STAKEOUT_ELF_SYMBOLS_H
#define STAKEOUT_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct debug_root; /* debug_files.h */
struct elf_symbols;

struct elf_symbol {
	uint64_t start; /* ELF virtual address */
	uint64_t size;  /* bytes; 0 when the file does not say */
};

/*
 * fd: the ELF file (borrowed during the call; the object keeps its own duplicate as long as names are read from
 * it). path: what the target calls the file, for debuglink and messages; may name a file that no longer exists
 * or that belongs to another mount namespace. debug_root: where a separate debug file is looked up; NULL looks
 * nowhere. Only pread, never a memory map. -EINVAL for a damaged file.
 */
int elf_symbols__open(int fd, const char *path, const struct debug_root *debug_root, struct elf_symbols **out,
		      struct so_error *err);
/* The same from an image in memory (the vdso); the image is copied. */
int elf_symbols__open_memory(const void *image, size_t size, struct elf_symbols **out, struct so_error *err);

/*
 * Finds the function that covers vaddr. A symbol of size 0 covers up to the next symbol of its section. Of
 * aliases the one a reader knows wins: global before weak before local, then fewest leading underscores, then
 * shortest. name receives the raw (mangled) name, NUL-terminated, cut to name_size. -ENOENT when no symbol
 * covers the address.
 */
int elf_symbols__lookup(struct elf_symbols *symbols, uint64_t vaddr, struct elf_symbol *symbol, char *name,
			size_t name_size);

/* Where a function begins that no symbol covers, by the file's unwind information. -ENOENT, -EINVAL, -EIO. */
int elf_symbols__unnamed(const struct elf_symbols *symbols, uint64_t vaddr, uint64_t *start);

/*
 * The kernel that is launched by the call of __cudaLaunchKernel that returns to the address; its raw name as above.
 * -ENOENT when there is no such call, or when the file does not tell which.
 */
int elf_symbols__launch(struct elf_symbols *symbols, uint64_t return_address, char *name, size_t name_size);

/*
 * The functions that begin in [low, high) and whose size the file gives, by rising address and one for each, as many as
 * there is room for; returns their number. PLT entries, and
 * functions that only CUDA has names for, are none here.
 */
size_t elf_symbols__functions(const struct elf_symbols *symbols, uint64_t low, uint64_t high, struct elf_symbol *out,
			      size_t room);

void elf_symbols__free(struct elf_symbols *symbols);
CLEANUP_DEFINE(struct elf_symbols *, elf_symbols, elf_symbols__free)

#endif
