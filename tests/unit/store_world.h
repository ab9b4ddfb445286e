/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A store in a directory of its own, under a clock that tests set, and small profiles to put into it. */
#ifndef STAKEOUT_TEST_STORE_WORLD_H
#define STAKEOUT_TEST_STORE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "profile/profile.h"
#include "daemon/os/log.h"
#include "daemon/history/store.h"
#include "daemon/history/store_sql.h"
#include "tests/unit/made_profile.h"

#define WINDOW_NS (10 * STORE_SECOND_NS)
#define HOUR_NS   (3600 * STORE_SECOND_NS)
/* A whole ten minutes of Unix time. */
#define EPOCH_NS ((int64_t)1700000400 * STORE_SECOND_NS)

static int64_t store_world_now_ns = EPOCH_NS;

static int64_t store_world_clock(void)
{
	return __atomic_load_n(&store_world_now_ns, __ATOMIC_RELAXED);
}

static int64_t store_world_set_ns;    /* how far the wall clock has been set */
static int64_t store_world_latest_ns; /* of time that passes, which does not go back */

static int64_t store_world_elapsed(void)
{
	int64_t ns = store_world_clock() - __atomic_load_n(&store_world_set_ns, __ATOMIC_RELAXED);

	if (ns > store_world_latest_ns)
		store_world_latest_ns = ns;
	return store_world_latest_ns;
}

/* Someone sets the wall clock; no time passes. */
static inline void store_world_set_clock(int64_t by_ns)
{
	store_world_now_ns += by_ns;
	store_world_set_ns += by_ns;
}

struct store_world {
	char dir[64], path[96];
	struct store *store;
};

static inline struct store_options store_world_options(const struct store_world *w)
{
	return (struct store_options){ .dir = w->dir,
				       .now_ns = store_world_clock,
				       .elapsed_ns = store_world_elapsed,
				       .retain_age_ns = 400 * HOUR_NS };
}

static inline void store_world_open(struct store_world *w)
{
	struct store_options options = store_world_options(w);
	struct so_error err = { "" };

	if (store__open(&options, &w->store, &err))
		fail_msg("%s", err.text);
}

static inline void store_world_reopen(struct store_world *w)
{
	store__close(w->store);
	w->store = NULL;
	store_world_open(w);
}

/* In memory where there is room: syncing to a disk takes most of the time, and a killed process leaves the same. */
static inline const char *store_world_parent(void)
{
	struct statvfs memory;
	bool room = !statvfs("/dev/shm", &memory) && memory.f_bavail * memory.f_frsize > (256u << 20);

	return room && !access("/dev/shm", W_OK | X_OK) ? "/dev/shm" : "/tmp";
}

static inline int store_world_setup(void **state)
{
	struct store_world *w = calloc(1, sizeof(*w));

	log__set_quiet(true);
	snprintf(w->dir, sizeof(w->dir), "%s/stakeout-store-XXXXXX", store_world_parent());
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/history.sqlite", w->dir);
	store_world_now_ns = EPOCH_NS;
	store_world_set_ns = store_world_latest_ns = 0;
	store_world_open(w);
	*state = w;
	return 0;
}

/* How many entries of the directory have this in their name; removes them when asked to. */
static inline unsigned store_world_files(const struct store_world *w, const char *part, bool remove)
{
	DIR *d = opendir(w->dir);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strstr(e->d_name, part))
			continue;
		n++;
		if (remove)
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
	return n;
}

static inline int store_world_teardown(void **state)
{
	struct store_world *w = *state;

	store__close(w->store);
	store_world_files(w, "", true);
	rmdir(w->dir);
	free(w);
	return 0;
}

static inline uint32_t store_world_target_of(struct store_world *w, uid_t uid, pid_t pid)
{
	const struct store_target target = { pid, 1000 + (uint64_t)pid, "train", "{\"job\":\"x\"}", uid };
	uint32_t handle = 0;

	assert_int_equal(store__begin_target(w->store, &target, &handle), 0);
	assert_true(handle > 0);
	return handle;
}

static inline uint32_t store_world_target(struct store_world *w, pid_t pid)
{
	return store_world_target_of(w, 0, pid);
}

/* A small profile that differs with `seed`; the number of samples comes back. */
static inline uint64_t store_world_profile(unsigned seed, int64_t begin_ns, uint8_t **bytes, size_t *length)
{
	const struct made_profile made = { .stacks = 20,
					   .depth = 12,
					   .locations = 100,
					   .threads = 2,
					   .seed = seed,
					   .begin_ns = (uint64_t)begin_ns,
					   .duration_ns = (uint64_t)WINDOW_NS,
					   .lost = seed % 3 };
	uint64_t samples = made_profile__make(&made, bytes, length);

	assert_true(samples > 0);
	return samples;
}

/* Adds the window of ten seconds that begins then, and moves the clock to its end. Its samples go to *samples. */
static inline int store_world_add(struct store_world *w, uint32_t target, int64_t begin_ns, uint64_t *samples)
{
	unsigned seed = (unsigned)(begin_ns / WINDOW_NS) * 7 + target;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct store_window window = { .begin_ns = begin_ns, .end_ns = begin_ns + WINDOW_NS, .lost = seed % 3 };
	char cuda[64];

	window.samples = store_world_profile(seed, begin_ns, &bytes, &window.profile_bytes);
	window.profile = bytes;
	snprintf(cuda, sizeof(cuda), "{\"begin\":%lld}", (long long)begin_ns);
	window.cuda = target % 2 ? cuda : NULL;
	if (samples)
		*samples += window.samples;
	if (begin_ns + WINDOW_NS > store_world_now_ns)
		store_world_now_ns = begin_ns + WINDOW_NS;
	return store__add(w->store, target, &window);
}

static inline void store_world_settle(struct store_world *w)
{
	int r;

	while ((r = store__maintain(w->store, 1000)) > 0)
		;
	assert_int_equal(r, 0);
}

/* -errno; the sum of the samples as the client reads them, compared with the span's. */
static inline int store_world_ask(struct store_world *w, int64_t target, int64_t from_ns, int64_t to_ns,
				  struct store_span *span)
{
	const struct store_query query = { target, from_ns, to_ns };
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct so_error err = { "" };
	uint64_t samples = 0;
	size_t length;
	int r = store__profile(w->store, &query, &bytes, &length, span, &err);

	if (r) {
		assert_true(*err.text);
		return r;
	}
	if (profile__read(bytes, length, &profile, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < profile->n_samples; i++)
		samples += (uint64_t)profile->samples[i].count;
	assert_int_equal(samples, span->samples);
	assert_int_equal(profile->time_ns, span->begin_ns);
	assert_int_equal(profile->duration_ns, span->covered_ns);
	return 0;
}

/* A number from the database, read past the store. */
static inline int64_t store_world_number(const struct store_world *w, const char *text)
{
	_cleanup_(database) sqlite3 *db = NULL;
	int64_t number = -1;

	assert_int_equal(sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sql__get_number(db, text, 0, NULL, &number), 0);
	return number;
}

static inline void store_world_run(const struct store_world *w, const char *text)
{
	_cleanup_(database) sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sql__run(db, text), 0);
}

/* As if a daemon of version 2 had written it, which knew no shares. */
static inline void store_world_forget_memory(const struct store_world *w)
{
	store_world_run(w, "ALTER TABLE windows DROP COLUMN anonymous; ALTER TABLE windows DROP COLUMN file;"
			   "ALTER TABLE windows DROP COLUMN shared; ALTER TABLE windows DROP COLUMN swapped;"
			   "ALTER TABLE windows DROP COLUMN most; PRAGMA user_version = 3");
}

static inline void store_world_forget_shares(const struct store_world *w)
{
	store_world_forget_memory(w);
	store_world_run(w, "DROP TRIGGER windows_added; DROP TRIGGER windows_removed;"
			   "DROP TRIGGER targets_added; DROP TRIGGER targets_removed; DROP TABLE users;"
			   "DROP INDEX windows_of_user; DROP INDEX windows_parts_of_user;"
			   "ALTER TABLE windows DROP COLUMN uid; ALTER TABLE windows DROP COLUMN bytes;"
			   "ALTER TABLE targets DROP COLUMN uid; PRAGMA user_version = 2");
}

/* What the users have is what there is. */
static inline void store_world_check_shares(const struct store_world *w)
{
	assert_int_equal(
		store_world_number(w, "SELECT count(*) FROM users u WHERE bytes <>"
				      " (SELECT coalesce(sum(512 + length(profile) + coalesce(length(cuda), 0)), 0)"
				      "  FROM windows w JOIN blobs ON window_id = w.id WHERE w.uid = u.uid)"
				      " + 512 * (SELECT count(*) FROM targets t WHERE t.uid = u.uid)"),
		0);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM windows WHERE uid NOT IN (SELECT uid FROM users)"),
			 0);
}

static inline void store_world_check_integrity(const struct store_world *w)
{
	store_world_check_shares(w);
	assert_int_equal(
		store_world_number(w,
				   "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
		0);
	assert_int_equal(store_world_number(w, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
	assert_int_equal(
		store_world_number(
			w, "SELECT count(*) FROM windows WHERE id NOT IN (SELECT window_id FROM blobs)"),
		0);
}

#endif
