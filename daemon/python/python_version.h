/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file's CPython version where no symbol says it (before 3.11, or stripped): by its constant texts, then its name. */
#ifndef STAKEOUT_PYTHON_VERSION_H
#define STAKEOUT_PYTHON_VERSION_H

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"

/* As Py_Version: 0x030812f0 is 3.8.18, 0x03080000 some 3.8, 0 unknown. path: what the process calls the file. */
uint32_t python_version__by_text(const struct elf_image *image, const struct elf_file *elf, const char *path);

#endif
