/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ELF files that targets have mapped: each gets a number, which is what a sampled frame carries, an open file
 * descriptor (so that a deleted or replaced file can still be read, and its inode number cannot be reused), its unwind
 * table in the pool, and on demand its symbols.
 *
 * Looking a file up and adding one are for the engine's lock; reading and compiling one (file_registry__prepare) is
 * for no lock at all, since it takes long; symbols have a lock of their own.
 */
#ifndef STAKEOUT_FILE_REGISTRY_H
#define STAKEOUT_FILE_REGISTRY_H

#include "daemon/elf_file.h"
#include "daemon/elf_symbols.h"
#include "daemon/learned_code.h"
#include "daemon/proc_maps.h"
#include "daemon/python_image.h"
#include "daemon/table_pool.h"
#include "daemon/unwind_cache.h"

struct file_registry;

struct file_entry {
	uint32_t number; /* from 1 */
	char *path;      /* as the target calls it */
	struct elf_file elf;
	enum so_mapping_state state;
	struct table_pieces
		table; /* when state is SO_MAPPING_TABLE; borrowed from what is learned or from the file's own */
	uint64_t rows;
	struct python_image *python; /* the interpreter in it; NULL: none that is supported */
	char *python_problem;        /* in words, of one that is not supported; NULL */
};

/* A file read and compiled, not yet in the registry. */
struct prepared_file;

struct file_registry_stats {
	uint64_t files, compiled, from_cache, bad_fdes, unsupported_rows;
};

/* pool, cache (may be NULL): borrowed. debug_root: where separate debug files are looked up. */
int file_registry__new(struct table_pool *pool, struct unwind_cache *cache, const char *debug_root,
		       struct file_registry **out, struct so_error *err);
void file_registry__free(struct file_registry *registry);
CLEANUP_DEFINE(struct file_registry *, file_registry, file_registry__free)

/*
 * The file of a mapping, if it is registered; NULL otherwise. *known tells, when NULL is returned, that the mapping has
 * been looked at and is backed by no ELF file. "[vdso]" is always registered.
 */
const struct file_entry *file_registry__find(struct file_registry *registry, const struct proc_map *map,
					     bool *known);

/*
 * Opens, reads and compiles the file behind a process's mapping (or takes its table from the cache). A file that is no
 * ELF file, or whose unwind information is damaged, is prepared too and remembered as such. -ESRCH or another -errno
 * when it cannot be opened. Thread-safe.
 */
int file_registry__prepare(struct file_registry *registry, pid_t pid, const struct proc_map *map,
			   struct prepared_file **out);
void prepared_file__free(struct prepared_file *prepared);
/* Registers a prepared file, whose ownership it takes, also on failure. A file registered meanwhile is no error. */
int file_registry__add(struct file_registry *registry, struct prepared_file *prepared);

const struct file_entry *file_registry__get(struct file_registry *registry, uint32_t number);

/* What is learned of the file's code that has no rules of its own; NULL for no such file. */
struct learned_code *file_registry__learned(struct file_registry *registry, uint32_t number);
/* The addresses around vaddr that the file itself has no rules for; see table_pool__gap(). */
int file_registry__gap(struct file_registry *registry, uint32_t number, uint64_t vaddr, uint64_t reach,
		       uint64_t *low, uint64_t *high);
/*
 * Reads the file's own code at a virtual address: what its processes share, whatever one of them has made of its copy.
 * Returns the bytes read. Needs no lock while a target or a scan refers to the file.
 */
size_t file_registry__read_code(struct file_registry *registry, uint32_t number, uint64_t vaddr, void *buf,
				size_t size);
/* The functions that begin in [low, high), as elf_symbols__functions(). Loads the symbols. Thread-safe. */
size_t file_registry__functions(struct file_registry *registry, uint32_t number, uint64_t low, uint64_t high,
				struct elf_symbol *out, size_t room);
/* Makes what was learned since the last call part of the file's table. Mappings made before do not see it. */
int file_registry__publish_learned(struct file_registry *registry, uint32_t number);

/*
 * The function at an address of a file: raw name into `name`, its start into *start. -ENOENT when there is none.
 * Symbols are loaded at the first call for a file. Thread-safe.
 */
int file_registry__symbol(struct file_registry *registry, uint32_t number, uint64_t vaddr, char *name,
			  size_t size, uint64_t *start);
/* Gives back the memory of symbol tables; they are loaded again when needed. */
void file_registry__drop_symbols(struct file_registry *registry);

/* Forgets all files, after writing what was learned of them to the cache. No process and no stack may refer to them any more. */
void file_registry__reset(struct file_registry *registry);
struct file_registry_stats file_registry__stats(const struct file_registry *registry);

#endif
