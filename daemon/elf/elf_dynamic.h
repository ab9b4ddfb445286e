/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The dynamic section, found as the loader finds it, and its symbol table in a file without section headers. */
#ifndef STAKEOUT_ELF_DYNAMIC_H
#define STAKEOUT_ELF_DYNAMIC_H

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_symtab.h"

/* -ENOENT when there is no dynamic section or no symbol table in it, -EINVAL when it is damaged. */
int elf_dynamic__locate(const struct elf_image *image, const struct elf_file *elf, struct elf_symtab_location *out);

/* The program header of the dynamic section. -ENOENT, -EINVAL. */
int elf_dynamic__segment(const struct elf_image *image, Elf64_Phdr *out);

/* What the dynamic section has under a tag (DT_…): an address, a size. Left as it is where the tag is absent. */
struct elf_dynamic_value {
	int64_t tag;
	uint64_t value;
};
/* -ENOENT: no dynamic section; -EINVAL. */
int elf_dynamic__values(const struct elf_image *image, struct elf_dynamic_value *wanted, size_t n);

#endif
