// SPDX-License-Identifier: GPL-2.0-or-later
/* What is reported of the history: its state, its list, the profile of a range. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "daemon/os/json_text.h"
#include "daemon/history/cuda_merge.h"
#include "daemon/history/history_internal.h"
#include "daemon/os/log.h"

static const char *const end_words[] = {
#define X(name, word) [STORE_END_##name] = word,
	STORE_ENDS(X)
#undef X
};

static const char *const gap_words[] = {
#define X(name, word) [STORE_GAP_##name] = word,
	STORE_GAPS(X)
#undef X
};

struct target_list {
	struct store_target_info *all;
	size_t n;
};

static void cleanup__target_list(struct target_list *list)
{
	store__free_targets(list->all, list->n);
}

/* What the daemon wrote down of the target; an empty object when that is no JSON. New reference; NULL: no memory. */
static json_t *labels_of(const struct store_target_info *info)
{
	json_t *labels = json_loads(info->labels, 0, NULL);

	if (json_is_object(labels))
		return labels;
	json_decref(labels);
	return json_object();
}

/* Nobody but root sees a process of which it is not known who may look into it. */
static bool may_see(struct caller caller, const json_t *labels)
{
	const json_t *viewer = json_object_get(labels, "viewer");
	json_int_t uid = json_integer_value(json_array_get(viewer, 0)),
		   gid = json_integer_value(json_array_get(viewer, 1));

	return caller__sees(caller, (struct caller){ (uid_t)uid, (gid_t)gid });
}

static json_t *time_or_null(int64_t ns)
{
	return ns ? json_integer(ns) : json_null();
}

static uint32_t watched_id(struct history *h, const struct store_target_info *info)
{
	return info->end == STORE_END_OPEN ? history_watched_id(h, info->pid, info->start_ticks) : 0;
}

static json_t *target_json(struct history *h, const struct store_target_info *info, json_t *labels)
{
	uint32_t id = watched_id(h, info);

	return json_pack("{s:I, s:i, s:o, s:O*, s:O*, s:o, s:s, s:I, s:o, s:o, s:o, s:I, s:I}", "key",
			 (json_int_t)info->id, "pid", (int)info->pid, "comm", json_text__new(info->comm), "uid",
			 json_object_get(labels, "uid"), "rate_hz", json_object_get(labels, "rate_hz"), "target",
			 id ? json_integer(id) : json_null(), "end", end_words[info->end], "began_ns",
			 (json_int_t)info->began_ns, "ended_ns", time_or_null(info->ended_ns), "first_ns",
			 time_or_null(info->first_ns), "last_ns", time_or_null(info->last_ns), "samples",
			 (json_int_t)info->samples, "lost", (json_int_t)info->lost);
}

/* The visible targets as an array; their keys go into `keys`. */
static int add_targets(struct history *h, struct caller caller, json_t *targets, json_t *keys, struct so_error *err)
{
	_cleanup_(target_list) struct target_list list = { 0 };
	char key[24];
	int ret = store__targets(h->store, &list.all, &list.n, err);

	for (size_t i = 0; !ret && i < list.n; i++) {
		json_t *labels = labels_of(&list.all[i]);

		if (!labels)
			ret = -ENOMEM;
		if (labels && may_see(caller, labels)) {
			snprintf(key, sizeof(key), "%" PRId64, list.all[i].id);
			ret = json_array_append_new(targets, target_json(h, &list.all[i], labels)) ||
					      json_object_set_new(keys, key, json_true())
				      ? -ENOMEM
				      : 0;
		}
		json_decref(labels);
	}
	return ret;
}

/* Gaps of visible targets, and those that are of no single one. */
static int add_gaps(struct history *h, const json_t *keys, json_t *gaps, struct so_error *err)
{
	_cleanup_free_ struct store_gap *all = NULL;
	char key[24];
	size_t n = 0;
	int ret = store__gaps(h->store, 0, INT64_MAX, &all, &n, err);

	for (size_t i = 0; !ret && i < n; i++) {
		snprintf(key, sizeof(key), "%" PRId64, all[i].target);
		if (all[i].target && !json_object_get(keys, key))
			continue;
		ret = json_array_append_new(gaps,
					    json_pack("{s:o, s:I, s:o, s:I, s:s}", "key", time_or_null(all[i].target),
						      "begin_ns", (json_int_t)all[i].begin_ns, "end_ns",
						      time_or_null(all[i].end_ns), "windows",
						      (json_int_t)all[i].windows, "cause", gap_words[all[i].cause]))
			      ? -ENOMEM
			      : 0;
	}
	return ret;
}

/* Why nothing is written, in words; null when all is well. */
static json_t *problem_json(struct history *h)
{
	char text[512];

	return store__problem(h->store, text, sizeof(text)) ? json_text__new(text) : json_null();
}

int history__list(struct history *h, struct caller caller, json_t **out, struct so_error *err)
{
	json_t *targets = json_array(), *gaps = json_array(), *keys = json_object(), *list = NULL;
	int ret = targets && gaps && keys ? 0 : -ENOMEM;

	ret = ret ?: add_targets(h, caller, targets, keys, err);
	ret = ret ?: add_gaps(h, keys, gaps, err);
	if (!ret)
		list = json_pack("{s:f, s:o, s:O, s:O}", "window_s", h->window_ns / 1e9, "problem", problem_json(h),
				 "targets", targets, "gaps", gaps);
	json_decref(targets);
	json_decref(gaps);
	json_decref(keys);
	if (!ret && !list)
		ret = -ENOMEM;
	if (ret == -ENOMEM)
		return so_err(err, ret, "out of memory");
	if (!ret)
		*out = list;
	return ret;
}

int history__key(struct history *h, uint32_t id, int64_t *key, struct so_error *err)
{
	_cleanup_(target_list) struct target_list list = { 0 };
	struct watched w;
	int ret;

	if (!history_find(h, id, &w))
		return so_err(err, -ENOENT,
			      "target %u has no history: that is kept of attached processes, until they end", id);
	ret = store__targets(h->store, &list.all, &list.n, err);
	if (ret)
		return ret;
	for (size_t i = list.n; i > 0; i--) {
		const struct store_target_info *info = &list.all[i - 1];

		if (info->end == STORE_END_OPEN && info->pid == w.pid && info->start_ticks == w.start_ticks) {
			*key = info->id;
			return 0;
		}
	}
	return so_err(err, -ENOENT, "target %u has no history yet", id);
}

int history_prepare(struct history *h, struct caller caller, int64_t key, int64_t to_ns, int64_t *first_ns,
		    struct so_error *err)
{
	_cleanup_(target_list) struct target_list list = { 0 };
	json_t *labels;
	bool allowed;
	int ret = store__targets(h->store, &list.all, &list.n, err);

	for (size_t i = 0; !ret && i < list.n; i++) {
		const struct store_target_info *info = &list.all[i];

		if (info->id != key)
			continue;
		labels = labels_of(info);
		allowed = may_see(caller, labels);
		json_decref(labels);
		if (!allowed)
			return so_err(err, -EPERM, "that history is of a process of another user");
		if (first_ns)
			*first_ns = info->first_ns;
		/* info->last_ns would not do: after the clock was set back, it lies ahead. */
		if (watched_id(h, info))
			history_flush(h, info->pid, info->start_ticks, to_ns);
		return 0;
	}
	return ret ?: so_err(err, -ENOENT, "there is no history %" PRId64, key);
}

static void log_damaged(const struct store_span *span, int64_t key)
{
	if (span->damaged)
		log__error("history: %" PRIu64 " windows of history %" PRId64 " are damaged and left out",
			   span->damaged, key);
}

int history__profile(struct history *h, struct caller caller, int64_t key, int64_t from_ns, int64_t to_ns,
		     struct history_profile *out, struct so_error *err)
{
	struct store_query query = { key, from_ns, to_ns };
	struct history_profile answer = { 0 };
	int ret;

	/* 0 would be all processes. */
	if (key < 1)
		return so_err(err, -ENOENT, "there is no history %" PRId64, key);
	ret = history_prepare(h, caller, key, to_ns, NULL, err);
	if (ret)
		return ret;
	pthread_mutex_lock(&h->reading);
	ret = store__profile(h->store, &query, &answer.bytes, &answer.length, &answer.span, err);
	pthread_mutex_unlock(&h->reading);
	if (ret)
		return ret;
	log_damaged(&answer.span, key);
	*out = answer;
	return 0;
}

int history__windows(struct history *h, struct caller caller, const struct store_query *query, int64_t longest_ns,
		     store_window_fn *take, void *data, struct store_span *span, struct so_error *err)
{
	int ret = query->target < 1 ? so_err(err, -ENOENT, "there is no history %" PRId64, query->target) : 0;

	ret = ret ?: history_prepare(h, caller, query->target, query->to_ns, NULL, err);
	if (ret)
		return ret;
	pthread_mutex_lock(&h->reading);
	ret = store__windows(h->store, query, longest_ns, take, data, span, err);
	pthread_mutex_unlock(&h->reading);
	if (!ret)
		log_damaged(span, query->target);
	return ret;
}

/* What a range's CUDA documents are added up in. */
struct cuda_sum {
	struct cuda_merge *merge;
	uint64_t windows; /* that have any */
	uint64_t damaged; /* documents */
};

/* A window may have several documents, which could not be made one. */
static int add_documents(void *data, const json_t *documents)
{
	struct cuda_sum *sum = data;
	const json_t *document;
	size_t i, added = 0;

	json_array_foreach (documents, i, document) {
		int ret = cuda_merge__add(sum->merge, document);

		if (ret && ret != -EBADMSG)
			return ret;
		added += !ret;
		sum->damaged += ret != 0;
	}
	sum->windows += added > 0;
	return 0;
}

/* In words. */
static int cuda_error(int r, const struct cuda_sum *sum, const struct store_span *span, struct so_error *err)
{
	if (r == -EFBIG)
		return so_err(err, r,
			      "the CUDA calls of that time are too many different ones: ask for a shorter time");
	if (r == -ENOMEM)
		return so_err(err, r, "not enough memory to read the history");
	if (!r && !sum->windows && span->damaged + sum->damaged)
		return so_err(err, -ENODATA, "all windows of that time with CUDA calls are damaged");
	if (!r && !sum->windows)
		return so_err(err, -ENODATA,
			      "the history has no CUDA calls of that time: the process was attached without --cuda");
	return r;
}

static int cuda_answer(const struct cuda_sum *sum, const struct store_span *span, json_t **out)
{
	json_t *answer = cuda_merge__finish(sum->merge, false);

	if (!answer || json_object_set_new(
			       answer, "history",
			       json_pack("{s:I, s:I, s:f, s:I, s:I, s:I}", "begin_ns", (json_int_t)span->begin_ns,
					 "end_ns", (json_int_t)span->end_ns, "covered_s", span->covered_ns / 1e9,
					 "windows", (json_int_t)span->windows, "cuda_windows", (json_int_t)sum->windows,
					 "damaged", (json_int_t)(span->damaged + sum->damaged)))) {
		json_decref(answer);
		return -ENOMEM;
	}
	*out = answer;
	return 0;
}

int history__cuda(struct history *h, struct caller caller, int64_t key, int64_t from_ns, int64_t to_ns, json_t **out,
		  struct so_error *err)
{
	_cleanup_(cuda_merge) struct cuda_merge *merge = cuda_merge__new();
	struct store_query query = { key, from_ns, to_ns };
	struct cuda_sum sum = { .merge = merge };
	struct store_span span = { 0 };
	int ret = key < 1 ? so_err(err, -ENOENT, "there is no history %" PRId64, key) : 0;

	ret = ret ?: history_prepare(h, caller, key, to_ns, NULL, err);
	if (ret)
		return ret;
	pthread_mutex_lock(&h->reading);
	ret = merge ? store__cuda(h->store, &query, add_documents, &sum, &span, err) : -ENOMEM;
	ret = cuda_error(ret, &sum, &span, err);
	ret = ret ?: cuda_error(cuda_answer(&sum, &span, out), &sum, &span, err);
	pthread_mutex_unlock(&h->reading);
	if (!ret && span.damaged + sum.damaged)
		log__error("history: the CUDA calls of %" PRIu64 " windows of history %" PRId64
			   " are damaged and left out",
			   span.damaged + sum.damaged, key);
	return ret;
}

/* As date(1) -u +%FT%TZ prints it; null when there is none. */
static json_t *time_text(int64_t ns)
{
	time_t seconds = (time_t)(ns / STORE_SECOND_NS);
	char text[32];
	struct tm tm;

	if (!ns || !gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return json_null();
	return json_string(text);
}

static int64_t oldest_ns(struct history *h)
{
	_cleanup_(target_list) struct target_list list = { 0 };
	int64_t oldest = 0;

	if (store__targets(h->store, &list.all, &list.n, NULL))
		return 0;
	for (size_t i = 0; i < list.n; i++) {
		if (list.all[i].first_ns && (!oldest || list.all[i].first_ns < oldest))
			oldest = list.all[i].first_ns;
	}
	return oldest;
}

/* Each level is named by the length of its windows; the finest is window_s. */
static json_t *window_counts(const struct store_stats *stats)
{
	return json_pack("{s:I, s:I, s:I}", "fine", (json_int_t)stats->windows[0], "minute",
			 (json_int_t)stats->windows[1], "ten_minutes", (json_int_t)stats->windows[2]);
}

json_t *history__status(struct history *h)
{
	struct store_stats stats = { 0 };
	json_t *status;
	uint64_t lost;

	store__stats(h->store, &stats);
	pthread_mutex_lock(&h->lock);
	lost = h->n_lost;
	pthread_mutex_unlock(&h->lock);
	status = json_pack("{s:o, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:I, s:I, s:o}", "path", json_text__new(h->dir),
			   "bytes", (json_int_t)stats.file_bytes, "used_bytes", (json_int_t)stats.used_bytes,
			   "retain_bytes", (json_int_t)h->retain_size_bytes, "retain_s", h->retain_age_ns / 1e9,
			   "window_s", h->window_ns / 1e9, "oldest", time_text(oldest_ns(h)), "windows",
			   window_counts(&stats), "windows_written", (json_int_t)stats.added, "windows_lost",
			   (json_int_t)lost, "problem", problem_json(h));
	return status;
}
