// SPDX-License-Identifier: GPL-2.0-or-later
/* Removes what is too old or too much and gives the room back. A sum goes with its parts (ON DELETE CASCADE). */
#include <errno.h>

#include "daemon/history/store_internal.h"

#define AGE_STEP_WINDOWS  16
#define ENDED_STEP_TARGETS "256"
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
static int remove_future(struct store *store, uid_t uid)
{
	int64_t wall_ns = store->now_ns(), id;
	int64_t now_ns = store->clock.now_ns > wall_ns ? store->clock.now_ns : wall_ns;
	int ret = SQL_GET(store->db, &id,
			  "SELECT id FROM windows INDEXED BY windows_of_user WHERE uid = ?1 AND begin_ns > ?2"
			  " AND " WHOLE_BY_AGE,
			  uid, now_ns + FUTURE_NS);

	return remove_window(store, ret, id);
}

static int remove_oldest_of(struct store *store, uid_t uid)
{
	int64_t id;
	int ret = SQL_GET(store->db, &id,
			  "SELECT id FROM windows INDEXED BY windows_of_user WHERE uid = ?1 AND " WHOLE_BY_AGE, uid);

	return remove_window(store, ret, id);
}

/* A user of whom there are no windows may have watched very many processes. */
static int remove_ended_targets(struct store *store, uid_t uid)
{
	int ret = SQL_RUN(store->db,
			  "DELETE FROM targets WHERE id IN (SELECT id FROM targets t WHERE uid = ?1"
			  " AND ended_ns IS NOT NULL AND NOT EXISTS(SELECT 1 FROM windows w WHERE w.target_id = t.id)"
			  " LIMIT " ENDED_STEP_TARGETS ")",
			  uid);

	return ret ?: sqlite3_changes(store->db) > 0;
}

int store_retain__drop_parts(struct store *store, int found, int64_t sum)
{
	int ret;

	if (found)
		return found == -ENOENT ? 0 : found;
	ret = SQL_RUN(store->db, "DELETE FROM windows WHERE part_of = ?1", sum);
	return ret ?: SQL_RUN(store->db, "UPDATE windows SET has_parts = 0 WHERE id = ?1", sum) ?: 1;
}

/* The parts of the user's oldest sum whose parts begin before then. 1: done; 0: none. */
static int drop_before_of(struct store *store, uid_t uid, int level, int64_t before_ns)
{
	int64_t sum;
	int ret = SQL_GET(store->db, &sum,
			  "SELECT part_of FROM windows INDEXED BY windows_parts_of_user"
			  " WHERE uid = ?1 AND level = ?2 AND part_of IS NOT NULL AND begin_ns < ?3"
			  " ORDER BY begin_ns LIMIT 1",
			  uid, level, before_ns);

	return store_retain__drop_parts(store, ret, sum);
}

/* Detail goes before history: parts that are not young by the wall clock; sums stay. 1: done; 0: none. */
static int remove_something_of(struct store *store, uid_t uid)
{
	int64_t now_ns = store->now_ns();
	int ret = drop_before_of(store, uid, 0, now_ns - STORE_FINE_LEAST_NS);

	ret = ret ?: drop_before_of(store, uid, 1, now_ns - STORE_MINUTE_LEAST_NS);
	ret = ret ?: remove_future(store, uid);
	ret = ret ?: remove_oldest_of(store, uid);
	return ret ?: remove_ended_targets(store, uid);
}

/*
 * Who makes room, one after the other until there is something that can go. ?1 writes ?2 bytes; ?3 is one user's share,
 * ?4 that of all but root.
 */
#define WHO_MAKES_ROOM                                                                 \
	"SELECT uid FROM users ORDER BY"                                               \
	" uid <> 0 AND uid = ?1 AND bytes + ?2 > ?3 DESC,"                             \
	" uid <> 0 AND (bytes > ?3 OR"                                                 \
	"  (SELECT sum(bytes) FROM users WHERE uid <> 0) + (?1 <> 0) * ?2 > ?4) DESC," \
	" uid = 0 DESC, bytes DESC"

/* 1: done; 0: there is nothing. */
static int remove_something(struct store *store, uid_t writer, int64_t bytes)
{
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int64_t quarter = store_retain__limit(store) / 4;
	int ret = sql__prepare_numbers(store->db, WHO_MAKES_ROOM, 4, (int64_t[]){ writer, bytes, quarter, 3 * quarter },
				       &s);
	int removed = 0;

	while (!ret && !removed && (ret = sql__step(store->db, s)) > 0) {
		removed = remove_something_of(store, (uid_t)sqlite3_column_int64(s, 0));
		ret = removed < 0 ? removed : 0;
	}
	return ret ?: removed;
}

int store_retain__make_room(struct store *store, uid_t uid, int64_t bytes)
{
	int64_t used;

	for (;;) {
		int ret = store_retain__used(store->db, &used);

		if (ret)
			return ret;
		if (used + bytes <= store_retain__limit(store))
			return 0;
		ret = remove_something(store, uid, bytes);
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
	ret = remove_something(store, 0, 0);
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
	ret = ret ?: sql__run(store->db, "DELETE FROM users WHERE bytes = 0");
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
