/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source lines and inlined functions of the addresses of one ELF file, from its DWARF information, by libdw. libdw maps
 * the file and is not made for files that somebody else wrote: this is for a process that may end (source_reader.h).
 *
 * The address's unit is found in a table of all units' ranges, its function in one of the unit's functions, made when
 * an address of that unit is first asked for. Then the function's tree is followed inwards. Units whose DWARF lies in a
 * file of its own (.dwo) have lines, but no inlined functions.
 */
#ifndef STAKEOUT_DWARF_LINES_H
#define STAKEOUT_DWARF_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

struct dwarf_lines;

/* Names are borrowed from the dwarf_lines; never NULL, "" what is not known. */
struct dwarf_frame {
	const char *function;  /* as the linker knows it, or else as the source calls it */
	const char *directory; /* that the file's name is relative to; "" where it is absolute */
	const char *file;
	uint32_t line; /* 0: not known */
};

#define DWARF_LINES_MAX_DEPTH 64 /* inlined functions at one address, and levels of their blocks */

/*
 * fd: an ELF file with DWARF sections; alt_fd: the file that its .gnu_debugaltlink names, or -1. Both are taken, also
 * on failure. -ENODATA: no unit with code; -EINVAL: the sections are not there, or cannot be read; -ENOMEM.
 */
int dwarf_lines__open(int fd, int alt_fd, struct dwarf_lines **out);
/*
 * Writes the functions that the address lies in, innermost first: all but the last were inlined into the next one.
 * Beyond `room` (1 or more) the ones before the last are left out. Returns how many; 0 where nothing is known of the
 * address.
 */
size_t dwarf_lines__find(struct dwarf_lines *lines, uint64_t address, struct dwarf_frame *frames, size_t room);
void dwarf_lines__free(struct dwarf_lines *lines);
CLEANUP_DEFINE(struct dwarf_lines *, dwarf_lines, dwarf_lines__free)

#endif
