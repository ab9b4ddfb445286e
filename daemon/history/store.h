/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's history: DIR/history.sqlite, one zstd-compressed pprof message for each target and window.
 *
 * Tables (daemon/history/store_schema.c): targets; windows, their figures only, so that listings decompress nothing;
 * blobs, a window's profile and CUDA document; gaps, times of which history is known to lack something.
 *
 * Levels. The daemon hands windows of some 10 s (level 0). As soon as a minute is complete its windows are merged into
 * one of level 1, and ten complete minutes into one of level 2; minutes are those of Unix time. The parts stay beside
 * their sum until they are older than STORE_FINE_AGE_NS (level 0) or STORE_MINUTE_AGE_NS (level 1). So long ranges are
 * answered from few windows while their edges are still as fine as the age allows. A sum and the mark on its parts are
 * written in one transaction, and so are the parts' removal and the mark on the sum: no moment counts a sample twice or
 * not at all.
 *
 * Bounds. The file with its write-ahead log stays within retain_size_bytes: before a window is written, room is made
 * in the same transaction: of one user, first the oldest parts beside their sums go (STORE_FINE_LEAST_NS,
 * STORE_MINUTE_LEAST_NS), then the oldest windows; incremental auto-vacuum gives the pages back. Windows that ended
 * longer ago than retain_age_ns go in store__maintain(), and with them targets and gaps that have nothing left. The
 * wall clock may be set by years, so ages go by a clock of the store's own, which is kept in it
 * (daemon/history/store_clock.c).
 *
 * Shares. A user other than root has a quarter of it, all such users together three quarters, and the rest of it as
 * long as nobody else needs it. Where room is made, it is made by whoever writes, if that is beyond their share; else
 * by the user who is furthest beyond theirs; else by root, who has the rest. `users` counts what each has, by what is
 * written.
 *
 * Crashes (.design/history.md: what is on the disk when). Write-ahead log, synchronous=NORMAL: a killed daemon loses
 * no window that store__add() had taken, a machine that loses power may lose the last ones; neither corrupts. When a
 * store is opened, targets that were not ended are marked STORE_END_UNKNOWN, with a gap from their last window on: the
 * window that was open is lost. A database that fails its check (PRAGMA quick_check, for half a second at most) is
 * renamed to history.sqlite.corrupt-TIME, and a new one begun. So it is when the file is removed while the daemon
 * runs.
 *
 * Full disks, read-only stores. History is then off: logged once, reported by store__problem(), tried again every
 * STORE_RETRY_NS; the windows that could not be written become one gap. The daemon goes on meanwhile.
 *
 * Threads. All functions may be called by any thread, store__close() excepted. Those that write wait for each other;
 * those that read (the second half of this file) open a connection of their own and wait for nobody. One process at a
 * time may write to a store: flock(2) of DIR/lock.
 *
 * Times are ns since 1970-01-01 UTC.
 */
#ifndef STAKEOUT_STORE_H
#define STAKEOUT_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define STORE_SECOND_NS ((int64_t)1000000000)

#define STORE_MINUTE_NS       (60 * STORE_SECOND_NS)
#define STORE_TEN_MINUTE_NS   (600 * STORE_SECOND_NS)
#define STORE_FINE_AGE_NS     (3600 * STORE_SECOND_NS)
#define STORE_MINUTE_AGE_NS   (24 * 3600 * STORE_SECOND_NS)
#define STORE_FINE_LEAST_NS   (600 * STORE_SECOND_NS)  /* the ages at which parts may go already, */
#define STORE_MINUTE_LEAST_NS (3600 * STORE_SECOND_NS) /* where the size would be passed otherwise */
#define STORE_GRACE_NS        (30 * STORE_SECOND_NS)   /* how late the last window of a minute may come */
#define STORE_RETRY_NS        (10 * STORE_SECOND_NS)

#define STORE_MAX_CUDA_BYTES ((size_t)16 << 20) /* of a window's CUDA documents as text */

#define STORE_MAX_WINDOW_NS STORE_TEN_MINUTE_NS /* a longer window is refused */

#define STORE_MIN_SIZE_BYTES     ((uint64_t)16 << 20)
#define STORE_DEFAULT_SIZE_BYTES ((uint64_t)1 << 30)
#define STORE_DEFAULT_AGE_NS     (7 * STORE_MINUTE_AGE_NS)

struct store;

struct store_options {
	const char *dir;            /* created (0700) if need be; its parent must be there */
	uint64_t retain_size_bytes; /* 0: STORE_DEFAULT_SIZE_BYTES; less than STORE_MIN_SIZE_BYTES is refused */
	int64_t retain_age_ns;      /* 0: STORE_DEFAULT_AGE_NS */
	/*
	 * Adds up the CUDA documents of windows that are merged: takes a JSON array of them, borrowed, and returns one
	 * document, a new reference, or NULL when it cannot. Absent or NULL: they are kept one beside the other.
	 */
	json_t *(*merge_cuda)(json_t *documents);
	int64_t (*now_ns)(void);     /* NULL: the wall clock; tests put their own here, */
	int64_t (*elapsed_ns)(void); /* and here: since any moment, never set; NULL: CLOCK_BOOTTIME */
};

/*
 * Begins, or goes on with, the history in a directory. -EBUSY: another process writes to it; -EPROTONOSUPPORT: written
 * by a later version; -EMEDIUMTYPE: the file is another program's database; -EINVAL: the options; -ENOMEM. Everything
 * else (a full disk, a read-only place) succeeds with history off: see store__problem().
 */
int store__open(const struct store_options *options, struct store **out, struct so_error *err);
/* Marks the targets that are still watched as STORE_END_CLOSED and frees. */
void store__close(struct store *store);
CLEANUP_DEFINE(struct store *, store, store__close)

/* True while history is off, and why in one line. text may be NULL. */
bool store__problem(struct store *store, char *text, size_t size);

/* --- Writing ------------------------------------------------------------------------------------------------------ */

/* How it came that a target has no further windows. X(enumerator, word in the table) */
#define STORE_ENDS(X)                                               \
	X(OPEN, "open")         /* it is being watched */           \
	X(ENDED, "ended")       /* the process ended */             \
	X(DETACHED, "detached") /* while the process lived on */    \
	X(CLOSED, "closed")     /* the daemon ended as it should */ \
	X(UNKNOWN, "unknown")   /* the daemon was killed; its last window is lost */

enum store_end {
#define X(name, word) STORE_END_##name,
	STORE_ENDS(X)
#undef X
		STORE_END_COUNT,
};

/* A process for good: by PID and start within one boot of the machine, which the store adds itself. */
struct store_target {
	pid_t pid;
	uint64_t start_ticks; /* field 22 of /proc/PID/stat: clock ticks after boot */
	const char *comm;
	const char *labels; /* a JSON object, for whoever reads the list; NULL: none */
	uid_t uid;          /* whose share its windows are of */
};

/*
 * *handle names the target in this process; equal targets continue one history, also after a restart of the daemon.
 * Succeeds with history off, too. -ENOMEM. Strings are copied.
 */
int store__begin_target(struct store *store, const struct store_target *target, uint32_t *handle);
/*
 * `end`: STORE_END_ENDED, _DETACHED or _CLOSED. -ENOENT: no such handle. The handle is void afterwards. Succeeds with
 * history off, too: the end is written later, by store__maintain() at the latest; one that cannot be until the daemon
 * ends is found missing by the next one, as STORE_END_UNKNOWN.
 */
int store__end_target(struct store *store, uint32_t handle, enum store_end end);

/*
 * What a target's processes had, added up, in bytes: means over a window, and the most of the sum of the four at one
 * reading.
 */
struct store_memory {
	bool known; /* else the others say nothing */
	int64_t anonymous, file, shared, swapped, most;
};

/* Of several windows, as one: means weighted by time, over those whose memory is known. All zero is an empty one. */
struct store_memory_sum {
	double anonymous, file, shared, swapped; /* bytes times ns */
	double ns;                               /* of those windows */
	int64_t most;
};
void store_memory_sum__add(struct store_memory_sum *sum, int64_t covered_ns, const struct store_memory *memory);
struct store_memory store_memory_sum__mean(const struct store_memory_sum *sum);

struct store_window {
	int64_t begin_ns, end_ns;
	uint64_t samples, lost;
	const void *profile; /* pprof, gzip-compressed or plain */
	size_t profile_bytes;
	const char *cuda; /* one JSON document; NULL: none */
	bool cuda_valid;  /* it is known to be one, so that it need not be parsed to find out */
	struct store_memory memory;
};

/*
 * Writes one window, and makes room for it. Failure means that history lacks this window: -EAGAIN: history is off;
 * -ENOSPC, -EROFS, -EIO, -EUCLEAN: it is off from now on; -EINVAL: not a window, or damaged gzip; -EFBIG: larger than
 * a quarter of the store, or STORE_MAX_CUDA_BYTES; -ENOENT: no such handle; -ENOMEM. Each is counted in a gap that the
 * next window brings along.
 */
int store__add(struct store *store, uint32_t handle, const struct store_window *window);

/*
 * Merging, removing, shrinking, in steps of one transaction each; begins no step after budget_ms. A step takes what
 * merging ten windows takes. 1: there is more to do now; 0: there is not; negative: history is off, or a step failed.
 * To be called after each round of windows.
 */
int store__maintain(struct store *store, unsigned budget_ms);

struct store_stats {
	uint64_t file_bytes;    /* of the database and its write-ahead log */
	uint64_t used_bytes;    /* of pages in use */
	uint64_t windows[3];    /* by level */
	uint64_t added, missed; /* windows, since store__open() */
};
/* -EAGAIN: history is off. */
int store__stats(struct store *store, struct store_stats *out);

/* --- Reading ------------------------------------------------------------------------------------------------------ */

struct store_query {
	int64_t target; /* store_target_info.id; 0: all */
	int64_t from_ns, to_ns;
};

/* The time and the windows of an answer. */
struct store_span {
	int64_t begin_ns, end_ns; /* windows that cross the range's edges are included whole */
	int64_t covered_ns;       /* time in it with a window: of the one target, or of any of all */
	int64_t longest_ns;       /* the longest window in it: how fine the edges are */
	uint64_t windows;         /* that were read */
	uint64_t samples, lost;
	uint64_t damaged; /* windows that could not be read and are not in the answer */
};

/*
 * The sum of all windows that begin before to_ns and end after from_ns, as a gzip-compressed pprof message whose
 * time_nanos and duration_nanos are the span's begin_ns and covered_ns. *out: malloc'ed. -ENODATA: there is no such
 * window; -EINVAL: an empty range; -EFBIG: too many different stacks; -EUCLEAN, -EIO, -EBUSY, -ENOMEM; in words. Memory
 * grows with the distinct stacks of the range.
 */
int store__profile(struct store *store, const struct store_query *query, uint8_t **out, size_t *length,
		   struct store_span *span, struct so_error *err);

/*
 * The CUDA documents of the same windows one after the other, by their begin. take: borrows a window's array; 0,
 * -EBADMSG: it counts as damaged, or another error, which ends the reading and is returned without words. Memory: one
 * window's at a time.
 */
int store__cuda(struct store *store, const struct store_query *query, int (*take)(void *data, const json_t *documents),
		void *data, struct store_span *span, struct so_error *err);

/* A window as it is read. profile: a plain pprof message, the store's own until the function returns. */
struct store_window_info {
	int64_t begin_ns, end_ns, covered_ns;
	uint64_t samples, lost;
	bool cuda; /* it has CUDA documents */
	struct store_memory memory;
	const void *profile;
	size_t profile_bytes;
};
/* 0, -EBADMSG: it counts as damaged, or another error, in words, which ends the reading. */
typedef int store_window_fn(void *data, const struct store_window_info *window, struct so_error *err);

/*
 * The same windows one after the other, by their begin; of a sum that is longer than longest_ns the parts instead,
 * where they are still there. Errors as store__profile()'s. Memory: one window's at a time.
 */
int store__windows(struct store *store, const struct store_query *query, int64_t longest_ns, store_window_fn *take,
		   void *data, struct store_span *span, struct so_error *err);

/*
 * As store__windows(), without profiles: they are NULL, and are not read. Sums are of what of their parts is known,
 * weighted by time.
 */
int store__memory(struct store *store, const struct store_query *query, int64_t longest_ns, store_window_fn *take,
		  void *data, struct store_span *span, struct so_error *err);

struct store_target_info {
	int64_t id;
	pid_t pid;
	uint64_t start_ticks;
	char boot_id[40];
	char comm[64];
	char *labels; /* "" when there are none */
	enum store_end end;
	int64_t began_ns, ended_ns; /* of watching; ended_ns 0: still watched */
	int64_t first_ns, last_ns;  /* of the windows that are kept; 0: none */
	uint64_t samples, lost;     /* in them */
};

/* The oldest first. *out: release by store__free_targets(). */
int store__targets(struct store *store, struct store_target_info **out, size_t *n, struct so_error *err);
void store__free_targets(struct store_target_info *targets, size_t n);

/* Why history lacks something. X(enumerator, word in the table) */
#define STORE_GAPS(X)                                                                                 \
	X(OPEN_WINDOW, "open-window") /* the daemon was killed: of this target, one window at most */ \
	X(NOT_WRITTEN, "not-written") /* windows could not be written */

enum store_gap_cause {
#define X(name, word) STORE_GAP_##name,
	STORE_GAPS(X)
#undef X
		STORE_GAP_COUNT,
};

struct store_gap {
	int64_t target;           /* 0: several, or none */
	int64_t begin_ns, end_ns; /* end_ns 0: not known */
	uint64_t windows;         /* at most */
	enum store_gap_cause cause;
};

/* Gaps that touch the range, the oldest first. *out: malloc'ed array. */
int store__gaps(struct store *store, int64_t from_ns, int64_t to_ns, struct store_gap **out, size_t *n,
		struct so_error *err);

#endif
