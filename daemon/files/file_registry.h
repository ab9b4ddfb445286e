/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ELF files that targets have mapped: each gets a number, which is what a sampled frame carries, an open file
 * descriptor (so that a deleted or replaced file can still be read, and its inode number cannot be reused), its unwind
 * table in the pool, and on demand its symbols.
 *
 * Files come and go with the programs that map them. A file that no run of mappings uses is idle; an idle file is
 * retired after a while: its table is given back and it is not found any more, so a process that maps it again makes a
 * new entry (its table comes from the cache). Its number, path, build-id, descriptor and symbols stay for the stacks
 * that name it; once there is none, it is collected, and the number may come to mean another file. So do files that are
 * no ELF files, which have a place and a descriptor too.
 *
 * Looking a file up and adding one are for the engine's lock; reading and compiling one (file_registry__prepare) is
 * for no lock at all, since it takes long; symbols have a lock of their own.
 */
#ifndef STAKEOUT_FILE_REGISTRY_H
#define STAKEOUT_FILE_REGISTRY_H

#include "daemon/elf/elf_file.h"
#include "daemon/symbols/elf_symbols.h"
#include "daemon/unwind/learned_code.h"
#include "daemon/os/proc_maps.h"
#include "daemon/python/python_image.h"
#include "daemon/symbols/source_lines.h"
#include "daemon/unwind/table_pool.h"
#include "daemon/unwind/unwind_cache.h"

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
	uint64_t asyncio_table;      /* ELF virtual address of asyncio's table of offsets; 0: it has none */
};

/* A file read and compiled, not yet in the registry. */
struct prepared_file;

struct file_registry_stats {
	uint64_t files;                      /* ELF files that are found, but for the vdso */
	uint64_t compiled, from_cache;       /* since all were forgotten */
	uint64_t bad_fdes, unsupported_rows; /* of files that are found */
	uint64_t places;                     /* in use: of all files, retired ones included */
	uint64_t descriptors;
	uint64_t idle;    /* places that nothing uses, and that are not retired */
	uint64_t retired; /* places that are */
	uint64_t freed;   /* ever */
	uint64_t full;    /* files that are found without their table: it did not fit into the pool */
	uint64_t refused_files, refused_tables; /* for want of a place, or of room in the pool, ever */
	uint64_t refused_shares;                /* files for want of a place in their user's share, ever */
};

/* What a run of mappings uses. */
struct file_use {
	uint32_t place;                /* 0: nothing */
	struct learned_table *learned; /* NULL: none */
};

#define FILE_SET_WORDS (SO_MAX_FILES / 64 + 1)

/* Numbers of files. */
struct file_set {
	uint64_t words[FILE_SET_WORDS];
};

static inline void file_set__add(struct file_set *set, uint32_t number)
{
	if (number <= SO_MAX_FILES)
		set->words[number / 64] |= 1ull << number % 64;
}

static inline bool file_set__has(const struct file_set *set, uint32_t number)
{
	return number <= SO_MAX_FILES && set->words[number / 64] >> number % 64 & 1;
}

/* pool, cache (may be NULL): borrowed. debug_root: where separate debug files are looked up. */
int file_registry__new(struct table_pool *pool, struct unwind_cache *cache, const char *debug_root,
		       struct file_registry **out, struct so_error *err);
void file_registry__free(struct file_registry *registry);
CLEANUP_DEFINE(struct file_registry *, file_registry, file_registry__free)

/*
 * The file of a mapping, if it is registered; NULL otherwise. *known tells, when NULL is returned, that the mapping has
 * been looked at and is backed by no ELF file. "[vdso]" is always registered.
 */
const struct file_entry *file_registry__find(struct file_registry *registry, const struct proc_map *map, bool *known);

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

/*
 * A mapping's file, ELF file or not, and what is published of its learned code, are in use from now on. NULL learned:
 * the registry's own. For one run of mappings, by process_table.c.
 */
struct file_use file_registry__use(struct file_registry *registry, const struct proc_map *map);
void file_registry__unuse(struct file_registry *registry, struct file_use use);
/* One more of the same. */
struct file_use file_registry__use_again(struct file_registry *registry, struct file_use use);

/*
 * Retires files that have been idle for idle_ns, until the clock says until_ns; false: it did, and there are more. What
 * was learned of them goes to the cache. moment: any count that never falls; see file_registry__collect().
 */
bool file_registry__retire_idle(struct file_registry *registry, uint64_t idle_ns, uint64_t moment, uint64_t until_ns);
/*
 * Retires files without table whose table would fit now, though they are in use: processes that map them are to be
 * scanned again. Returns how many.
 */
unsigned file_registry__retire_full(struct file_registry *registry, uint64_t moment);
/* Users other than root that were refused a place of their share, and did not get one since. */
bool file_registry__has_refused(const struct file_registry *registry);
/* Whether the user is one of these and has room for a file now: their processes are to be scanned again. */
bool file_registry__has_place_again(const struct file_registry *registry, uid_t uid);
/* Those that have room now were scanned again; whoever is refused another time is one of them anew. */
void file_registry__forget_refused(struct file_registry *registry);
/* How many are retired since `moment` or before, and unused. */
unsigned file_registry__count_retired(const struct file_registry *registry, uint64_t moment);

/* Files that are in the registry no more. */
struct dead_files;

/*
 * Takes out files that were retired at `moment` or before, that are unused, and whose numbers are not in `live`:
 * whoever might still name others has to be over with them. NULL: none. Their numbers are given to other files from now
 * on.
 */
struct dead_files *file_registry__collect(struct file_registry *registry, const struct file_set *live, uint64_t moment);
/* Closes them, without any lock: the last descriptor of a deleted file may take long. NULL is fine. */
void dead_files__free(struct dead_files *dead);

/*
 * The file of a number, retired or not; NULL for no such file. This, and file_registry__symbol(), need no lock while a
 * stack that is kept, or was copied by a call that holds its target, has the number.
 */
const struct file_entry *file_registry__get(struct file_registry *registry, uint32_t number);

/* What is learned of the file's code that has no rules of its own; NULL for no such file. */
struct learned_code *file_registry__learned(struct file_registry *registry, uint32_t number);
/* The addresses around vaddr that the file itself has no rules for; see table_pool__gap(). */
int file_registry__gap(struct file_registry *registry, uint32_t number, uint64_t vaddr, uint64_t reach, uint64_t *low,
		       uint64_t *high);
/* Visits the file's own rows around the addresses [low, high); see table_pool__each_row(). */
int file_registry__each_row(struct file_registry *registry, uint32_t number, uint64_t low, uint64_t high,
			    void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule),
			    void *context);
/*
 * Reads the file's own code at a virtual address: what its processes share, whatever one of them has made of its copy.
 * Returns the bytes read. Needs no lock while a target or a scan refers to the file.
 */
size_t file_registry__read_code(struct file_registry *registry, uint32_t number, uint64_t vaddr, void *buf,
				size_t size);
/* Functions that begin in [low, high), by rising start, as elf_symbols__functions(). Loads the symbols. Thread-safe. */
size_t file_registry__functions(struct file_registry *registry, uint32_t number, uint64_t low, uint64_t high,
				struct elf_symbol *out, size_t room);
/* Makes what was learned since the last call part of the file's table. Mappings made before do not see it. -ENOENT. */
int file_registry__publish_learned(struct file_registry *registry, uint32_t number);

/*
 * The function at an address of a file: raw name into `name`, its start into *start. -ENOENT when there is none.
 * Symbols are loaded at the first call for a file. Thread-safe.
 */
int file_registry__symbol(struct file_registry *registry, uint32_t number, uint64_t vaddr, char *name, size_t size,
			  uint64_t *start);
/* The name of a function that no symbol covers: "[FILE+0xADDRESS]", by where it begins in the file. As above. */
int file_registry__unnamed(struct file_registry *registry, uint32_t number, uint64_t vaddr, char *name, size_t size);
/* The kernel launched by the call that returns to vaddr, as elf_symbols__launch(). Loads the symbols. Thread-safe. */
int file_registry__launch(struct file_registry *registry, uint32_t number, uint64_t vaddr, char *name, size_t size);
/*
 * Loads the symbols if they are not, without keeping those waiting who ask for other files'. The file must be in use
 * (see file_registry__use()).
 */
void file_registry__load_symbols(struct file_registry *registry, uint32_t number);
/* Who reads source lines for it; borrowed until the registry is freed. NULL, as at first: nobody. */
void file_registry__set_source_lines(struct file_registry *registry, struct source_lines *lines);
/*
 * The source line of an address, and the functions that were inlined there, as source_lines__find(); nothing is known
 * of a file without DWARF information. Thread-safe; under no lock, as it may take long.
 */
int file_registry__source_lines(struct file_registry *registry, uint32_t number, uint64_t vaddr, uint64_t deadline_ns,
				struct source_frames *out);
/* Has the file's debug information read, as source_lines__prepare(). The file must be in use, or a held target's. */
void file_registry__prepare_lines(struct file_registry *registry, uint32_t number);
/* source_lines__patience_ns(). */
uint64_t file_registry__lines_patience_ns(const struct file_registry *registry);

/*
 * Forgets all files, after writing what was learned of them to the cache. No process and no stack may refer to them any
 * more. Their tables are given back, unless the pool was reset before.
 */
void file_registry__reset(struct file_registry *registry);
struct file_registry_stats file_registry__stats(const struct file_registry *registry);

#endif
