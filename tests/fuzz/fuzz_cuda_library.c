// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/cuda/cuda_library.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct cuda_library *library, size_t size)
{
	if (library->kind > CUDA_LIBRARY_DRIVER || library->n_functions > CUDA_LIBRARY_MAX_SYMBOLS)
		__builtin_trap();
	for (size_t i = 0; i < library->n_functions; i++) {
		const struct cuda_function *f = &library->functions[i];
		struct cuda_name name;

		if (f->offset >= size || (i && f->vaddr <= f[-1].vaddr))
			__builtin_trap();
		if (!cuda_names__find(f->symbol, strlen(f->symbol), &name) || name.type != f->name.type ||
		    name.number != f->name.number)
			__builtin_trap();
		if (f->aliases[0] == ' ' || !f->site.why)
			__builtin_trap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	__attribute__((cleanup(cleanup__cuda_library))) struct cuda_library library = { 0 };
	struct so_error err = { "" };
	int r = cuda_library__read_memory(data, size, &library, &err);

	if (r < 0 && !err.text[0])
		__builtin_trap();
	if (r == 0)
		check(&library, size);
	return 0;
}
