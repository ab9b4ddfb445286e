/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * _Py_DebugOffsets: how CPython 3.13 and later describe themselves, at the start of _PyRuntime, in the file and in the
 * process. It may be damaged or made up: what it says is checked before it is believed.
 */
#ifndef STAKEOUT_PYTHON_DEBUG_OFFSETS_H
#define STAKEOUT_PYTHON_DEBUG_OFFSETS_H

#include "daemon/python/python_layout.h"

/* How many bytes of _PyRuntime are enough for the longest of them. */
#define PYTHON_DEBUG_OFFSETS_BYTES 1024

/*
 * From the first bytes of a _PyRuntime. -ENOTSUP for a version or pre-release that is not supported,
 * named in err. -EINVAL when the bytes are no _Py_DebugOffsets or contradict themselves; err says where.
 */
int python_debug_offsets__read(const void *bytes, size_t n, struct python_layout *out, struct so_error *err);

/* The version as 0x030d00f0; 0: the bytes are none. */
uint32_t python_debug_offsets__version(const void *bytes, size_t n);

#endif
