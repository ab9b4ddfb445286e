// SPDX-License-Identifier: GPL-2.0-or-later
/* What the history says of memory in a range: a row for each window. */
#include <errno.h>
#include <inttypes.h>

#include "daemon/history/history_internal.h"

/* Of a range, if all of it was there as finely; and of an answer, at most. */
#define ROWS      240
#define MOST_ROWS 20000

struct rows {
	json_t *list;
	uint64_t known;
};

/* New reference. */
static json_t *bytes(const struct store_memory *m, int64_t value)
{
	return m->known ? json_integer(value) : json_null();
}

static int take_row(void *data, const struct store_window_info *w, struct so_error *err)
{
	const struct store_memory *m = &w->memory;
	struct rows *rows = data;

	if (json_array_size(rows->list) == MOST_ROWS)
		return so_err(err, -EFBIG, "that time has more than %d windows: ask for a shorter time", MOST_ROWS);
	rows->known += m->known;
	return json_array_append_new(rows->list,
				     json_pack("{s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o}", "begin_ns",
					       (json_int_t)w->begin_ns, "end_ns", (json_int_t)w->end_ns, "covered_s",
					       (double)w->covered_ns / 1e9, "anonymous_bytes", bytes(m, m->anonymous),
					       "file_bytes", bytes(m, m->file), "shared_bytes", bytes(m, m->shared),
					       "swapped_bytes", bytes(m, m->swapped), "most_bytes", bytes(m, m->most)))
		       ? -ENOMEM
		       : 0;
}

/* Of a process whose history begins within the range, that is where the range begins. */
static int64_t longest_ns(int64_t from_ns, int64_t to_ns, int64_t first_ns)
{
	if (!first_ns)
		return 0;
	return (to_ns - (first_ns > from_ns ? first_ns : from_ns)) / ROWS;
}

int history__memory(struct history *h, struct caller caller, int64_t key, int64_t from_ns, int64_t to_ns, json_t **out,
		    struct so_error *err)
{
	const struct store_query query = { key, from_ns, to_ns };
	struct rows rows = { .known = 0 };
	struct store_span span = { 0 };
	int64_t first_ns = 0;
	int ret = key < 1 ? so_err(err, -ENOENT, "there is no history %" PRId64, key) : 0;

	ret = ret ?: history_prepare(h, caller, key, to_ns, &first_ns, err);
	if (ret)
		return ret;
	rows.list = json_array();
	ret = rows.list ? store__memory(h->store, &query, longest_ns(from_ns, to_ns, first_ns), take_row, &rows, &span,
					err)
			: so_err(err, -ENOMEM, "out of memory");
	if (!ret) {
		*out = json_pack("{s:I, s:I, s:f, s:I, s:I, s:O}", "begin_ns", (json_int_t)span.begin_ns, "end_ns",
				 (json_int_t)span.end_ns, "covered_s", (double)span.covered_ns / 1e9, "windows",
				 (json_int_t)span.windows, "memory_windows", (json_int_t)rows.known, "rows", rows.list);
		ret = *out ? 0 : so_err(err, -ENOMEM, "out of memory");
	}
	json_decref(rows.list);
	return ret;
}
