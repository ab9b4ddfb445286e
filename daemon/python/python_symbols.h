/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols by name, mostly absent: by the loader's hash table, which says "no" fast, or by the whole symbol table. */
#ifndef STAKEOUT_PYTHON_SYMBOLS_H
#define STAKEOUT_PYTHON_SYMBOLS_H

#include <elf.h>
#include <stdbool.h>

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"

/* .dynsym as the loader finds it; places in the file. */
struct python_dynamic {
	uint64_t symbols, names, names_size;
	uint64_t gnu_hash, hash; /* 0: the file has none */
};

/* -ENOENT: no dynamic symbols, or no hash table for them. -EINVAL: damaged. */
int python_symbols__dynamic(const struct elf_image *image, const struct elf_file *elf, struct python_dynamic *out);
/* Whether the file defines a symbol of that name. */
bool python_symbols__find(const struct elf_image *image, const struct python_dynamic *dynamic, const char *name,
			  Elf64_Sym *out);

/*
 * Calls `visit` for each defined symbol of .symtab that has a name; false from it ends the walk. -ENOENT: there is no
 * .symtab, -EINVAL: it is damaged, -EFBIG: larger than anything that is worth reading, -ENOMEM.
 */
int python_symbols__walk(const struct elf_image *image, const struct elf_sections *sections,
			 bool (*visit)(void *context, const char *name, const Elf64_Sym *symbol), void *context);

#endif
