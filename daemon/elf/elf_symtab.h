/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Function symbols picked out of ELF symbol tables into one sorted array of 24 bytes an entry, and the search
 * in it. Which names the entries have stays in the string tables.
 *
 * Ranges may nest and overlap (hand-written assembly does both), so the last entry that starts at or before an
 * address need not cover it. Each entry therefore links to the nearest earlier one that covers its own start;
 * all entries that cover an address lie on the chain of these links that begins at the last start before it.
 */
#ifndef STAKEOUT_ELF_SYMTAB_H
#define STAKEOUT_ELF_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"

/* Which string table a name is in. */
enum elf_table {
	ELF_TABLE_MAIN,    /* .symtab, of whichever file or image had it */
	ELF_TABLE_DYNAMIC, /* .dynsym */
	ELF_TABLE_PLT,     /* a .dynsym name to which "@plt" is added */
	ELF_TABLE_GO,      /* what a Go program keeps for its own stack traces */
	ELF_TABLE_KERNELS, /* no table: names of CUDA kernels, where the file's code has them */
	ELF_N_TABLES,
};

/* In rising order of preference. */
enum elf_rank { ELF_RANK_PLT, ELF_RANK_LOCAL, ELF_RANK_WEAK, ELF_RANK_GLOBAL };

#define ELF_SYMTAB_NONE UINT32_MAX

struct elf_symtab_entry {
	uint64_t start;  /* ELF virtual address */
	uint32_t extent; /* bytes covered; a function of 4 GB or more is cut */
	uint32_t name;   /* offset in its string table */
	uint32_t parent; /* the nearest earlier entry that covers `start`, or ELF_SYMTAB_NONE */
	uint8_t table;   /* enum elf_table */
	uint8_t rank;    /* enum elf_rank */
	bool unsized;    /* the file gives size 0: `extent` reaches to the next symbol or the section's end */
};

struct elf_symtab {
	struct elf_symtab_entry *entries; /* owned */
	size_t n, room;
};

/* Where a symbol table and its names lie in an image. */
struct elf_symtab_location {
	uint64_t symbols_at, n_symbols;
	uint64_t names_at, names_size;
};

/* Finds the first section of that type (SHT_SYMTAB, SHT_DYNSYM) and its string table. -ENOENT, -EINVAL. */
int elf_symtab__locate(const struct elf_image *image, const struct elf_sections *sections, uint32_t type,
		       struct elf_symtab_location *out);
/*
 * Adds the defined functions of a symbol table: STT_FUNC, STT_GNU_IFUNC, and labels without a type in
 * executable sections. sections: those that the symbols' indices mean (a debug file's own, for its table); elf:
 * gives the executable segments for symbols whose section is not known. -EINVAL, -ENOMEM.
 */
int elf_symtab__add(struct elf_symtab *symtab, const struct elf_image *image, const struct elf_sections *sections,
		    const struct elf_file *elf, const struct elf_symtab_location *where, enum elf_table table);
int elf_symtab__add_entry(struct elf_symtab *symtab, const struct elf_symtab_entry *entry);
/*
 * Sorts and links the entries: after this they can be searched. drop_repeated: where .symtab and .dynsym list
 * the same symbols at an address, keep those of .dynsym, whose names carry no "@@VERSION".
 */
int elf_symtab__finish(struct elf_symtab *symtab, bool drop_repeated);
/* The last entry with start <= vaddr, or ELF_SYMTAB_NONE. */
uint32_t elf_symtab__last_before(const struct elf_symtab *symtab, uint64_t vaddr);
void elf_symtab__release(struct elf_symtab *symtab);

#endif
