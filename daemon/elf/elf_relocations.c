// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/elf/elf_relocations.h"

#include "daemon/elf/elf_dynamic.h"

#define MAX_RELOCATIONS (16u << 20)
#define READ_RELOCS     1024u

struct table {
	uint64_t vaddr, bytes;
};

/* [0]: of the procedure linkage table; [1]: all others. */
static int read_tables(const struct elf_image *image, struct table tables[2])
{
	struct elf_dynamic_value values[] = { { DT_JMPREL, 0 }, { DT_PLTRELSZ, 0 }, { DT_RELA, 0 }, { DT_RELASZ, 0 } };
	int ret = elf_dynamic__values(image, values, sizeof(values) / sizeof(values[0]));

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	tables[0] = (struct table){ values[0].value, values[1].value };
	tables[1] = (struct table){ values[2].value, values[3].value };
	return 0;
}

int elf_relocations__each(const struct elf_image *image, const struct elf_file *elf,
			  int (*visit)(void *context, const Elf64_Rela *relocation), void *context)
{
	struct table tables[2] = { 0 };
	Elf64_Rela relocations[READ_RELOCS];
	int ret = read_tables(image, tables);

	for (unsigned t = 0; ret == 0 && t < 2; t++) {
		uint64_t n = tables[t].bytes / sizeof(*relocations), offset;

		if (n == 0)
			continue;
		if (n > MAX_RELOCATIONS || elf_file__offset(elf, tables[t].vaddr, &offset) < 0)
			return -EINVAL;
		for (uint64_t at = 0; ret == 0 && at < n; at += READ_RELOCS) {
			size_t count = n - at < READ_RELOCS ? (size_t)(n - at) : READ_RELOCS;

			ret = elf_image__read(image, offset + at * sizeof(*relocations), relocations,
					      count * sizeof(*relocations));
			for (size_t i = 0; ret == 0 && i < count; i++)
				ret = visit(context, &relocations[i]);
		}
	}
	return ret;
}
