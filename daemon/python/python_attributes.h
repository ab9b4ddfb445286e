/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An attribute of an object of a Python process, found by its name. The process may change it meanwhile. */
#ifndef STAKEOUT_PYTHON_ATTRIBUTES_H
#define STAKEOUT_PYTHON_ATTRIBUTES_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_layout.h"

/* Of an object with more attributes, those beyond are not looked at. */
#define PYTHON_MAX_ATTRIBUTES 256

/* Its value's address. -ENOENT: it has none of that name; -EFAULT: the memory cannot be read, or makes no sense. */
int python_attributes__find(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t object,
			    const char *name, uint64_t *value);

#endif
