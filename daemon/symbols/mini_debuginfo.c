/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/symbols/mini_debuginfo.h"

#include <lzma.h>
#include <stdlib.h>

#include "stakeout/cleanup.h"

#define DECODER_MEMORY (128u << 20) /* xz -9 asks for 65 MB; the header of a hostile stream for up to 4 GB */
#define READ_BYTES     (64u << 10)

struct output {
	uint8_t *bytes;
	size_t size, room;
};

static void cleanup__output(struct output *output)
{
	free(output->bytes);
}

static int make_room(struct output *output)
{
	size_t room = output->room ? output->room * 2 : 256u << 10;
	uint8_t *larger;

	if (output->size < output->room)
		return 0;
	if (room > MINI_DEBUGINFO_MAX_BYTES)
		return -EFBIG;
	larger = realloc(output->bytes, room);
	if (!larger)
		return -ENOMEM;
	output->bytes = larger;
	output->room = room;
	return 0;
}

/* Runs the decoder on what it was given until it asks for more; 1 at the end of the stream. */
static int decode(lzma_stream *stream, struct output *output)
{
	while (stream->avail_in > 0) {
		lzma_ret status;
		int ret = make_room(output);

		if (ret < 0)
			return ret;
		stream->next_out = output->bytes + output->size;
		stream->avail_out = output->room - output->size;
		status = lzma_code(stream, LZMA_RUN);
		output->size = output->room - stream->avail_out;
		if (status == LZMA_STREAM_END)
			return 1;
		if (status != LZMA_OK)
			return status == LZMA_MEM_ERROR ? -ENOMEM : -EINVAL;
	}
	return 0;
}

static int decompress(lzma_stream *stream, const struct elf_image *image, const Elf64_Shdr *section,
		      struct output *output)
{
	uint8_t input[READ_BYTES];
	int ret;

	for (uint64_t at = 0; at < section->sh_size;) {
		uint64_t left = section->sh_size - at;
		size_t n = left < sizeof(input) ? (size_t)left : sizeof(input);

		ret = elf_image__read(image, section->sh_offset + at, input, n);
		if (ret < 0)
			return ret;
		stream->next_in = input;
		stream->avail_in = n;
		ret = decode(stream, output);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		at += n;
	}
	/* The input ended, but what the decoder still holds back may complete the stream. */
	for (;;) {
		lzma_ret status;

		ret = make_room(output);
		if (ret < 0)
			return ret;
		stream->next_out = output->bytes + output->size;
		stream->avail_out = output->room - output->size;
		status = lzma_code(stream, LZMA_FINISH);
		output->size = output->room - stream->avail_out;
		if (status != LZMA_OK)
			return status == LZMA_STREAM_END ? 0 : -EINVAL;
	}
}

int mini_debuginfo__read(const struct elf_image *image, const struct elf_sections *sections, uint8_t **out,
			 size_t *size)
{
	const Elf64_Shdr *section = elf_sections__by_name(sections, image, ".gnu_debugdata");
	__attribute__((cleanup(cleanup__output))) struct output output = { 0 };
	lzma_stream stream = LZMA_STREAM_INIT;
	int ret;

	if (!section)
		return -ENOENT;
	if (section->sh_size > MINI_DEBUGINFO_MAX_XZ_BYTES)
		return -EFBIG;
	if (lzma_stream_decoder(&stream, DECODER_MEMORY, 0) != LZMA_OK)
		return -ENOMEM;
	ret = decompress(&stream, image, section, &output);
	lzma_end(&stream);
	if (ret < 0)
		return ret;
	*size = output.size;
	*out = TAKE_PTR(output.bytes);
	return 0;
}
