// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/cuda/alloc_library.h"
#include "stakeout/alloc_abi.h"

#define MOST_BYTES (16u << 20) /* of symbols: more than an input has */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct alloc_library *library, size_t size)
{
	if (library->n > ALLOC_LIBRARY_MAX)
		__builtin_trap();
	for (uint32_t i = 0; i < library->n; i++)
		if (library->offsets[i] >= size || SO_ALLOC_COOKIE_SHAPE(library->cookies[i]) > SO_ALLOC_FREE ||
		    SO_ALLOC_COOKIE_KIND(library->cookies[i]) >= SO_ALLOC_N_KINDS)
			__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		return 0;
	for (int whole = 0; whole < 2; whole++) {
		struct so_error err = { "" };
		struct alloc_library library;
		uint64_t bytes_left = MOST_BYTES;
		int ret = alloc_library__read(fd, "/usr/lib/python3.14t", whole, &bytes_left, &library, &err);

		if (ret < 0 && !err.text[0])
			__builtin_trap();
		if (!ret)
			check(&library, size);
	}
	return 0;
}
