// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/text_copies.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/elf/elf_file.h"
#include "daemon/os/memory_lock.h"

/* A copy may consist of up to N mappings. */
#define MAX_PIECES 8
/* Padding and unreadable memory are not compared. A program may have patched some of its code. */
#define MIN_EQUAL      2 /* places */
#define MAX_DIFFERENCE 4 /* equal places for each one that differs, at least */

struct search {
	pid_t pid;
	struct proc_maps *maps;
	unsigned tries;
};

/* A part of a mapping, and the part of the file that it may be a copy of. */
struct copy {
	uint64_t start, end; /* process addresses */
	uint64_t offset;     /* of the start, in the file */
};

static bool starts_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* MAP_HUGETLB memory has a file of the kernel's own. */
static bool may_be_copy(const struct proc_map *map)
{
	return map->executable &&
	       (map->inode ? !strcmp(map->path, "/anon_hugepage") || starts_with(map->path, "/memfd:")
			   : !map->path[0] || starts_with(map->path, "[anon"));
}

/*
 * The nearest file mapping below (step -1) or above (1) that is not a possible copy. adjoins: there is no gap in
 * between.
 */
static const struct proc_map *neighbour(const struct proc_maps *maps, size_t i, size_t step, bool *adjoins)
{
	*adjoins = true;
	for (unsigned n = 0; n < MAX_PIECES && i + step < maps->n; n++) {
		const struct proc_map *from = &maps->maps[i], *to = &maps->maps[i += step];

		*adjoins = *adjoins && (from->end == to->start || to->end == from->start);
		if (!may_be_copy(to))
			return to->inode ? to : NULL;
	}
	return NULL;
}

static bool same_file(const struct proc_map *a, const struct proc_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static bool is_padding(const uint8_t *bytes)
{
	return !memcmp(bytes, bytes + 1, TEXT_COPY_PLACE_BYTES - 1);
}

static bool holds_text(struct search *s, int fd, const struct copy *copy)
{
	uint64_t step = (copy->end - copy->start - TEXT_COPY_PLACE_BYTES) / (TEXT_COPY_PLACES - 1);
	uint8_t text[TEXT_COPY_PLACE_BYTES], memory[TEXT_COPY_PLACE_BYTES];
	unsigned equal = 0, different = 0;

	if (s->tries++ >= TEXT_COPY_MAX_TRIES)
		return false;
	for (uint64_t i = 0; i < TEXT_COPY_PLACES; i++) {
		ssize_t n = pread(fd, text, sizeof(text), (off_t)(copy->offset + i * step));

		if (n != sizeof(text) || is_padding(text) ||
		    memory_lock__read(s->pid, copy->start + i * step, memory, sizeof(memory)) != sizeof(memory))
			continue;
		if (!memcmp(text, memory, sizeof(text)))
			equal++;
		else
			different++;
	}
	return equal >= MIN_EQUAL && different * MAX_DIFFERENCE <= equal;
}

static uint64_t pages_down(uint64_t address)
{
	return address & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

static uint64_t pages_up(uint64_t address)
{
	return pages_down(address + (uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The part of the hole that lies in the segment's range. bias: process address minus ELF virtual address. */
static bool overlap(const struct elf_segment *segment, uint64_t bias, const struct proc_map *hole, struct copy *out)
{
	uint64_t start = pages_down(bias + segment->vaddr), end = pages_up(bias + segment->vaddr + segment->filesz);

	if (!(segment->flags & PF_X) || !segment->filesz || end <= start)
		return false;
	out->start = start > hole->start ? start : hole->start;
	out->end = end < hole->end ? end : hole->end;
	out->offset = out->start - bias - segment->vaddr + segment->offset;
	return out->start < out->end;
}

/* Segments may share a page of the file, so the mapping may be of several: each gives a bias to try. */
static bool find_copy(struct search *s, int fd, const struct elf_file *elf, const struct proc_map *of_file,
		      const struct proc_map *hole, struct copy *out)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *mapped = &elf->segments[i];
		uint64_t bias = of_file->start - (mapped->vaddr + (of_file->offset - mapped->offset));

		if (of_file->offset < pages_down(mapped->offset) ||
		    of_file->offset >= pages_up(mapped->offset + mapped->filesz))
			continue;
		for (unsigned j = 0; j < elf->n_segments; j++) {
			if (overlap(&elf->segments[j], bias, hole, out) && holds_text(s, fd, out))
				return true;
		}
	}
	return false;
}

static bool is_copy_beside(struct search *s, const struct proc_map *of_file, const struct proc_map *hole,
			   struct copy *out)
{
	_cleanup_close_ int fd = s->tries++ < TEXT_COPY_MAX_TRIES ? proc_maps__open_file(s->pid, of_file) : -1;
	struct elf_file elf;

	return fd >= 0 && !elf_file__read(fd, &elf, NULL) && find_copy(s, fd, &elf, of_file, hole, out);
}

/* Splits the hole if it extends beyond the copy. */
static bool replace(struct proc_maps *maps, size_t i, const struct proc_map *of_file, const struct copy *copy)
{
	const struct proc_map hole = maps->maps[i], file = *of_file;
	bool before = hole.start < copy->start, after = copy->end < hole.end;
	size_t more = (size_t)before + after;
	struct proc_map *list = more ? reallocarray(maps->maps, maps->n + more, sizeof(*list)) : maps->maps, *at;

	if (!list)
		return false;
	maps->maps = list;
	at = &list[i];
	memmove(at + 1 + more, at + 1, (maps->n - i - 1) * sizeof(*at));
	maps->n += more;
	if (before) {
		*at = hole;
		(at++)->end = copy->start;
	}
	*at = file;
	at->start = copy->start;
	at->end = copy->end;
	at->offset = copy->offset;
	at->readable = hole.readable;
	at->writable = hole.writable;
	at->executable = true;
	at->file_start = file.start;
	at->file_end = file.end;
	if (after) {
		*++at = hole;
		at->start = copy->end;
	}
	return true;
}

static void look_at(struct search *s, size_t i)
{
	struct proc_maps *maps = s->maps;
	bool adjoins_below, adjoins_above;
	const struct proc_map *below = neighbour(maps, i, (size_t)-1, &adjoins_below),
			      *above = neighbour(maps, i, 1, &adjoins_above);
	bool between = below && above && same_file(below, above);
	struct copy copy;

	if (below && (between || adjoins_below) && is_copy_beside(s, below, &maps->maps[i], &copy)) {
		replace(maps, i, below, &copy);
		return;
	}
	if (above && !between && adjoins_above && is_copy_beside(s, above, &maps->maps[i], &copy))
		replace(maps, i, above, &copy);
}

void text_copies__find(pid_t pid, struct proc_maps *maps)
{
	struct search s = { .pid = pid, .maps = maps };

	for (size_t i = 0; i < maps->n && s.tries < TEXT_COPY_MAX_TRIES; i++) {
		if (may_be_copy(&maps->maps[i]))
			look_at(&s, i);
	}
}
