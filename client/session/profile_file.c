// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "profile/folded_read.h"

static int read_bytes(const char *path, uint8_t **out, size_t *length, struct so_error *err)
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

/* Bytes are no samples, whose number says how sure a share is. */
static int parse_time(const char *name, struct profile_file *file, struct so_error *err)
{
	int ret = profile__read(file->bytes, file->length, &file->profile, err);

	if (ret || !profile__comment(file->profile, "memory.series"))
		return ret;
	return so_err(err, -EINVAL,
		      "%s is a profile of memory, not of time: 'stakeout memory %s', or 'stakeout render --value "
		      "inuse_space'",
		      name, name);
}

static int parse(const char *name, const char *value, struct profile_file *file, struct so_error *err)
{
	struct so_error why = { .text = "" };
	int ret;

	if (!file->length)
		return so_err(err, -EINVAL, "%s is empty", name);
	file->folded = folded_read__is_text(file->bytes, file->length);
	if (file->folded && value)
		return so_err(err, -EINVAL, "%s has folded stacks: only the values of a pprof file have types", name);
	if (file->folded)
		ret = folded_read(file->bytes, file->length, &file->profile, &why);
	else if (value)
		return profile__read_value(file->bytes, file->length, value, &file->profile, err);
	else
		return parse_time(name, file, err);
	if (ret == -EINVAL)
		return so_err(err, ret, "%s is neither a pprof file nor folded stacks: %s", name, why.text);
	return ret ? so_err(err, ret, "%s", why.text) : 0;
}

int profile_file__read(const char *path, const char *value, struct profile_file *out, struct so_error *err)
{
	const char *name = strcmp(path, "-") ? path : "standard input";
	_cleanup_(profile_file) struct profile_file file = { .bytes = NULL };
	int ret = read_bytes(path, &file.bytes, &file.length, err);

	ret = ret ?: parse(name, value, &file, err);
	if (ret)
		return ret;
	*out = file;
	file = (struct profile_file){ .bytes = NULL };
	return 0;
}

void profile_file__release(struct profile_file *file)
{
	profile__free(file->profile);
	free(file->bytes);
	*file = (struct profile_file){ .bytes = NULL };
}
