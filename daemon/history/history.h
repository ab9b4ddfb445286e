/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The history of watched processes (.design/history.md): a thread that hands the profile of each kept target to a store
 * (daemon/history/store.h), window by window, and what there is to ask of the store. Without sample loss: windows
 * follow upon each other, the last one of a target goes to its end, and one whose profile cannot be built for want of
 * memory is part of the next.
 *
 * All functions are thread-safe, history__free() excepted. Times are ns since 1970-01-01 UTC.
 */
#ifndef STAKEOUT_HISTORY_H
#define STAKEOUT_HISTORY_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/history/store.h"
#include "stakeout/cleanup.h"
#include "daemon/os/process_access.h"
#include "stakeout/error.h"

#define HISTORY_DEFAULT_WINDOW_S 10
#define HISTORY_MIN_WINDOW_S     1
#define HISTORY_MAX_WINDOW_S     300
#define HISTORY_MIN_AGE_NS       STORE_MINUTE_NS

/* Who else wants to know of windows. Called by the threads that watch and take them, for one target at a time. */
struct history_listener {
	void *context;
	void (*watched)(void *context, uint32_t id);                                   /* before its first window */
	void (*taken)(void *context, uint32_t id, const struct engine_window *window); /* also if it cannot be kept */
};

struct history_options {
	const char *dir;
	uint64_t retain_size_bytes;       /* 0: STORE_DEFAULT_SIZE_BYTES */
	int64_t retain_age_ns;            /* 0: STORE_DEFAULT_AGE_NS */
	unsigned window_s;                /* 0: HISTORY_DEFAULT_WINDOW_S */
	struct history_listener listener; /* functions NULL: nobody */
};

struct history;

/* The engine stays the caller's and must live longer. Errors as store__open()'s. */
int history__new(struct engine *engine, const struct history_options *options, struct history **out,
		 struct so_error *err);
/* Writes the windows that are open. Call when nobody uses it any more. */
void history__free(struct history *history);
CLEANUP_DEFINE(struct history *, history, history__free)

/* Takes windows of a target from now on, back to its attachment, until it ends. Obstacles are logged and counted. */
void history__watch(struct history *history, uint32_t id);

/* For GET /v1/status. New reference; NULL: out of memory. */
json_t *history__status(struct history *history);

/* For GET /v1/history: what the caller may see. *out: a new reference. */
int history__list(struct history *history, struct caller caller, json_t **out, struct so_error *err);

/* The key under which a watched target's history is kept. -ENOENT: it has none, in words. */
int history__key(struct history *history, uint32_t id, int64_t *key, struct so_error *err);

struct history_profile {
	uint8_t *bytes; /* gzip-compressed pprof; malloc'ed, the caller frees it */
	size_t length;
	struct store_span span;
};

/*
 * The sum of one process's windows that touch a range. Where the range goes on behind the last window of a process that
 * is watched, its open window is written first, at most once in HISTORY_MIN_WINDOW_S. -ENOENT: no such key; -EPERM:
 * another user's process; and store__profile()'s.
 */
int history__profile(struct history *history, struct caller caller, int64_t key, int64_t from_ns, int64_t to_ns,
		     struct history_profile *out, struct so_error *err);

/* The same windows one by one, as store__windows() has them. One range of all is read at a time. */
int history__windows(struct history *history, struct caller caller, const struct store_query *query, int64_t longest_ns,
		     store_window_fn *take, void *data, struct store_span *span, struct so_error *err);

/*
 * How much memory the process and its children had in a range, window by window (.design/history.md). Errors as above;
 * -EFBIG, in words: too many windows. *out: a new reference.
 */
int history__memory(struct history *history, struct caller caller, int64_t key, int64_t from_ns, int64_t to_ns,
		    json_t **out, struct so_error *err);

/*
 * The CUDA calls of one process in a range, in the form of GET /v1/targets/ID/cuda, with a member "history"
 * (.design/history.md). As above; -ENODATA, in words: no window of the range has any, because the process was attached
 * without `cuda`. *out: a new reference.
 */
int history__cuda(struct history *history, struct caller caller, int64_t key, int64_t from_ns, int64_t to_ns,
		  json_t **out, struct so_error *err);

#endif
