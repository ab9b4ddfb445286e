/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Line format: proc_pid_maps(5); the kernel writes it in fs/proc/task_mmu.c, show_map_vma(). */
#include "daemon/os/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "daemon/os/open_in_root.h"
#include "stakeout/array.h"
#include "stakeout/live_thread.h"

#define MAX_MAPS_BYTES (256u << 20) /* some two million mappings; vm.max_map_count is 65530 by default */

static const char deleted_suffix[] = " (deleted)";

/* Where parsing stands in one line. */
struct cursor {
	const char *at, *end;
};

static bool take_char(struct cursor *c, char wanted)
{
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static bool take_number(struct cursor *c, unsigned base, uint64_t *out)
{
	uint64_t value = 0;
	const char *begin = c->at;

	for (; c->at < c->end; c->at++) {
		unsigned digit;

		if (*c->at >= '0' && *c->at <= '9')
			digit = (unsigned)(*c->at - '0');
		else if (*c->at >= 'a' && *c->at <= 'f')
			digit = (unsigned)(*c->at - 'a') + 10;
		else
			break;
		if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*out = value;
	return c->at > begin;
}

static bool take_permissions(struct cursor *c, struct proc_map *map)
{
	if (c->end - c->at < 4)
		return false;
	map->readable = c->at[0] == 'r';
	map->writable = c->at[1] == 'w';
	map->executable = c->at[2] == 'x';
	map->shared = c->at[3] == 's';
	if ((!map->readable && c->at[0] != '-') || (!map->writable && c->at[1] != '-') ||
	    (!map->executable && c->at[2] != '-') || (!map->shared && c->at[3] != 'p'))
		return false;
	c->at += 4;
	return true;
}

/* Fills all of *map but the path, which stays escaped in *path. */
static bool parse_line(const char *line, const char *end, struct proc_map *map, struct cursor *path)
{
	struct cursor c = { line, end };
	uint64_t dev_major, dev_minor;
	size_t suffix = sizeof(deleted_suffix) - 1;

	*map = (struct proc_map){ .path = "" };
	if (!take_number(&c, 16, &map->start) || !take_char(&c, '-') || !take_number(&c, 16, &map->end) ||
	    !take_char(&c, ' ') || !take_permissions(&c, map) || !take_char(&c, ' ') ||
	    !take_number(&c, 16, &map->offset) || !take_char(&c, ' ') || !take_number(&c, 16, &dev_major) ||
	    !take_char(&c, ':') || !take_number(&c, 16, &dev_minor) || !take_char(&c, ' ') ||
	    !take_number(&c, 10, &map->inode))
		return false;
	if (map->start >= map->end || dev_major > UINT32_MAX || dev_minor > UINT32_MAX)
		return false;
	map->dev_major = (uint32_t)dev_major;
	map->dev_minor = (uint32_t)dev_minor;
	if (c.at < c.end && *c.at != ' ')
		return false;
	while (take_char(&c, ' '))
		;
	if (map->inode != 0 && (size_t)(c.end - c.at) > suffix && memcmp(c.end - suffix, deleted_suffix, suffix) == 0) {
		map->deleted = true;
		c.end -= suffix;
	}
	*path = c;
	return true;
}

/* The kernel escapes newlines and nothing else, so any other backslash is part of the name. */
static size_t unescape(const struct cursor *path, char *to)
{
	size_t n = 0;

	for (const char *p = path->at; p < path->end;) {
		if (path->end - p >= 4 && memcmp(p, "\\012", 4) == 0) {
			to[n++] = '\n';
			p += 4;
		} else {
			to[n++] = *p++;
		}
	}
	to[n] = '\0';
	return n;
}

/* One pass over the text: with out->maps NULL it counts and checks, else it fills. */
static int walk(const char *text, size_t length, bool executable_only, struct proc_maps *out, size_t *string_bytes,
		struct so_error *err)
{
	size_t n = 0, used = 0, line_number = 0;
	struct cursor last = { NULL, NULL };
	const char *last_path = NULL;

	for (const char *line = text, *end = text + length; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
		struct proc_map map;
		struct cursor path;

		line_number++;
		if (!parse_line(line, stop, &map, &path))
			return so_err(err, -EINVAL, "line %zu of the memory map cannot be read", line_number);
		line = newline ? newline + 1 : end;
		if (executable_only && !map.executable)
			continue;
		/* The segments of a file follow each other: they share one string. */
		if (path.at < path.end && (size_t)(path.end - path.at) == (size_t)(last.end - last.at) &&
		    memcmp(path.at, last.at, (size_t)(path.end - path.at)) == 0) {
			map.path = last_path;
		} else if (path.at < path.end) {
			last = path;
			if (out->maps) {
				map.path = last_path = out->strings + used;
				used += unescape(&path, out->strings + used) + 1;
			} else {
				used += (size_t)(path.end - path.at) + 1;
			}
		}
		if (out->maps)
			out->maps[n] = map;
		n++;
	}
	out->n = n;
	*string_bytes = used;
	return 0;
}

static int compare_start(const void *a, const void *b)
{
	const struct proc_map *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int proc_maps__parse(const char *text, size_t length, bool executable_only, struct proc_maps *out, struct so_error *err)
{
	__attribute__((cleanup(cleanup__proc_maps))) struct proc_maps maps = { 0 };
	size_t string_bytes;
	int ret = walk(text, length, executable_only, &maps, &string_bytes, err);

	if (ret < 0)
		return ret;
	if (maps.n > 0) {
		maps.maps = calloc(maps.n, sizeof(*maps.maps));
		maps.strings = malloc(string_bytes + 1);
		if (!maps.maps || !maps.strings)
			return so_err(err, -ENOMEM, "out of memory");
		ret = walk(text, length, executable_only, &maps, &string_bytes, err);
		if (ret < 0)
			return ret;
	}
	/* The kernel lists in order, but a map that changes between two reads of it may repeat a range. */
	for (size_t i = 1; i < maps.n; i++) {
		if (maps.maps[i].start < maps.maps[i - 1].start) {
			qsort(maps.maps, maps.n, sizeof(*maps.maps), compare_start);
			break;
		}
	}
	*out = maps;
	maps = (struct proc_maps){ 0 };
	return 0;
}

/* Reads until the end; the kernel gives at most a page at a time, whole lines each. */
static int read_all(int fd, char **out, size_t *out_length)
{
	_cleanup_free_ char *text = NULL;
	size_t length = 0, room = 0;

	for (;;) {
		ssize_t n;

		if (room - length < 4096) {
			size_t wanted = room ? room * 2 : 64u << 10;
			char *larger = wanted <= MAX_MAPS_BYTES ? realloc(text, wanted) : NULL;

			if (!larger)
				return wanted <= MAX_MAPS_BYTES ? -ENOMEM : -EFBIG;
			text = larger;
			room = wanted;
		}
		n = read(fd, text + length, room - length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	*out = TAKE_PTR(text);
	*out_length = length;
	return 0;
}

int proc_maps__read(pid_t pid, bool executable_only, struct proc_maps *out, struct so_error *err)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	char path[64];
	size_t length = 0;
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/maps", live_thread__of(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ret = fd < 0 ? -errno : read_all(fd, &text, &length);
	if (ret == -ENOENT || ret == -ESRCH)
		return so_err(err, -ESRCH, "process %d does not exist (any more)", pid);
	if (ret < 0)
		return so_err(err, ret, "cannot read %s: %s", path, strerror(-ret));
	return proc_maps__parse(text, length, executable_only, out, err);
}

void proc_maps__keep_executable(struct proc_maps *maps)
{
	size_t n = 0;

	for (size_t i = 0; i < maps->n; i++) {
		if (maps->maps[i].executable)
			maps->maps[n++] = maps->maps[i];
	}
	maps->n = n;
}

const struct proc_map *proc_maps__find(const struct proc_maps *maps, uint64_t address)
{
	size_t low = ARRAY_BEFORE(i, maps->n, maps->maps[i].start <= address);

	return low > 0 && address < maps->maps[low - 1].end ? &maps->maps[low - 1] : NULL;
}

/* Opens by path below the process's root, and only if it is the very file that is mapped. */
static int open_by_path(pid_t pid, const struct proc_map *map, const char *suffix)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	char root[32];
	struct stat st;

	snprintf(root, sizeof(root), "/proc/%d/root", live_thread__of(pid));
	if (asprintf(&path, "%s%s", map->path, suffix) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open_in_root(root, path, true, NULL);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_ino != map->inode || major(st.st_dev) != map->dev_major || minor(st.st_dev) != map->dev_minor)
		return -ESTALE;
	return TAKE_FD(fd);
}

static bool has_identity(const struct proc_map *map, const struct proc_map *other)
{
	return map->inode == other->inode && map->dev_major == other->dev_major && map->dev_minor == other->dev_minor;
}

/*
 * Whether a file is the one that the kernel lists by these numbers. Layered file systems have others in the list than
 * fstat(2) says: the file is mapped here then, and the lists are compared.
 */
static bool is_listed_file(int fd, const struct proc_map *map)
{
	__attribute__((cleanup(cleanup__proc_maps))) struct proc_maps maps = { 0 };
	const struct proc_map *own = NULL;
	struct stat st;
	void *at;

	if (fstat(fd, &st))
		return false;
	if (st.st_ino == map->inode && major(st.st_dev) == map->dev_major && minor(st.st_dev) == map->dev_minor)
		return true;
	at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return false;
	if (!proc_maps__read(getpid(), false, &maps, NULL))
		own = proc_maps__find(&maps, (uintptr_t)at);
	munmap(at, 1);
	return own && has_identity(own, map);
}

/* Another file may be mapped there since the list was read: what is known of one must not become the other's. */
static int open_listed(const char *link, const struct proc_map *map)
{
	_cleanup_close_ int path_fd = open(link, O_PATH | O_CLOEXEC), fd = -1;

	if (path_fd < 0)
		return -errno;
	/* A mapped device must not be opened, which can have effects. */
	fd = open_regular(path_fd, NULL);
	if (fd < 0)
		return fd == -ENOENT ? -ENODEV : fd;
	return is_listed_file(fd, map) ? TAKE_FD(fd) : -ESTALE;
}

int proc_maps__open_file(pid_t pid, const struct proc_map *map)
{
	char link[96];
	int fd, ret;

	if (map->inode == 0)
		return -ENOENT;
	snprintf(link, sizeof(link), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
		 live_thread__of(pid), map->file_end ? map->file_start : map->start, map->file_end ?: map->end);
	fd = open_listed(link, map);
	if (fd == -ENODEV)
		return -ENOENT;
	if (fd >= 0)
		return fd;
	/* Something else is mapped there by now. The file may still be where its name says. */
	if (map->path[0] != '/')
		return fd == -ESTALE ? fd : -ENOENT;
	ret = open_by_path(pid, map, "");
	/* A file may really be called "… (deleted)". */
	if (ret < 0 && map->deleted) {
		int named = open_by_path(pid, map, deleted_suffix);

		if (named >= 0)
			return named;
	}
	return ret < 0 && fd == -ESTALE ? fd : ret;
}

void proc_maps__release(struct proc_maps *maps)
{
	free(maps->maps);
	free(maps->strings);
	*maps = (struct proc_maps){ 0 };
}
