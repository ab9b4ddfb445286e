/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file is read from its end: the lines written last win, and the limits then leave out the oldest. What is
 * kept of overlapping ranges is cut into pieces that do not overlap.
 */
#include "daemon/symbols/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/os/bounded_open.h"
#include "daemon/os/proc_file.h"
#include "stakeout/array.h"
#include "stakeout/live_thread.h"

#define MAX_RANGES     (1u << 20)
#define MAX_NAME_BYTES (64u << 20) /* of all names together */
#define MAX_NAME       1024        /* of one; a longer one is cut */
#define STATUS_BYTES   (1u << 20)  /* NSpid stands behind the groups, of which there may be 65536 (NGROUPS_MAX) */
#define WINDOW_BYTES   (1u << 20)  /* read at a time; a longer line is left out */

/* A line of the file. Their index is their age: 0 is the last line. */
struct range {
	uint64_t start;
	uint64_t at;   /* where the line begins in the file */
	uint32_t size; /* bytes; one of 4 GB and more is cut */
	uint32_t name; /* offset in names */
	uint32_t age;
};

/* A piece of a range that no younger one covers. */
struct piece {
	uint64_t start;
	uint32_t size;
	uint32_t name;
};

struct perf_map {
	struct piece *pieces; /* sorted, disjoint: what the youngest lines say */
	size_t n, room;
	struct range *ranges; /* by rising start: all lines, for what the file said earlier */
	uint64_t *ends;       /* of each range: the highest end of those up to it */
	size_t n_ranges;
	char *names;
};

struct builder {
	struct range *ranges;
	size_t n, room;
	char *names;
	size_t names_size, names_room;
	bool full; /* a limit was met: older lines are left out */
};

static void cleanup__builder(struct builder *builder)
{
	free(builder->ranges);
	free(builder->names);
}

static bool take_hex(const char **at, const char *end, uint64_t *out)
{
	uint64_t value = 0;
	const char *begin;

	if (end - *at > 2 && (*at)[0] == '0' && ((*at)[1] == 'x' || (*at)[1] == 'X'))
		*at += 2;
	begin = *at;
	for (; *at < end; (*at)++) {
		char c = **at;
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (unsigned)((c | 0x20) - 'a') + 10;
		else
			break;
		if (value >> 60)
			return false;
		value = value << 4 | digit;
	}
	*out = value;
	return *at > begin;
}

static bool take_blanks(const char **at, const char *end)
{
	const char *begin = *at;

	while (*at < end && (**at == ' ' || **at == '\t'))
		(*at)++;
	return *at > begin;
}

static int grow(void **array, size_t *room, size_t needed, size_t element)
{
	size_t wanted = *room ? *room * 2 : 1024;
	void *larger;

	if (needed <= *room)
		return 0;
	if (wanted < needed)
		wanted = needed;
	larger = reallocarray(*array, wanted, element);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*room = wanted;
	return 0;
}

static int add_range(struct builder *builder, uint64_t at, uint64_t start, uint64_t size, const char *name,
		     size_t length)
{
	void *ranges = builder->ranges, *names = builder->names;
	int ret;

	if (length > MAX_NAME)
		length = MAX_NAME;
	if (builder->n == MAX_RANGES || builder->names_size + length + 1 > MAX_NAME_BYTES) {
		builder->full = true;
		return 0;
	}
	ret = grow(&ranges, &builder->room, builder->n + 1, sizeof(*builder->ranges));
	builder->ranges = ranges;
	if (ret < 0)
		return ret;
	ret = grow(&names, &builder->names_room, builder->names_size + length + 1, 1);
	builder->names = names;
	if (ret < 0)
		return ret;
	memcpy(builder->names + builder->names_size, name, length);
	builder->names[builder->names_size + length] = '\0';
	builder->ranges[builder->n] = (struct range){
		.start = start,
		.at = at,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
		.name = (uint32_t)builder->names_size,
		.age = (uint32_t)builder->n,
	};
	builder->n++;
	builder->names_size += length + 1;
	return 0;
}

/* The name comes back in *line. False: the line does not fit the format; the writer may have died in it. */
static bool take_line(const char **line, const char **end, uint64_t *start, uint64_t *size)
{
	if (*end > *line && (*end)[-1] == '\r')
		(*end)--;
	if (!take_hex(line, *end, start) || !take_blanks(line, *end) || !take_hex(line, *end, size) ||
	    !take_blanks(line, *end) || *line == *end)
		return false;
	return *size && *start + *size >= *start && !memchr(*line, '\0', (size_t)(*end - *line));
}

/* at: of the line in the file. */
static int add_line(struct builder *builder, uint64_t at, const char *line, const char *end)
{
	uint64_t start, size;

	if (!take_line(&line, &end, &start, &size))
		return 0;
	return add_range(builder, at, start, size, line, (size_t)(end - line));
}

size_t perf_map__each_range(const char *text, size_t length, void (*visit)(void *, uint64_t, uint64_t), void *context)
{
	const char *line = text, *newline;

	while ((newline = memchr(line, '\n', length - (size_t)(line - text)))) {
		const char *name = line, *end = newline;
		uint64_t start, size;

		if (take_line(&name, &end, &start, &size))
			visit(context, start, start + size);
		line = newline + 1;
	}
	return (size_t)(line - text);
}

/*
 * Adds the lines of the text, the last one first, but not its first line, which may begin before the text:
 * that line's length, without its newline, comes back in *rest. at: of the text in the file.
 */
static int add_lines_backwards(struct builder *builder, uint64_t at, const char *text, size_t length, size_t *rest)
{
	while (!builder->full) {
		const char *newline = memrchr(text, '\n', length);
		int ret;

		if (!newline)
			break;
		ret = add_line(builder, at + (uint64_t)(newline + 1 - text), newline + 1, text + length);
		if (ret < 0)
			return ret;
		length = (size_t)(newline - text);
	}
	*rest = length;
	return 0;
}

static int compare_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* A binary heap of ranges, the youngest on top. */
struct heap {
	const struct range *ranges;
	uint32_t *at;
	size_t n;
};

static bool younger(const struct heap *heap, size_t a, size_t b)
{
	return heap->ranges[heap->at[a]].age < heap->ranges[heap->at[b]].age;
}

static void swap(struct heap *heap, size_t a, size_t b)
{
	uint32_t kept = heap->at[a];

	heap->at[a] = heap->at[b];
	heap->at[b] = kept;
}

static void heap__push(struct heap *heap, uint32_t range)
{
	size_t at = heap->n++;

	heap->at[at] = range;
	for (; at > 0 && younger(heap, at, (at - 1) / 2); at = (at - 1) / 2)
		swap(heap, at, (at - 1) / 2);
}

static void heap__pop(struct heap *heap)
{
	heap->at[0] = heap->at[--heap->n];
	for (size_t at = 0, child; (child = 2 * at + 1) < heap->n; at = child) {
		if (child + 1 < heap->n && younger(heap, child + 1, child))
			child++;
		if (!younger(heap, child, at))
			break;
		swap(heap, at, child);
	}
}

static int add_piece(struct perf_map *map, uint64_t start, uint64_t end, uint32_t name)
{
	struct piece *last = map->n > 0 ? &map->pieces[map->n - 1] : NULL;
	void *pieces = map->pieces;
	int ret;

	/* One range, only interrupted by the begin of an older one. */
	if (last && last->name == name && last->start + last->size == start) {
		last->size += (uint32_t)(end - start);
		return 0;
	}
	ret = grow(&pieces, &map->room, map->n + 1, sizeof(*map->pieces));
	map->pieces = pieces;
	if (ret < 0)
		return ret;
	map->pieces[map->n++] = (struct piece){ start, (uint32_t)(end - start), name };
	return 0;
}

/* Goes up through the addresses; the heap holds the ranges that have begun, the top is the one that counts. */
static int cut_into_pieces(const struct builder *builder, struct perf_map *map)
{
	const struct range *ranges = builder->ranges;
	_cleanup_free_ uint32_t *storage = calloc(builder->n + 1, sizeof(*storage));
	struct heap heap = { .ranges = ranges, .at = storage };
	uint64_t here = 0;
	size_t next = 0;

	if (!storage)
		return -ENOMEM;
	while (next < builder->n || heap.n > 0) {
		const struct range *top;
		uint64_t stop;
		int ret;

		if (heap.n == 0)
			here = ranges[next].start;
		while (next < builder->n && ranges[next].start <= here)
			heap__push(&heap, (uint32_t)next++);
		top = &ranges[heap.at[0]];
		if (top->start + top->size <= here) {
			heap__pop(&heap);
			continue;
		}
		stop = top->start + top->size;
		if (next < builder->n && ranges[next].start < stop)
			stop = ranges[next].start;
		ret = add_piece(map, here, stop, top->name);
		if (ret < 0)
			return ret;
		here = stop;
	}
	return 0;
}

static int keep_ranges(struct builder *builder, struct perf_map *map)
{
	uint64_t highest = 0;

	map->ends = malloc((builder->n + 1) * sizeof(*map->ends));
	if (!map->ends)
		return -ENOMEM;
	for (size_t i = 0; i < builder->n; i++) {
		const struct range *r = &builder->ranges[i];

		if (r->start + r->size > highest)
			highest = r->start + r->size;
		map->ends[i] = highest;
	}
	map->n_ranges = builder->n;
	map->ranges = TAKE_PTR(builder->ranges);
	return 0;
}

static int build(struct builder *builder, struct perf_map **out)
{
	_cleanup_(perf_map) struct perf_map *map = calloc(1, sizeof(*map));
	void *exact;
	int ret;

	if (!map)
		return -ENOMEM;
	if (builder->n > 0)
		qsort(builder->ranges, builder->n, sizeof(*builder->ranges), compare_start);
	ret = cut_into_pieces(builder, map) ?: keep_ranges(builder, map);
	if (ret < 0)
		return ret;
	exact = map->n > 0 ? reallocarray(map->pieces, map->n, sizeof(*map->pieces)) : NULL;
	if (exact)
		map->pieces = exact;
	exact = builder->names_size > 0 ? realloc(builder->names, builder->names_size) : NULL;
	if (exact)
		builder->names = exact;
	map->names = TAKE_PTR(builder->names);
	*out = TAKE_PTR(map);
	return 0;
}

int perf_map__parse(const char *text, size_t length, struct perf_map **out)
{
	__attribute__((cleanup(cleanup__builder))) struct builder builder = { 0 };
	size_t rest;
	int ret;

	ret = add_lines_backwards(&builder, 0, text, length, &rest);
	if (ret == 0 && !builder.full)
		ret = add_line(&builder, 0, text, text + rest);
	return ret < 0 ? ret : build(&builder, out);
}

/* Reads up to `size` bytes at `at`; fewer when the file was cut meanwhile. */
static ssize_t read_at(int fd, char *to, size_t size, uint64_t at)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, to + done, size - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int read_backwards(int fd, uint64_t size, struct builder *builder)
{
	uint64_t end = size, first = size > PERF_MAP_MAX_BYTES ? size - PERF_MAP_MAX_BYTES : 0;
	_cleanup_free_ char *window = malloc(WINDOW_BYTES);
	bool skipping = false; /* inside a line longer than the window */

	if (!window)
		return -ENOMEM;
	while (end > first && !builder->full) {
		size_t length = end - first < WINDOW_BYTES ? (size_t)(end - first) : WINDOW_BYTES, rest;
		uint64_t begin = end - length;
		ssize_t n = read_at(fd, window, length, begin);
		int ret;

		if (n < 0)
			return (int)n;
		if ((size_t)n < length)
			return -EIO;
		if (skipping) {
			const char *newline = memrchr(window, '\n', length);

			end = newline ? begin + (uint64_t)(newline - window) : begin;
			skipping = !newline;
			continue;
		}
		ret = add_lines_backwards(builder, begin, window, length, &rest);
		if (ret < 0)
			return ret;
		if (begin == first) {
			/* The first line is a whole one only where the file begins. */
			if (first == 0 && !builder->full)
				return add_line(builder, 0, window, window + rest);
			return 0;
		}
		skipping = rest == length;
		end = skipping ? begin : begin + rest;
	}
	return 0;
}

/* The PID as the process itself knows it: the last of the line. */
static pid_t own_pid(const char *status, pid_t pid)
{
	const char *line = strstr(status, "\nNSpid:");
	const char *end = line ? strchr(line + 1, '\n') : NULL;
	const char *last = end ? memrchr(line, '\t', (size_t)(end - line)) : NULL;

	return last ? (pid_t)strtol(last, NULL, 10) : pid;
}

/* From /proc/PID/status. uids: real and effective user. */
static int read_status(pid_t pid, pid_t *ns_pid, uid_t uids[2], struct file_reader *reader)
{
	_cleanup_free_ char *status = malloc(STATUS_BYTES);
	ssize_t n = status ? proc_file__read(PROC_FILE_HERE, pid, "status", status, STATUS_BYTES) : -ENOMEM;
	const char *uid;

	if (n < 0)
		return (int)n;
	uid = strstr(status, "\nUid:");
	if (!uid || sscanf(uid, "\nUid:\t%u\t%u", &uids[0], &uids[1]) != 2 || !file_reader__parse(status, reader))
		return -ESRCH;
	*ns_pid = own_pid(status, pid);
	return 0;
}

#define PATH_BYTES 64

/* A process may have others' files mounted in this place. uids: who may own the file, besides root. */
static int open_map(const char *root, pid_t ns_pid, const uid_t uids[2], const struct file_reader *reader,
		    char path[PATH_BYTES], struct so_error *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	snprintf(path, PATH_BYTES, "/tmp/perf-%d.map", ns_pid);
	fd = bounded_open(root, path, false, reader);
	if (fd < 0)
		return so_err(err, fd, "cannot open %s: %s", path, strerror(-fd));
	if (fstat(fd, &st) < 0)
		return so_err(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != uids[0] && st.st_uid != uids[1])
		return so_err(err, -EPERM, "%s belongs to user %u, not to its process's: not read", path, st.st_uid);
	return TAKE_FD(fd);
}

/* fd, path: of open_map(), or an error that it has put into words. */
static int read_map(int fd, const char *path, struct perf_map **out, struct so_error *err)
{
	__attribute__((cleanup(cleanup__builder))) struct builder builder = { 0 };
	struct stat st;
	int ret = fd < 0 ? fd : fstat(fd, &st) ? -errno : 0;

	if (fd < 0)
		return fd;
	ret = ret ?: read_backwards(fd, (uint64_t)st.st_size, &builder);
	ret = ret ?: build(&builder, out);
	return ret < 0 ? so_err(err, ret, "cannot read %s: %s", path, strerror(-ret)) : 0;
}

static int open_of(pid_t pid, char path[PATH_BYTES], struct so_error *err)
{
	struct file_reader reader;
	pid_t ns_pid = 0;
	uid_t uids[2];
	char root[32];
	int ret = read_status(pid, &ns_pid, uids, &reader);

	if (ret < 0)
		return so_err(err, ret, "process %d does not exist (any more)", pid);
	snprintf(root, sizeof(root), "/proc/%d/root", live_thread__of(pid));
	return open_map(root, ns_pid, uids, &reader, path, err);
}

int perf_map__open(pid_t pid, struct so_error *err)
{
	char path[PATH_BYTES];

	return open_of(pid, path, err);
}

int perf_map__read(pid_t pid, struct perf_map **out, struct so_error *err)
{
	char path[PATH_BYTES];
	_cleanup_close_ int fd = open_of(pid, path, err);

	return read_map(fd, path, out, err);
}

int perf_map__read_ended(pid_t pid, uid_t uid, struct perf_map **out, struct so_error *err)
{
	const struct file_reader reader = { .uid = uid, .gid = (gid_t)-1 };
	const uid_t uids[2] = { uid, uid };
	char path[PATH_BYTES];
	_cleanup_close_ int fd = open_map("/", pid, uids, &reader, path, err);

	return read_map(fd, path, out, err);
}

const char *perf_map__lookup(const struct perf_map *map, uint64_t address)
{
	size_t low = ARRAY_BEFORE(i, map->n, map->pieces[i].start <= address);

	if (low == 0 || address - map->pieces[low - 1].start >= map->pieces[low - 1].size)
		return NULL;
	return map->names + map->pieces[low - 1].name;
}

#define MAX_COVERING 4096 /* lines looked at for one address, those with the highest start first */

static bool covers(const struct range *range, uint64_t address)
{
	return range && address - range->start < range->size;
}

/* Names that are there already stay once. */
static void add_name(struct perf_map_names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++) {
		if (!strcmp(names->list[i], name))
			return;
	}
	if (names->n < PERF_MAP_MAX_NAMES)
		names->list[names->n++] = name;
	else
		names->more = true;
}

void perf_map__names_between(const struct perf_map *map, uint64_t address, uint64_t from, uint64_t to,
			     struct perf_map_names *out)
{
	size_t end = ARRAY_BEFORE(i, map->n_ranges, map->ranges[i].start <= address);
	size_t last = end > MAX_COVERING ? end - MAX_COVERING : 0;
	const struct range *before = NULL, *after = NULL, *r;

	*out = (struct perf_map_names){ 0 };
	for (size_t i = end; i-- > last && map->ends[i] > address;) {
		r = &map->ranges[i];
		if (!covers(r, address))
			continue;
		if (r->at < from && (!before || r->at > before->at))
			before = r;
		if (r->at >= to && (!after || r->at < after->at))
			after = r;
	}
	if (before)
		add_name(out, map->names + before->name);
	for (size_t i = end; from < to && i-- > last && map->ends[i] > address;) {
		r = &map->ranges[i];
		if (covers(r, address) && r->at >= from && r->at < to)
			add_name(out, map->names + r->name);
	}
	if (!out->n && after)
		add_name(out, map->names + after->name);
}

void perf_map__free(struct perf_map *map)
{
	if (!map)
		return;
	free(map->pieces);
	free(map->ranges);
	free(map->ends);
	free(map->names);
	free(map);
}
