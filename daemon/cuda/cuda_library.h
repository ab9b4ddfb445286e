/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CUDA functions that an ELF file defines, and where in the file to probe each. Names come from .dynsym and
 * .symtab of the file itself: a shared runtime and the driver export theirs, a statically linked runtime has them in
 * .symtab alone, in whatever program or library it became part of. A separate debug file is not looked for.
 *
 * Most files of a process have no such function: they are told apart by one pass over their names.
 */
#ifndef STAKEOUT_CUDA_LIBRARY_H
#define STAKEOUT_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cuda_names.h"
#include "daemon/cuda/probe_site.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

enum cuda_library_kind {
	CUDA_LIBRARY_NONE,
	CUDA_LIBRARY_RUNTIME,        /* exports functions of the runtime */
	CUDA_LIBRARY_RUNTIME_STATIC, /* has them for itself */
	CUDA_LIBRARY_DRIVER,         /* has functions of the driver, and no other */
};

#define CUDA_LIBRARY_MAX_SYMBOLS 4096 /* of CUDA's functions, aliases included; what comes after them is left out */

/* One function, whatever it is called: aliases have one entry. */
struct cuda_function {
	struct cuda_name name; /* of aliases that mean different functions, the one that cuda_api.h lists first */
	bool ambiguous;        /* there are such aliases: calls to each count as `name` */
	const char *symbol;    /* the shortest of the symbols that mean `name`, and of these the first in byte order */
	const char *aliases;   /* the other symbols, separated by blanks; "" */
	uint64_t vaddr;        /* of the entry */
	uint64_t offset;       /* in the file, where the probe goes */
	struct probe_site site;
	char *text; /* owned; what symbol and aliases point into */
};

struct cuda_library {
	enum cuda_library_kind kind;
	struct cuda_function *functions; /* owned; by rising vaddr */
	size_t n_functions;
	bool imports_runtime; /* some function that is on the list; also where it has none */
	char problem[256]; /* one line on what cannot be probed, and why; "": none. Also where there is no function */
};

/*
 * Reads the file at fd (borrowed), with pread only. A file without CUDA functions gives 0 and none. -ENOEXEC: no ELF
 * file, -EINVAL: damaged or for another machine, -ENOMEM, -ENOTSUP: the disassembler has no x86. `out` need not be
 * initialised.
 */
int cuda_library__read(int fd, struct cuda_library *out, struct so_error *err);
/* The same from an image in memory, which is needed during the call only. */
int cuda_library__read_memory(const void *image, size_t size, struct cuda_library *out, struct so_error *err);
void cuda_library__release(struct cuda_library *library);
CLEANUP_DEFINE_OF(struct cuda_library, cuda_library, cuda_library__release)

#endif
