// SPDX-License-Identifier: GPL-2.0-or-later
/* The compiler of unwind tables on whatever bytes call themselves an ELF file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/unwind/unwind_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct so_error err = { "" };

	if (unwind_table__compile_memory(data, size, &t, &err)) {
		if (t || !err.text[0])
			abort();
		return 0;
	}
	if (!unwind_table__sound(t))
		abort();
	for (uint64_t block = 0; block < t->n_blocks && block < 16; block++)
		for (uint64_t low = 0; low < SO_BLOCK_BYTES; low += 31)
			unwind_table__lookup(t, ((t->first_block + block) << SO_BLOCK_SHIFT) + low);
	return 0;
}
