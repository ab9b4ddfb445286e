// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/unwind_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/unwind/unwind_cache_file.h"

#define DEFAULT_MAX_BYTES (1ull << 30)
#define MAX_KEY           80
#define SUFFIX            ".unwind"
#define TEMP_PREFIX       ".new-"
#define NAME_SIZE         (MAX_KEY + sizeof(SUFFIX))
/* A temporary file this old belongs to a daemon that was killed while it wrote. */
#define TEMP_MAX_AGE_S 600

struct unwind_cache {
	int dir_fd;
	uint64_t max_bytes;
	pthread_mutex_t lock; /* of what follows */
	uint64_t bytes;       /* in the folder; other daemons' changes are seen at the next eviction */
	struct unwind_cache_stats stats;
};

CLEANUP_DEFINE(DIR *, dir, closedir)

static bool valid_key(const char *key, size_t length)
{
	if (!length || length > MAX_KEY)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!((key[i] >= '0' && key[i] <= '9') || (key[i] >= 'a' && key[i] <= 'z') || key[i] == '-'))
			return false;
	return true;
}

static int name_of(const char *key, char name[NAME_SIZE])
{
	if (!valid_key(key, strnlen(key, MAX_KEY + 1)))
		return -EINVAL;
	snprintf(name, NAME_SIZE, "%s%s", key, SUFFIX);
	return 0;
}

/* Only what this module wrote: the folder may be one that somebody uses for other things as well. */
static bool is_table_name(const char *name)
{
	size_t length = strlen(name), suffix = strlen(SUFFIX);

	return length > suffix && !strcmp(name + length - suffix, SUFFIX) && valid_key(name, length - suffix);
}

static int default_dir(char *buf, size_t size)
{
	const char *set = getenv("STAKEOUT_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	if (set && *set)
		n = snprintf(buf, size, "%s", set);
	else if (!geteuid())
		n = snprintf(buf, size, "/var/cache/stakeout");
	else if (xdg && *xdg == '/') /* relative ones are to be ignored (XDG Base Directory Specification) */
		n = snprintf(buf, size, "%s/stakeout", xdg);
	else if (home && *home == '/')
		n = snprintf(buf, size, "%s/.cache/stakeout", home);
	else
		return -ENOENT;
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* The folder and those above it that are missing. */
static int make_dirs(const char *dir)
{
	_cleanup_free_ char *path = strdup(dir);

	if (!path)
		return -ENOMEM;
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		if (mkdir(path, 0700) && errno != EEXIST && errno != EROFS && errno != EACCES)
			return -errno;
		*at = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

static int open_dir(const char *dir, int *out, struct so_error *err)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int ret = *dir ? make_dirs(dir) : -EINVAL;

	if (ret)
		return so_err(err, ret, "cannot create the cache folder %s: %s", dir, strerror(-ret));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return so_err(err, -errno, "cannot open the cache folder %s: %s", dir, strerror(errno));
	if (st.st_uid != geteuid())
		return so_err(err, -EPERM, "the cache folder %s belongs to another user", dir);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return so_err(err, -EPERM, "others may write to the cache folder %s: chmod go-w it", dir);
	*out = TAKE_FD(fd);
	return 0;
}

struct file_info {
	char name[NAME_SIZE];
	uint64_t bytes;
	struct timespec used;
};

static int compare_used(const void *a, const void *b)
{
	const struct file_info *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

static void remove_stale_temp(const struct unwind_cache *cache, const char *name)
{
	struct stat st;

	if (!fstatat(cache->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	    st.st_mtim.tv_sec < time(NULL) - TEMP_MAX_AGE_S)
		unlinkat(cache->dir_fd, name, 0);
}

/* Lists the tables in the folder, and clears away what killed daemons left. */
static int scan(const struct unwind_cache *cache, struct file_info **out, size_t *n_out, uint64_t *bytes)
{
	_cleanup_free_ struct file_info *files = NULL;
	_cleanup_(dir) DIR *d = NULL;
	size_t n = 0, room = 0;
	struct dirent *e;
	int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		int ret = -errno;

		if (fd >= 0)
			close(fd);
		return ret;
	}
	*bytes = 0;
	while ((e = readdir(d))) {
		struct stat st;

		if (!strncmp(e->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)))
			remove_stale_temp(cache, e->d_name);
		if (!is_table_name(e->d_name) || fstatat(cache->dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode))
			continue;
		if (n == room) {
			void *p = realloc(files, (room = room ? 2 * room : 64) * sizeof(*files));

			if (!p)
				return -ENOMEM;
			files = p;
		}
		memcpy(files[n].name, e->d_name, strlen(e->d_name) + 1); /* is_table_name() has measured it */
		files[n].bytes = (uint64_t)st.st_size;
		files[n++].used = st.st_mtim;
		*bytes += (uint64_t)st.st_size;
	}
	*n_out = n;
	*out = TAKE_PTR(files);
	return 0;
}

/* Down to seven eighths, so that a full cache is not scanned at every store. Called with the lock held. */
static void evict(struct unwind_cache *cache)
{
	_cleanup_free_ struct file_info *files = NULL;
	uint64_t bytes, goal = cache->max_bytes - cache->max_bytes / 8;
	size_t n;

	if (scan(cache, &files, &n, &bytes))
		return;
	if (bytes > cache->max_bytes) {
		qsort(files, n, sizeof(*files), compare_used);
		for (size_t i = 0; i < n && bytes > goal; i++)
			if (!unlinkat(cache->dir_fd, files[i].name, 0))
				bytes -= files[i].bytes;
	}
	cache->bytes = bytes;
}

int unwind_cache__open(const char *dir, uint64_t max_bytes, struct unwind_cache **out, struct so_error *err)
{
	_cleanup_(unwind_cache) struct unwind_cache *cache = calloc(1, sizeof(*cache));
	char path[PATH_MAX];
	int ret;

	if (!cache)
		return so_err(err, -ENOMEM, "out of memory");
	cache->dir_fd = -1;
	cache->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
	pthread_mutex_init(&cache->lock, NULL);
	if (!dir) {
		ret = default_dir(path, sizeof(path));
		if (ret)
			return so_err(err, ret, "no place for the cache: neither STAKEOUT_CACHE_DIR nor HOME is set");
		dir = path;
	}
	ret = open_dir(dir, &cache->dir_fd, err);
	if (ret)
		return ret;
	pthread_mutex_lock(&cache->lock);
	evict(cache);
	pthread_mutex_unlock(&cache->lock);
	*out = TAKE_PTR(cache);
	return 0;
}

static void count(struct unwind_cache *cache, uint64_t *counter)
{
	pthread_mutex_lock(&cache->lock);
	++*counter;
	pthread_mutex_unlock(&cache->lock);
}

/* The file's time of modification is its time of last use (access times are often not kept). */
static int load_file(struct unwind_cache *cache, const char *name, const char *key, struct unwind_table **out)
{
	_cleanup_close_ int fd = openat(cache->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int ret;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EBADMSG;
	ret = unwind_cache_file__read(fd, (uint64_t)st.st_size, key, out);
	if (!ret)
		futimens(fd, (const struct timespec[]){ { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } });
	return ret;
}

int unwind_cache__load(struct unwind_cache *cache, const char *key, struct unwind_table **out)
{
	char name[NAME_SIZE];
	int ret = name_of(key, name);

	if (ret)
		return ret;
	ret = load_file(cache, name, key, out);
	if (ret == -EBADMSG) {
		/* Another thread may just have replaced it with a sound one: that costs a miss, nothing else. */
		unlinkat(cache->dir_fd, name, 0);
		count(cache, &cache->stats.corrupt);
		ret = -ENOENT;
	}
	count(cache, ret ? &cache->stats.misses : &cache->stats.hits);
	return ret;
}

static int store_file(struct unwind_cache *cache, const char *name, const char *key, const struct unwind_table *table,
		      uint64_t *bytes)
{
	static atomic_uint serial;
	_cleanup_close_ int fd = -1;
	char temp[64];
	int ret;

	snprintf(temp, sizeof(temp), TEMP_PREFIX "%d-%u", (int)getpid(), atomic_fetch_add(&serial, 1));
	fd = openat(cache->dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) { /* of a killed daemon that had our number */
		unlinkat(cache->dir_fd, temp, 0);
		fd = openat(cache->dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		return -errno;
	ret = unwind_cache_file__write(fd, key, table, bytes);
	if (!ret && renameat(cache->dir_fd, temp, cache->dir_fd, name))
		ret = -errno;
	if (ret)
		unlinkat(cache->dir_fd, temp, 0);
	return ret;
}

int unwind_cache__store(struct unwind_cache *cache, const char *key, const struct unwind_table *table)
{
	char name[NAME_SIZE];
	uint64_t bytes;
	int ret = name_of(key, name);

	if (ret)
		return ret;
	ret = store_file(cache, name, key, table, &bytes);
	if (ret) {
		count(cache, &cache->stats.store_failed);
		return ret;
	}
	pthread_mutex_lock(&cache->lock);
	cache->stats.stored++;
	cache->bytes += bytes; /* too much when it replaced a file: the scan corrects it */
	if (cache->bytes > cache->max_bytes)
		evict(cache);
	pthread_mutex_unlock(&cache->lock);
	return 0;
}

struct unwind_cache_stats unwind_cache__stats(struct unwind_cache *cache)
{
	struct unwind_cache_stats stats;

	pthread_mutex_lock(&cache->lock);
	stats = cache->stats;
	pthread_mutex_unlock(&cache->lock);
	return stats;
}

void unwind_cache__close(struct unwind_cache *cache)
{
	if (!cache)
		return;
	if (cache->dir_fd >= 0)
		close(cache->dir_fd);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}
