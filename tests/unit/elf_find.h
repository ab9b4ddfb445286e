/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the daemon never asks of symbols: the address of a name, where they came from, what they take. */
#ifndef STAKEOUT_TESTS_ELF_FIND_H
#define STAKEOUT_TESTS_ELF_FIND_H

#include "daemon/symbols/elf_symbols.c"
#include "daemon/symbols/debug_files.h"

/* The preferred symbol of exactly that name, PLT stubs and CUDA kernels left out; -ENOENT. */
static int elf_find(const struct elf_symbols *symbols, const char *name, struct elf_symbol *symbol)
{
	const struct elf_symtab_entry *best = NULL;
	char found[256];

	for (size_t i = 0; i < symbols->symtab.n; i++) {
		const struct elf_symtab_entry *entry = &symbols->symtab.entries[i];

		if (entry->table <= ELF_TABLE_DYNAMIC && (!best || best->rank < entry->rank) &&
		    read_name(symbols, entry, found, sizeof(found)) >= 0 && !strcmp(found, name))
			best = entry;
	}
	if (!best)
		return -ENOENT;
	describe(best, symbol);
	return 0;
}

#endif
