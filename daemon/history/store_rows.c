// SPDX-License-Identifier: GPL-2.0-or-later
/* Rows of targets and windows. */
#include <errno.h>
#include <string.h>

#include "daemon/history/store_internal.h"

const char *const store_end_words[STORE_END_COUNT] = {
#define X(name, word) [STORE_END_##name] = word,
	STORE_ENDS(X)
#undef X
};

const char *const store_gap_words[STORE_GAP_COUNT] = {
#define X(name, word) [STORE_GAP_##name] = word,
	STORE_GAPS(X)
#undef X
};

static int insert_target(struct store *store, const struct open_target *target, int64_t *row)
{
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	char key[96];
	int ret = sql__prepare(store->db,
			       "INSERT INTO targets(key, boot_id, pid, start_ticks, comm, labels, began_ns, end, uid)"
			       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 'open', ?8)"
			       " ON CONFLICT(key) DO UPDATE SET comm = ?5, ended_ns = NULL, end = 'open',"
			       /* What was root's alone stays so: windows of then are among those that are there. */
			       " labels = CASE json_valid(labels) WHEN 1 THEN"
			       "  CASE json_extract(labels, '$.viewer[0]') WHEN 0"
			       "   THEN json_set(?6, '$.viewer', json('[0,0]')) ELSE ?6 END"
			       " ELSE ?6 END"
			       " RETURNING id",
			       &s);

	if (ret)
		return ret;
	snprintf(key, sizeof(key), "%s/%d/%llu", store->boot_id, target->target.pid,
		 (unsigned long long)target->target.start_ticks);
	sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 2, store->boot_id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 3, target->target.pid);
	sqlite3_bind_int64(s, 4, (int64_t)target->target.start_ticks);
	sqlite3_bind_text(s, 5, target->comm, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 6, target->labels, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 7, store->now_ns());
	sqlite3_bind_int64(s, 8, target->target.uid);
	ret = sql__step(store->db, s);
	if (ret < 0)
		return ret;
	*row = sqlite3_column_int64(s, 0);
	/* An error at the end would show only now. */
	ret = sql__step(store->db, s);
	return ret < 0 ? ret : 0;
}

static int write_end(struct store *store, const struct open_target *target, int64_t row)
{
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int ret = sql__prepare(store->db, "UPDATE targets SET ended_ns = ?2, end = ?3 WHERE id = ?1", &s);

	if (ret)
		return ret;
	sqlite3_bind_int64(s, 1, row);
	sqlite3_bind_int64(s, 2, target->ended_ns);
	sqlite3_bind_text(s, 3, store_end_words[target->end], -1, SQLITE_STATIC);
	return sql__step(store->db, s);
}

/* *row: its new one; 0 where it has one. */
static int write_target(struct store *store, const struct open_target *target, int64_t *row)
{
	int ret = target->row ? 0 : insert_target(store, target, row);

	if (ret || target->end == STORE_END_OPEN)
		return ret;
	return write_end(store, target, target->row ?: *row);
}

void store_rows__forget_target(struct store *store, struct open_target *target)
{
	free(target->comm);
	free(target->labels);
	*target = store->targets[--store->n_targets];
}

static void forget_written(struct store *store)
{
	for (size_t i = store->n_targets; i > 0; i--)
		if (store->targets[i - 1].end != STORE_END_OPEN)
			store_rows__forget_target(store, &store->targets[i - 1]);
}

int store_rows__targets(struct store *store)
{
	int64_t *rows;
	int ret = 0;

	rows = calloc(store->n_targets + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	ret = sql__begin(store->db);
	if (!ret) {
		for (size_t i = 0; !ret && i < store->n_targets; i++)
			ret = write_target(store, &store->targets[i], &rows[i]);
		ret = sql__end(store->db, ret);
	}
	for (size_t i = 0; !ret && i < store->n_targets; i++) {
		if (rows[i])
			store->targets[i].row = rows[i];
		store->targets[i].listed = true;
	}
	free(rows);
	if (!ret)
		forget_written(store);
	return ret;
}

static int bind_blob(sqlite3 *db, sqlite3_stmt *s, int at, const void *blob, size_t size)
{
	if (!blob)
		return 0;
	return sqlite3_bind_blob64(s, at, blob, size, SQLITE_STATIC) == SQLITE_OK ? 0 : sql__error(db);
}

/* Where nothing is known, the columns stay NULL. */
static int write_memory(sqlite3 *db, int64_t id, const struct store_memory *m)
{
	if (!m->known)
		return 0;
	return SQL_RUN(db,
		       "UPDATE windows SET anonymous = ?2, file = ?3, shared = ?4, swapped = ?5, most = ?6"
		       " WHERE id = ?1",
		       id, m->anonymous, m->file, m->shared, m->swapped, m->most);
}

struct store_memory store_rows__memory(sqlite3_stmt *s, int first)
{
	int64_t values[STORE_N_MEMORY_COLUMNS];

	for (int i = 0; i < STORE_N_MEMORY_COLUMNS; i++) {
		if (sqlite3_column_type(s, first + i) == SQLITE_NULL)
			return (struct store_memory){ .known = false };
		values[i] = sqlite3_column_int64(s, first + i);
	}
	return (struct store_memory){ true, values[0], values[1], values[2], values[3], values[4] };
}

int store_rows__window(sqlite3 *db, const struct window_row *row, int64_t *id)
{
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int ret =
		SQL_RUN(db,
			"INSERT INTO windows(target_id, level, begin_ns, end_ns, covered_ns, samples, lost, uid, bytes)"
			" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
			row->target, row->level, row->begin_ns, row->end_ns, row->covered_ns, row->samples, row->lost,
			row->uid, (int64_t)(STORE_ROW_BYTES + row->profile_size + row->cuda_size));

	if (!ret)
		ret = write_memory(db, sqlite3_last_insert_rowid(db), &row->memory);
	if (ret)
		return ret;
	*id = sqlite3_last_insert_rowid(db);
	ret = sql__prepare(db,
			   "INSERT INTO blobs(window_id, profile_bytes, profile, cuda_bytes, cuda)"
			   " VALUES(?1, ?2, ?3, ?4, ?5)",
			   &s);
	if (ret)
		return ret;
	sqlite3_bind_int64(s, 1, *id);
	sqlite3_bind_int64(s, 2, row->profile_bytes);
	ret = bind_blob(db, s, 3, row->profile, row->profile_size);
	if (row->cuda)
		sqlite3_bind_int64(s, 4, row->cuda_bytes);
	ret = ret ?: bind_blob(db, s, 5, row->cuda, row->cuda_size);
	return ret ?: sql__step(db, s);
}

int store_rows__encode_cuda(json_t *documents, uint8_t **blob, size_t *size, int64_t *content_bytes)
{
	_cleanup_free_ char *text = json_dumps(documents, JSON_COMPACT);
	size_t length;
	int ret;

	if (!text)
		return -ENOMEM;
	ret = store_blob__encode(text, strlen(text), blob, size, &length);
	if (!ret)
		*content_bytes = (int64_t)length;
	return ret;
}
