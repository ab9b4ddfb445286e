// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/history/store_blob.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "profile/gunzip.h"
#include "stakeout/array.h"

/* zstd's own default. */
#define ZSTD_LEVEL 3

struct store_blob_reader {
	ZSTD_DCtx *context;
	uint8_t *buffer;
	size_t capacity;
};

CLEANUP_DEFINE(ZSTD_CCtx *, compressor, ZSTD_freeCCtx)

static int compress_frame(const void *content, size_t length, uint8_t **blob, size_t *blob_bytes)
{
	_cleanup_(compressor) ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t room = ZSTD_compressBound(length), n;
	_cleanup_free_ uint8_t *frame = malloc(room);
	void *exact;

	if (!context || !frame)
		return -ENOMEM;
	if (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, ZSTD_LEVEL)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)))
		return -ENOMEM;
	n = ZSTD_compress2(context, frame, room, content, length);
	if (ZSTD_isError(n))
		return -ENOMEM;
	exact = realloc(frame, n);
	if (exact)
		frame = exact;
	*blob = TAKE_PTR(frame);
	*blob_bytes = n;
	return 0;
}

int store_blob__encode(const void *content, size_t length, uint8_t **blob, size_t *blob_bytes, size_t *content_bytes)
{
	_cleanup_free_ uint8_t *inflated = NULL;
	int ret = 0;

	if (gunzip__is_gzip(content, length)) {
		ret = gunzip(content, length, STORE_BLOB_MAX_BYTES, &inflated, &length, NULL);
		content = inflated;
	}
	if (!ret && length > STORE_BLOB_MAX_BYTES)
		ret = -EFBIG;
	ret = ret ?: compress_frame(content, length, blob, blob_bytes);
	if (!ret)
		*content_bytes = length;
	return ret;
}

struct store_blob_reader *store_blob_reader__new(void)
{
	_cleanup_(store_blob_reader) struct store_blob_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->context = ZSTD_createDCtx();
	return reader->context ? TAKE_PTR(reader) : NULL;
}

int store_blob_reader__decode(struct store_blob_reader *reader, const void *blob, size_t blob_bytes,
			      uint64_t content_bytes, const uint8_t **content)
{
	unsigned long long announced = ZSTD_getFrameContentSize(blob, blob_bytes);
	size_t n;

	/* "Not known" and "no frame" are above every size. */
	if (announced != content_bytes || announced > STORE_BLOB_MAX_BYTES)
		return -EBADMSG;
	if (ZSTD_findFrameCompressedSize(blob, blob_bytes) != blob_bytes)
		return -EBADMSG;
	if (ARRAY_RESERVE(reader->buffer, reader->capacity, (size_t)announced + 1))
		return -ENOMEM;
	n = ZSTD_decompressDCtx(reader->context, reader->buffer, (size_t)announced, blob, blob_bytes);
	if (ZSTD_isError(n) || n != announced)
		return -EBADMSG;
	reader->buffer[n] = '\0';
	*content = reader->buffer;
	return 0;
}

void store_blob_reader__free(struct store_blob_reader *reader)
{
	if (!reader)
		return;
	ZSTD_freeDCtx(reader->context);
	free(reader->buffer);
	free(reader);
}
