/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recognises text of an ELF file that a process has copied to anonymous memory at the same addresses, to have it in
 * huge pages (Node.js with --use-largepages, iodlr, BOLT's -hugify).
 *
 * An executable mapping without a file is such a copy if it lies next to mappings of an ELF file, in the range of one
 * of the file's executable segments, and contains the segment's bytes. TEXT_COPY_PLACES places of TEXT_COPY_PLACE_BYTES
 * each, evenly spread, are compared. Code of a just-in-time compiler next to a library is outside that range, and
 * differs.
 */
#ifndef STAKEOUT_TEXT_COPIES_H
#define STAKEOUT_TEXT_COPIES_H

#include <sys/types.h>

#include "daemon/os/proc_maps.h"

#define TEXT_COPY_PLACES      16
#define TEXT_COPY_PLACE_BYTES 64
/* Limit on files opened and ranges compared, each, per process and scan. */
#define TEXT_COPY_MAX_TRIES 32

/*
 * Turns copies among the process's mappings into mappings of their files (proc_map.file_start). maps: all mappings of
 * the process. Reads its memory and files, so no lock may be held. What cannot be read or compared is left as it is.
 */
void text_copies__find(pid_t pid, struct proc_maps *maps);

#endif
