// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"

int profile_file__read(const char *path, uint8_t **out, size_t *length, struct so_error *err)
{
	_cleanup_close_ int fd =
		strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t used = 0, capacity = 0;
	ssize_t n;

	if (fd < 0)
		return so_err(err, -errno, "cannot read %s: %s", path, strerror(errno));
	for (;;) {
		if (used == capacity) {
			uint8_t *more;

			capacity = capacity ? 2 * capacity : 65536;
			if (capacity > PROFILE_MAX_BYTES)
				return so_err(err, -EFBIG, "%s is too large for a profile", path);
			more = realloc(bytes, capacity);
			if (!more)
				return so_err(err, -ENOMEM, "out of memory");
			bytes = more;
		}
		n = read(fd, bytes + used, capacity - used);
		if (n < 0)
			return so_err(err, -errno, "cannot read %s: %s", path, strerror(errno));
		if (n == 0)
			break;
		used += (size_t)n;
	}
	*out = TAKE_PTR(bytes);
	*length = used;
	return 0;
}
