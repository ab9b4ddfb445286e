/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A registry of files for its tests, which look into it: they include its source. */
#ifndef STAKEOUT_TESTS_REGISTRY_WORLD_H
#define STAKEOUT_TESTS_REGISTRY_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/files/file_registry.c"
#include "daemon/unwind/table_pool.c"
#include "tests/unit/fake_sampler.h"

#define PAGE 4096

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
	struct file_registry *files;
	char dir[32];
};

static int set_up(void **state)
{
	static struct world w;

	w.sampler = fake_sampler__new();
	assert_non_null(w.sampler);
	assert_int_equal(table_pool__new(w.sampler, &w.pool), 0);
	assert_int_equal(file_registry__new(w.pool, NULL, "/usr/lib/debug", &w.files, NULL), 0);
	strcpy(w.dir, "/tmp/stakeout-XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	*state = &w;
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int tear_down(void **state)
{
	struct world *w = *state;

	file_registry__free(w->files);
	table_pool__free(w->pool);
	sampler__free(w->sampler);
	nftw(w->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* A copy of the entry of /proc/self/maps that holds the address; its path must be freed by release_map(). */
static struct proc_map map_of(const void *address)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	const struct proc_map *found;
	struct proc_map map;

	assert_int_equal(proc_maps__read(getpid(), false, &maps, NULL), 0);
	found = proc_maps__find(&maps, (uintptr_t)address);
	assert_non_null(found);
	map = *found;
	map.path = strdup(found->path);
	assert_non_null(map.path);
	return map;
}

static void release_map(struct proc_map *map)
{
	free((char *)map->path);
}

/* Makes a file of these bytes and maps it executable, as the target of a profiler would. */
static void *map_bytes(struct world *w, const char *name, const void *bytes, size_t n)
{
	_cleanup_close_ int fd = -1;
	char path[96];
	void *at;

	snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static const struct file_entry *expect_known(struct world *w, const struct proc_map *map, bool want_known)
{
	bool known = !want_known;
	const struct file_entry *file = file_registry__find(w->files, map, &known);

	if (!file)
		assert_int_equal(known, want_known);
	return file;
}

static int prepare_and_add(struct world *w, const struct proc_map *map)
{
	struct prepared_file *p = NULL;
	int ret = file_registry__prepare(w->files, getpid(), map, &p);

	return ret ? ret : file_registry__add(w->files, p);
}

/* Whatever text follows the link edge: its own function, by its own symbol table. */
static uint64_t own_vaddr(const struct proc_map *map, const struct file_entry *file, const void *address)
{
	uint64_t bias;

	assert_int_equal(elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &bias), 0);
	return (uintptr_t)address - bias;
}

static void drop_symbols(struct file_registry *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		if (!r->slots[i])
			continue;
		elf_symbols__free(TAKE_PTR(r->slots[i]->symbols));
		r->slots[i]->symbols_tried = false;
	}
}

#endif
