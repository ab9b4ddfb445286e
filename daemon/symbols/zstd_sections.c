// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/zstd_sections.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "daemon/elf/elf_image.h"
#include "stakeout/cleanup.h"

/* System V gABI, "Section Compression": ch_type; glibc's <elf.h> has it since 2.36. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif
#define MAX_SECTIONS 65535u
#define ALIGN        16ull

struct layout {
	struct elf_image file;
	Elf64_Ehdr head;
	Elf64_Shdr *sections; /* as in the file; [head.e_shnum] */
	Elf64_Chdr *packed;   /* of each section; ch_size 0: not compressed by zstd */
	char *names;
	size_t names_bytes;
};

static void layout__clear(struct layout *l)
{
	free(l->sections);
	free(l->packed);
	free(l->names);
}
CLEANUP_DEFINE(struct layout *, layout, layout__clear)

static int read_head(struct layout *l)
{
	int ret = elf_image__read(&l->file, 0, &l->head, sizeof(l->head));

	if (ret || memcmp(l->head.e_ident, ELFMAG, SELFMAG) != 0 || l->head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    l->head.e_shentsize != sizeof(Elf64_Shdr) || !l->head.e_shnum || l->head.e_shnum >= MAX_SECTIONS ||
	    l->head.e_shstrndx >= l->head.e_shnum)
		return -ENODATA;
	return 0;
}

static int read_sections(struct layout *l)
{
	const Elf64_Shdr *names;

	l->sections = calloc(l->head.e_shnum, sizeof(*l->sections));
	l->packed = calloc(l->head.e_shnum, sizeof(*l->packed));
	if (!l->sections || !l->packed)
		return -ENOMEM;
	if (elf_image__read(&l->file, l->head.e_shoff, l->sections, l->head.e_shnum * sizeof(*l->sections)))
		return -EINVAL;
	names = &l->sections[l->head.e_shstrndx];
	if (names->sh_size > l->file.size)
		return -EINVAL;
	l->names_bytes = names->sh_size;
	l->names = calloc(1, names->sh_size + 1);
	if (!l->names)
		return -ENOMEM;
	return elf_image__read(&l->file, names->sh_offset, l->names, names->sh_size);
}

static bool is_debug(const struct layout *l, const Elf64_Shdr *s)
{
	return s->sh_type != SHT_NOBITS && s->sh_name < l->names_bytes && !strncmp(l->names + s->sh_name, ".debug", 6);
}

/* Whether there is one at all. */
static bool find_packed(struct layout *l)
{
	bool found = false;

	for (size_t i = 0; i < l->head.e_shnum; i++) {
		const Elf64_Shdr *s = &l->sections[i];
		Elf64_Chdr head;

		if (!is_debug(l, s) || !(s->sh_flags & SHF_COMPRESSED) || s->sh_size <= sizeof(head) ||
		    elf_image__read(&l->file, s->sh_offset, &head, sizeof(head)) || head.ch_type != ELFCOMPRESS_ZSTD)
			continue;
		l->packed[i] = head;
		found |= head.ch_size > 0;
	}
	return found;
}

static bool is_kept(const struct layout *l, size_t i)
{
	return i == l->head.e_shstrndx || is_debug(l, &l->sections[i]);
}

static uint64_t size_of(const struct layout *l, size_t i)
{
	return l->packed[i].ch_size ?: l->sections[i].sh_size;
}

static uint64_t aligned(uint64_t n)
{
	return (n + ALIGN - 1) & ~(ALIGN - 1);
}

/* Of all in memory. 0: too much. */
static uint64_t total_bytes(const struct layout *l)
{
	uint64_t total = aligned(sizeof(l->head)) + l->head.e_shnum * sizeof(Elf64_Shdr);

	for (size_t i = 0; i < l->head.e_shnum; i++) {
		if (!is_kept(l, i))
			continue;
		if (size_of(l, i) > ZSTD_SECTIONS_MAX_BYTES || total > ZSTD_SECTIONS_MAX_BYTES)
			return 0;
		total += aligned(size_of(l, i));
	}
	return total <= ZSTD_SECTIONS_MAX_BYTES ? total : 0;
}

static int unpack(const struct layout *l, size_t i, uint8_t *to)
{
	const Elf64_Shdr *s = &l->sections[i];
	size_t packed = s->sh_size - sizeof(Elf64_Chdr), n;
	_cleanup_free_ uint8_t *from = s->sh_size <= l->file.size ? malloc(packed) : NULL;

	if (!from)
		return s->sh_size <= l->file.size ? -ENOMEM : -EINVAL;
	if (elf_image__read(&l->file, s->sh_offset + sizeof(Elf64_Chdr), from, packed))
		return -EINVAL;
	n = ZSTD_decompress(to, l->packed[i].ch_size, from, packed);
	return ZSTD_isError(n) || n != l->packed[i].ch_size ? -EINVAL : 0;
}

/* Puts one section at *at, and says so in its header. */
static int put_section(const struct layout *l, size_t i, uint8_t *image, uint64_t *at, Elf64_Shdr *header)
{
	int ret;

	if (!is_kept(l, i)) {
		if (header->sh_type != SHT_NULL)
			header->sh_type = SHT_NOBITS;
		return 0;
	}
	ret = l->packed[i].ch_size ? unpack(l, i, image + *at)
				   : elf_image__read(&l->file, header->sh_offset, image + *at, header->sh_size);
	if (ret)
		return ret;
	if (l->packed[i].ch_size) {
		header->sh_flags &= ~(uint64_t)SHF_COMPRESSED;
		header->sh_addralign = l->packed[i].ch_addralign;
	}
	header->sh_size = size_of(l, i);
	header->sh_offset = *at;
	*at += aligned(header->sh_size);
	return 0;
}

static int lay_out(const struct layout *l, uint8_t *image)
{
	uint64_t at = aligned(sizeof(l->head));
	Elf64_Ehdr head = l->head;
	int ret = 0;

	for (size_t i = 0; !ret && i < l->head.e_shnum; i++)
		ret = put_section(l, i, image, &at, &l->sections[i]);
	if (ret)
		return ret;
	head.e_phoff = 0;
	head.e_phnum = 0;
	head.e_shoff = at;
	memcpy(image, &head, sizeof(head));
	memcpy(image + at, l->sections, l->head.e_shnum * sizeof(*l->sections));
	return 0;
}

int zstd_sections__image(int fd, uint8_t **image, size_t *size)
{
	_cleanup_(layout) struct layout *l = &(struct layout){ .names_bytes = 0 };
	_cleanup_free_ uint8_t *made = NULL;
	uint64_t total;
	int ret = elf_image__of_file(fd, &l->file);

	if (ret)
		return -ENODATA;
	ret = read_head(l) ?: read_sections(l);
	if (ret)
		return ret;
	if (!find_packed(l))
		return -ENODATA;
	total = total_bytes(l);
	if (!total)
		return -EFBIG;
	made = calloc(1, total);
	ret = made ? lay_out(l, made) : -ENOMEM;
	if (ret)
		return ret;
	*image = TAKE_PTR(made);
	*size = total;
	return 0;
}
