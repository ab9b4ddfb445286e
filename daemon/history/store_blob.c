// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/history/store_blob.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "stakeout/array.h"

/* zstd's own default. */
#define ZSTD_LEVEL 3
/* The answer travels over a local socket once: zlib's fastest. */
#define GZIP_LEVEL  Z_BEST_SPEED
#define GZIP_WINDOW (15 + 16) /* inflateInit2(): gzip's header, the largest window */
#define GROW_BYTES  ((size_t)256 << 10)

struct store_blob_reader {
	ZSTD_DCtx *context;
	uint8_t *buffer;
	size_t capacity;
};

static void end_inflate(z_stream *stream)
{
	inflateEnd(stream);
}
CLEANUP_DEFINE(z_stream *, inflate_stream, end_inflate)

static void end_deflate(z_stream *stream)
{
	deflateEnd(stream);
}
CLEANUP_DEFINE(z_stream *, deflate_stream, end_deflate)

static bool is_gzip(const uint8_t *bytes, size_t length)
{
	return length >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

int store_blob__gunzip(const void *bytes, size_t length, uint8_t **out, size_t *out_bytes)
{
	z_stream storage = { .next_in = (void *)bytes, .avail_in = (uInt)length };
	_cleanup_(inflate_stream) z_stream *stream = NULL;
	_cleanup_free_ uint8_t *buffer = NULL;
	size_t capacity = 0, used = 0;
	int z;

	if (length > UINT_MAX)
		return -EFBIG;
	if (inflateInit2(&storage, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	stream = &storage;
	do {
		if (used > STORE_BLOB_MAX_BYTES)
			return -EFBIG;
		if (ARRAY_RESERVE(buffer, capacity, used + GROW_BYTES))
			return -ENOMEM;
		stream->next_out = buffer + used;
		stream->avail_out = capacity - used < UINT_MAX ? (uInt)(capacity - used) : UINT_MAX;
		z = inflate(stream, Z_NO_FLUSH);
		used = (size_t)(stream->next_out - buffer);
	} while (z == Z_OK);
	if (z != Z_STREAM_END || stream->avail_in)
		return z == Z_MEM_ERROR ? -ENOMEM : -EINVAL;
	if (used > STORE_BLOB_MAX_BYTES)
		return -EFBIG;
	*out = TAKE_PTR(buffer);
	*out_bytes = used;
	return 0;
}

static void free_compressor(ZSTD_CCtx *context)
{
	ZSTD_freeCCtx(context);
}
CLEANUP_DEFINE(ZSTD_CCtx *, compressor, free_compressor)

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

int store_blob__encode(const void *content, size_t length, uint8_t **blob, size_t *blob_bytes,
		       size_t *content_bytes)
{
	_cleanup_free_ uint8_t *inflated = NULL;
	int r = 0;

	if (is_gzip(content, length)) {
		r = store_blob__gunzip(content, length, &inflated, &length);
		content = inflated;
	}
	if (!r && length > STORE_BLOB_MAX_BYTES)
		r = -EFBIG;
	r = r ?: compress_frame(content, length, blob, blob_bytes);
	if (!r)
		*content_bytes = length;
	return r;
}

int store_blob__gzip(const void *content, size_t length, uint8_t **out, size_t *out_bytes)
{
	z_stream storage = { .next_in = (uint8_t *)content, .avail_in = (uInt)length };
	_cleanup_(deflate_stream) z_stream *stream = NULL;
	_cleanup_free_ uint8_t *buffer = NULL;
	size_t room;

	if (length > STORE_BLOB_MAX_BYTES)
		return -EFBIG;
	if (deflateInit2(&storage, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return -ENOMEM;
	stream = &storage;
	room = deflateBound(stream, length);
	buffer = malloc(room);
	if (!buffer)
		return -ENOMEM;
	stream->next_out = buffer;
	stream->avail_out = (uInt)room;
	if (deflate(stream, Z_FINISH) != Z_STREAM_END)
		return -ENOMEM;
	*out_bytes = stream->total_out;
	*out = TAKE_PTR(buffer);
	return 0;
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

	/* The two values that stand for "not known" and "no frame" are above every size. */
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
