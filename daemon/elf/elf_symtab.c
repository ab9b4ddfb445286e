/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/elf/elf_symtab.h"
#include "stakeout/array.h"

#include <stdlib.h>

#define MAX_SYMBOLS  (4u << 20)  /* kept: 96 MB. A browser with full symbols has half as many. */
#define MAX_TABLE    (32u << 20) /* read: bounds the time on a hostile table */
#define READ_SYMBOLS 2048

int elf_symtab__locate(const struct elf_image *image, const struct elf_sections *sections, uint32_t type,
		       struct elf_symtab_location *out)
{
	const Elf64_Shdr *symbols = elf_sections__by_type(sections, type), *names;

	if (!symbols)
		return -ENOENT;
	if (symbols->sh_entsize != sizeof(Elf64_Sym) || symbols->sh_link >= sections->n)
		return -EINVAL;
	names = &sections->headers[symbols->sh_link];
	if (names->sh_type != SHT_STRTAB || !elf_sections__in_image(image, symbols) ||
	    !elf_sections__in_image(image, names))
		return -EINVAL;
	*out = (struct elf_symtab_location){
		.symbols_at = symbols->sh_offset,
		.n_symbols = symbols->sh_size / sizeof(Elf64_Sym),
		.names_at = names->sh_offset,
		.names_size = names->sh_size,
	};
	return 0;
}

/* The end of the executable section, or failing that the segment, that holds the symbol; 0 when none does. */
static uint64_t executable_end(const Elf64_Sym *symbol, const struct elf_sections *sections, const struct elf_file *elf)
{
	uint64_t value = symbol->st_value;

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || symbol->st_shndx == SHN_COMMON)
		return 0;
	if (symbol->st_shndx < sections->n) {
		const Elf64_Shdr *section = &sections->headers[symbol->st_shndx];

		return (section->sh_flags & SHF_EXECINSTR) && value >= section->sh_addr &&
				       value - section->sh_addr < section->sh_size &&
				       section->sh_addr + section->sh_size > section->sh_addr
			       ? section->sh_addr + section->sh_size
			       : 0;
	}
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segments[i];

		if ((segment->flags & PF_X) && value >= segment->vaddr && value - segment->vaddr < segment->memsz)
			return segment->vaddr + segment->memsz;
	}
	return 0;
}

/* Labels that no reader looks for: assembler-local ones (".L1"), mapping symbols ("$x"), nameless ones. */
static bool is_real_label(const struct elf_image *image, const struct elf_symtab_location *where, uint32_t name)
{
	char first;

	return name < where->names_size && elf_image__read(image, where->names_at + name, &first, 1) == 0 &&
	       first != '\0' && first != '.' && first != '$';
}

static enum elf_rank rank_of(const Elf64_Sym *symbol)
{
	switch (ELF64_ST_BIND(symbol->st_info)) {
	case STB_LOCAL:
		return ELF_RANK_LOCAL;
	case STB_WEAK:
		return ELF_RANK_WEAK;
	default: /* STB_GLOBAL, STB_GNU_UNIQUE */
		return ELF_RANK_GLOBAL;
	}
}

static int add_symbol(struct elf_symtab *symtab, const struct elf_image *image, const struct elf_sections *sections,
		      const struct elf_file *elf, const struct elf_symtab_location *where, const Elf64_Sym *symbol,
		      enum elf_table table)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	uint64_t end, extent;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) || symbol->st_name == 0 ||
	    symbol->st_name >= where->names_size)
		return 0;
	end = executable_end(symbol, sections, elf);
	if (end == 0 || (type == STT_NOTYPE && !is_real_label(image, where, symbol->st_name)))
		return 0;
	extent = end - symbol->st_value;
	if (symbol->st_size > 0 && symbol->st_size < extent)
		extent = symbol->st_size;
	return elf_symtab__add_entry(symtab, &(struct elf_symtab_entry){
						     .start = symbol->st_value,
						     .extent = extent < UINT32_MAX ? (uint32_t)extent : UINT32_MAX,
						     .name = symbol->st_name,
						     .table = (uint8_t)table,
						     .rank = (uint8_t)rank_of(symbol),
						     .unsized = symbol->st_size == 0,
					     });
}

int elf_symtab__add_entry(struct elf_symtab *symtab, const struct elf_symtab_entry *entry)
{
	if (symtab->n == symtab->room) {
		size_t room = symtab->room ? symtab->room * 2 : 1024;
		struct elf_symtab_entry *larger;

		/* Beyond the limit symbols are left out: the rest still resolves. */
		if (symtab->n >= MAX_SYMBOLS)
			return 0;
		larger = reallocarray(symtab->entries, room, sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		symtab->entries = larger;
		symtab->room = room;
	}
	symtab->entries[symtab->n++] = *entry;
	return 0;
}

int elf_symtab__add(struct elf_symtab *symtab, const struct elf_image *image, const struct elf_sections *sections,
		    const struct elf_file *elf, const struct elf_symtab_location *where, enum elf_table table)
{
	Elf64_Sym symbols[READ_SYMBOLS];

	if (where->n_symbols > MAX_TABLE)
		return -EINVAL;
	for (uint64_t at = 0; at < where->n_symbols;) {
		uint64_t left = where->n_symbols - at;
		size_t n = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;
		int ret = elf_image__read(image, where->symbols_at + at * sizeof(*symbols), symbols,
					  n * sizeof(*symbols));

		for (size_t i = 0; ret == 0 && i < n; i++)
			ret = add_symbol(symtab, image, sections, elf, where, &symbols[i], table);
		if (ret < 0)
			return ret;
		at += n;
	}
	return 0;
}

/* Of entries at one address the one to be preferred sorts last, where a search arrives first. */
static int compare_entries(const void *a, const void *b)
{
	const struct elf_symtab_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->unsized != y->unsized)
		return x->unsized ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->extent != y->extent)
		return x->extent < y->extent ? -1 : 1;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static bool same_class(const struct elf_symtab_entry *x, const struct elf_symtab_entry *y)
{
	return x->start == y->start && x->unsized == y->unsized && x->rank == y->rank && x->extent == y->extent;
}

static void drop_repeated_entries(struct elf_symtab *symtab)
{
	struct elf_symtab_entry *entries = symtab->entries;
	size_t kept = 0;

	for (size_t i = 0, end; i < symtab->n; i = end) {
		size_t n_main = 0, from = i;

		for (end = i; end < symtab->n && same_class(&entries[i], &entries[end]); end++)
			n_main += entries[end].table == ELF_TABLE_MAIN;
		if (n_main == end - i - n_main)
			from = i + n_main;
		memmove(&entries[kept], &entries[from], (end - from) * sizeof(*entries));
		kept += end - from;
	}
	symtab->n = kept;
}

/* A symbol without a size reaches to the next address that has one, within its section. */
static void bound_unsized(struct elf_symtab *symtab)
{
	uint64_t next = UINT64_MAX; /* the lowest start above that of the entry at hand */

	for (size_t i = symtab->n; i-- > 0;) {
		struct elf_symtab_entry *entry = &symtab->entries[i];

		if (i + 1 < symtab->n && symtab->entries[i + 1].start != entry->start)
			next = symtab->entries[i + 1].start;
		if (entry->unsized && next - entry->start < entry->extent)
			entry->extent = (uint32_t)(next - entry->start);
	}
}

/* The links are also the stack of open ranges: starts only rise, so one that ended is never needed again. Linear. */
static void link_parents(struct elf_symtab *symtab)
{
	struct elf_symtab_entry *entries = symtab->entries;

	for (size_t i = 0; i < symtab->n; i++) {
		uint32_t open = i > 0 ? (uint32_t)(i - 1) : ELF_SYMTAB_NONE;

		while (open != ELF_SYMTAB_NONE && entries[i].start - entries[open].start >= entries[open].extent)
			open = entries[open].parent;
		entries[i].parent = open;
	}
}

int elf_symtab__finish(struct elf_symtab *symtab, bool drop_repeated)
{
	struct elf_symtab_entry *exact;

	if (symtab->n == 0)
		return 0;
	qsort(symtab->entries, symtab->n, sizeof(*symtab->entries), compare_entries);
	if (drop_repeated)
		drop_repeated_entries(symtab);
	bound_unsized(symtab);
	link_parents(symtab);
	exact = reallocarray(symtab->entries, symtab->n, sizeof(*exact));
	if (exact) {
		symtab->entries = exact;
		symtab->room = symtab->n;
	}
	return 0;
}

uint32_t elf_symtab__last_before(const struct elf_symtab *symtab, uint64_t vaddr)
{
	size_t low = ARRAY_BEFORE(i, symtab->n, symtab->entries[i].start <= vaddr);

	return low > 0 ? (uint32_t)(low - 1) : ELF_SYMTAB_NONE;
}

void elf_symtab__release(struct elf_symtab *symtab)
{
	free(symtab->entries);
	*symtab = (struct elf_symtab){ 0 };
}
