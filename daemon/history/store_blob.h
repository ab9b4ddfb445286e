/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store's blobs: one zstd frame each (RFC 8878) with content size and checksum, bounded before decompression. */
#ifndef STAKEOUT_STORE_BLOB_H
#define STAKEOUT_STORE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/profile/profile_merge.h"
#include "stakeout/cleanup.h"

#define STORE_BLOB_MAX_BYTES PROFILE_MERGE_MAX_MESSAGE_BYTES /* of a blob's content */

/*
 * *blob: malloc'ed; *content_bytes: its content's size. Content that is gzip (RFC 1952) is inflated first.
 * -EINVAL: damaged gzip; -EFBIG: the content passes STORE_BLOB_MAX_BYTES; -ENOMEM.
 */
int store_blob__encode(const void *content, size_t length, uint8_t **blob, size_t *blob_bytes, size_t *content_bytes);

/* Decompresses one blob after the other into one buffer. */
struct store_blob_reader;

/* NULL: out of memory. */
struct store_blob_reader *store_blob_reader__new(void);
/*
 * *content belongs to the reader and is valid until the next call; a NUL that is not counted stands behind it.
 * content_bytes: what the content's size must be. -EBADMSG: damaged, or of another size; -ENOMEM.
 */
int store_blob_reader__decode(struct store_blob_reader *reader, const void *blob, size_t blob_bytes,
			      uint64_t content_bytes, const uint8_t **content);
void store_blob_reader__free(struct store_blob_reader *reader);
CLEANUP_DEFINE(struct store_blob_reader *, store_blob_reader, store_blob_reader__free)

#endif
