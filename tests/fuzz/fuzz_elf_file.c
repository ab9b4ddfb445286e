/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/elf/elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file elf;
	struct so_error err;
	uint64_t bias;

	if (elf_file__read_memory(data, size, &elf, &err) < 0)
		return 0;
	if (elf.n_segments > ELF_FILE_MAX_SEGMENTS || !memchr(elf.build_id, '\0', sizeof(elf.build_id)) ||
	    strlen(elf.build_id) % 2 != 0)
		__builtin_trap();
	for (uint64_t offset = 0; offset < 0x8000; offset += 0x1000)
		elf_file__bias(&elf, 0x7f0000000000, 0x2000, offset, &bias);
	return 0;
}
