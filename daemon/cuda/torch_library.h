/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether an ELF file is PyTorch's libc10, and where in it to probe what its caching allocator reports
 * (stakeout/torch_abi.h). The functions are found by their mangled names in .dynsym, which tell the version's form.
 */
#ifndef STAKEOUT_TORCH_LIBRARY_H
#define STAKEOUT_TORCH_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

enum torch_library_kind {
	TORCH_LIBRARY_NONE,  /* no such function is there */
	TORCH_LIBRARY_OLD,   /* before PyTorch 1.9: reports no totals */
	TORCH_LIBRARY_OTHER, /* reports in a form that is not known */
	TORCH_LIBRARY_KNOWN,
};

/* Offsets in the file, where the probes go. */
struct torch_library {
	enum torch_library_kind kind;
	uint64_t memory;
	uint64_t refused; /* 0: it does not report that there was no memory, as before 1.12 */
};

/* Whether a file of that path may be libc10: read no other. */
bool torch_library__may_be(const char *path);
/* What a symbol says: TORCH_LIBRARY_NONE: it is another function. *refused: it is the second function. */
enum torch_library_kind torch_library__kind(const char *symbol, bool *refused);
/*
 * Reads the file at fd (borrowed), with pread only. -ENOEXEC: no ELF file; -EINVAL: damaged or for another machine;
 * -ENOTSUP: the function cannot be probed; -ENOMEM.
 */
int torch_library__read(int fd, struct torch_library *out, struct so_error *err);

#endif
