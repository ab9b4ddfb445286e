/* SPDX-License-Identifier: GPL-2.0-or-later */
/* .gnu_debugdata: an xz-compressed ELF file inside an ELF file that holds the .symtab it was stripped of. */
#ifndef STAKEOUT_MINI_DEBUGINFO_H
#define STAKEOUT_MINI_DEBUGINFO_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"

#define MINI_DEBUGINFO_MAX_BYTES    (256u << 20) /* decompressed */
#define MINI_DEBUGINFO_MAX_XZ_BYTES (64u << 20)  /* compressed */

/*
 * Decompresses the section into *out (owned by the caller, *size bytes). -ENOENT when the file has none,
 * -EINVAL when it is damaged, -EFBIG over the limits, -ENOMEM.
 */
int mini_debuginfo__read(const struct elf_image *image, const struct elf_sections *sections, uint8_t **out,
			 size_t *size);

#endif
