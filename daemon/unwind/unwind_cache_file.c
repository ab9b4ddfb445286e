// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/unwind_cache_file.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define MAGIC             "SOUNWIND"
#define COMPRESSION_LEVEL 3
#define N_PARTS           3

/* No table is larger compressed than it may be as it is, but for zstd's framing. */
#define MAX_FRAMES_BYTES                                                                  \
	(((uint64_t)UNWIND_TABLE_MAX_ROWS + UNWIND_TABLE_MAX_BLOCKS) * sizeof(uint32_t) + \
	 (uint64_t)SO_MAX_RULES * sizeof(struct so_unwind_rule) + (8u << 20))

_Static_assert(sizeof(struct unwind_cache_header) == 64, "the header has no padding");

/* The table's three arrays, in the file's order. */
struct part {
	void *data;
	size_t bytes;
};

static void parts_of(const struct unwind_table *t, struct part parts[N_PARTS])
{
	parts[0] = (struct part){ t->index, ((size_t)t->n_blocks + 1) * sizeof(*t->index) };
	parts[1] = (struct part){ t->rows, (size_t)t->n_rows * sizeof(*t->rows) };
	parts[2] = (struct part){ t->rules, (size_t)t->n_rules * sizeof(*t->rules) };
}

/* The key is part of it, so that a file under a wrong name is not taken for that name's table. */
static uint32_t seal(const struct unwind_cache_header *h, const uint8_t *frames, size_t size, const char *key)
{
	uLong crc = crc32_z(0, (const Bytef *)h, offsetof(struct unwind_cache_header, checksum));

	crc = crc32_z(crc, frames, size);
	return (uint32_t)crc32_z(crc, (const Bytef *)key, strlen(key));
}

static int read_exactly(int fd, void *buf, size_t length, uint64_t offset)
{
	uint8_t *at = buf;

	while (length) {
		ssize_t n = pread(fd, at, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		at += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

static int write_exactly(int fd, const void *buf, size_t length, uint64_t offset)
{
	const uint8_t *at = buf;

	while (length) {
		ssize_t n = pwrite(fd, at, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

static struct unwind_cache_header header_of(const struct unwind_table *t)
{
	struct unwind_cache_header h = {
		.version = UNWIND_CACHE_VERSION,
		.block_shift = SO_BLOCK_SHIFT,
		.cfa_kinds = SO_CFA_KINDS,
		.rule_bytes = sizeof(struct so_unwind_rule),
		.first_block = t->first_block,
		.n_blocks = t->n_blocks,
		.n_rows = t->n_rows,
		.n_rules = t->n_rules,
		.n_fdes = t->n_fdes,
		.n_bad_fdes = t->n_bad_fdes,
		.n_unsupported_rows = t->n_unsupported_rows,
	};

	memcpy(h.magic, MAGIC, sizeof(h.magic));
	return h;
}

/* Before anything is allocated by the header's numbers. */
static bool header_plausible(const struct unwind_cache_header *h, uint64_t frames_bytes)
{
	uint64_t frames = 0;

	for (unsigned i = 0; i < N_PARTS; i++)
		frames += h->frame_bytes[i];
	return !memcmp(h->magic, MAGIC, sizeof(h->magic)) && h->version == UNWIND_CACHE_VERSION &&
	       h->block_shift == SO_BLOCK_SHIFT && h->cfa_kinds == SO_CFA_KINDS &&
	       h->rule_bytes == sizeof(struct so_unwind_rule) && frames == frames_bytes &&
	       h->n_blocks <= UNWIND_TABLE_MAX_BLOCKS && h->n_rows <= UNWIND_TABLE_MAX_ROWS &&
	       h->n_rules <= SO_MAX_RULES - SO_FIRST_RULE;
}

/* A table with room for what the header announces; empty arrays get a byte, so that NULL means no memory. */
static struct unwind_table *allocate(const struct unwind_cache_header *h)
{
	_cleanup_(unwind_table) struct unwind_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->first_block = h->first_block;
	t->n_blocks = h->n_blocks;
	t->n_rows = h->n_rows;
	t->n_rules = h->n_rules;
	t->n_fdes = h->n_fdes;
	t->n_bad_fdes = h->n_bad_fdes;
	t->n_unsupported_rows = h->n_unsupported_rows;
	t->index = malloc(((size_t)t->n_blocks + 1) * sizeof(*t->index));
	t->rows = malloc((size_t)t->n_rows * sizeof(*t->rows) + 1);
	t->rules = malloc((size_t)t->n_rules * sizeof(*t->rules) + 1);
	return t->index && t->rows && t->rules ? TAKE_PTR(t) : NULL;
}

static int inflate_parts(const struct unwind_cache_header *h, const uint8_t *frames, struct unwind_table *t)
{
	struct part parts[N_PARTS];

	parts_of(t, parts);
	for (unsigned i = 0; i < N_PARTS; i++) {
		size_t n = ZSTD_decompress(parts[i].data, parts[i].bytes, frames, h->frame_bytes[i]);

		if (ZSTD_isError(n) || n != parts[i].bytes)
			return -EBADMSG;
		frames += h->frame_bytes[i];
	}
	return unwind_table__sound(t) ? 0 : -EBADMSG;
}

int unwind_cache_file__read(int fd, uint64_t size, const char *key, struct unwind_table **out)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	_cleanup_free_ uint8_t *frames = NULL;
	struct unwind_cache_header h;
	int ret;

	if (size < sizeof(h))
		return -EBADMSG;
	ret = read_exactly(fd, &h, sizeof(h), 0);
	if (ret)
		return ret;
	size -= sizeof(h);
	if (size > MAX_FRAMES_BYTES || !header_plausible(&h, size))
		return -EBADMSG;
	frames = malloc(size + 1);
	if (!frames)
		return -ENOMEM;
	ret = read_exactly(fd, frames, size, sizeof(h));
	if (ret)
		return ret;
	if (seal(&h, frames, size, key) != h.checksum)
		return -EBADMSG;
	t = allocate(&h);
	if (!t)
		return -ENOMEM;
	ret = inflate_parts(&h, frames, t);
	if (!ret)
		*out = TAKE_PTR(t);
	return ret;
}

/* All three frames, one behind the other, in one buffer. */
static int deflate_parts(const struct unwind_table *t, struct unwind_cache_header *h, uint8_t **out, size_t *size)
{
	_cleanup_free_ uint8_t *frames = NULL;
	struct part parts[N_PARTS];
	size_t room = 0, used = 0;

	parts_of(t, parts);
	for (unsigned i = 0; i < N_PARTS; i++)
		room += ZSTD_compressBound(parts[i].bytes);
	frames = malloc(room);
	if (!frames)
		return -ENOMEM;
	for (unsigned i = 0; i < N_PARTS; i++) {
		size_t n = ZSTD_compress(frames + used, room - used, parts[i].data, parts[i].bytes, COMPRESSION_LEVEL);

		if (ZSTD_isError(n))
			return -ENOMEM;
		h->frame_bytes[i] = (uint32_t)n;
		used += n;
	}
	*out = TAKE_PTR(frames);
	*size = used;
	return 0;
}

int unwind_cache_file__write(int fd, const char *key, const struct unwind_table *table, uint64_t *bytes)
{
	struct unwind_cache_header h = header_of(table);
	_cleanup_free_ uint8_t *frames = NULL;
	size_t size;
	int ret = deflate_parts(table, &h, &frames, &size);

	if (ret)
		return ret;
	h.checksum = seal(&h, frames, size, key);
	ret = write_exactly(fd, &h, sizeof(h), 0);
	ret = ret ?: write_exactly(fd, frames, size, sizeof(h));
	if (!ret)
		*bytes = sizeof(h) + size;
	return ret;
}
