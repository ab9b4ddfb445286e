/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The interpreter in a running process as the daemon finds it, and that process's memory. */
#ifndef STAKEOUT_TESTS_PYTHON_MEMORY_H
#define STAKEOUT_TESTS_PYTHON_MEMORY_H

#include <errno.h>

#include "daemon/os/process_memory.h"
#include "daemon/elf/elf_file.h"
#include "daemon/os/foreign_memory.h"
#include "daemon/os/proc_maps.h"
#include "daemon/python/python_image.h"

/* context: a pid_t. */
static inline bool python_memory__read(void *context, uint64_t address, void *to, size_t bytes)
{
	static struct process_memory reader; /* kept, as what is read changes meanwhile */
	pid_t pid = *(const pid_t *)context;

	if (reader.pid != pid) {
		if (reader.pid)
			process_memory__end(&reader);
		reader = process_memory__of(pid);
	}
	return process_memory__get(&reader, address, to, bytes) == bytes;
}

struct python_found {
	struct python_image image;
	uint64_t bias;  /* process address minus ELF virtual address */
	unsigned files; /* with an interpreter, supported or not */
	struct so_error err;
};

/* Looks through the files that a process executes. 0, -ENOENT: no interpreter, or as python_image__read(). */
static inline int python_memory__find(pid_t pid, struct python_found *out)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	struct python_found found = { .files = 0 };
	int result = -ENOENT;

	if (proc_maps__read(pid, true, &maps, &found.err) < 0)
		return -ESRCH;
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *map = &maps.maps[i];
		_cleanup_close_ int fd = map->inode ? proc_maps__open_file(pid, map) : -1;
		struct elf_file elf;
		int r;

		if (fd < 0 || elf_file__read(fd, &elf, NULL) < 0)
			continue;
		r = python_image__read(fd, map->path, NULL, &found.image, &found.err);
		if (r == -ENOENT)
			continue;
		found.files++;
		result = r;
		if (r == 0)
			r = elf_file__bias(&elf, map->start, map->end - map->start, map->offset, &found.bias);
		if (r < 0)
			result = r;
	}
	*out = found;
	return result;
}

#endif
