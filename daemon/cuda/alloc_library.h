/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which functions of an ELF file allocate and free memory, and where in it to probe them (stakeout/alloc_abi.h). */
#ifndef STAKEOUT_ALLOC_LIBRARY_H
#define STAKEOUT_ALLOC_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define ALLOC_LIBRARY_MAX 96 /* functions of one file */

/* Offsets in the file, where the probes go, and a cookie for each. */
struct alloc_library {
	uint64_t offsets[ALLOC_LIBRARY_MAX], cookies[ALLOC_LIBRARY_MAX];
	uint32_t n;
	uint32_t unprobed; /* functions that cannot be probed */
};

/*
 * Reads the file at fd (borrowed), with pread only. path: by which it is known whether CPython is free-threaded.
 * whole: .symtab is read as well as .dynsym, as programs need that have an allocator linked in. n 0: it has no such
 * function. *bytes_left: of symbols and names, how much may be read; what was read is taken off. -EFBIG: it has more;
 * -ENOEXEC: no ELF file; -EINVAL: damaged or for another machine; -ENOMEM.
 */
int alloc_library__read(int fd, const char *path, bool whole, uint64_t *bytes_left, struct alloc_library *out,
			struct so_error *err);

#endif
