/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of an ELF file, behind a file descriptor or in memory. Every read is bounded and copied out: the file may
 * be damaged, and may be cut while it is read, so it is never mapped. Layouts: System V gABI chapters 4 and 5, <elf.h>.
 */
#ifndef STAKEOUT_ELF_IMAGE_H
#define STAKEOUT_ELF_IMAGE_H

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ELF_IMAGE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define ELF_IMAGE_MACHINE EM_AARCH64
#else
#error "which ELF machine is this?"
#endif

struct elf_image {
	int fd;                /* -1: the bytes are in memory */
	const uint8_t *memory; /* borrowed */
	uint64_t size;         /* bytes; of a file, as it was when it was opened */
};

static inline struct elf_image elf_image__of_memory(const void *memory, size_t size)
{
	return (struct elf_image){ .fd = -1, .memory = memory, .size = size };
}

/* fd is borrowed. Only regular files: a FIFO or a device could block the reader or never end. */
static inline int elf_image__of_file(int fd, struct elf_image *out)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*out = (struct elf_image){ .fd = fd, .size = (uint64_t)st.st_size };
	return 0;
}

/* Copies [offset, offset + size). -EINVAL when the image does not hold all of it. */
static inline int elf_image__read(const struct elf_image *image, uint64_t offset, void *to, size_t size)
{
	if (offset > image->size || size > image->size - offset)
		return -EINVAL;
	if (image->fd < 0) {
		if (size > 0)
			memcpy(to, image->memory + offset, size);
		return 0;
	}
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(image->fd, (char *)to + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EINVAL;
		done += (size_t)n;
	}
	return 0;
}

/*
 * Copies the NUL-terminated string at offset, which must not reach beyond `end` (its string table's), cut to
 * to_size - 1 bytes. Returns the length copied, or -EINVAL.
 */
static inline int elf_image__read_string(const struct elf_image *image, uint64_t offset, uint64_t end, char *to,
					 size_t to_size)
{
	uint64_t left;
	size_t n;
	int r;

	if (end > image->size)
		end = image->size;
	if (to_size == 0 || offset >= end)
		return -EINVAL;
	left = end - offset;
	n = left < to_size ? (size_t)left : to_size;
	r = elf_image__read(image, offset, to, n);
	if (r < 0)
		return r;
	if (n < to_size && !memchr(to, '\0', n))
		return -EINVAL;
	to[to_size > n ? n - 1 : to_size - 1] = '\0';
	return (int)strlen(to);
}

/*
 * Reads and checks the ELF header: 64 bits, little-endian as the host is, this machine's. Accepts every e_type.
 * -ENOEXEC when it is no ELF file, -EINVAL when it is one that cannot be used.
 */
static inline int elf_image__header(const struct elf_image *image, Elf64_Ehdr *out)
{
	Elf64_Ehdr header;
	int r;

	if (image->size < SELFMAG)
		return -ENOEXEC;
	r = elf_image__read(image, 0, header.e_ident, SELFMAG);
	if (r < 0)
		return r;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	r = elf_image__read(image, 0, &header, sizeof(header));
	if (r < 0)
		return r;
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_ident[EI_VERSION] != EV_CURRENT || header.e_machine != ELF_IMAGE_MACHINE)
		return -EINVAL;
	*out = header;
	return 0;
}

#endif
