// SPDX-License-Identifier: GPL-2.0-or-later
/* Removes what is too old or too much and gives the room back. A sum goes with its parts (ON DELETE CASCADE). */
#include <errno.h>

#include "daemon/history/store_internal.h"

#define AGE_STEP_WINDOWS  16
#define SHRINK_STEP_PAGES 256
#define SHRINK_PART       8 /* free pages that are kept for what comes: one in so many */
#define SWEEP_NS          STORE_MINUTE_NS
#define MAX_GAPS          10000
#define FUTURE_NS         (24 * 60 * STORE_MINUTE_NS)

#define WHOLE_BY_AGE "part_of IS NULL ORDER BY begin_ns LIMIT 1"

struct pages {
	int64_t size, count, free;
};

static int count_pages(sqlite3 *db, struct pages *pages)
{
	int ret = sql__get_number(db, "PRAGMA page_size", 0, NULL, &pages->size);

	ret = ret ?: sql__get_number(db, "PRAGMA page_count", 0, NULL, &pages->count);
	return ret ?: sql__get_number(db, "PRAGMA freelist_count", 0, NULL, &pages->free);
}

int store_retain__used(sqlite3 *db, int64_t *bytes)
{
	struct pages pages;
	int ret = count_pages(db, &pages);

	if (!ret)
		*bytes = (pages.count - pages.free) * pages.size;
	return ret;
}

/* found: 0 or -errno of looking for it. 1: it is gone, its parts and all blobs with it; 0: there is none. */
static int remove_window(struct store *store, int found, int64_t id)
{
	if (found)
		return found == -ENOENT ? 0 : found;
	return SQL_RUN(store->db, "DELETE FROM windows WHERE id = ?1", id) ?: 1;
}

static int remove_oldest(struct store *store, int64_t ended_before_ns)
{
	int64_t id;
	int ret = SQL_GET(store->db, &id,
			  "SELECT id FROM windows INDEXED BY windows_by_begin WHERE end_ns < ?1 AND " WHOLE_BY_AGE,
			  ended_before_ns);

	return remove_window(store, ret, id);
}

/*
 * One that was written while the clock was ahead: it has no time that it could be asked for by. By the later of both
 * clocks: while the wall clock is far behind, all that there is lies in its future.
 */
static int remove_future(struct store *store)
{
	int64_t wall_ns = store->now_ns(), id;
	int64_t now_ns = store->clock.now_ns > wall_ns ? store->clock.now_ns : wall_ns;
	int ret = SQL_GET(store->db, &id,
			  "SELECT id FROM windows INDEXED BY windows_by_begin WHERE begin_ns > ?1 AND " WHOLE_BY_AGE,
			  now_ns + FUTURE_NS);

	return remove_window(store, ret, id);
}

/* For room, detail goes before history: parts that are not young by the wall clock; sums stay. 1: done; 0: none. */
static int remove_something(struct store *store)
{
	int64_t now_ns = store->now_ns();
	int ret = store_compact__drop_before(store, 0, now_ns - STORE_FINE_LEAST_NS);

	ret = ret ?: store_compact__drop_before(store, 1, now_ns - STORE_MINUTE_LEAST_NS);
	ret = ret ?: remove_future(store);
	return ret ?: remove_oldest(store, INT64_MAX);
}

int store_retain__make_room(struct store *store, int64_t bytes)
{
	int64_t used;

	for (;;) {
		int ret = store_retain__used(store->db, &used);

		if (ret)
			return ret;
		if (used + bytes <= store_retain__limit(store))
			return 0;
		ret = remove_something(store);
		if (ret <= 0)
			return ret;
	}
}

int store_retain__by_size(struct store *store)
{
	int64_t used;
	int ret = store_retain__used(store->db, &used);

	if (ret || used <= store_retain__limit(store))
		return ret;
	ret = sql__begin(store->db);
	if (ret)
		return ret;
	ret = remove_something(store);
	return ret > 0 ? (sql__commit(store->db) ?: 1) : sql__end(store->db, ret);
}

int store_retain__by_age(struct store *store)
{
	int64_t before_ns = store_clock__now(store) - store->retain_age_ns;
	int removed = 0, ret;
	int64_t id;

	/* Most often there is nothing to do, and then no transaction is needed. */
	ret = SQL_GET(store->db, &id,
		      "SELECT id FROM windows INDEXED BY windows_by_begin WHERE begin_ns < ?1 AND end_ns < ?1 "
		      "AND " WHOLE_BY_AGE,
		      before_ns);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	ret = sql__begin(store->db);
	if (ret)
		return ret;
	while (removed < AGE_STEP_WINDOWS && (ret = remove_oldest(store, before_ns)) > 0)
		removed++;
	ret = sql__end(store->db, ret < 0 ? ret : 0);
	return ret ? ret : removed > 0;
}

int store_retain__shrink(struct store *store)
{
	struct pages pages;
	int ret = count_pages(store->db, &pages);

	if (ret)
		return ret;
	if (pages.free < SHRINK_STEP_PAGES ||
	    (pages.count * pages.size <= store_retain__limit(store) && pages.free < pages.count / SHRINK_PART))
		return 0;
	ret = sql__run(store->db, "PRAGMA incremental_vacuum(256)");
	if (ret)
		return ret;
	/* The file is cut when the log is written back. While a reader holds that up, a later step does it. */
	sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return 1;
}

int store_retain__sweep(struct store *store)
{
	int64_t before_ns = store_clock__now(store) - store->retain_age_ns, elapsed_ns = store->elapsed_ns();
	int ret;

	if (store->last_sweep_ns && elapsed_ns - store->last_sweep_ns < SWEEP_NS)
		return 0;
	ret = sql__begin(store->db);
	if (ret)
		return ret;
	ret = SQL_RUN(store->db,
		      "DELETE FROM targets WHERE ended_ns < ?1"
		      " AND NOT EXISTS(SELECT 1 FROM windows w WHERE w.target_id = targets.id)",
		      before_ns);
	/* Of a target with nothing left but a recent end, the list still tells. */
	ret = ret ?: SQL_RUN(store->db, "DELETE FROM gaps WHERE coalesce(end_ns, begin_ns) < ?1", before_ns);
	ret = ret
		      ?: SQL_RUN(store->db,
				 "DELETE FROM gaps WHERE id <= (SELECT id FROM gaps ORDER BY id DESC LIMIT 1 "
				 "OFFSET ?1)",
				 (int64_t)MAX_GAPS);
	ret = sql__end(store->db, ret ?: store_clock__save(store));
	if (ret)
		return ret;
	store->last_sweep_ns = elapsed_ns;
	if (!store->missed.n)
		store__worked(store);
	return 0;
}
