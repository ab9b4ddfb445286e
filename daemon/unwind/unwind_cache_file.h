/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One cached unwind table as a file: header (it tells the byte order), then index, rows, rules, each one zstd frame. */
#ifndef STAKEOUT_UNWIND_CACHE_FILE_H
#define STAKEOUT_UNWIND_CACHE_FILE_H

#include "daemon/unwind/unwind_table.h"

/* Raised when the layout changes, or unwind_table__compile or stack_effect__follow makes other rules of a file. */
#define UNWIND_CACHE_VERSION 6

struct unwind_cache_header {
	char magic[8];
	uint32_t version;
	uint16_t block_shift; /* what stakeout/abi.h said: SO_BLOCK_SHIFT, SO_CFA_KINDS, size of a rule */
	uint8_t cfa_kinds, rule_bytes;
	uint64_t first_block;
	uint32_t n_blocks, n_rows, n_rules;
	uint32_t n_fdes, n_bad_fdes, n_unsupported_rows;
	uint32_t frame_bytes[3]; /* of index, rows, rules as compressed: the rest of the file */
	uint32_t checksum;       /* CRC-32 of the header up to here, the frames, and the key */
};

/*
 * size: of the file, in bytes. -EBADMSG when it is damaged, of another version or for another key; -ENOMEM;
 * another -errno when it cannot be read. *out is untouched on failure.
 */
int unwind_cache_file__read(int fd, uint64_t size, const char *key, struct unwind_table **out);

/* Writes to an empty file; *bytes is its size afterwards. */
int unwind_cache_file__write(int fd, const char *key, const struct unwind_table *table, uint64_t *bytes);

#endif
