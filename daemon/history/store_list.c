// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of what is in the store: targets and gaps. No blob is touched. */
#include <errno.h>
#include <string.h>

#include "daemon/history/store_internal.h"
#include "stakeout/array.h"

/* The number of a word in a table, or `unknown`. */
static size_t find_word(const char *const *words, size_t n, const unsigned char *word, size_t unknown)
{
	for (size_t i = 0; i < n; i++)
		if (word && !strcmp(words[i], (const char *)word))
			return i;
	return unknown;
}

static const char *column_text(sqlite3_stmt *s, int column)
{
	return (const char *)sqlite3_column_text(s, column) ?: "";
}

struct target_list {
	struct store_target_info *targets;
	size_t n, capacity;
};

static void target_list__clear(struct target_list *list)
{
	store__free_targets(list->targets, list->n);
}

void store__free_targets(struct store_target_info *targets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(targets[i].labels);
	free(targets);
}

static int take_target(struct target_list *list, sqlite3_stmt *s)
{
	struct store_target_info *t;
	char *labels = strdup(column_text(s, 5));

	if (!labels || ARRAY_RESERVE(list->targets, list->capacity, list->n + 1)) {
		free(labels);
		return -ENOMEM;
	}
	t = &list->targets[list->n++];
	*t = (struct store_target_info){
		.id = sqlite3_column_int64(s, 0),
		.pid = (pid_t)sqlite3_column_int64(s, 2),
		.start_ticks = (uint64_t)sqlite3_column_int64(s, 3),
		.labels = labels,
		.began_ns = sqlite3_column_int64(s, 6),
		.ended_ns = sqlite3_column_int64(s, 7),
		.end = find_word(store_end_words, STORE_END_COUNT, sqlite3_column_text(s, 8), STORE_END_UNKNOWN),
		.first_ns = sqlite3_column_int64(s, 9),
		.last_ns = sqlite3_column_int64(s, 10),
		.samples = (uint64_t)sqlite3_column_int64(s, 11),
		.lost = (uint64_t)sqlite3_column_int64(s, 12),
	};
	snprintf(t->boot_id, sizeof(t->boot_id), "%s", column_text(s, 1));
	snprintf(t->comm, sizeof(t->comm), "%s", column_text(s, 4));
	return 0;
}

static int open_statement(struct store *store, const char *text, size_t n, const int64_t *numbers, sqlite3 **db,
			  sqlite3_stmt **s, struct so_error *err)
{
	int ret = store_schema__open_reader(store->path, db, err);

	if (ret)
		return ret;
	ret = sql__prepare_numbers(*db, text, n, numbers, s);
	return ret ? so_err(err, ret, "the history cannot be read: %s", sql__words(ret)) : 0;
}

int store__targets(struct store *store, struct store_target_info **out, size_t *n, struct so_error *err)
{
	static const char text[] =
		"SELECT t.id, boot_id, pid, start_ticks, comm, labels, began_ns, coalesce(ended_ns, 0), t.end,"
		" min(w.begin_ns), max(w.end_ns), sum(w.samples), sum(w.lost)"
		" FROM targets t LEFT JOIN windows w ON w.target_id = t.id AND w.part_of IS NULL"
		" GROUP BY t.id ORDER BY t.id";
	__attribute__((cleanup(target_list__clear))) struct target_list list = { 0 };
	_cleanup_(database) sqlite3 *db = NULL;
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int ret = open_statement(store, text, 0, NULL, &db, &s, err);

	if (ret && ret != -ENOENT && ret != -ENODATA)
		return ret;
	while (!ret && (ret = sql__step(db, s)) > 0)
		ret = take_target(&list, s);
	if (ret && ret != -ENOENT && ret != -ENODATA)
		return so_err(err, ret, "the history cannot be read: %s", sql__words(ret));
	*n = list.n;
	list.n = 0;
	*out = TAKE_PTR(list.targets);
	return 0;
}

int store__gaps(struct store *store, int64_t from_ns, int64_t to_ns, struct store_gap **out, size_t *n,
		struct so_error *err)
{
	static const char text[] =
		"SELECT coalesce(target_id, 0), begin_ns, coalesce(end_ns, 0), windows, cause FROM gaps"
		" WHERE begin_ns < ?2 AND coalesce(end_ns, begin_ns + 1) > ?1 ORDER BY begin_ns";
	_cleanup_free_ struct store_gap *gaps = NULL;
	_cleanup_(database) sqlite3 *db = NULL;
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	size_t count = 0, capacity = 0;
	int ret = open_statement(store, text, 2, (int64_t[]){ from_ns, to_ns }, &db, &s, err);

	if (ret && ret != -ENOENT && ret != -ENODATA)
		return ret;
	while (!ret && (ret = sql__step(db, s)) > 0) {
		ret = ARRAY_RESERVE(gaps, capacity, count + 1);
		if (!ret)
			gaps[count++] = (struct store_gap){
				sqlite3_column_int64(s, 0),
				sqlite3_column_int64(s, 1),
				sqlite3_column_int64(s, 2),
				(uint64_t)sqlite3_column_int64(s, 3),
				find_word(store_gap_words, STORE_GAP_COUNT, sqlite3_column_text(s, 4),
					  STORE_GAP_NOT_WRITTEN),
			};
	}
	if (ret && ret != -ENOENT && ret != -ENODATA)
		return so_err(err, ret, "the history cannot be read: %s", sql__words(ret));
	*n = count;
	*out = TAKE_PTR(gaps);
	return 0;
}
