// SPDX-License-Identifier: GPL-2.0-or-later
/* What the store does between two windows, and its figures. */
#include <sys/stat.h>

#include "daemon/os/clock.h"
#include "daemon/history/store_internal.h"

/* One step of the first kind of work that there is. 1: done; 0: nothing to do. */
static int step(struct store *store)
{
	int ret = store_compact__merge(store, 0);

	ret = ret ?: store_compact__merge(store, 1);
	ret = ret ?: store_compact__drop_parts(store, 0);
	ret = ret ?: store_compact__drop_parts(store, 1);
	ret = ret ?: store_retain__by_age(store);
	ret = ret ?: store_retain__by_size(store);
	ret = ret ?: store_retain__shrink(store);
	return ret ?: store_retain__sweep(store);
}

static int step_locked(struct store *store)
{
	int ret;

	pthread_mutex_lock(&store->lock);
	ret = store__connect(store);
	if (!ret) {
		ret = store_write__late_targets(store) ?: step(store);
		if (ret < 0)
			store__failed(store, ret);
	}
	pthread_mutex_unlock(&store->lock);
	return ret;
}

int store__maintain(struct store *store, unsigned budget_ms)
{
	uint64_t deadline_ns = clock__now_ns() + budget_ms * 1000000ull;
	int ret;

	do {
		ret = step_locked(store);
	} while (ret > 0 && clock__now_ns() < deadline_ns);
	return ret;
}

static uint64_t file_bytes(const char *path, const char *suffix)
{
	char name[4096];
	struct stat st;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return stat(name, &st) ? 0 : (uint64_t)st.st_size;
}

static int read_stats(struct store *store, struct store_stats *stats)
{
	int64_t n;
	int ret = store_retain__used(store->db, &n);

	stats->used_bytes = ret ? 0 : (uint64_t)n;
	for (int level = 0; !ret && level < 3; level++) {
		ret = SQL_GET(store->db, &n, "SELECT count(*) FROM windows WHERE level = ?1", level);
		stats->windows[level] = ret ? 0 : (uint64_t)n;
	}
	stats->file_bytes = file_bytes(store->path, "") + file_bytes(store->path, "-wal");
	stats->added = store->n_added;
	stats->missed = store->n_missed;
	return ret;
}

int store__stats(struct store *store, struct store_stats *out)
{
	struct store_stats stats;
	int ret;

	pthread_mutex_lock(&store->lock);
	ret = store__connect(store);
	if (!ret) {
		ret = read_stats(store, &stats);
		if (ret)
			store__failed(store, ret);
	}
	pthread_mutex_unlock(&store->lock);
	if (!ret)
		*out = stats;
	return ret;
}
