/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which CPython a file holds where no symbol says it (before 3.11, and in stripped programs): by texts that each of
 * them has among its constants, then by the file's name.
 */
#ifndef STAKEOUT_PYTHON_VERSION_H
#define STAKEOUT_PYTHON_VERSION_H

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"

/*
 * As Py_Version: 0x030812f0 for 3.8.18, 0x03080000 when the patch release is not known; 0 when not even the minor
 * version is. path: what the process calls the file.
 */
uint32_t python_version__by_text(const struct elf_image *image, const struct elf_file *elf, const char *path);

#endif
