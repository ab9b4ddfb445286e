/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the store's own files share. Everything here is called with store->lock held, unless it says otherwise. */
#ifndef STAKEOUT_STORE_INTERNAL_H
#define STAKEOUT_STORE_INTERNAL_H

#include <pthread.h>

#include "daemon/history/store.h"
#include "daemon/history/store_blob.h"
#include "daemon/history/store_schema.h"
#include "daemon/history/store_sql.h"

struct open_target {
	uint32_t handle;
	int64_t row; /* in the table; 0: not written yet */
	struct store_target target;
	char *comm, *labels;
	bool listed;        /* it has had a row, which may be there again after an error */
	enum store_end end; /* STORE_END_OPEN, or how it ended, which could not be written yet */
	int64_t ended_ns;
};

#define STORE_MAX_LATE_ENDS 1024 /* that could not be written; of further ones the oldest is left to the next daemon */

/* Windows that could not be written since the last one that could. */
struct missed_windows {
	uint64_t n;
	int64_t begin_ns, end_ns;
};

/* Wall time that is not set (store_clock.c). */
struct store_clock {
	int64_t now_ns;     /* 0: not known yet, as long as there are no windows */
	int64_t elapsed_ns; /* when it said so */
	int64_t offset_ns;  /* wall time less elapsed time, then */
	int64_t steady_ns;  /* since when that is so, by elapsed_ns */
};

struct store {
	/* Constant, read without the lock. */
	char *dir, *path, *lock_path;
	char boot_id[40];
	int64_t retain_size_bytes, retain_age_ns;
	json_t *(*merge_cuda)(json_t *documents);
	int64_t (*now_ns)(void);     /* the wall clock */
	int64_t (*elapsed_ns)(void); /* for how long something has been */

	pthread_mutex_t lock;
	int lock_fd;
	sqlite3 *db; /* NULL: closed after an error */
	int problem; /* -errno; 0: history is on */
	char problem_text[512];
	int64_t next_try_ns, moved_aside_ns, last_sweep_ns; /* by elapsed_ns; 0: at once, never */
	struct store_clock clock;
	bool recovered;              /* targets that an earlier daemon left open have been marked */
	struct open_target *targets; /* and those of which only the end is still to be written */
	size_t n_targets, targets_capacity;
	uint32_t last_handle;
	struct missed_windows missed;
	uint64_t n_added, n_missed;
};

extern const char *const store_end_words[STORE_END_COUNT];
extern const char *const store_gap_words[STORE_GAP_COUNT];

/* Makes sure that there is a connection, trying again where it is time to. 0, or -EAGAIN. */
int store__connect(struct store *store);
/* History is off from now on because of r, or still on where r is about one window only. Returns r. */
int store__failed(struct store *store, int r);
/* Something was written: history is on. */
void store__worked(struct store *store);
/* Gives back its memory and files, and writes nothing: store__close() does both. */
void store__free(struct store *store);

/* store_clock.c */
/* What is now, for the age of windows: never later than the wall clock says. */
int64_t store_clock__now(struct store *store);
/* Goes on from what an earlier daemon kept; once. */
int store_clock__load(struct store *store);
/* Within a transaction. */
int store_clock__save(struct store *store);

/* store_retain.c */
/* Pages in use, in bytes, and what the file may hold at most. */
int store_retain__used(sqlite3 *db, int64_t *bytes);
static inline int64_t store_retain__limit(const struct store *store)
{
	return store->retain_size_bytes - STORE_WAL_BYTES;
}

/* Within a transaction: removes windows until so many bytes of this user's fit, those of others within their shares. */
int store_retain__make_room(struct store *store, uid_t uid, int64_t bytes);
/* Removes the parts of this sum. found: 0 or -errno of looking for it. 1: done; 0: there is none. */
int store_retain__drop_parts_of(struct store *store, int found, int64_t sum);
/* One step each: 1: done something, 0: nothing to do. */
int store_retain__by_age(struct store *store);
int store_retain__by_size(struct store *store);
int store_retain__shrink(struct store *store);
/* Targets and gaps that have nothing left; once a minute. */
int store_retain__sweep(struct store *store);

/* store_compact.c */
/* One step: merges the windows of one target and one minute (level 0) or ten minutes (1). 1: done; 0: nothing to do. */
int store_compact__merge(struct store *store, int level);
/* One step: removes the parts of the oldest sum whose parts are past their age. 1: done; 0: none. */
int store_compact__drop_parts(struct store *store, int level);

/* store_rows.c: a row of `windows` and its blobs. */
struct window_row {
	int64_t target, level, begin_ns, end_ns, covered_ns, samples, lost;
	uid_t uid;                     /* whose */
	const uint8_t *profile, *cuda; /* blobs; cuda NULL: none */
	size_t profile_size, cuda_size;
	int64_t profile_bytes, cuda_bytes; /* of their contents */
	struct store_memory memory;
};
int store_rows__window(sqlite3 *db, const struct window_row *row, int64_t *id);
/* The columns of `windows` about memory, and what a row says that has them from `first` on. */
#define STORE_MEMORY_COLUMNS(table) table "anonymous, " table "file, " table "shared, " table "swapped, " table "most"
#define STORE_N_MEMORY_COLUMNS      5
struct store_memory store_rows__memory(sqlite3_stmt *s, int first);
/* Writes those targets that have no row yet, and ends that could not be written; the latter are forgotten then. */
int store_rows__targets(struct store *store);
/* The last one takes its place among store->targets. */
void store_rows__forget_target(struct store *store, struct open_target *target);
/* A JSON array as a blob. */
int store_rows__encode_cuda(json_t *documents, uint8_t **blob, size_t *size, int64_t *content_bytes);

/* store_write.c */
/* As store_rows__targets(), where there is something to write. */
int store_write__late_targets(struct store *store);

/* store_read.c: the JSON array of a CUDA blob, appended to `documents`. -EBADMSG: damaged. */
int store_read__cuda(struct store_blob_reader *reader, const void *blob, size_t size, int64_t content_bytes,
		     json_t *documents);

#endif
