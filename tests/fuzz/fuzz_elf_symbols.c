/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>

#include "daemon/symbols/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	struct elf_symbol symbol;
	struct so_error err;
	char name[128];

	if (elf_symbols__open_memory(data, size, &symbols, &err) < 0)
		return 0;
	for (uint64_t vaddr = 0; vaddr < 0x3000; vaddr += 0x20) {
		if (elf_symbols__lookup(symbols, vaddr, &symbol, name, sizeof(name)) < 0)
			continue;
		if (symbol.start > vaddr || (symbol.size && vaddr - symbol.start >= symbol.size))
			__builtin_trap();
	}
	for (uint64_t vaddr = 0; vaddr < 0x3000; vaddr += 0x20) {
		uint64_t start;

		if (!elf_symbols__unnamed(symbols, vaddr, &start) && start > vaddr)
			__builtin_trap();
	}
	return 0;
}
