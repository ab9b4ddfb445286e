/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names for the stubs of the procedure linkage table, which have no symbols of their own. Each stub is decoded
 * for the GOT slot it jumps through (or the relocation index it pushes), and the relocation of that slot names
 * the function; so .plt, .plt.sec and .plt.got of any linker come out alike. x86-64 only.
 */
#ifndef STAKEOUT_ELF_PLT_H
#define STAKEOUT_ELF_PLT_H

#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"

/*
 * Adds an ELF_TABLE_PLT entry for each stub whose target is known; dynsym: where the file's dynamic symbols
 * are. A damaged table adds nothing. -ENOMEM.
 */
int elf_plt__add(struct elf_symtab *symtab, const struct elf_image *image, const struct elf_sections *sections,
		 const struct elf_symtab_location *dynsym);

#endif
