/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the functions of a file without symbols begin and end: the search table of .eh_frame_hdr (Linux Standard Base
 * Core 5.0, 10.6.2), as GNU ld, gold and lld write it, and the entries (FDE) that it points to.
 */
#ifndef STAKEOUT_ELF_FDE_INDEX_H
#define STAKEOUT_ELF_FDE_INDEX_H

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"

struct elf_fde_index {
	uint64_t at;    /* offset of the table in the file */
	uint64_t vaddr; /* of .eh_frame_hdr, which its numbers are relative to */
	uint64_t n;     /* entries; 0: there is no table, or one of another form */
};

/* -EINVAL: what the file says of it lies outside the file. */
int elf_fde_index__locate(const struct elf_image *image, const struct elf_file *elf, struct elf_fde_index *out);

/* The virtual address at which the function begins that has this one. -ENOENT: there is none; -EINVAL, -EIO. */
int elf_fde_index__find(const struct elf_fde_index *index, const struct elf_image *image, const struct elf_file *elf,
			uint64_t vaddr, uint64_t *start);

#endif
