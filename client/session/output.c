// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/session/interrupt.h"

#define MAX_SAME_NAMES 1000

struct output {
	FILE *file;
	int fd;
	int error;     /* the first failed write's errno */
	bool truncate; /* before the first byte: an existing file that cannot be replaced */
	uint64_t lines;
	char *name;
	char *final, *temp; /* NULL: written in place */
	char *stem, *ending; /* of a new file; NULL: the place has a name */
};

static int empty(struct output *output)
{
	if (output->truncate && ftruncate(output->fd, 0) && !output->error)
		output->error = errno;
	output->truncate = false;
	return -output->error;
}

static ssize_t sink_write(void *cookie, const char *data, size_t size)
{
	struct output *output = cookie;
	size_t done = 0;

	if (empty(output))
		return 0; /* as fopencookie(3) asks: not a negative value */
	while (done < size) {
		ssize_t n = write(output->fd, data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (!output->error)
				output->error = n < 0 ? errno : EIO;
			return 0;
		}
		done += (size_t)n;
	}
	for (const char *p = data; (p = memchr(p, '\n', size - (size_t)(p - data))); p++)
		output->lines++;
	return (ssize_t)size;
}

static int cannot_write(const char *name, int error, struct so_error *err)
{
	if (error == EPIPE)
		return so_err(err, -EPIPE, "%s", "");
	return so_err(err, -error, "cannot write %s: %s", name, strerror(error));
}

/* The number N of /dev/fd/N, /dev/stdout, and their like: the shell opened these, so they are not replaced. */
static int named_descriptor(const char *path)
{
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
	char *end;

	if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(folders[i]);

		if (!strncmp(path, folders[i], n) && path[n] >= '0' && path[n] <= '9') {
			long fd = strtol(path + n, &end, 10);

			return *end || fd > INT_MAX ? -1 : (int)fd;
		}
	}
	return -1;
}

/* A fresh file in the directory of `final`. Its name is short whatever the other's length. */
static int open_temp(struct output *output, mode_t mode, struct so_error *err)
{
	_cleanup_free_ char *copy = strdup(output->final);
	const char *dir = copy ? dirname(copy) : NULL;

	for (unsigned i = 0; dir && i < 100; i++) {
		_cleanup_free_ char *temp = NULL;

		if (asprintf(&temp, "%s/.stakeout-%d-%u.tmp", dir, (int)getpid(), i) < 0) {
			temp = NULL;
			break;
		}
		output->fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (output->fd >= 0) {
			output->temp = TAKE_PTR(temp);
			interrupt__remove_on_abort(output->temp);
			return 0;
		}
		if (errno != EEXIST)
			return cannot_write(output->name, errno, err);
	}
	return dir ? cannot_write(output->name, EEXIST, err) : so_err(err, -ENOMEM, "out of memory");
}

/* An existing file keeps its mode and, if we may, owner; where the directory takes no new files, it is overwritten. */
static int open_existing(struct output *output, const struct stat *st, struct so_error *err)
{
	int ret;

	if (access(output->final, W_OK))
		return cannot_write(output->name, errno, err);
	ret = open_temp(output, st->st_mode & 0777, err);
	if (!ret) {
		if (fchown(output->fd, st->st_uid, st->st_gid) && errno != EPERM)
			return cannot_write(output->name, errno, err);
		return fchmod(output->fd, st->st_mode & 0777) ? cannot_write(output->name, errno, err) : 0;
	}
	if (ret != -EACCES && ret != -EPERM)
		return ret;
	output->fd = open(output->final, O_WRONLY | O_CLOEXEC);
	free(TAKE_PTR(output->final));
	output->truncate = true;
	return output->fd < 0 ? cannot_write(output->name, errno, err) : 0;
}

static int open_place(struct output *output, const char *path, struct so_error *err)
{
	int fd = named_descriptor(path);
	struct stat st;

	if (fd >= 0) {
		output->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		return output->fd < 0 ? cannot_write(output->name, errno, err) : 0;
	}
	if (!stat(path, &st) && S_ISREG(st.st_mode)) {
		output->final = realpath(path, NULL); /* a symbolic link stays one */
		return output->final ? open_existing(output, &st, err) : cannot_write(output->name, errno, err);
	}
	if (lstat(path, &st) && errno == ENOENT && path[strlen(path) - 1] != '/') {
		output->final = strdup(path);
		return output->final ? open_temp(output, 0666, err) : so_err(err, -ENOMEM, "out of memory");
	}
	output->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	return output->fd < 0 ? cannot_write(output->name, errno, err) : 0;
}

static int new_output(const char *name, struct output **out, struct so_error *err)
{
	struct output *output = calloc(1, sizeof(*output));

	if (output)
		output->name = strdup(name);
	if (!output || !output->name) {
		free(output);
		return so_err(err, -ENOMEM, "out of memory");
	}
	output->fd = -1;
	*out = output;
	return 0;
}

static int open_stream(struct output *output, struct so_error *err)
{
	static const cookie_io_functions_t sink = { .write = sink_write };

	output->file = fopencookie(output, "w", sink);
	if (!output->file)
		return so_err(err, -ENOMEM, "out of memory");
	setvbuf(output->file, NULL, _IOFBF, 65536);
	return 0;
}

int output__open(const char *path, struct output **out, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	int ret = new_output(strcmp(path, "-") ? path : "standard output", &output, err);

	ret = ret ?: open_place(output, path, err);
	ret = ret ?: open_stream(output, err);
	if (!ret)
		*out = TAKE_PTR(output);
	return ret;
}

/* The name of the n-th try: STEM ENDING, STEM-2 ENDING, … NULL: no memory. */
static char *numbered(const char *stem, const char *ending, unsigned n)
{
	char number[16] = "", *path;

	if (n > 1)
		snprintf(number, sizeof(number), "-%u", n);
	return asprintf(&path, "%s%s%s", stem, number, ending) < 0 ? NULL : path;
}

int output__open_new(const char *stem, const char *ending, struct output **out, struct so_error *err)
{
	_cleanup_free_ char *path = numbered(stem, ending, 1);
	_cleanup_(output) struct output *output = NULL;
	int ret = path ? new_output(path, &output, err) : so_err(err, -ENOMEM, "out of memory");

	if (ret)
		return ret;
	output->stem = strdup(stem);
	output->ending = strdup(ending);
	output->final = strdup(path);
	if (!output->stem || !output->ending || !output->final)
		return so_err(err, -ENOMEM, "out of memory");
	ret = open_temp(output, 0666, err);
	ret = ret ?: open_stream(output, err);
	if (!ret)
		*out = TAKE_PTR(output);
	return ret;
}

FILE *output__file(struct output *output)
{
	return output->file;
}

uint64_t output__lines(const struct output *output)
{
	return output->lines;
}

const char *output__name(const struct output *output)
{
	return output->name;
}

/* A file system that cannot rename without replacing can link. */
static int rename_to_new(const char *from, const char *to)
{
	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return link(from, to) ? -errno : unlink(from) ? -errno : 0;
}

static int name_new(struct output *output, struct so_error *err)
{
	int ret = -EEXIST;

	for (unsigned i = 1; i <= MAX_SAME_NAMES && ret == -EEXIST; i++) {
		char *path = numbered(output->stem, output->ending, i);

		if (!path)
			return so_err(err, -ENOMEM, "out of memory");
		free(output->name);
		output->name = path;
		ret = rename_to_new(output->temp, path);
	}
	return ret ? cannot_write(output->name, -ret, err) : 0;
}

static int name_file(struct output *output, struct so_error *err)
{
	int ret = 0;

	if (output->stem)
		ret = name_new(output, err);
	else if (rename(output->temp, output->final))
		ret = cannot_write(output->name, errno, err);
	if (ret)
		return ret;
	interrupt__forget(output->temp);
	free(TAKE_PTR(output->temp));
	return 0;
}

int output__commit(struct output *output, struct so_error *err)
{
	int failed = fflush(output->file) || ferror(output->file);

	fclose(TAKE_PTR(output->file));
	empty(output);
	/* Some file systems report a full disk only here. */
	if (close(TAKE_FD(output->fd)) && !output->error)
		output->error = errno;
	if (failed && !output->error)
		output->error = EIO;
	if (output->error)
		return cannot_write(output->name, output->error, err);
	return output->temp ? name_file(output, err) : 0;
}

void output__free(struct output *output)
{
	if (!output)
		return;
	if (output->file)
		fclose(output->file);
	cleanup__close(&output->fd);
	if (output->temp) {
		unlink(output->temp);
		interrupt__forget(output->temp);
	}
	free(output->temp);
	free(output->final);
	free(output->stem);
	free(output->ending);
	free(output->name);
	free(output);
}
