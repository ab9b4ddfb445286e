/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The section headers of an ELF image. */
#ifndef STAKEOUT_ELF_SECTIONS_H
#define STAKEOUT_ELF_SECTIONS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_image.h"
#include "stakeout/cleanup.h"

struct elf_sections {
	Elf64_Shdr *headers;          /* owned */
	size_t n;                     /* 0: the file has no section headers */
	uint64_t names_at, names_end; /* the section name string table, offsets in the image */
};

/* -EINVAL when the headers lie outside the file, -ENOMEM. */
int elf_sections__read(const struct elf_image *image, struct elf_sections *out);
/* The first section of that name or type with bytes in the file, or NULL. */
const Elf64_Shdr *elf_sections__by_name(const struct elf_sections *sections, const struct elf_image *image,
					const char *name);
const Elf64_Shdr *elf_sections__by_type(const struct elf_sections *sections, uint32_t type);
/* Whether the section's bytes all lie within the image. */
bool elf_sections__in_image(const struct elf_image *image, const Elf64_Shdr *section);
void elf_sections__release(struct elf_sections *sections);
CLEANUP_DEFINE_OF(struct elf_sections, elf_sections, elf_sections__release)

#endif
