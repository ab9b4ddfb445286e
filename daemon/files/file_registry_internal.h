/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The registry's own state, for file_registry.c and file_retire.c alone. */
#ifndef STAKEOUT_FILE_REGISTRY_INTERNAL_H
#define STAKEOUT_FILE_REGISTRY_INTERNAL_H

#include <pthread.h>

#include "daemon/files/file_registry.h"
#include "daemon/os/user_shares.h"

/* What is learned of a file has the key of its table with this behind it. */
#define LEARNED_SUFFIX "-l"
#define CACHE_KEY_SIZE 96

struct slot {
	struct file_entry entry;
	uint64_t dev, inode;
	int fd;                  /* -1 for the vdso */
	bool copied;             /* fd is a copy (file_copy.h) */
	struct table_pieces own; /* the file's own table; entry.table shows this or learned.pieces */
	struct learned_code learned;
	size_t kept;              /* learned.n when it was last the same as in the cache */
	char key[CACHE_KEY_SIZE]; /* of the table in the cache; "" when it has none */
	struct elf_symbols *symbols;
	bool symbols_tried;
	struct file_reader reader; /* who mapped it first: what else is read for it, they could read */
	struct source_file source; /* what `fd` is */
	uint32_t place;         /* slots[place - 1] is this; entry.number is the same, but 0 of what is no ELF file */
	uint32_t next_same_key; /* place of the next file whose key hashes alike; 0: none */
	uint64_t bad_fdes, unsupported_rows;
	uid_t owner;          /* the file's, as far as its file system is to be believed */
	uint64_t table_words; /* about what its own table needs in the pool */
	unsigned uses;
	uint64_t idle_ns; /* when the last use ended */
	bool retired;
	uint64_t retired_moment;
	struct slot *next_dead;
};

struct file_registry {
	struct table_pool *pool;
	struct unwind_cache *cache;
	char *debug_root;
	/* slots[number - 1]; NULL: free. Never moves, so that readers need no lock: a slot is seen only when whole. */
	struct slot **slots;
	uint32_t n;     /* places that were ever in use */
	uint32_t *free; /* places among them that are free; a ring, oldest first, of SO_MAX_FILES */
	uint32_t first_free, n_free;
	struct user_shares place_shares; /* of who mapped the files first */
	struct u64_table refused;        /* by user: 1, refused a place of their share; 0, not any more */
	uint32_t n_refused;              /* users of the former kind */
	struct u64_table by_key;
	uint32_t vdso;
	void *vdso_image;
	size_t vdso_bytes;
	pthread_mutex_t symbols_lock;
	struct source_lines *source_lines; /* borrowed; NULL: none are read */
	struct file_registry_stats stats;
};

/* NULL: no file has the number, or place. */
static inline struct slot *registry_slot(const struct file_registry *r, uint32_t place)
{
	return place && place <= SO_MAX_FILES ? __atomic_load_n(&r->slots[place - 1], __ATOMIC_ACQUIRE) : NULL;
}

static inline uint64_t registry_key(uint64_t dev, uint64_t inode)
{
	return dev * 0x9e3779b97f4a7c15ull ^ inode;
}

/* The slot of a mapping's file, of any kind, that is not retired; NULL: none. */
struct slot *registry_find(const struct file_registry *registry, const struct proc_map *map);
/* Best effort: what cannot be written is learned again. */
void registry_keep_learned(struct file_registry *registry, struct slot *slot);
/* Closes and frees. What it had in the pool has been given back. */
void registry_free_slot(struct slot *slot);
/* Gives back what it has in the pool. */
void registry_release_tables(struct file_registry *registry, struct slot *slot);

#endif
