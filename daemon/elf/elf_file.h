/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Of an ELF file: that it is for this machine, its build-id, its loadable segments (from file offset to address). */
#ifndef STAKEOUT_ELF_FILE_H
#define STAKEOUT_ELF_FILE_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "stakeout/error.h"

#define ELF_FILE_MAX_SEGMENTS 64

struct elf_segment {
	uint64_t offset, vaddr, filesz, memsz;
	uint32_t flags; /* PF_* */
};

struct elf_file {
	uint16_t type;       /* ET_EXEC or ET_DYN */
	uint64_t entry;      /* e_entry; 0: none */
	bool interpreted;    /* names a program interpreter (PT_INTERP), as dynamically linked programs do */
	char build_id[65];   /* lower-case hex of NT_GNU_BUILD_ID, "" when there is none */
	unsigned n_segments; /* PT_LOAD only */
	struct elf_segment segments[ELF_FILE_MAX_SEGMENTS];
	struct elf_segment fde_index; /* PT_GNU_EH_FRAME; all zero: none */
};

/* Reads with pread only. -ENOEXEC when it is no ELF file at all, -EINVAL when it is damaged or for another
 * machine. */
int elf_file__read(int fd, struct elf_file *out, struct so_error *err);
int elf_file__read_memory(const void *image, size_t size, struct elf_file *out, struct so_error *err);

/*
 * The bias of a mapping: process address minus ELF virtual address. map_start, map_offset: from /proc/PID/maps.
 * Picks the segment (executable ones first) that holds the offset. -ENOENT when no segment does. Meant for
 * executable mappings: where two segments share a page of the file, one of them text, text wins; between two
 * data segments that do, the offset does not tell which is mapped, and the first is taken.
 */
int elf_file__bias(const struct elf_file *elf, uint64_t map_start, uint64_t map_length, uint64_t map_offset,
		   uint64_t *bias);

/* Where in the file the byte of an ELF virtual address is. -EINVAL: the file holds none. */
int elf_file__offset(const struct elf_file *elf, uint64_t vaddr, uint64_t *offset);

#endif
