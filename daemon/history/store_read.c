// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Answers over a range. Of a sum and its parts, the sum is read where it lies within the range and the parts where it
 * does not, or is longer than what is asked for: a window counts if the sum above it does not fit so, and either fits
 * itself or has no parts any more. Sums nest, so exactly one window of each line from a part up to its last sum counts.
 * One statement reads one state of the database, whatever is written meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "daemon/history/store_internal.h"

/* A sum's windows begin within STORE_TEN_MINUTE_NS, and the last of them is as long as a window may be. */
#define LONGEST_NS (STORE_TEN_MINUTE_NS + STORE_MAX_WINDOW_NS)

#define WITHIN(w) "(" w ".begin_ns >= ?2 AND " w ".end_ns <= ?3 AND " w ".end_ns - " w ".begin_ns <= ?5)"

/* ?1 target, ?2 from, ?3 to, ?4 the earliest begin of a window that can reach into the range, ?5 the longest sum */
#define RANGE(index, blobs, which_target)                                                     \
	" FROM windows w INDEXED BY " index blobs " LEFT JOIN windows p ON p.id = w.part_of"  \
	" WHERE " which_target " AND w.begin_ns > ?4 AND w.begin_ns < ?3 AND w.end_ns > ?2"   \
	" AND (p.id IS NULL OR NOT " WITHIN("p") ") AND (NOT w.has_parts OR " WITHIN("w") ")" \
											  " ORDER BY w.begin_ns"
#define BLOBS       " JOIN blobs b ON b.window_id = w.id"
#define OF_ONE      RANGE("windows_of_target", BLOBS, "w.target_id = ?1")
#define OF_ALL      RANGE("windows_by_begin", BLOBS, "?1 = 0")
#define BARE_OF_ONE RANGE("windows_of_target", "", "w.target_id = ?1")

enum column { BEGIN, END, COVERED, SAMPLES, LOST, MEMORY, BYTES = MEMORY + STORE_N_MEMORY_COLUMNS, BLOB, HAS_CUDA };
/* A store that is of an earlier version, and cannot be written to, has all but memory. */
#define SPAN        "SELECT w.begin_ns, w.end_ns, w.covered_ns, w.samples, w.lost,"
#define COLUMNS     SPAN " NULL, NULL, NULL, NULL, NULL,"
#define WITH_MEMORY SPAN STORE_MEMORY_COLUMNS(" w.") ","
#define PROFILE     " b.profile_bytes, b.profile, b.cuda IS NOT NULL"
#define CUDA        " b.cuda_bytes, b.cuda, b.cuda IS NOT NULL"

/* With memory where the store knows it. */
struct texts {
	const char *text, *without_memory;
};
static const struct texts profile_of_one = { .text = COLUMNS PROFILE OF_ONE };
static const struct texts profile_of_all = { .text = COLUMNS PROFILE OF_ALL };
static const struct texts cuda_of_one = { .text = COLUMNS CUDA OF_ONE };
static const struct texts cuda_of_all = { .text = COLUMNS CUDA OF_ALL };
static const struct texts windows_of_one = { WITH_MEMORY PROFILE OF_ONE, COLUMNS PROFILE OF_ONE };
static const struct texts windows_of_all = { WITH_MEMORY PROFILE OF_ALL, COLUMNS PROFILE OF_ALL };
static const struct texts memory_of_one = { WITH_MEMORY " 0, NULL, 0" BARE_OF_ONE, COLUMNS " 0, NULL, 0" BARE_OF_ONE };

struct reading {
	const struct store_query *query;
	struct store_blob_reader *reader;
	struct store_span span;
	int64_t covered_to_ns; /* all targets: time up to here has been counted as covered */
	int (*take)(struct reading *reading, const void *blob, size_t size, int64_t bytes, struct so_error *err);
	struct profile_merge *merge;
	int (*take_documents)(void *data, const json_t *documents);
	store_window_fn *take_window;
	struct store_window_info window; /* the one being taken; without its profile */
	void *data;
};

static void reading__clear(struct reading *reading)
{
	store_blob_reader__free(reading->reader);
	profile_merge__free(reading->merge);
}

static int take_profile(struct reading *reading, const void *blob, size_t size, int64_t bytes, struct so_error *err)
{
	const uint8_t *content;
	int ret = store_blob_reader__decode(reading->reader, blob, size, (uint64_t)bytes, &content);

	return ret ?: profile_merge__add(reading->merge, content, (size_t)bytes, err);
}

int store_read__cuda(struct store_blob_reader *reader, const void *blob, size_t size, int64_t content_bytes,
		     json_t *documents)
{
	json_auto_t *array = NULL;
	const uint8_t *content;
	int ret = content_bytes > (int64_t)STORE_MAX_CUDA_BYTES
			  ? -EBADMSG
			  : store_blob_reader__decode(reader, blob, size, (uint64_t)content_bytes, &content);

	if (ret)
		return ret;
	array = json_loadb((const char *)content, (size_t)content_bytes, 0, NULL);
	return !json_is_array(array) ? -EBADMSG : json_array_extend(documents, array) ? -ENOMEM : 0;
}

static int take_cuda(struct reading *reading, const void *blob, size_t size, int64_t bytes, struct so_error *err)
{
	json_auto_t *documents = NULL;
	int ret;

	if (!blob)
		return 0;
	documents = json_array();
	ret = documents ? store_read__cuda(reading->reader, blob, size, bytes, documents) : -ENOMEM;
	return ret ?: reading->take_documents(reading->data, documents);
}

static int take_window(struct reading *reading, const void *blob, size_t size, int64_t bytes, struct so_error *err)
{
	struct store_window_info window = reading->window;
	const uint8_t *content;
	int ret = store_blob_reader__decode(reading->reader, blob, size, (uint64_t)bytes, &content);

	if (ret)
		return ret;
	window.profile = content;
	window.profile_bytes = (size_t)bytes;
	return reading->take_window(reading->data, &window, err);
}

static int take_bare(struct reading *reading, const void *blob, size_t size, int64_t bytes, struct so_error *err)
{
	(void)blob;
	(void)size;
	(void)bytes;
	return reading->take_window(reading->data, &reading->window, err);
}

/* Rows come by begin, so what all targets cover is a sweep. */
static void extend_span(struct reading *reading, sqlite3_stmt *s)
{
	int64_t begin_ns = sqlite3_column_int64(s, BEGIN), end_ns = sqlite3_column_int64(s, END);
	struct store_span *span = &reading->span;

	if (!span->windows++)
		span->begin_ns = reading->covered_to_ns = begin_ns;
	if (end_ns > span->end_ns)
		span->end_ns = end_ns;
	if (end_ns - begin_ns > span->longest_ns)
		span->longest_ns = end_ns - begin_ns;
	span->samples += (uint64_t)sqlite3_column_int64(s, SAMPLES);
	span->lost += (uint64_t)sqlite3_column_int64(s, LOST);
	if (reading->query->target) {
		span->covered_ns += sqlite3_column_int64(s, COVERED);
	} else if (end_ns > reading->covered_to_ns) {
		span->covered_ns += end_ns - (begin_ns > reading->covered_to_ns ? begin_ns : reading->covered_to_ns);
		reading->covered_to_ns = end_ns;
	}
}

static int take_row(struct reading *reading, sqlite3_stmt *s, struct so_error *err)
{
	int ret;

	reading->window = (struct store_window_info){ .begin_ns = sqlite3_column_int64(s, BEGIN),
						      .end_ns = sqlite3_column_int64(s, END),
						      .covered_ns = sqlite3_column_int64(s, COVERED),
						      .samples = (uint64_t)sqlite3_column_int64(s, SAMPLES),
						      .lost = (uint64_t)sqlite3_column_int64(s, LOST),
						      .memory = store_rows__memory(s, MEMORY),
						      .cuda = sqlite3_column_int(s, HAS_CUDA) != 0 };
	ret = reading->take(reading, sqlite3_column_blob(s, BLOB), (size_t)sqlite3_column_bytes(s, BLOB),
			    sqlite3_column_int64(s, BYTES), err);

	/* The blob alone is damaged: its checksum says so, or its size. Nothing of it has been added. */
	if (ret == -EBADMSG) {
		reading->span.damaged++;
		return 0;
	}
	if (!ret)
		extend_span(reading, s);
	return ret;
}

static int no_windows(const struct reading *reading, struct so_error *err)
{
	if (reading->span.damaged)
		return so_err(err, -ENODATA, "all %llu windows of that time are damaged",
			      (unsigned long long)reading->span.damaged);
	return so_err(err, -ENODATA, "there is no history of that time");
}

static int prepare(sqlite3 *db, const struct texts *texts, size_t n, const int64_t *numbers, sqlite3_stmt **out)
{
	static const char has_memory[] = "SELECT count(*) FROM pragma_table_info('windows') WHERE name = 'most'";
	int64_t has = 1;
	int ret = texts->without_memory ? sql__get_number(db, has_memory, 0, NULL, &has) : 0;

	return ret ?: sql__prepare_numbers(db, has ? texts->text : texts->without_memory, n, numbers, out);
}

/* longest_ns: of a sum that is read in the place of its parts. */
static int read_range(struct store *store, struct reading *reading, const struct texts *texts, int64_t longest_ns,
		      struct so_error *err)
{
	const struct store_query *query = reading->query;
	int64_t numbers[] = { query->target, query->from_ns, query->to_ns, query->from_ns - LONGEST_NS, longest_ns };
	_cleanup_(database) sqlite3 *db = NULL;
	_cleanup_(statement) sqlite3_stmt *s = NULL;
	int ret;

	if (query->from_ns >= query->to_ns || query->from_ns < 0)
		return so_err(err, -EINVAL, "an empty range of time");
	reading->reader = store_blob_reader__new();
	if (!reading->reader)
		return so_err(err, -ENOMEM, "not enough memory to read the history");
	ret = store_schema__open_reader(store->path, &db, err);
	if (ret)
		return ret == -ENOENT ? so_err(err, -ENODATA, "there is no history yet") : ret;
	ret = prepare(db, texts, sizeof(numbers) / sizeof(numbers[0]), numbers, &s);
	if (ret)
		return so_err(err, ret, "the history cannot be read: %s", sql__words(ret));
	while ((ret = sql__step(db, s)) > 0) {
		ret = take_row(reading, s, err);
		if (ret)
			return ret == -ENOMEM ? so_err(err, ret, "not enough memory to read the history") : ret;
	}
	if (ret)
		return so_err(err, ret, "the history cannot be read: %s", sql__words(ret));
	return reading->span.windows ? 0 : no_windows(reading, err);
}

int store__profile(struct store *store, const struct store_query *query, uint8_t **out, size_t *length,
		   struct store_span *span, struct so_error *err)
{
	__attribute__((cleanup(reading__clear))) struct reading reading = { .query = query,
									    .take = take_profile,
									    .merge = profile_merge__new() };
	int ret;

	if (!reading.merge)
		return so_err(err, -ENOMEM, "not enough memory to read the history");
	ret = read_range(store, &reading, query->target ? &profile_of_one : &profile_of_all, INT64_MAX, err);
	if (ret)
		return ret;
	profile_merge__set_times(reading.merge, reading.span.begin_ns, reading.span.covered_ns);
	ret = profile_merge__finish(reading.merge, true, out, length);
	if (ret)
		return so_err(err, ret, "the profile of that time cannot be made: %s", strerror(-ret));
	*span = reading.span;
	return 0;
}

int store__cuda(struct store *store, const struct store_query *query, int (*take)(void *data, const json_t *documents),
		void *data, struct store_span *span, struct so_error *err)
{
	__attribute__((cleanup(reading__clear))) struct reading reading = {
		.query = query, .take = take_cuda, .take_documents = take, .data = data
	};
	int ret = read_range(store, &reading, query->target ? &cuda_of_one : &cuda_of_all, INT64_MAX, err);

	if (!ret)
		*span = reading.span;
	return ret;
}

int store__windows(struct store *store, const struct store_query *query, int64_t longest_ns, store_window_fn *take,
		   void *data, struct store_span *span, struct so_error *err)
{
	__attribute__((cleanup(reading__clear))) struct reading reading = {
		.query = query, .take = take_window, .take_window = take, .data = data
	};
	int ret = read_range(store, &reading, query->target ? &windows_of_one : &windows_of_all, longest_ns, err);

	if (!ret)
		*span = reading.span;
	return ret;
}

int store__memory(struct store *store, const struct store_query *query, int64_t longest_ns, store_window_fn *take,
		  void *data, struct store_span *span, struct so_error *err)
{
	__attribute__((cleanup(reading__clear))) struct reading reading = {
		.query = query, .take = take_bare, .take_window = take, .data = data
	};
	int ret = read_range(store, &reading, &memory_of_one, longest_ns, err);

	if (!ret)
		*span = reading.span;
	return ret;
}
