/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes small ELF images with a hand-assembled .eh_frame, for tests of the unwind-table compiler. The whole image
 * is one executable segment at IMAGE_VADDR, so any address in it may be described.
 */
#ifndef STAKEOUT_TESTS_CFI_IMAGE_H
#define STAKEOUT_TESTS_CFI_IMAGE_H

#include <assert.h>
#include <elf.h>
#include <stdint.h>
#include <string.h>

#define IMAGE_VADDR    0x10000u
#define IMAGE_BYTES    3584u /* three and a half blocks */
#define IMAGE_HDR_AT   0x100u
#define IMAGE_FRAME_AT 0x110u

struct image {
	uint8_t bytes[IMAGE_BYTES];
	size_t at;        /* next byte of .eh_frame */
	size_t entry;     /* the entry at work */
	size_t cie;       /* the last CIE */
	uint8_t encoding; /* DW_EH_PE_* of the addresses in FDEs */
};

static inline void image__put(struct image *im, const void *bytes, size_t n)
{
	assert(im->at + n <= sizeof(im->bytes) - 3 * sizeof(Elf64_Shdr) - 32);
	memcpy(im->bytes + im->at, bytes, n);
	im->at += n;
}

static inline void image__put_number(struct image *im, uint64_t v, unsigned width)
{
	image__put(im, &v, width); /* little-endian, as the machine is */
}

static inline void image__init(struct image *im)
{
	memset(im, 0, sizeof(*im));
	im->at = IMAGE_FRAME_AT;
	im->encoding = 0x1b; /* pcrel, sdata4 */
}

static inline void image__begin_entry(struct image *im)
{
	im->entry = im->at;
	image__put_number(im, 0, 4);
}

/* Pads with DW_CFA_nop and writes the length. */
static inline void image__end_entry(struct image *im)
{
	uint32_t length;

	while ((im->at - im->entry) % 8)
		image__put_number(im, 0, 1);
	length = (uint32_t)(im->at - im->entry - 4);
	memcpy(im->bytes + im->entry, &length, 4);
}

/* A CIE with the given augmentation; its data follow from the letters. Code alignment 1, data alignment -8. */
static inline void image__cie(struct image *im, uint8_t version, const char *augmentation, uint8_t ra,
			      const void *code, size_t n)
{
	uint8_t data[16];
	size_t n_data = 0;

	image__begin_entry(im);
	im->cie = im->entry;
	image__put_number(im, 0, 4);
	image__put_number(im, version, 1);
	image__put(im, augmentation, strlen(augmentation) + 1);
	if (version >= 4)
		image__put(im, "\x08\x00", 2); /* address and segment size */
	image__put(im, "\x01\x78", 2);
	image__put_number(im, ra, 1);
	for (const char *letter = augmentation; *letter; letter++) {
		if (*letter == 'R')
			data[n_data++] = im->encoding;
		if (*letter == 'L')
			data[n_data++] = 0x1b;
		if (*letter == 'P') { /* indirect, pcrel, sdata4 */
			memcpy(data + n_data, "\x9b\x01\x02\x03\x04", 5);
			n_data += 5;
		}
	}
	if (*augmentation == 'z') {
		image__put_number(im, n_data, 1);
		image__put(im, data, n_data);
	}
	image__put(im, code, n);
	image__end_entry(im);
}

static inline void image__put_address(struct image *im, uint64_t address)
{
	static const uint8_t widths[] = { 8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8, 0, 0, 0 };

	if ((im->encoding & 0xf0) == 0x10)
		address -= IMAGE_VADDR + im->at;
	image__put_number(im, address, widths[im->encoding & 15]);
}

/* An FDE of the last CIE for [start, start + length); `data` is the size of its augmentation data, or -1 for none. */
static inline void image__fde_data(struct image *im, uint64_t start, uint64_t length, int data,
				   const void *code, size_t n)
{
	uint8_t encoding = im->encoding;

	image__begin_entry(im);
	image__put_number(im, im->at - im->cie, 4);
	image__put_address(im, start);
	im->encoding &= 15; /* a length is relative to nothing */
	image__put_address(im, length);
	im->encoding = encoding;
	if (data >= 0)
		image__put_number(im, (uint64_t)data, 1);
	for (int i = 0; i < data; i++)
		image__put_number(im, 0xee, 1);
	image__put(im, code, n);
	image__end_entry(im);
}

#define IMAGE_CODE(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })
#define IMAGE_CIE(im)   image__cie(im, 1, "zR", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1)) /* CFA rsp+8, ra at CFA-8 */
#define IMAGE_FDE(im, start, length, ...) \
	image__fde_data(im, IMAGE_VADDR + (start), length, 0, IMAGE_CODE(__VA_ARGS__))

static inline void image__put_headers(struct image *im)
{
	Elf64_Ehdr ehdr = { .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_phoff = sizeof(Elf64_Ehdr),
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 2 };
	Elf64_Phdr phdrs[2] = {
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_vaddr = IMAGE_VADDR,
		  .p_filesz = IMAGE_BYTES,
		  .p_memsz = IMAGE_BYTES,
		  .p_align = 0x1000 },
		{ .p_type = PT_GNU_EH_FRAME,
		  .p_flags = PF_R,
		  .p_offset = IMAGE_HDR_AT,
		  .p_vaddr = IMAGE_VADDR + IMAGE_HDR_AT,
		  .p_filesz = 8,
		  .p_memsz = 8 },
	};
	const uint8_t hdr[] = { 1, 0x1b, 0xff, 0xff, IMAGE_FRAME_AT - IMAGE_HDR_AT - 4, 0, 0, 0 };

	memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr.e_ident[EI_VERSION] = EV_CURRENT;
	memcpy(im->bytes, &ehdr, sizeof(ehdr));
	memcpy(im->bytes + sizeof(ehdr), phdrs, sizeof(phdrs));
	memcpy(im->bytes + IMAGE_HDR_AT, hdr, sizeof(hdr));
}

/* Ends an image that a loader finds its way through by PT_GNU_EH_FRAME only. */
static inline void image__finish_stripped(struct image *im)
{
	image__put_number(im, 0, 4); /* the terminator */
	image__put_headers(im);
	memset(im->bytes + im->at, 0x5a, 64); /* what follows is not .eh_frame */
}

/* Ends an image with section headers; .eh_frame has the given type. */
static inline void image__finish_as(struct image *im, uint32_t type)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	size_t shoff = IMAGE_BYTES - 3 * sizeof(Elf64_Shdr), names_at = shoff - 32;
	Elf64_Shdr sections[3] = {
		{ 0 },
		{ .sh_name = 1,
		  .sh_type = type,
		  .sh_flags = SHF_ALLOC,
		  .sh_addr = IMAGE_VADDR + IMAGE_FRAME_AT,
		  .sh_offset = IMAGE_FRAME_AT,
		  .sh_size = im->at - IMAGE_FRAME_AT,
		  .sh_addralign = 8 },
		{ .sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(names) },
	};
	Elf64_Ehdr ehdr;

	image__put_headers(im);
	memcpy(&ehdr, im->bytes, sizeof(ehdr));
	ehdr.e_shoff = shoff;
	ehdr.e_shentsize = sizeof(Elf64_Shdr);
	ehdr.e_shnum = 3;
	ehdr.e_shstrndx = 2;
	memcpy(im->bytes, &ehdr, sizeof(ehdr));
	memcpy(im->bytes + names_at, names, sizeof(names));
	memcpy(im->bytes + shoff, sections, sizeof(sections));
}

static inline void image__finish(struct image *im)
{
	image__finish_as(im, SHT_PROGBITS);
}

#endif
