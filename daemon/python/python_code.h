/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A code object read from outside: names, place, an instruction's line. Foreign memory: it may be gone or garbage. */
#ifndef STAKEOUT_PYTHON_CODE_H
#define STAKEOUT_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_layout.h"
#include "daemon/python/python_str.h"
#include "stakeout/cleanup.h"

#define PYTHON_LINETABLE_MAX_BYTES (1u << 20) /* a longer one is not read: lines are then those of the definition */

struct python_code {
	uint64_t sum;   /* python_code__sum() when it was read */
	char *name;     /* as python_str__read() has it; the qualified name where the version has it */
	char *filename; /* the same */
	int first_line;
	uint8_t *linetable; /* NULL: none, or not read */
	size_t linetable_bytes;
	uint64_t instructions; /* address of the first one, two bytes each; 0: not known, or threads run copies */
};

/*
 * Reads the code object at `address`. It is looked at before and after everything else: -ESTALE when it has been freed,
 * when its checksum changed meanwhile, or when `sum` is neither 0 nor equal to it (the address has been used again).
 * -EFAULT when something cannot be read or is not what it should be, -ENOMEM. On failure *out is untouched. Free with
 * python_code__free().
 *
 * With `sum` from a frame, the names are those of the code object that the frame ran: another in its place differs in
 * co_version from 3.12 on, and before in the hash of its name, unless it has the same name on the same line. With 0
 * they are of whatever is there, perhaps half made.
 */
int python_code__read(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		      uint64_t sum, struct python_code **out);

/* The checksum of the code object at `address`, as the walker takes it. False when it cannot be read. */
bool python_code__sum(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		      uint64_t *sum);

/*
 * The line of an instruction, counted in code units of 2 bytes from the first. One that belongs to no line gets that of
 * the last instruction before it that has one. The first line where there is none, where the table ends before the
 * instruction or is damaged, and for SO_PYTHON_NO_INSTRUCTION.
 */
int python_code__line(const struct python_code *code, uint16_t version, uint32_t instruction);

size_t python_code__bytes(const struct python_code *code); /* of memory held */
void python_code__free(struct python_code *code);
CLEANUP_DEFINE(struct python_code *, python_code, python_code__free)

#endif
