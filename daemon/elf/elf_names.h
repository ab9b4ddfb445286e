/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of symbols, which stay in the files' string tables: reading one, and finding entries by name
 * through 4 bytes of hash an entry, computed when the first name is asked for.
 */
#ifndef STAKEOUT_ELF_NAMES_H
#define STAKEOUT_ELF_NAMES_H

#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_symtab.h"

struct elf_names {
	struct {
		struct elf_image image; /* borrowed */
		uint64_t at, size;      /* of the string table in it */
	} tables[ELF_N_TABLES];
	uint32_t *hashes; /* owned; of each entry's name, parallel to the entries; NULL until asked for */
};

/* Reads an entry's name, "@plt" included, cut to size - 1 bytes. Its length in `to`, or -EINVAL. */
int elf_names__read(const struct elf_names *names, const struct elf_symtab_entry *entry, char *to, size_t size);
/* The preferred entry of exactly that symbol, PLT stubs and CUDA kernels left out; -ENOENT, -ENOMEM. */
int elf_names__find(struct elf_names *names, const struct elf_symtab *symtab, const char *name, uint32_t *out);
void elf_names__release(struct elf_names *names);

#endif
