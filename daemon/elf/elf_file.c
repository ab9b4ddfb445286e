/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/elf/elf_file.h"

#include <stdlib.h>

#include "daemon/elf/elf_image.h"
#include "stakeout/cleanup.h"

/* Far above what linkers write; keeps the work on a hostile file small. */
#define MAX_HEADERS    4096u
#define MAX_NOTE_BYTES (64u << 10)

/* Looks for NT_GNU_BUILD_ID in one run of notes. align: 4, or 8 where the segment says so. */
static bool find_build_id(const uint8_t *notes, size_t size, size_t align, char hex[65])
{
	size_t at = 0;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t name_at = at + sizeof(note), desc_at, next;

		memcpy(&note, notes + at, sizeof(note));
		/* Both sizes are 32 bits wide: the sums cannot overflow. */
		desc_at = (name_at + note.n_namesz + align - 1) & ~(align - 1);
		next = (desc_at + note.n_descsz + align - 1) & ~(align - 1);
		if (desc_at > size || note.n_descsz > size - desc_at)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name_at, "GNU", 4) == 0 &&
		    note.n_descsz > 0 && note.n_descsz <= 32) {
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(hex + 2 * i, 3, "%02x", notes[desc_at + i]);
			return true;
		}
		if (next >= size)
			return false;
		at = next;
	}
	return false;
}

static bool read_notes(const struct elf_image *image, uint64_t offset, uint64_t size, uint64_t align, char hex[65])
{
	_cleanup_free_ uint8_t *notes = NULL;

	if (size == 0 || size > MAX_NOTE_BYTES)
		return false;
	notes = malloc(size);
	if (!notes || elf_image__read(image, offset, notes, size) < 0)
		return false;
	return find_build_id(notes, size, align == 8 ? 8 : 4, hex);
}

/* A separate debug file may keep the program headers of the stripped file, whose offsets then lead nowhere. */
static void build_id_from_sections(const struct elf_image *image, const Elf64_Ehdr *header, char hex[65])
{
	Elf64_Shdr section;

	if (header->e_shoff == 0 || header->e_shentsize != sizeof(section) || header->e_shnum > MAX_HEADERS)
		return;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (elf_image__read(image, header->e_shoff + i * sizeof(section), &section, sizeof(section)) < 0)
			return;
		if (section.sh_type == SHT_NOTE &&
		    read_notes(image, section.sh_offset, section.sh_size, section.sh_addralign, hex))
			return;
	}
}

static struct elf_segment as_segment(const Elf64_Phdr *segment)
{
	return (struct elf_segment){
		.offset = segment->p_offset,
		.vaddr = segment->p_vaddr,
		.filesz = segment->p_filesz,
		.memsz = segment->p_memsz,
		.flags = segment->p_flags,
	};
}

static int add_segment(struct elf_file *elf, const Elf64_Phdr *segment, struct so_error *err)
{
	if (segment->p_memsz < segment->p_filesz || segment->p_offset + segment->p_filesz < segment->p_offset ||
	    segment->p_vaddr + segment->p_memsz < segment->p_vaddr)
		return so_err(err, -EINVAL, "damaged ELF file: a segment's size is out of range");
	if (elf->n_segments == ELF_FILE_MAX_SEGMENTS)
		return so_err(err, -EINVAL, "ELF file with more than %d loadable segments", ELF_FILE_MAX_SEGMENTS);
	elf->segments[elf->n_segments++] = as_segment(segment);
	return 0;
}

static int read_segments(const struct elf_image *image, const Elf64_Ehdr *header, struct elf_file *elf,
			 struct so_error *err)
{
	_cleanup_free_ Elf64_Phdr *segments = NULL;
	size_t n = header->e_phnum;

	if (n == 0 || n > MAX_HEADERS || header->e_phentsize != sizeof(*segments))
		return so_err(err, -EINVAL, "damaged ELF file: %zu program headers of %u bytes", n,
			      header->e_phentsize);
	segments = calloc(n, sizeof(*segments));
	if (!segments)
		return so_err(err, -ENOMEM, "out of memory");
	if (elf_image__read(image, header->e_phoff, segments, n * sizeof(*segments)) < 0)
		return so_err(err, -EINVAL, "damaged ELF file: the program headers lie outside the file");
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *segment = &segments[i];
		int ret = 0;

		if (segment->p_type == PT_LOAD)
			ret = add_segment(elf, segment, err);
		else if (segment->p_type == PT_INTERP)
			elf->interpreted = true;
		else if (segment->p_type == PT_GNU_EH_FRAME)
			elf->fde_index = as_segment(segment);
		else if (segment->p_type == PT_NOTE && !elf->build_id[0])
			read_notes(image, segment->p_offset, segment->p_filesz, segment->p_align, elf->build_id);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int read_image(const struct elf_image *image, struct elf_file *out, struct so_error *err)
{
	struct elf_file elf = { 0 };
	Elf64_Ehdr header;
	int ret = elf_image__header(image, &header);

	if (ret == -ENOEXEC)
		return so_err(err, ret, "not an ELF file");
	if (ret < 0)
		return so_err(err, ret, "damaged ELF file, or one for another machine");
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return so_err(err, -EINVAL, "ELF file of type %u: neither a program nor a shared library",
			      header.e_type);
	elf.type = header.e_type;
	elf.entry = header.e_entry;
	ret = read_segments(image, &header, &elf, err);
	if (ret < 0)
		return ret;
	if (!elf.build_id[0])
		build_id_from_sections(image, &header, elf.build_id);
	*out = elf;
	return 0;
}

int elf_file__read(int fd, struct elf_file *out, struct so_error *err)
{
	struct elf_image image;
	int ret = elf_image__of_file(fd, &image);

	if (ret < 0)
		return so_err(err, ret, ret == -ENOEXEC ? "not a regular file" : "cannot read: %s", strerror(-ret));
	return read_image(&image, out, err);
}

int elf_file__read_memory(const void *image, size_t size, struct elf_file *out, struct so_error *err)
{
	struct elf_image of_memory = elf_image__of_memory(image, size);

	return read_image(&of_memory, out, err);
}

/* The kernel maps whole pages: a segment's mapping begins and ends at the page boundaries around it. */
static bool holds(const struct elf_segment *segment, uint64_t page_size, uint64_t offset)
{
	uint64_t first = segment->offset & ~(page_size - 1);

	/* filesz - 1: the end must not wrap when it is rounded up */
	return segment->filesz > 0 && offset >= first &&
	       offset <= ((segment->offset + segment->filesz - 1) | (page_size - 1));
}

int elf_file__bias(const struct elf_file *elf, uint64_t map_start, uint64_t map_length, uint64_t map_offset,
		   uint64_t *bias)
{
	uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct elf_segment *best = NULL;
	int best_rank = 0;

	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		uint64_t first = segment->offset & ~(page_size - 1);
		bool executable = segment->flags & PF_X;
		int rank = 0;

		/*
		 * Two segments may share a page of the file, and that page is then mapped twice with different
		 * biases: a mapping that begins where the segment does is the segment's own.
		 */
		if (holds(segment, page_size, map_offset))
			rank = 2 + 2 * executable + (first == map_offset);
		else if (segment->filesz > 0 && first > map_offset && first - map_offset < map_length)
			rank = 1;
		if (rank > best_rank) {
			best = segment;
			best_rank = rank;
		}
	}
	if (!best)
		return -ENOENT;
	/* Modulo 2^64 on purpose: a prelinked file may lie below its own addresses. */
	*bias = map_start - (best->vaddr + (map_offset - best->offset));
	return 0;
}

int elf_file__offset(const struct elf_file *elf, uint64_t vaddr, uint64_t *offset)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->filesz) {
			*offset = segment->offset + (vaddr - segment->vaddr);
			return 0;
		}
	}
	return -EINVAL;
}
