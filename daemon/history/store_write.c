// SPDX-License-Identifier: GPL-2.0-or-later
/* Writing targets and windows. */
#include <errno.h>
#include <string.h>

#include "daemon/history/store_internal.h"
#include "stakeout/array.h"

#define ROW_BYTES ((int64_t)64 << 10) /* pages that a window needs beside its blobs, with the indexes: a bound */

/* n: of all that could not be written yet. NULL: there is none. */
static struct open_target *oldest_end(struct store *store, size_t *n)
{
	struct open_target *oldest = NULL;

	*n = 0;
	for (size_t i = 0; i < store->n_targets; i++) {
		struct open_target *target = &store->targets[i];

		if (target->end == STORE_END_OPEN)
			continue;
		if (!oldest || target->ended_ns < oldest->ended_ns)
			oldest = target;
		++*n;
	}
	return oldest;
}

static bool is_written(const struct store *store)
{
	for (size_t i = 0; i < store->n_targets; i++)
		if (!store->targets[i].row || store->targets[i].end != STORE_END_OPEN)
			return false;
	return true;
}

int store_write__late_targets(struct store *store)
{
	int ret;

	if (is_written(store))
		return 0;
	ret = store_rows__targets(store);
	if (!ret)
		store__worked(store);
	return ret;
}

static struct open_target *find_target(struct store *store, uint32_t handle)
{
	for (size_t i = 0; i < store->n_targets; i++)
		if (store->targets[i].handle == handle && store->targets[i].end == STORE_END_OPEN)
			return &store->targets[i];
	return NULL;
}

/* Its history goes on: that it had ended is not to be written any more. True: it has a row, which is open. */
static bool forget_end_of(struct store *store, const struct store_target *target)
{
	bool listed = false;

	for (size_t i = store->n_targets; i > 0; i--) {
		struct open_target *t = &store->targets[i - 1];

		if (t->end == STORE_END_OPEN || t->target.pid != target->pid ||
		    t->target.start_ticks != target->start_ticks)
			continue;
		listed |= t->listed;
		store_rows__forget_target(store, t);
	}
	return listed;
}

static int remember_target(struct store *store, const struct store_target *target, uint32_t *handle)
{
	_cleanup_free_ char *comm = strdup(target->comm ? target->comm : "");
	_cleanup_free_ char *labels = strdup(target->labels ? target->labels : "");
	bool listed;

	if (!comm || !labels || ARRAY_RESERVE(store->targets, store->targets_capacity, store->n_targets + 1))
		return -ENOMEM;
	listed = forget_end_of(store, target);
	*handle = ++store->last_handle;
	store->targets[store->n_targets++] = (struct open_target){ .handle = *handle,
								   .listed = listed,
								   .target = *target,
								   .comm = TAKE_PTR(comm),
								   .labels = TAKE_PTR(labels) };
	return 0;
}

int store__begin_target(struct store *store, const struct store_target *target, uint32_t *handle)
{
	int ret;

	pthread_mutex_lock(&store->lock);
	ret = remember_target(store, target, handle);
	/* What fails here is tried again with the first window. */
	if (!ret && !store__connect(store)) {
		int failed = store_rows__targets(store);

		if (failed)
			store__failed(store, failed);
	}
	pthread_mutex_unlock(&store->lock);
	return ret;
}

/* What fails here is tried again by store__maintain(). What never had a row has nothing in the store that would end. */
static void end_locked(struct store *store, struct open_target *target, enum store_end end)
{
	size_t n;
	int ret;

	if (!target->listed) {
		store_rows__forget_target(store, target);
		return;
	}
	target->end = end;
	target->ended_ns = store->now_ns();
	target = oldest_end(store, &n);
	if (n > STORE_MAX_LATE_ENDS)
		store_rows__forget_target(store, target);
	if (store__connect(store))
		return;
	ret = store_write__late_targets(store);
	if (ret)
		store__failed(store, ret);
}

int store__end_target(struct store *store, uint32_t handle, enum store_end end)
{
	struct open_target *target;

	pthread_mutex_lock(&store->lock);
	target = find_target(store, handle);
	if (target)
		end_locked(store, target, end);
	pthread_mutex_unlock(&store->lock);
	return target ? 0 : -ENOENT;
}

static bool is_document(const char *text)
{
	json_auto_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	return value;
}

static int encode_document(const struct store_window *window, uint8_t **blob, size_t *size, int64_t *content_bytes)
{
	_cleanup_free_ char *array = NULL;
	size_t length, content;
	int ret;

	if (!window->cuda)
		return 0;
	length = strlen(window->cuda);
	/* With the brackets around it. */
	if (length > STORE_MAX_CUDA_BYTES - 2)
		return -EFBIG;
	if (!window->cuda_valid && !is_document(window->cuda))
		return -EINVAL;
	if (asprintf(&array, "[%s]", window->cuda) < 0) {
		array = NULL;
		return -ENOMEM;
	}
	ret = store_blob__encode(array, length + 2, blob, size, &content);
	if (!ret)
		*content_bytes = (int64_t)content;
	return ret;
}

static int write_missed(struct store *store)
{
	const struct missed_windows *missed = &store->missed;

	if (!missed->n)
		return 0;
	return SQL_RUN(store->db,
		       "INSERT INTO gaps(begin_ns, end_ns, windows, cause) VALUES(?1, ?2, ?3, 'not-written')",
		       missed->begin_ns, missed->end_ns, (int64_t)missed->n);
}

static void count_missed(struct store *store, const struct store_window *window)
{
	struct missed_windows *missed = &store->missed;

	if (!missed->n || window->begin_ns < missed->begin_ns)
		missed->begin_ns = window->begin_ns;
	if (!missed->n || window->end_ns > missed->end_ns)
		missed->end_ns = window->end_ns;
	missed->n++;
	store->n_missed++;
}

static int write_window(struct store *store, struct window_row *row)
{
	int64_t id, bytes = (int64_t)(row->profile_size + row->cuda_size);
	int ret = sql__begin(store->db);

	if (ret)
		return ret;
	if (bytes > store_retain__limit(store) / 4)
		ret = -EFBIG;
	ret = ret ?: store_retain__make_room(store, row->uid, bytes + ROW_BYTES);
	ret = ret ?: write_missed(store);
	ret = ret ?: store_rows__window(store->db, row, &id);
	/* The first window's clock begins with it: until the next sweep, its age would be the wall clock's. */
	if (!ret && !store->clock.now_ns)
		ret = store_clock__save(store);
	return sql__end(store->db, ret);
}

static int add_locked(struct store *store, uint32_t handle, struct window_row *row)
{
	struct open_target *target = find_target(store, handle);
	int ret;

	if (!target)
		return -ENOENT;
	ret = store__connect(store);
	if (ret)
		return ret;
	if (!target->row) {
		ret = store_rows__targets(store);
		/* Those whose end is written by that are gone, and the others may be somewhere else. */
		target = find_target(store, handle);
	}
	row->target = target->row;
	row->uid = target->target.uid;
	ret = ret ?: write_window(store, row);
	if (ret)
		return store__failed(store, ret);
	store->missed = (struct missed_windows){ 0 };
	store->n_added++;
	store__worked(store);
	return 0;
}

static bool is_window(const struct store_window *w)
{
	return w->begin_ns > 0 && w->begin_ns < w->end_ns && w->end_ns - w->begin_ns <= STORE_MAX_WINDOW_NS &&
	       w->samples <= INT64_MAX && w->lost <= INT64_MAX && w->profile && w->profile_bytes;
}

int store__add(struct store *store, uint32_t handle, const struct store_window *window)
{
	_cleanup_free_ uint8_t *profile = NULL, *cuda = NULL;
	struct window_row row = { .level = 0 };
	size_t content;
	int ret;

	if (!is_window(window))
		return -EINVAL;
	/* Compressing needs no lock. */
	ret = store_blob__encode(window->profile, window->profile_bytes, &profile, &row.profile_size, &content);
	ret = ret ?: encode_document(window, &cuda, &row.cuda_size, &row.cuda_bytes);
	row.begin_ns = window->begin_ns;
	row.end_ns = window->end_ns;
	row.covered_ns = window->end_ns - window->begin_ns;
	row.samples = (int64_t)window->samples;
	row.lost = (int64_t)window->lost;
	row.memory = window->memory;
	row.profile = profile;
	row.profile_bytes = ret ? 0 : (int64_t)content;
	row.cuda = cuda;
	pthread_mutex_lock(&store->lock);
	ret = ret ?: add_locked(store, handle, &row);
	if (ret && ret != -ENOENT)
		count_missed(store, window);
	pthread_mutex_unlock(&store->lock);
	return ret;
}

/* 0: there is none. */
static uint32_t any_open(const struct store *store)
{
	for (size_t i = 0; i < store->n_targets; i++)
		if (store->targets[i].end == STORE_END_OPEN)
			return store->targets[i].handle;
	return 0;
}

void store__close(struct store *store)
{
	uint32_t handle;

	if (!store)
		return;
	while ((handle = any_open(store)))
		store__end_target(store, handle, STORE_END_CLOSED);
	store__free(store);
}
