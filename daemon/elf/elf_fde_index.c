// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/elf/elf_fde_index.h"

#include <errno.h>

#include "stakeout/array.h"

/* DW_EH_PE_*: pointers of 4 bytes, relative to themselves; numbers of 4 bytes; the table relative to its section. */
#define PCREL_SDATA4   0x1b
#define UDATA4         0x03
#define DATAREL_SDATA4 0x3b

#define BLOCK 256 /* entries, 2 KiB */

struct header {
	uint8_t version, frame_pointer, count, table; /* the last three are encodings */
	int32_t frame;
	uint32_t n;
};

struct entry {
	int32_t function, fde;
};

/* With 32-bit lengths and pointers, which is what the encodings above go with. */
struct fde {
	uint32_t length;
	int32_t cie;
	int32_t function; /* relative to itself */
	uint32_t size;    /* of the function, bytes */
};

int elf_fde_index__locate(const struct elf_image *image, const struct elf_file *elf, struct elf_fde_index *out)
{
	struct header header;
	int ret;

	*out = (struct elf_fde_index){ 0 };
	if (elf->fde_index.filesz < sizeof(header))
		return 0;
	ret = elf_image__read(image, elf->fde_index.offset, &header, sizeof(header));
	if (ret)
		return ret;
	if (header.version != 1 || header.frame_pointer != PCREL_SDATA4 || header.count != UDATA4 ||
	    header.table != DATAREL_SDATA4)
		return 0;
	if (header.n > (elf->fde_index.filesz - sizeof(header)) / sizeof(struct entry))
		return -EINVAL;
	*out = (struct elf_fde_index){ elf->fde_index.offset + sizeof(header), elf->fde_index.vaddr, header.n };
	return 0;
}

static int read_entries(const struct elf_fde_index *index, const struct elf_image *image, uint64_t first, uint64_t n,
			struct entry *out)
{
	return elf_image__read(image, index->at + first * sizeof(*out), out, n * sizeof(*out));
}

static bool is_before(const struct elf_fde_index *index, const struct entry *entry, uint64_t vaddr)
{
	return index->vaddr + (uint64_t)(int64_t)entry->function <= vaddr;
}

/* The last function that begins at the address or before it. The last steps are made in one block of the table. */
static int last_before(const struct elf_fde_index *index, const struct elf_image *image, uint64_t vaddr,
		       struct entry *out)
{
	struct entry block[BLOCK];
	uint64_t low = 0, high = index->n, found;
	int ret = 0;

	while (high - low >= BLOCK) {
		uint64_t middle = low + (high - low) / 2;

		ret = read_entries(index, image, middle, 1, block);
		if (ret)
			return ret;
		if (is_before(index, &block[0], vaddr))
			low = middle;
		else
			high = middle;
	}
	ret = read_entries(index, image, low, high - low, block);
	if (ret)
		return ret;
	found = ARRAY_BEFORE(i, high - low, is_before(index, &block[i], vaddr));
	if (!found)
		return -ENOENT;
	*out = block[found - 1];
	return 0;
}

int elf_fde_index__find(const struct elf_fde_index *index, const struct elf_image *image, const struct elf_file *elf,
			uint64_t vaddr, uint64_t *start)
{
	struct entry entry = { 0 };
	uint64_t begin, fde_at, offset;
	struct fde fde;
	int ret = last_before(index, image, vaddr, &entry);

	if (ret)
		return ret;
	begin = index->vaddr + (uint64_t)(int64_t)entry.function;
	fde_at = index->vaddr + (uint64_t)(int64_t)entry.fde;
	ret = elf_file__offset(elf, fde_at, &offset);
	ret = ret ?: elf_image__read(image, offset, &fde, sizeof(fde));
	if (ret)
		return ret;
	/* An entry of another form does not point to the function that the table gives. */
	if (fde_at + offsetof(struct fde, function) + (uint64_t)(int64_t)fde.function != begin ||
	    vaddr - begin >= fde.size)
		return -ENOENT;
	*start = begin;
	return 0;
}
