/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where an ELF file keeps its .eh_frame, the section's bytes, and which addresses the file can execute at all. */
#ifndef STAKEOUT_EH_FRAME_H
#define STAKEOUT_EH_FRAME_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_image.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* A larger .eh_frame is refused. The largest known to us (browsers, ClickHouse, libtorch) are 10 to 30 MB. */
#define EH_FRAME_MAX_BYTES (128u << 20)

struct eh_frame_range {
	uint64_t start, end; /* virtual addresses, end excluded */
	uint64_t offset;     /* of a segment: where it lies in the file */
};

/* A PLT of a known form (x86-64 psABI, "Procedure Linkage Table"). Only GNU's linkers give them unwind information. */
struct eh_frame_plt {
	uint64_t start, end; /* virtual addresses; a multiple of 16, as are the entries */
	bool header;         /* its first 16 bytes push twice more than the entries and jump to the loader */
	uint8_t pushed_from; /* byte of an entry from which on it has pushed its number; 16: entries push nothing */
};

#define EH_FRAME_MAX_PLTS 4

struct eh_frame {
	unsigned char e_ident[EI_NIDENT];
	uint64_t vaddr;              /* address of data[0] */
	uint8_t *data;               /* owned; NULL when the file has none */
	size_t size;                 /* bytes */
	struct eh_frame_range *text; /* executable segments as far as the file backs them; sorted, disjoint */
	size_t n_text;
	struct eh_frame_range *segments; /* the executable ones, as the file lists them */
	size_t n_segments;
	struct elf_image image;                      /* the file; borrowed */
	struct eh_frame_plt plts[EH_FRAME_MAX_PLTS]; /* by section headers; sorted */
	size_t n_plts;
};

/*
 * From the section headers, or, when the file has none (or none that can be read), from PT_GNU_EH_FRAME. 0 also
 * when the file has no .eh_frame. -EINVAL: not an x86-64 ELF file that a process can map, or headers that
 * contradict the file; -EIO; -ENOMEM. On failure *out is untouched.
 */
int eh_frame__read(int elf_fd, struct eh_frame *out, struct so_error *err);
int eh_frame__read_memory(const void *image, size_t size, struct eh_frame *out, struct so_error *err);

/* Whether all of [start, end) lies in one executable range. */
bool eh_frame__covers(const struct eh_frame *eh, uint64_t start, uint64_t end);
/* The executable range that holds the address; NULL: none does. */
const struct eh_frame_range *eh_frame__text_at(const struct eh_frame *eh, uint64_t address);

/*
 * Reads code from the file, which must still be open; `eh` is a struct eh_frame. Returns how many of the bytes there
 * are from the address on, up to the end of its segment (an effect_read_fn of stack_code.h).
 */
size_t eh_frame__read_code(void *eh, uint64_t address, void *buf, size_t size);

void eh_frame__release(struct eh_frame *eh);
CLEANUP_DEFINE_OF(struct eh_frame, eh_frame, eh_frame__release)

#endif
