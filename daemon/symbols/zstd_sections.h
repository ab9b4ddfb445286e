/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Debug sections that are compressed by zstd (gcc -gz=zstd, binutils 2.40), which elfutils before 0.189 cannot read.
 * The same file is laid out in memory with these sections as they were before: only what DWARF is read from is in it.
 */
#ifndef STAKEOUT_ZSTD_SECTIONS_H
#define STAKEOUT_ZSTD_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Of the file in memory; a larger one is refused. */
#define ZSTD_SECTIONS_MAX_BYTES (1ull << 30)

/*
 * fd: an ELF file, borrowed. *image: the caller's, of *size bytes. -ENODATA: no section is compressed so; -EFBIG;
 * -EINVAL: the file is damaged; -ENOMEM.
 */
int zstd_sections__image(int fd, uint8_t **image, size_t *size);

#endif
