/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/elf/elf_names.h"

#include <stdlib.h>

#include "stakeout/cleanup.h"

#define WINDOW_BITS  18 /* the string table is hashed 256 KB at a time */
#define WINDOW_BYTES (1u << WINDOW_BITS)
#define HASHED_BYTES 256 /* of a name, so that overlapping long names stay linear */

static const char plt_suffix[] = "@plt";

int elf_names__read(const struct elf_names *names, const struct elf_symtab_entry *entry, char *to, size_t size)
{
	uint64_t at = names->tables[entry->table].at;
	int length = elf_image__read_string(&names->tables[entry->table].image, at + entry->name,
					    at + names->tables[entry->table].size, to, size);

	if (length < 0 || entry->table != ELF_TABLE_PLT)
		return length;
	for (size_t i = 0; i < sizeof(plt_suffix) && (size_t)length + 1 < size; i++) {
		to[length] = plt_suffix[i];
		to[length + 1] = '\0';
		length += plt_suffix[i] != '\0';
	}
	return length;
}

/* FNV-1a, over the name's first bytes. */
static uint32_t hash_name(const char *name, size_t room)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < HASHED_BYTES && i < room && name[i]; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619u;
	return hash;
}

/* Puts the entries of a table in the order of the windows their names begin in (a counting sort). */
static int order_by_window(const struct elf_symtab *symtab, enum elf_table table, size_t n_windows,
			   uint32_t **out_order, uint32_t **out_ends)
{
	_cleanup_free_ uint32_t *order = calloc(symtab->n, sizeof(*order));
	_cleanup_free_ uint32_t *ends = calloc(n_windows + 1, sizeof(*ends));

	if (!order || !ends)
		return -ENOMEM;
	for (size_t i = 0; i < symtab->n; i++) {
		if (symtab->entries[i].table == table)
			ends[(symtab->entries[i].name >> WINDOW_BITS) + 1]++;
	}
	for (size_t i = 0; i < n_windows; i++)
		ends[i + 1] += ends[i];
	/* ends[w] is where window w begins, and moves to its end as its entries are put in. */
	for (size_t i = 0; i < symtab->n; i++) {
		if (symtab->entries[i].table == table)
			order[ends[symtab->entries[i].name >> WINDOW_BITS]++] = (uint32_t)i;
	}
	*out_order = TAKE_PTR(order);
	*out_ends = TAKE_PTR(ends);
	return 0;
}

static int hash_table(const struct elf_names *names, const struct elf_symtab *symtab, enum elf_table table,
		      uint32_t *hashes)
{
	uint64_t at = names->tables[table].at, size = names->tables[table].size;
	_cleanup_free_ uint32_t *order = NULL, *ends = NULL;
	_cleanup_free_ char *window = NULL;
	size_t n_windows;
	int r;

	/* st_name has 32 bits: what lies beyond is not named by any symbol. */
	if (size > UINT32_MAX)
		size = UINT32_MAX;
	n_windows = (size_t)(size >> WINDOW_BITS) + 1;
	r = order_by_window(symtab, table, n_windows, &order, &ends);
	if (r < 0)
		return r;
	window = malloc(WINDOW_BYTES + HASHED_BYTES);
	if (!window)
		return -ENOMEM;
	for (size_t w = 0; w < n_windows; w++) {
		uint64_t begin = (uint64_t)w << WINDOW_BITS, left = size - begin;
		size_t length = left < WINDOW_BYTES + HASHED_BYTES ? (size_t)left : WINDOW_BYTES + HASHED_BYTES;
		size_t first = w > 0 ? ends[w - 1] : 0;

		if (first == ends[w] ||
		    elf_image__read(&names->tables[table].image, at + begin, window, length) < 0)
			continue;
		for (size_t i = first; i < ends[w]; i++) {
			size_t offset = symtab->entries[order[i]].name - begin;

			if (offset < length)
				hashes[order[i]] = hash_name(window + offset, length - offset);
		}
	}
	return 0;
}

static int hash_all(struct elf_names *names, const struct elf_symtab *symtab)
{
	_cleanup_free_ uint32_t *hashes = calloc(symtab->n + 1, sizeof(*hashes));
	int r;

	if (!hashes)
		return -ENOMEM;
	for (int table = ELF_TABLE_MAIN; table <= ELF_TABLE_DYNAMIC; table++) {
		r = hash_table(names, symtab, (enum elf_table)table, hashes);
		if (r < 0)
			return r;
	}
	names->hashes = TAKE_PTR(hashes);
	return 0;
}

int elf_names__find(struct elf_names *names, const struct elf_symtab *symtab, const char *name, uint32_t *out)
{
	size_t length = strlen(name);
	uint32_t wanted = hash_name(name, length), best = ELF_SYMTAB_NONE;
	_cleanup_free_ char *found = malloc(length + 2);

	if (!found)
		return -ENOMEM;
	if (!names->hashes) {
		int r = hash_all(names, symtab);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < symtab->n; i++) {
		const struct elf_symtab_entry *entry = &symtab->entries[i];

		if (names->hashes[i] != wanted || entry->table > ELF_TABLE_DYNAMIC ||
		    (best != ELF_SYMTAB_NONE && symtab->entries[best].rank >= entry->rank))
			continue;
		/* One byte of room more than the name needs: a longer name does not compare equal when cut. */
		if (elf_names__read(names, entry, found, length + 2) == (int)length && strcmp(found, name) == 0)
			best = (uint32_t)i;
	}
	if (best == ELF_SYMTAB_NONE)
		return -ENOENT;
	*out = best;
	return 0;
}

void elf_names__release(struct elf_names *names)
{
	free(names->hashes);
	*names = (struct elf_names){ 0 };
}
