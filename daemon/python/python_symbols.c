// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/elf/elf_dynamic.h"
#include "daemon/elf/elf_symtab.h"
#include "stakeout/cleanup.h"

#define MAX_ENTRIES     512u /* of the dynamic section; linkers write some tens */
#define MAX_CHAIN       4096u
#define MAX_NAMES_BYTES (256u << 20)
#define MAX_SYMBOLS     (16u << 20)
#define READ_SYMBOLS    512u
#define READ_WORDS      16u

int python_symbols__dynamic(const struct elf_image *image, const struct elf_file *elf, struct python_dynamic *out)
{
	struct python_dynamic found = { 0 };
	Elf64_Dyn entries[MAX_ENTRIES];
	Elf64_Phdr segment;
	uint64_t n;
	bool symbols = false, names = false;
	int ret = elf_dynamic__segment(image, &segment);

	if (ret < 0)
		return ret;
	n = segment.p_filesz / sizeof(*entries);
	if (n > MAX_ENTRIES)
		n = MAX_ENTRIES;
	ret = elf_image__read(image, segment.p_offset, entries, n * sizeof(*entries));
	if (ret < 0)
		return ret;
	for (uint64_t i = 0; i < n && entries[i].d_tag != DT_NULL; i++) {
		uint64_t value = entries[i].d_un.d_val;

		if (entries[i].d_tag == DT_SYMTAB)
			symbols = !elf_file__offset(elf, value, &found.symbols);
		else if (entries[i].d_tag == DT_STRTAB)
			names = !elf_file__offset(elf, value, &found.names);
		else if (entries[i].d_tag == DT_STRSZ)
			found.names_size = value;
		else if (entries[i].d_tag == DT_GNU_HASH)
			elf_file__offset(elf, value, &found.gnu_hash);
		else if (entries[i].d_tag == DT_HASH)
			elf_file__offset(elf, value, &found.hash);
	}
	if (!symbols || !names || (!found.gnu_hash && !found.hash))
		return -ENOENT;
	*out = found;
	return 0;
}

/* Whether the symbol at that place of the table is defined and has the name. */
static bool is_symbol(const struct elf_image *image, const struct python_dynamic *dynamic, uint64_t index,
		      const char *name, Elf64_Sym *out)
{
	char found[64];
	Elf64_Sym symbol;

	if (elf_image__read(image, dynamic->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)) < 0 ||
	    symbol.st_shndx == SHN_UNDEF || symbol.st_name >= dynamic->names_size ||
	    elf_image__read_string(image, dynamic->names + symbol.st_name, dynamic->names + dynamic->names_size, found,
				   sizeof(found)) < 0 ||
	    strcmp(found, name) != 0)
		return false;
	*out = symbol;
	return true;
}

/*
 * DT_GNU_HASH: number of buckets, first hashed symbol, words of the filter, its shift; the filter, in words of 64 bits;
 * buckets, each the first of its symbols; then for each hashed symbol its hash, whose lowest bit is set where a
 * bucket's symbols end.
 */
static bool find_by_gnu_hash(const struct elf_image *image, const struct python_dynamic *dynamic, const char *name,
			     Elf64_Sym *out)
{
	uint32_t header[4], hash = 5381, index, words[READ_WORDS];
	uint64_t filter, at = dynamic->gnu_hash;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	if (elf_image__read(image, at, header, sizeof(header)) < 0 || !header[0] || !header[2])
		return false;
	at += sizeof(header);
	if (elf_image__read(image, at + (uint64_t)(hash / 64 % header[2]) * 8, &filter, sizeof(filter)) < 0 ||
	    !(filter >> hash % 64 & filter >> (hash >> (header[3] & 31)) % 64 & 1))
		return false;
	at += (uint64_t)header[2] * 8;
	if (elf_image__read(image, at + (uint64_t)(hash % header[0]) * 4, &index, sizeof(index)) < 0 ||
	    index < header[1])
		return false;
	at += (uint64_t)header[0] * 4 + (uint64_t)(index - header[1]) * 4;
	for (unsigned i = 0; i < MAX_CHAIN; i++, at += 4, index++) {
		if (i % READ_WORDS == 0) {
			/* Near the end of the file fewer are there. */
			uint64_t left = at < image->size ? (image->size - at) / 4 : 0;
			size_t n = left < READ_WORDS ? (size_t)left : READ_WORDS;

			memset(words, 0xff, sizeof(words));
			if (!n || elf_image__read(image, at, words, n * 4) < 0)
				return false;
		}
		if ((words[i % READ_WORDS] | 1) == (hash | 1) && is_symbol(image, dynamic, index, name, out))
			return true;
		if (words[i % READ_WORDS] & 1)
			return false;
	}
	return false;
}

/* DT_HASH: number of buckets, number of chain links; buckets, each its first symbol; for each symbol the next one. */
static bool find_by_hash(const struct elf_image *image, const struct python_dynamic *dynamic, const char *name,
			 Elf64_Sym *out)
{
	uint32_t header[2], hash = 0, index;
	uint64_t at = dynamic->hash;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	if (elf_image__read(image, at, header, sizeof(header)) < 0 || !header[0])
		return false;
	at += sizeof(header);
	if (elf_image__read(image, at + (uint64_t)(hash % header[0]) * 4, &index, sizeof(index)) < 0)
		return false;
	at += (uint64_t)header[0] * 4;
	for (unsigned i = 0; i < MAX_CHAIN && index && index < header[1]; i++) {
		if (is_symbol(image, dynamic, index, name, out))
			return true;
		if (elf_image__read(image, at + (uint64_t)index * 4, &index, sizeof(index)) < 0)
			return false;
	}
	return false;
}

bool python_symbols__find(const struct elf_image *image, const struct python_dynamic *dynamic, const char *name,
			  Elf64_Sym *out)
{
	return dynamic->gnu_hash ? find_by_gnu_hash(image, dynamic, name, out)
				 : find_by_hash(image, dynamic, name, out);
}

int python_symbols__walk(const struct elf_image *image, const struct elf_sections *sections,
			 bool (*visit)(void *context, const char *name, const Elf64_Sym *symbol), void *context)
{
	struct elf_symtab_location where;
	_cleanup_free_ char *names = NULL;
	Elf64_Sym symbols[READ_SYMBOLS];
	int ret = elf_symtab__locate(image, sections, SHT_SYMTAB, &where);

	if (ret < 0)
		return ret;
	if (where.names_size > MAX_NAMES_BYTES || where.n_symbols > MAX_SYMBOLS)
		return -EFBIG;
	names = malloc(where.names_size + 1);
	if (!names)
		return -ENOMEM;
	ret = elf_image__read(image, where.names_at, names, where.names_size);
	if (ret < 0)
		return ret;
	names[where.names_size] = '\0';
	for (uint64_t at = 0; at < where.n_symbols; at += READ_SYMBOLS) {
		uint64_t left = where.n_symbols - at;
		size_t n = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;

		ret = elf_image__read(image, where.symbols_at + at * sizeof(*symbols), symbols, n * sizeof(*symbols));
		if (ret < 0)
			return ret;
		for (size_t i = 0; i < n; i++) {
			const Elf64_Sym *symbol = &symbols[i];

			if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= where.names_size ||
			    !names[symbol->st_name])
				continue;
			if (!visit(context, names + symbol->st_name, symbol))
				return 0;
		}
	}
	return 0;
}
