/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/elf/elf_plt.h"

#include <stdlib.h>

#include "stakeout/cleanup.h"

#define MAX_PLT_BYTES   (16u << 20)
#define MAX_RELOCATIONS (4u << 20)
#define READ_RELOCS     1024

/* A GOT slot and the dynamic symbol whose address the loader puts there. */
struct slot {
	uint64_t address;
	uint32_t symbol;
};

struct slots {
	struct slot *slots;
	size_t n, room;
	uint32_t *by_index; /* .rela.plt's symbols in file order, for stubs that push an index; 0: none */
	size_t n_indexed;
};

static void cleanup__slots(struct slots *slots)
{
	free(slots->slots);
	free(slots->by_index);
}

static int add_slot(struct slots *slots, uint64_t address, uint32_t symbol)
{
	if (slots->n == slots->room) {
		size_t room = slots->room ? slots->room * 2 : 256;
		struct slot *larger = reallocarray(slots->slots, room, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		slots->slots = larger;
		slots->room = room;
	}
	slots->slots[slots->n++] = (struct slot){ address, symbol };
	return 0;
}

static int read_relocations(const struct elf_image *image, const Elf64_Shdr *section, uint32_t wanted,
			    struct slots *slots)
{
	uint64_t n = section->sh_size / sizeof(Elf64_Rela);
	Elf64_Rela relocations[READ_RELOCS];

	if (n > MAX_RELOCATIONS)
		return 0;
	if (wanted == R_X86_64_JUMP_SLOT) {
		slots->by_index = calloc((size_t)n + 1, sizeof(*slots->by_index));
		if (!slots->by_index)
			return -ENOMEM;
		slots->n_indexed = (size_t)n;
	}
	for (uint64_t at = 0; at < n;) {
		size_t count = n - at < READ_RELOCS ? (size_t)(n - at) : READ_RELOCS;

		if (elf_image__read(image, section->sh_offset + at * sizeof(*relocations), relocations,
				    count * sizeof(*relocations)) < 0)
			return 0;
		for (size_t i = 0; i < count; i++) {
			uint32_t symbol = ELF64_R_SYM(relocations[i].r_info);

			if (ELF64_R_TYPE(relocations[i].r_info) != wanted || symbol == 0)
				continue;
			if (wanted == R_X86_64_JUMP_SLOT)
				slots->by_index[at + i] = symbol;
			if (add_slot(slots, relocations[i].r_offset, symbol) < 0)
				return -ENOMEM;
		}
		at += count;
	}
	return 0;
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static uint32_t little_endian32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

/*
 * The dynamic symbol a stub leads to, or 0. Forms (x86-64 psABI, "Procedure Linkage Table", and the IBT ones):
 *	[endbr64] [bnd] jmp *DISP(%rip)		.plt, .plt.sec, .plt.got
 *	[endbr64] push $INDEX; [bnd] jmp .plt	.plt of a file that also has .plt.sec
 */
static uint32_t symbol_of_stub(const uint8_t *code, size_t size, uint64_t vaddr, const struct slots *slots)
{
	size_t at = 0;

	if (size >= 4 && little_endian32(code) == 0xfa1e0ff3)
		at = 4;
	if (at + 5 <= size && code[at] == 0x68) {
		uint32_t index = little_endian32(code + at + 1);

		return index < slots->n_indexed ? slots->by_index[index] : 0;
	}
	if (at < size && code[at] == 0xf2)
		at++;
	if (at + 6 <= size && code[at] == 0xff && code[at + 1] == 0x25) {
		int32_t displacement = (int32_t)little_endian32(code + at + 2);
		struct slot key = { .address = vaddr + at + 6 + (uint64_t)(int64_t)displacement };
		const struct slot *found =
			slots->n ? bsearch(&key, slots->slots, slots->n, sizeof(*slots->slots), compare_slots) : NULL;

		return found ? found->symbol : 0;
	}
	return 0;
}

static int add_stubs(struct elf_symtab *symtab, const struct elf_image *image, const Elf64_Shdr *section,
		     size_t stub_size, const struct elf_symtab_location *dynsym, const struct slots *slots)
{
	_cleanup_free_ uint8_t *code = NULL;

	if (section->sh_size > MAX_PLT_BYTES || section->sh_addr + section->sh_size < section->sh_addr)
		return 0;
	code = malloc(section->sh_size + 1);
	if (!code)
		return -ENOMEM;
	if (elf_image__read(image, section->sh_offset, code, section->sh_size) < 0)
		return 0;
	for (size_t at = 0; section->sh_size - at >= stub_size; at += stub_size) {
		uint32_t symbol = symbol_of_stub(code + at, stub_size, section->sh_addr + at, slots);
		Elf64_Sym target;
		int ret;

		if (symbol == 0 || symbol >= dynsym->n_symbols ||
		    elf_image__read(image, dynsym->symbols_at + symbol * sizeof(target), &target, sizeof(target)) < 0 ||
		    target.st_name == 0 || target.st_name >= dynsym->names_size)
			continue;
		ret = elf_symtab__add_entry(symtab, &(struct elf_symtab_entry){
							    .start = section->sh_addr + at,
							    .extent = (uint32_t)stub_size,
							    .name = target.st_name,
							    .table = ELF_TABLE_PLT,
							    .rank = ELF_RANK_PLT,
						    });
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int read_slots(const struct elf_image *image, const struct elf_sections *sections, bool with_got,
		      struct slots *slots)
{
	const Elf64_Shdr *of_plt = elf_sections__by_name(sections, image, ".rela.plt");
	const Elf64_Shdr *of_dyn = with_got ? elf_sections__by_name(sections, image, ".rela.dyn") : NULL;
	int ret = of_plt ? read_relocations(image, of_plt, R_X86_64_JUMP_SLOT, slots) : 0;

	if (ret == 0 && of_dyn)
		ret = read_relocations(image, of_dyn, R_X86_64_GLOB_DAT, slots);
	if (ret == 0 && slots->n > 0)
		qsort(slots->slots, slots->n, sizeof(*slots->slots), compare_slots);
	return ret;
}

int elf_plt__add(struct elf_symtab *symtab, const struct elf_image *image, const struct elf_sections *sections,
		 const struct elf_symtab_location *dynsym)
{
	static const char *const names[] = { ".plt", ".plt.sec", ".plt.got" };
	__attribute__((cleanup(cleanup__slots))) struct slots slots = { 0 };
	const Elf64_Shdr *found[3];
	int ret;

	if (ELF_IMAGE_MACHINE != EM_X86_64)
		return 0;
	for (size_t i = 0; i < 3; i++)
		found[i] = elf_sections__by_name(sections, image, names[i]);
	if (!found[0] && !found[1] && !found[2])
		return 0;
	ret = read_slots(image, sections, found[2] != NULL, &slots);
	for (size_t i = 0; ret == 0 && i < 3; i++) {
		/* .plt.got's stubs are 8 bytes without endbr64, 16 with it; the section says which. */
		if (found[i])
			ret = add_stubs(symtab, image, found[i], found[i]->sh_entsize == 8 ? 8 : 16, dynsym, &slots);
	}
	return ret;
}
