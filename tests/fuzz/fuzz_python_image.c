/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/python/python_image.h"
#include "stakeout/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("python", MFD_CLOEXEC);
	struct python_image image = { .runtime = 1 };
	struct so_error err = { "" };
	int r;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		return 0;
	r = python_image__read(fd, "/usr/bin/python3.9", NULL, &image, &err);
	if (r != 0 && r != -ENOENT && r != -ENOTSUP && r != -EINVAL && r != -ENOMEM)
		__builtin_trap();
	if (r < 0 && image.runtime != 1)
		__builtin_trap();
	if (r == 0 && (image.n_loops > PYTHON_IMAGE_MAX_LOOPS || image.version >> 24 != 3))
		__builtin_trap();
	return 0;
}
