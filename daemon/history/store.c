// SPDX-License-Identifier: GPL-2.0-or-later
/* Opening the store, and the state that it is in: on, or off because of a problem. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/history/store_internal.h"

#define MOVE_ASIDE_AGAIN_NS (3600 * STORE_SECOND_NS) /* a disk that corrupts all is not to be filled with copies */

static int64_t wall_clock_ns(void)
{
	return (int64_t)clock__read_ns(CLOCK_REALTIME);
}

static int64_t boot_clock_ns(void)
{
	return (int64_t)clock__read_ns(CLOCK_BOOTTIME);
}

/* Errors after which trying again is no use, or would do harm. */
static bool is_final(int r)
{
	return r == -EBUSY || r == -EPROTONOSUPPORT || r == -EMEDIUMTYPE || r == -EPERM || r == -ENOMEM;
}

static int check_dir(const struct store *store, struct so_error *err)
{
	struct stat st;

	if (mkdir(store->dir, 0700) && errno != EEXIST)
		return so_err(err, errno == EPERM ? -EACCES : -errno, "cannot create %s: %s", store->dir,
			      strerror(errno));
	if (stat(store->dir, &st))
		return so_err(err, -errno, "%s: %s", store->dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return so_err(err, -ENOTDIR, "%s is no directory", store->dir);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return so_err(err, -EPERM, "%s belongs to another user, or others may write to it", store->dir);
	return 0;
}

/* Held until store__close(), so that two daemons do not mark each other's targets as ended. */
static int take_lock(struct store *store, struct so_error *err)
{
	_cleanup_close_ int fd = -1;

	if (store->lock_fd >= 0)
		return 0;
	fd = open(store->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return so_err(err, -errno, "%s: %s", store->lock_path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB))
		return so_err(err, errno == EWOULDBLOCK ? -EBUSY : -errno, "%s: %s", store->dir,
			      errno == EWOULDBLOCK ? "another daemon writes its history there" : strerror(errno));
	store->lock_fd = TAKE_FD(fd);
	return 0;
}

/* What an earlier daemon left open. Its windows end where the last one ends; how long it watched on is not known. */
static int recover(struct store *store)
{
	int ret;

	if (store->recovered)
		return 0;
	ret = sql__begin(store->db);
	if (ret)
		return ret;
	ret = sql__run(store->db,
		       "INSERT INTO gaps(target_id, begin_ns, windows, cause)"
		       " SELECT t.id, coalesce((SELECT max(w.end_ns) FROM windows w WHERE w.target_id = t.id),"
		       "  t.began_ns), 1, 'open-window' FROM targets t WHERE t.ended_ns IS NULL;"
		       "UPDATE targets SET end = 'unknown', ended_ns ="
		       " coalesce((SELECT max(w.end_ns) FROM windows w WHERE w.target_id = targets.id), began_ns)"
		       " WHERE ended_ns IS NULL");
	ret = sql__end(store->db, ret);
	store->recovered = !ret;
	return ret;
}

static int move_aside(struct store *store, struct so_error *err)
{
	int64_t elapsed_ns = store->elapsed_ns();
	char aside[4096];
	int ret;

	if (store->moved_aside_ns && elapsed_ns - store->moved_aside_ns < MOVE_ASIDE_AGAIN_NS)
		return -EUCLEAN;
	ret = store_schema__move_aside(store->path, store->now_ns(), aside, sizeof(aside));
	if (ret)
		return so_err(err, ret, "%s is corrupt and cannot be renamed: %s", store->path, strerror(-ret));
	store->moved_aside_ns = elapsed_ns;
	log__error("history: %s; it is now %s, and a new one begins", err->text, aside);
	return 0;
}

static int connect_now(struct store *store, struct so_error *err)
{
	int ret = check_dir(store, err);

	ret = ret ?: take_lock(store, err);
	if (ret)
		return ret;
	ret = store_schema__open_writer(store->path, &store->db, err);
	if (ret == -EUCLEAN) {
		ret = move_aside(store, err);
		ret = ret ?: store_schema__open_writer(store->path, &store->db, err);
	}
	if (ret)
		return ret;
	ret = recover(store);
	ret = ret ?: store_clock__load(store);
	ret = ret ?: store_rows__targets(store);
	if (ret) {
		so_err(err, ret, "%s: %s", store->path, sql__words(ret));
		sqlite3_close_v2(TAKE_PTR(store->db));
	}
	return ret;
}

static void set_problem(struct store *store, int r, const char *text)
{
	if (!store->problem)
		log__error("history is off: %s", text);
	store->problem = r;
	snprintf(store->problem_text, sizeof(store->problem_text), "%s", text);
}

static void disconnect(struct store *store)
{
	sqlite3_close_v2(TAKE_PTR(store->db));
	for (size_t i = 0; i < store->n_targets; i++)
		store->targets[i].row = 0;
}

/* Someone removed the file, or put another in its place: what is written to it now, nobody would find. */
static bool has_moved(struct store *store)
{
	int moved = 0;

	return sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

int store__connect(struct store *store)
{
	struct so_error err = { "" };
	int ret;

	if (store->db && has_moved(store)) {
		log__error("history: %s was removed, or replaced; opening it anew", store->path);
		disconnect(store);
		close(TAKE_FD(store->lock_fd));
		store->recovered = false;
		store->next_try_ns = 0;
	}
	if (store->db)
		return 0;
	if (store->elapsed_ns() < store->next_try_ns)
		return -EAGAIN;
	ret = connect_now(store, &err);
	if (!ret) {
		store__worked(store);
		return 0;
	}
	store->next_try_ns = store->elapsed_ns() + STORE_RETRY_NS;
	set_problem(store, ret, err.text);
	return -EAGAIN;
}

int store__failed(struct store *store, int r)
{
	char text[sizeof(store->problem_text)];

	if (r == -EFBIG || r == -EINVAL || r == -ENOMEM || !store->db)
		return r;
	snprintf(text, sizeof(text), "%.400s: %s", store->path, sql__words(r));
	set_problem(store, r, text);
	if (r == -ENOSPC)
		return r; /* the transaction is undone and the connection sound: the next window tries again */
	disconnect(store);
	store->next_try_ns = r == -EUCLEAN ? 0 : store->elapsed_ns() + STORE_RETRY_NS;
	return r;
}

void store__worked(struct store *store)
{
	if (store->problem)
		log__info("history is on again: %s", store->path);
	store->problem = 0;
}

bool store__problem(struct store *store, char *text, size_t size)
{
	bool is;

	pthread_mutex_lock(&store->lock);
	is = store->problem != 0;
	if (is && text)
		snprintf(text, size, "%s", store->problem_text);
	pthread_mutex_unlock(&store->lock);
	return is;
}

/* Without it, PIDs and start times of one boot are mixed up with those of another; then no target continues. */
static void read_boot_id(char *id, size_t size)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(id, (int)size, file) || !*id)
		snprintf(id, size, "%llx", (unsigned long long)clock__read_ns(CLOCK_REALTIME));
	id[strcspn(id, "\n")] = '\0';
}

void store__free(struct store *store)
{
	for (size_t i = 0; i < store->n_targets; i++) {
		free(store->targets[i].comm);
		free(store->targets[i].labels);
	}
	free(store->targets);
	if (store->db)
		sqlite3_close_v2(store->db);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	pthread_mutex_destroy(&store->lock);
	free(store->dir);
	free(store->path);
	free(store->lock_path);
	free(store);
}
CLEANUP_DEFINE(struct store *, new_store, store__free)

static int set_options(struct store *store, const struct store_options *options, struct so_error *err)
{
	uint64_t size = options->retain_size_bytes ? options->retain_size_bytes : STORE_DEFAULT_SIZE_BYTES;

	if (!options->dir || !*options->dir || strlen(options->dir) > 3000)
		return so_err(err, -EINVAL, "the history needs a directory");
	if (size < STORE_MIN_SIZE_BYTES || size > INT64_MAX)
		return so_err(err, -EINVAL, "the history needs %llu MiB at least",
			      (unsigned long long)(STORE_MIN_SIZE_BYTES >> 20));
	if (options->retain_age_ns < 0)
		return so_err(err, -EINVAL, "the history cannot be kept for a negative time");
	store->retain_size_bytes = (int64_t)size;
	store->retain_age_ns = options->retain_age_ns ? options->retain_age_ns : STORE_DEFAULT_AGE_NS;
	store->merge_cuda = options->merge_cuda;
	store->now_ns = options->now_ns ? options->now_ns : wall_clock_ns;
	store->elapsed_ns = options->elapsed_ns ? options->elapsed_ns : boot_clock_ns;
	store->dir = strdup(options->dir);
	if (!store->dir || asprintf(&store->path, "%s/history.sqlite", options->dir) < 0 ||
	    asprintf(&store->lock_path, "%s/lock", options->dir) < 0)
		return so_err(err, -ENOMEM, "not enough memory for the history");
	return 0;
}

int store__open(const struct store_options *options, struct store **out, struct so_error *err)
{
	_cleanup_(new_store) struct store *store = calloc(1, sizeof(*store));
	struct so_error why = { "" };
	int ret;

	if (!store)
		return so_err(err, -ENOMEM, "not enough memory for the history");
	store->lock_fd = -1;
	pthread_mutex_init(&store->lock, NULL);
	read_boot_id(store->boot_id, sizeof(store->boot_id));
	ret = set_options(store, options, err);
	if (ret)
		return ret;
	ret = connect_now(store, &why);
	if (is_final(ret))
		return so_err(err, ret, "%s", why.text);
	if (ret) {
		store->next_try_ns = store->elapsed_ns() + STORE_RETRY_NS;
		set_problem(store, ret, why.text);
	}
	*out = TAKE_PTR(store);
	return 0;
}
