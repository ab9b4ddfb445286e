/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a file's code calls functions that it imports: through stubs of the procedure linkage table, or through the GOT
 * itself (gcc -fno-plt). Found by the bytes of the call instruction, so what only looks like a call is among them: the
 * reader of the code before it finds out. x86-64 only.
 */
#ifndef STAKEOUT_IMPORT_CALLS_H
#define STAKEOUT_IMPORT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"

#define IMPORT_CALLS_MAX_NAMES  8u
#define IMPORT_CALLS_CODE_BYTES 128u /* of code before a call that are shown at most */

/* Functions by name. */
struct import_names {
	const char *const *names;
	unsigned n;
	uint32_t symbols
		[IMPORT_CALLS_MAX_NAMES]; /* by import_names__find(): index in .dynsym; 0: there is none */
};

struct import_call {
	unsigned name;  /* index */
	uint64_t vaddr; /* of the call instruction */
	uint64_t return_address;
	const uint8_t *code; /* what lies before it, in the same segment, and behind the call before */
	size_t code_bytes;
};

/* Nearly all files have none of the names, as one pass over their strings shows. -EINVAL: damaged. */
int import_names__find(const struct elf_image *image, const struct elf_symtab_location *dynsym,
		       struct import_names *names);

/* Visits each call once, until a visit returns an error, which is then returned. -EINVAL, -ENOMEM. */
int import_calls__each(const struct elf_image *image, const struct elf_file *elf,
		       const struct elf_sections *sections, const struct import_names *names,
		       int (*visit)(void *context, const struct import_call *call), void *context);

#endif
