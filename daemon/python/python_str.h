/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A str object of a Python process, which may be garbage. */
#ifndef STAKEOUT_PYTHON_STR_H
#define STAKEOUT_PYTHON_STR_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_layout.h"

#define PYTHON_NAME_MAX_BYTES 1024u /* of UTF-8; longer names are cut there, between characters */

/*
 * *out is malloc'ed: valid UTF-8. Control characters and line separators are '?', a surrogate that stands for itself
 * (bytes of a file name that could not be decoded) is \udcff as in repr(). -EFAULT: it is no compact str; -ENOMEM.
 */
int python_str__read(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		     char **out);

#endif
