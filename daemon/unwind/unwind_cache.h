/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compiled unwind tables on disk, one zstd-compressed file per ELF build-id. A file that is corrupt, truncated
 * or of another format version is treated as absent, removed, and rebuilt by the next store.
 */
#ifndef STAKEOUT_UNWIND_CACHE_H
#define STAKEOUT_UNWIND_CACHE_H

#include "daemon/unwind/unwind_table.h"

struct unwind_cache;

struct unwind_cache_stats {
	uint64_t hits, misses, corrupt, stored, store_failed;
};

/*
 * dir: folder for the cache, created (0700) with its parents if need be; NULL picks $STAKEOUT_CACHE_DIR, then
 * /var/cache/stakeout for root, else $XDG_CACHE_HOME/stakeout or ~/.cache/stakeout. max_bytes bounds the folder (0: 1
 * GiB); the files used longest ago go first. A folder that belongs to another user or is writable by others is refused
 * with -EPERM (tables decide what a profile says). On failure the daemon goes on without a cache.
 */
int unwind_cache__open(const char *dir, uint64_t max_bytes, struct unwind_cache **out, struct so_error *err);

/* key: lower-case hex build-id, or any [0-9a-z-]{1,80}. -ENOENT when absent or corrupt. Thread-safe. */
int unwind_cache__load(struct unwind_cache *cache, const char *key, struct unwind_table **out);

/* Writes atomically (temporary file, rename). Thread-safe. */
int unwind_cache__store(struct unwind_cache *cache, const char *key, const struct unwind_table *table);

struct unwind_cache_stats unwind_cache__stats(struct unwind_cache *cache);
void unwind_cache__close(struct unwind_cache *cache);
CLEANUP_DEFINE(struct unwind_cache *, unwind_cache, unwind_cache__close)

#endif
