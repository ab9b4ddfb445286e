// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>
#include <stdint.h>

#include "daemon/symbols/cuda_registered.h"
#include "daemon/elf/elf_dynamic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct elf_image *image, const struct elf_file *elf, const struct cuda_registered *r)
{
	char name[CUDA_REGISTERED_NAME_MAX + 2];

	for (size_t i = 0; i < r->n_functions; i++) {
		const struct cuda_registered_function *f = &r->functions[i];
		uint64_t offset;

		if (!f->extent || (i && f->start <= f[-1].start) ||
		    elf_file__offset(elf, f->start, &offset) < 0)
			__builtin_trap();
		if (elf_image__read_string(image, f->name_at, image->size, name, sizeof(name)) <= 0 ||
		    strlen(name) > CUDA_REGISTERED_NAME_MAX)
			__builtin_trap();
	}
	for (size_t i = 1; i < r->n_launches; i++) {
		if (r->launches[i].return_address < r->launches[i - 1].return_address)
			__builtin_trap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	struct elf_image image = elf_image__of_memory(data, size);
	struct elf_symtab_location dynsym;
	struct elf_file elf;

	if (elf_file__read_memory(data, size, &elf, NULL) < 0 || elf_sections__read(&image, &sections) < 0 ||
	    (elf_symtab__locate(&image, &sections, SHT_DYNSYM, &dynsym) < 0 &&
	     elf_dynamic__locate(&image, &elf, &dynsym) < 0))
		return 0;
	for (int names_wanted = 0; names_wanted < 2; names_wanted++) {
		__attribute__((cleanup(cleanup__cuda_registered))) struct cuda_registered registered = { 0 };

		if (cuda_registered__read(&image, &elf, &sections, &dynsym, names_wanted, &registered) == 0)
			check(&image, &elf, &registered);
	}
	return 0;
}
