/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "profile/gunzip.h"

#include <errno.h>
#include <limits.h>
#include <zlib.h>

#include "stakeout/array.h"
#include "stakeout/cleanup.h"

bool gunzip__is_gzip(const void *bytes, size_t length)
{
	const unsigned char *p = bytes;

	return length >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

CLEANUP_DEFINE(z_stream *, inflate, inflateEnd)

/* What the file is worth after a member has ended: another member (1), nothing more (0), or damage. */
static int next_member(z_stream *stream, struct so_error *err)
{
	if (gunzip__is_gzip(stream->next_in, stream->avail_in)) {
		/* Keeps next_in and avail_in. */
		if (inflateReset(stream) != Z_OK)
			return so_err(err, -EINVAL, "cannot decompress the profile: zlib refuses to go on");
		return 1;
	}
	for (size_t i = 0; i < stream->avail_in; i++)
		if (stream->next_in[i])
			return so_err(err, -EINVAL,
				      "the profile is damaged: %u bytes of something else follow "
				      "the compressed data",
				      stream->avail_in);
	return 0;
}

/* Room for at most one byte more than is allowed, which shows that there is more than allowed. */
static int make_room(z_stream *stream, size_t max_bytes, uint8_t **buffer, size_t *capacity, size_t used)
{
	size_t room;

	if (ARRAY_RESERVE(*buffer, *capacity, used + (16 << 10)))
		return -ENOMEM;
	room = *capacity - used;
	if (room > max_bytes + 1 - used)
		room = max_bytes + 1 - used;
	stream->next_out = *buffer + used;
	stream->avail_out = room > UINT_MAX ? UINT_MAX : (uInt)room;
	return 0;
}

static int inflate_all(z_stream *stream, size_t max_bytes, uint8_t **buffer, size_t *used, struct so_error *err)
{
	size_t capacity = 0;
	int z, ret;

	for (;;) {
		if (make_room(stream, max_bytes, buffer, &capacity, *used))
			return so_err(err, -ENOMEM, "not enough memory to decompress the profile");
		z = inflate(stream, Z_NO_FLUSH);
		*used = (size_t)(stream->next_out - *buffer);
		if (*used > max_bytes)
			return so_err(err, -EFBIG, "the profile is larger than %zu MiB when decompressed",
				      max_bytes >> 20);
		if (z == Z_STREAM_END) {
			ret = next_member(stream, err);
			if (ret <= 0)
				return ret;
		} else if (z == Z_BUF_ERROR || (z == Z_OK && !stream->avail_in && stream->avail_out)) {
			return so_err(err, -EINVAL, "the profile is truncated: its compressed data breaks off");
		} else if (z == Z_MEM_ERROR) {
			return so_err(err, -ENOMEM, "not enough memory to decompress the profile");
		} else if (z != Z_OK) {
			return so_err(err, -EINVAL, "the profile is damaged: %s",
				      stream->msg ? stream->msg : "its compressed data is not valid");
		}
	}
}

int gunzip(const void *bytes, size_t length, size_t max_bytes, uint8_t **out, size_t *out_length, struct so_error *err)
{
	z_stream storage = { .next_in = (unsigned char *)bytes, .avail_in = (uInt)length };
	_cleanup_(inflate) z_stream *stream = NULL;
	_cleanup_free_ uint8_t *buffer = NULL;
	size_t used = 0;
	int ret;

	if (length > UINT_MAX)
		return so_err(err, -EFBIG, "the profile is larger than 4 GiB");
	if (inflateInit2(&storage, 15 + 16) != Z_OK)
		return so_err(err, -ENOMEM, "not enough memory to decompress the profile");
	stream = &storage;
	ret = inflate_all(stream, max_bytes, &buffer, &used, err);
	if (ret < 0)
		return ret;
	*out = TAKE_PTR(buffer);
	*out_length = used;
	return 0;
}
