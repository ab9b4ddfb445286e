/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An interpreter in whatever bytes are taken for a process's memory. The input begins with the version and with how
 * addresses lead to bytes: each address leads to some, so that lists go on and on, and in circles.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/python/python_debug_offsets.h"
#include "daemon/python/python_process.h"
#include "tests/unit/python_tables.h"

#define HEAD        4u
#define ROOM        64u
#define MAX_READS   (1u << 20) /* 20 walks, each of a few reads for each interpreter and thread that fits */
#define RUNTIME     0x7f0000000000ull
#define TABLE_BYTES sizeof(python_table_3_14)

struct memory {
	const uint8_t *bytes;
	size_t size;
	uint8_t scale; /* so many addresses lead to one byte */
	uint16_t minor;
	unsigned reads;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	struct memory *memory = context;

	if (++memory->reads > MAX_READS)
		__builtin_trap();
	/* Tables made by chance are all refused; test_python_debug_offsets damages one. */
	if (address == RUNTIME && memory->minor >= 13 && bytes >= TABLE_BYTES) {
		memset(to, 0, bytes);
		memcpy(to, memory->minor == 13 ? python_table_3_13 : python_table_3_14,
		       memory->minor == 13 ? sizeof(python_table_3_13) : TABLE_BYTES);
		return true;
	}
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = memory->bytes[((address >> memory->scale) + i) % memory->size];
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_process process = { .runtime = 1 };
	struct python_thread threads[ROOM];
	struct python_image image = { .runtime = RUNTIME };
	struct so_error err = { "" };
	struct memory bytes;
	struct foreign_memory memory = { read_memory, &bytes };
	int r;

	if (size <= HEAD)
		return 0;
	bytes = (struct memory){
		.bytes = data + HEAD,
		.size = size - HEAD,
		.scale = data[1] % 48,
		.minor = 7 + data[0] % 9,
	};
	image.version = 3u << 24 | (uint32_t)bytes.minor << 16 | 0xf0;
	r = python_process__open(&memory, &image, 0, &process, &err);
	if (r != 0 && r != -EAGAIN && r != -EINVAL && r != -ENOTSUP)
		__builtin_trap();
	if (r < 0 && (process.runtime != 1 || !err.text[0]))
		__builtin_trap();
	if (r == 0 && (process.place.tss % 8 || process.place.tss >= 0x1000 ||
		       process.walker.frame_bytes > SO_PYTHON_FRAME_BYTES))
		__builtin_trap();
	if (r < 0) {
		const struct python_layout *layout = python_layout__of_version(0x0300 | bytes.minor);

		if (!layout)
			return 0;
		process.layout = *layout;
		process.runtime = RUNTIME;
	}
	bytes.reads = 0;
	r = python_process__threads(&memory, &process, threads, ROOM);
	if (r > (int)ROOM || (r < 0 && r != -EFAULT))
		__builtin_trap();
	return 0;
}
