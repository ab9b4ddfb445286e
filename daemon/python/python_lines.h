/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The line tables of CPython's code objects: from an instruction to its source line. Three formats, described in
 * CPython's Objects/lnotab_notes.txt (co_lnotab up to 3.9, co_linetable of 3.10) and Objects/locations.md (3.11 and
 * later, since 3.14 in InternalDocs/code_objects.md). Internal to python_code.
 */
#ifndef STAKEOUT_PYTHON_LINES_H
#define STAKEOUT_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/*
 * instruction: in code units of 2 bytes from the first one. An instruction that belongs to no line (3.10 and later have
 * such, mostly what the compiler adds to leave exception handlers) gets the line of the last instruction before it that
 * has one. first_line where there is none before it, where the table ends before the instruction (a co_lnotab has no
 * end: its last line goes on) or is damaged up to there, or where the line is negative or does not fit an int.
 */
int python_lines__find(uint16_t version, const uint8_t *table, size_t bytes, int first_line,
		       uint32_t instruction);

#endif
