/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stored blob: the first four bytes are the size that is noted beside it, the rest is the blob. What comes out of it
 * goes to the merger, as the store does it.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/profile_merge.h"
#include "daemon/history/store_blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(store_blob_reader) struct store_blob_reader *reader = store_blob_reader__new();
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_free_ uint8_t *blob = NULL;
	const uint8_t *content;
	size_t blob_bytes, content_bytes;
	uint32_t noted;
	int r;

	if (!reader || !merge || size < sizeof(noted))
		return 0;
	memcpy(&noted, data, sizeof(noted));
	r = store_blob_reader__decode(reader, data + sizeof(noted), size - sizeof(noted), noted, &content);
	if (!r) {
		if (noted > STORE_BLOB_MAX_BYTES || content[noted])
			abort();
		profile_merge__add(merge, content, noted, NULL);
	} else if (r != -EBADMSG) {
		abort();
	}
	/* And as what a collector hands over. */
	r = store_blob__encode(data + sizeof(noted), size - sizeof(noted), &blob, &blob_bytes, &content_bytes);
	if (!r && store_blob_reader__decode(reader, blob, blob_bytes, content_bytes, &content))
		abort();
	return 0;
}
