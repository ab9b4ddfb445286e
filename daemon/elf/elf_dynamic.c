/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/elf/elf_dynamic.h"

#include <stdbool.h>

#define MAX_HEADERS 4096u
#define MAX_ENTRIES 4096u /* of the dynamic section; linkers write some tens */
#define READ_WORDS  1024u

struct dynamic {
	uint64_t symtab, strtab, strtab_size, hash, gnu_hash; /* ELF virtual addresses; 0: not given */
};

int elf_dynamic__segment(const struct elf_image *image, Elf64_Phdr *out)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	int ret = elf_image__header(image, &header);

	if (ret < 0)
		return ret;
	if (header.e_phentsize != sizeof(segment))
		return -EINVAL;
	for (unsigned i = 0; i < header.e_phnum && i < MAX_HEADERS; i++) {
		ret = elf_image__read(image, header.e_phoff + i * sizeof(segment), &segment, sizeof(segment));
		if (ret < 0)
			return ret;
		if (segment.p_type == PT_DYNAMIC) {
			*out = segment;
			return 0;
		}
	}
	return -ENOENT;
}

int elf_dynamic__values(const struct elf_image *image, struct elf_dynamic_value *wanted, size_t n)
{
	Elf64_Phdr segment;
	int ret = elf_dynamic__segment(image, &segment);

	if (ret < 0)
		return ret;
	for (uint64_t i = 0; i < segment.p_filesz / sizeof(Elf64_Dyn) && i < MAX_ENTRIES; i++) {
		Elf64_Dyn entry;

		ret = elf_image__read(image, segment.p_offset + i * sizeof(entry), &entry, sizeof(entry));
		if (ret < 0)
			return ret;
		if (entry.d_tag == DT_NULL)
			break;
		for (size_t k = 0; k < n; k++)
			if (entry.d_tag == wanted[k].tag)
				wanted[k].value = entry.d_un.d_val;
	}
	return 0;
}

static int read_dynamic(const struct elf_image *image, struct dynamic *out)
{
	struct elf_dynamic_value values[] = {
		{ DT_SYMTAB, 0 }, { DT_STRTAB, 0 }, { DT_STRSZ, 0 }, { DT_HASH, 0 }, { DT_GNU_HASH, 0 }
	};
	int ret = elf_dynamic__values(image, values, sizeof(values) / sizeof(values[0]));

	if (ret < 0)
		return ret;
	*out = (struct dynamic){ values[0].value, values[1].value, values[2].value, values[3].value, values[4].value };
	return 0;
}

/* Walks n 32-bit words from offset: until the first with its low bit set, or for the largest. */
static int scan_words(const struct elf_image *image, uint64_t offset, uint64_t n, bool to_chain_end, uint64_t *out)
{
	uint32_t words[READ_WORDS];
	uint64_t largest = 0;

	for (uint64_t at = 0; at < n;) {
		uint64_t left = n - at, in_image = offset < image->size ? (image->size - offset) / 4 : 0;
		size_t count = left < READ_WORDS ? (size_t)left : READ_WORDS;

		if (to_chain_end && count > in_image)
			count = (size_t)in_image;
		if (count == 0 || elf_image__read(image, offset, words, count * 4) < 0)
			return -EINVAL;
		for (size_t i = 0; i < count; i++) {
			if (to_chain_end && (words[i] & 1)) {
				*out = at + i;
				return 0;
			}
			if (words[i] > largest)
				largest = words[i];
		}
		at += count;
		offset += count * 4;
	}
	if (to_chain_end)
		return -EINVAL;
	*out = largest;
	return 0;
}

/*
 * DT_GNU_HASH: nbuckets, first hashed symbol, bloom words, shift; bloom words of 64 bits; buckets (the lowest
 * symbol of each); then a word for each hashed symbol, its low bit set at the end of a chain. The table's last
 * symbol ends the chain that begins at the largest bucket.
 */
static int count_by_gnu_hash(const struct elf_image *image, const struct elf_file *elf, uint64_t vaddr, uint64_t *out)
{
	uint64_t at, largest, chain;
	uint32_t header[4];

	if (elf_file__offset(elf, vaddr, &at) < 0 || elf_image__read(image, at, header, sizeof(header)) < 0)
		return -EINVAL;
	at += sizeof(header) + (uint64_t)header[2] * 8;
	if (scan_words(image, at, header[0], false, &largest) < 0)
		return -EINVAL;
	if (largest < header[1]) {
		*out = header[1];
		return 0;
	}
	at += (uint64_t)header[0] * 4 + (largest - header[1]) * 4;
	if (scan_words(image, at, image->size / 4, true, &chain) < 0)
		return -EINVAL;
	*out = largest + chain + 1;
	return 0;
}

int elf_dynamic__locate(const struct elf_image *image, const struct elf_file *elf, struct elf_symtab_location *out)
{
	struct elf_symtab_location where = { 0 };
	struct dynamic dynamic;
	int ret = read_dynamic(image, &dynamic);

	if (ret < 0)
		return ret;
	if (!dynamic.symtab || !dynamic.strtab)
		return -ENOENT;
	if (elf_file__offset(elf, dynamic.symtab, &where.symbols_at) < 0 ||
	    elf_file__offset(elf, dynamic.strtab, &where.names_at) < 0)
		return -EINVAL;
	where.names_size = dynamic.strtab_size;
	if (dynamic.hash) {
		uint32_t header[2]; /* nbucket, nchain; the latter is the number of symbols */
		uint64_t at;

		if (elf_file__offset(elf, dynamic.hash, &at) < 0 ||
		    elf_image__read(image, at, header, sizeof(header)) < 0)
			return -EINVAL;
		where.n_symbols = header[1];
	} else if (dynamic.gnu_hash) {
		ret = count_by_gnu_hash(image, elf, dynamic.gnu_hash, &where.n_symbols);
		if (ret < 0)
			return ret;
	} else {
		return -ENOENT;
	}
	*out = where;
	return 0;
}
