// SPDX-License-Identifier: GPL-2.0-or-later
/* Merges windows into coarser ones. A sum and its parts' marks are one transaction. What cannot be merged stays. */
#include <errno.h>
#include <string.h>

#include "daemon/history/store_internal.h"

#define LEVELS   2  /* that are merged: 0 and 1 */
#define SUM_PART 16 /* a sum has one in so many bytes at most: a user's share holds some of them, with their parts */

static const struct {
	int64_t width_ns;     /* of the sums */
	int64_t parts_age_ns; /* how long the parts stay */
} levels[LEVELS] = {
	{ STORE_MINUTE_NS, STORE_FINE_AGE_NS },
	{ STORE_TEN_MINUTE_NS, STORE_MINUTE_AGE_NS },
};

/* The windows of one target whose begins lie in [from_ns, to_ns). */
struct group {
	int64_t target, level, from_ns, to_ns;
	uid_t uid; /* of its first window */
};

#define GROUP "target_id = ?1 AND level = ?2 AND begin_ns >= ?3 AND begin_ns < ?4 AND part_of IS NULL"

struct sum {
	struct profile_merge *merge;
	struct store_blob_reader *reader;
	json_t *cuda;
	struct window_row row;
	struct store_memory_sum memory;
	unsigned n;
};

static void sum__clear(struct sum *sum)
{
	profile_merge__free(sum->merge);
	store_blob_reader__free(sum->reader);
	json_decref(sum->cuda);
}

/* The oldest complete one. 1, or 0: there is none. */
static int find_group(struct store *store, int level, struct group *out)
{
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int64_t width_ns = levels[level].width_ns, begin_ns;
	int64_t complete_ns = (store->now_ns() - STORE_GRACE_NS) / width_ns * width_ns;
	int ret = sql__prepare_numbers(store->db,
				       "SELECT target_id, begin_ns, uid FROM windows INDEXED BY windows_whole"
				       " WHERE level = ?1 AND part_of IS NULL AND begin_ns < ?2"
				       " ORDER BY begin_ns LIMIT 1",
				       2, (int64_t[]){ level, complete_ns }, &s);

	ret = ret ?: sql__step(store->db, s);
	if (ret <= 0)
		return ret;
	begin_ns = sqlite3_column_int64(s, 1) / width_ns * width_ns;
	*out = (struct group){ sqlite3_column_int64(s, 0), level, begin_ns, begin_ns + width_ns,
			       (uid_t)sqlite3_column_int64(s, 2) };
	return 1;
}

static int add_blobs(struct sum *sum, sqlite3_stmt *s)
{
	const uint8_t *content;
	int64_t bytes = sqlite3_column_int64(s, 5);
	int ret = store_blob_reader__decode(sum->reader, sqlite3_column_blob(s, 6), (size_t)sqlite3_column_bytes(s, 6),
					    (uint64_t)bytes, &content);

	ret = ret ?: profile_merge__add(sum->merge, content, (size_t)bytes, NULL);
	if (ret || sqlite3_column_type(s, 8) == SQLITE_NULL)
		return ret;
	return store_read__cuda(sum->reader, sqlite3_column_blob(s, 8), (size_t)sqlite3_column_bytes(s, 8),
				sqlite3_column_int64(s, 7), sum->cuda);
}

static int add_row(struct sum *sum, sqlite3_stmt *s)
{
	struct store_memory memory = store_rows__memory(s, 9);
	struct window_row *row = &sum->row;
	int64_t begin_ns = sqlite3_column_int64(s, 0), end_ns = sqlite3_column_int64(s, 1);

	if (!sum->n++ || begin_ns < row->begin_ns)
		row->begin_ns = begin_ns;
	if (end_ns > row->end_ns)
		row->end_ns = end_ns;
	if (__builtin_add_overflow(row->covered_ns, sqlite3_column_int64(s, 2), &row->covered_ns) ||
	    __builtin_add_overflow(row->samples, sqlite3_column_int64(s, 3), &row->samples) ||
	    __builtin_add_overflow(row->lost, sqlite3_column_int64(s, 4), &row->lost))
		return -EOVERFLOW;
	store_memory_sum__add(&sum->memory, sqlite3_column_int64(s, 2), &memory);
	return add_blobs(sum, s);
}

static int read_group(sqlite3 *db, const struct group *group, struct sum *sum)
{
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int ret = sql__prepare_numbers(
		db,
		"SELECT begin_ns, end_ns, covered_ns, samples, lost, profile_bytes, profile,"
		" cuda_bytes, cuda, " STORE_MEMORY_COLUMNS("") " FROM windows JOIN blobs ON window_id = id WHERE " GROUP
							       " ORDER BY begin_ns",
		4, (int64_t[]){ group->target, group->level, group->from_ns, group->to_ns }, &s);

	while (!ret && (ret = sql__step(db, s)) > 0)
		ret = add_row(sum, s);
	return ret;
}

/* They count as merged, each by itself. */
static int raise_level(sqlite3 *db, const struct group *group)
{
	return SQL_RUN(db, "UPDATE windows SET level = level + 1 WHERE " GROUP, group->target, group->level,
		       group->from_ns, group->to_ns);
}

static int write_sum(struct store *store, const struct group *group, const struct window_row *row)
{
	int64_t id;
	int ret = sql__begin(store->db);

	if (ret)
		return ret;
	ret = store_rows__window(store->db, row, &id);
	ret = ret
		      ?: SQL_RUN(store->db, "UPDATE windows SET part_of = ?5 WHERE " GROUP, group->target, group->level,
				 group->from_ns, group->to_ns, id);
	ret = ret ?: SQL_RUN(store->db, "UPDATE windows SET has_parts = 1 WHERE id = ?1", id);
	/* For the sum, which is written already. */
	return sql__end(store->db, ret ?: store_retain__make_room(store, group->uid, 0));
}

static int encode_cuda(struct store *store, struct sum *sum, uint8_t **blob)
{
	json_t *merged, *array;
	int ret;

	if (!json_array_size(sum->cuda))
		return 0;
	merged = store->merge_cuda ? store->merge_cuda(sum->cuda) : NULL;
	if (merged) {
		array = json_array();
		if (!array || json_array_append_new(array, merged)) {
			json_decref(array);
			return -ENOMEM;
		}
		json_decref(sum->cuda);
		sum->cuda = array;
	}
	ret = store_rows__encode_cuda(sum->cuda, blob, &sum->row.cuda_size, &sum->row.cuda_bytes);
	return ret ?: sum->row.cuda_bytes > (int64_t)STORE_MAX_CUDA_BYTES ? -EFBIG : 0;
}

/* -EFBIG: it would not be read back, or would push out too much of the rest. */
static int finish_sum(struct store *store, const struct group *group, struct sum *sum)
{
	_cleanup_free_ uint8_t *message = NULL, *profile = NULL, *cuda = NULL;
	struct window_row *row = &sum->row;
	size_t length, content;
	int ret;

	profile_merge__set_times(sum->merge, row->begin_ns, row->covered_ns);
	ret = profile_merge__finish(sum->merge, false, &message, &length);
	ret = ret ?: store_blob__encode(message, length, &profile, &row->profile_size, &content);
	ret = ret ?: encode_cuda(store, sum, &cuda);
	if (ret)
		return ret;
	if ((int64_t)(row->profile_size + row->cuda_size) > store_retain__limit(store) / SUM_PART)
		return -EFBIG;
	row->memory = store_memory_sum__mean(&sum->memory);
	row->target = group->target;
	row->uid = group->uid;
	row->level = group->level + 1;
	row->profile = profile;
	row->profile_bytes = (int64_t)content;
	row->cuda = cuda;
	return write_sum(store, group, row);
}

static bool cannot_be_merged(int r)
{
	return r == -EBADMSG || r == -EINVAL || r == -EFBIG || r == -EOVERFLOW;
}

int store_compact__merge(struct store *store, int level)
{
	__attribute__((cleanup(sum__clear))) struct sum sum = { .merge = profile_merge__new(),
								.reader = store_blob_reader__new(),
								.cuda = json_array() };
	struct group group;
	int ret;

	if (!sum.merge || !sum.reader || !sum.cuda)
		return -ENOMEM;
	ret = find_group(store, level, &group);
	if (ret <= 0)
		return ret;
	ret = read_group(store->db, &group, &sum);
	if (!ret && sum.n > 1)
		ret = finish_sum(store, &group, &sum);
	else if (!ret)
		ret = raise_level(store->db, &group);
	if (cannot_be_merged(ret))
		ret = raise_level(store->db, &group);
	return ret ? ret : 1;
}

static int drop_before(struct store *store, int level, int64_t before_ns)
{
	int64_t sum;
	int ret = SQL_GET(store->db, &sum,
			  "SELECT part_of FROM windows INDEXED BY windows_parts"
			  " WHERE level = ?1 AND part_of IS NOT NULL AND begin_ns < ?2 ORDER BY begin_ns LIMIT 1",
			  level, before_ns);

	return store_retain__drop_parts_of(store, ret, sum);
}

int store_compact__drop_parts(struct store *store, int level)
{
	int64_t before_ns = store_clock__now(store) - levels[level].parts_age_ns - levels[level].width_ns;
	int ret = sql__begin(store->db), dropped;

	if (ret)
		return ret;
	dropped = drop_before(store, level, before_ns);
	ret = sql__end(store->db, dropped < 0 ? dropped : 0);
	return ret ? ret : dropped;
}
