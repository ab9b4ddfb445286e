/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads of several processes at one moment, and equal ones of one process as one. */
#ifndef STAKEOUT_CLIENT_DUMP_MANY_H
#define STAKEOUT_CLIENT_DUMP_MANY_H

#include "client/render/dump_text.h"

/*
 * Of one process whose threads all differ, or without part->merge, as dump_text__print() has each. Otherwise the
 * processes, then groups of equal threads: same state, hold of the GIL, and frames by function, file and line, as far
 * as part shows them. Groups of main threads come first: those of processes that differ before others, those with
 * Python frames before others, and of the processes that are compared the larger group first. Then groups of other
 * threads, those with Python frames first, and of these the smaller first.
 */
int dump_many__print(const struct dump *dumps, size_t n, const struct dump_part *part, FILE *out, struct so_error *err);
/*
 * An array of {pid, ppid, rank, local_rank, command, error, threads}; threads as dump_text__json() has them, each with
 * "group": equal threads have the same number, in the order of the text. What is not known is null; `threads` is empty
 * where `error` is a text.
 */
int dump_many__json(const struct dump *dumps, size_t n, const struct dump_part *part, FILE *out, struct so_error *err);

#endif
