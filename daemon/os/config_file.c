// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stakeout/cleanup.h"

static const char blanks[] = " \t\r";

int config_file__read(const char *path, char **out, size_t *n, struct so_error *err)
{
	/* Not blocking: the path may be that of a pipe. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t used = 0;
	ssize_t got;

	if (fd < 0 || fstat(fd, &st))
		return so_err(err, -errno, "cannot open %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return so_err(err, -EINVAL, "%s is not a regular file", path);
	text = malloc(CONFIG_FILE_MAX_BYTES + 2);
	if (!text)
		return so_err(err, -ENOMEM, "out of memory");
	while ((got = read(fd, text + used, CONFIG_FILE_MAX_BYTES + 1 - used)) > 0)
		used += (size_t)got;
	if (got < 0)
		return so_err(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (used > CONFIG_FILE_MAX_BYTES)
		return so_err(err, -EFBIG, "%s is larger than %d bytes", path, CONFIG_FILE_MAX_BYTES);
	text[used] = '\0';
	*out = TAKE_PTR(text);
	*n = used;
	return 0;
}

static void cut_end(char *text)
{
	size_t n = strlen(text);

	while (n && strchr(blanks, text[n - 1]))
		text[--n] = '\0';
}

static int parse_line(char *line, config_file_take_fn *take, void *context, struct so_error *err)
{
	char *value;

	line += strspn(line, blanks);
	cut_end(line);
	if (!line[0] || line[0] == '#')
		return 0;
	value = strchr(line, '=');
	if (!value || value == line)
		return so_err(err, -EINVAL, "not 'option = value': '%.60s'", line);
	*value++ = '\0';
	cut_end(line);
	value += strspn(value, blanks);
	return !value[0] ? so_err(err, -EINVAL, "'%.60s' has no value", line) : take(context, line, value, err);
}

int config_file__parse(char *text, size_t n, const char *path, config_file_take_fn *take, void *context,
		       struct so_error *err)
{
	char *line = text, *end = text + n;

	for (unsigned number = 1; line < end; number++) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		char *stop = newline ? newline : end;
		struct so_error why = { .text = "" };
		int ret;

		*stop = '\0';
		if (memchr(line, '\0', (size_t)(stop - line)))
			return so_err(err, -EINVAL, "%.200s:%u: a NUL byte, this is no text", path, number);
		ret = parse_line(line, take, context, &why);
		if (ret)
			return so_err(err, ret, "%.200s:%u: %.290s", path, number, why.text);
		line = stop + 1;
	}
	return 0;
}
