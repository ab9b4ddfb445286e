/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/elf/elf_sections.h"

#define MAX_SECTIONS 65536u /* 4 MB of headers; linked files have some tens */

/* The counts are in the header, or, where they do not fit into 16 bits, in section 0 (gABI, "ELF Header"). */
static int read_counts(const struct elf_image *image, const Elf64_Ehdr *header, uint64_t *n, uint64_t *names)
{
	Elf64_Shdr first;

	*n = header->e_shnum;
	*names = header->e_shstrndx;
	if (*n != 0 && *names != SHN_XINDEX)
		return 0;
	if (elf_image__read(image, header->e_shoff, &first, sizeof(first)) < 0)
		return -EINVAL;
	if (*n == 0)
		*n = first.sh_size;
	if (*names == SHN_XINDEX)
		*names = first.sh_link;
	return 0;
}

int elf_sections__read(const struct elf_image *image, struct elf_sections *out)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	uint64_t n, names;
	Elf64_Ehdr header;
	int ret = elf_image__header(image, &header);

	if (ret < 0)
		return ret;
	if (header.e_shoff == 0) {
		*out = (struct elf_sections){ 0 };
		return 0;
	}
	if (header.e_shentsize != sizeof(Elf64_Shdr) || read_counts(image, &header, &n, &names) < 0 || n > MAX_SECTIONS)
		return -EINVAL;
	sections.headers = calloc(n ? n : 1, sizeof(*sections.headers));
	if (!sections.headers)
		return -ENOMEM;
	sections.n = (size_t)n;
	if (elf_image__read(image, header.e_shoff, sections.headers, sections.n * sizeof(Elf64_Shdr)) < 0)
		return -EINVAL;
	if (names < n && elf_sections__in_image(image, &sections.headers[names])) {
		sections.names_at = sections.headers[names].sh_offset;
		sections.names_end = sections.names_at + sections.headers[names].sh_size;
	}
	*out = sections;
	sections = (struct elf_sections){ 0 };
	return 0;
}

bool elf_sections__in_image(const struct elf_image *image, const Elf64_Shdr *section)
{
	return section->sh_type != SHT_NOBITS && section->sh_offset <= image->size &&
	       section->sh_size <= image->size - section->sh_offset;
}

const Elf64_Shdr *elf_sections__by_name(const struct elf_sections *sections, const struct elf_image *image,
					const char *name)
{
	char found[64];

	for (size_t i = 0; i < sections->n; i++) {
		const Elf64_Shdr *section = &sections->headers[i];

		if (section->sh_name >= sections->names_end - sections->names_at ||
		    !elf_sections__in_image(image, section))
			continue;
		if (elf_image__read_string(image, sections->names_at + section->sh_name, sections->names_end, found,
					   sizeof(found)) >= 0 &&
		    strcmp(found, name) == 0)
			return section;
	}
	return NULL;
}

const Elf64_Shdr *elf_sections__by_type(const struct elf_sections *sections, uint32_t type)
{
	for (size_t i = 0; i < sections->n; i++) {
		if (sections->headers[i].sh_type == type)
			return &sections->headers[i];
	}
	return NULL;
}

void elf_sections__release(struct elf_sections *sections)
{
	free(sections->headers);
	*sections = (struct elf_sections){ 0 };
}
