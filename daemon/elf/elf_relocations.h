/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The relocations that the loader makes by symbols, found as it finds them: DT_JMPREL and DT_RELA. */
#ifndef STAKEOUT_ELF_RELOCATIONS_H
#define STAKEOUT_ELF_RELOCATIONS_H

#include <elf.h>

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"

/* Visits them in the file's order until one visit returns an error, which it returns. 0: or none; -EINVAL: damaged. */
int elf_relocations__each(const struct elf_image *image, const struct elf_file *elf,
			  int (*visit)(void *context, const Elf64_Rela *relocation), void *context);

#endif
