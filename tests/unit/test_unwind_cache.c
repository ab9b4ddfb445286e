// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/unwind/unwind_cache.h"
#include "daemon/unwind/unwind_cache_file.h"

#define KEY "0123456789abcdef"

struct fixture {
	char dir[64];
	struct unwind_cache *cache;
};

static void path_of(const struct fixture *f, const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", f->dir, name);
}

static void empty_dir(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/stakeout-cache-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(unwind_cache__open(f->dir, 0, &f->cache, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	unwind_cache__close(f->cache);
	empty_dir(f->dir);
	rmdir(f->dir);
	free(f);
	return 0;
}

/* Three blocks, one row in the first and in each later one `per_block`; `salt` makes tables differ. */
static struct unwind_table *make_table(uint32_t per_block, int32_t salt)
{
	struct unwind_table *t = calloc(1, sizeof(*t));
	uint32_t n = 0;

	t->first_block = 5;
	t->n_blocks = 3;
	t->n_rules = 2;
	t->n_fdes = 7;
	t->n_bad_fdes = 1;
	t->index = calloc(t->n_blocks + 1, sizeof(*t->index));
	t->rows = calloc(2 + 2 * per_block, sizeof(*t->rows));
	t->rules = calloc(t->n_rules, sizeof(*t->rules));
	t->rules[0] =
		(struct so_unwind_rule){ .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 8 + salt };
	t->rules[1] = (struct so_unwind_rule){ .cfa_kind = SO_CFA_END };
	t->rows[n++] = SO_ROW(0, SO_FIRST_RULE);
	for (uint32_t block = 1; block < 3; block++) {
		t->index[block] = n;
		for (uint32_t i = 0; i < per_block; i++, n++)
			t->rows[n] = SO_ROW(2 + i, SO_FIRST_RULE + (n & 1));
	}
	t->rows[n++] = SO_ROW(1000, SO_RULE_NONE);
	t->index[3] = t->n_rows = n;
	assert_true(unwind_table__sound(t));
	return t;
}

static void assert_same(const struct unwind_table *a, const struct unwind_table *b)
{
	assert_int_equal(a->first_block, b->first_block);
	assert_int_equal(a->n_blocks, b->n_blocks);
	assert_int_equal(a->n_rows, b->n_rows);
	assert_int_equal(a->n_rules, b->n_rules);
	assert_int_equal(a->n_fdes, b->n_fdes);
	assert_int_equal(a->n_bad_fdes, b->n_bad_fdes);
	assert_int_equal(a->n_unsupported_rows, b->n_unsupported_rows);
	assert_memory_equal(a->index, b->index, (a->n_blocks + 1) * sizeof(*a->index));
	if (a->n_rows)
		assert_memory_equal(a->rows, b->rows, a->n_rows * sizeof(*a->rows));
	if (a->n_rules)
		assert_memory_equal(a->rules, b->rules, a->n_rules * sizeof(*a->rules));
}

static int load(struct fixture *f, const char *key)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	int r = unwind_cache__load(f->cache, key, &t);

	assert_true(!r == !!t);
	return r;
}

static bool exists(const struct fixture *f, const char *name)
{
	char path[128];

	path_of(f, name, path);
	return !access(path, F_OK);
}

static void write_file(const struct fixture *f, const char *name, const void *bytes, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[128];

	path_of(f, name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
}

static size_t read_file(const struct fixture *f, const char *name, uint8_t *bytes, size_t room)
{
	_cleanup_close_ int fd = -1;
	char path[128];
	ssize_t n;

	path_of(f, name, path);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, bytes, room);
	assert_true(n > 0 && (size_t)n < room);
	return (size_t)n;
}

static void test_round_trip(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0), *got = NULL;
	struct unwind_cache_stats stats;

	assert_int_equal(load(f, KEY), -ENOENT);
	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	assert_int_equal(unwind_cache__load(f->cache, KEY, &got), 0);
	assert_same(t, got);
	stats = unwind_cache__stats(f->cache);
	assert_int_equal(stats.hits, 1);
	assert_int_equal(stats.misses, 1);
	assert_int_equal(stats.stored, 1);
	assert_int_equal(stats.corrupt + stats.store_failed, 0);
}

static void test_real_file(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = NULL, *got = NULL;
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY);

	assert_int_equal(unwind_table__compile(fd, &t, NULL), 0);
	assert_true(t->n_rows > 100);
	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	assert_int_equal(unwind_cache__load(f->cache, KEY, &got), 0);
	assert_same(t, got);
}

static void test_empty_table(void **state)
{
	struct fixture *f = *state;
	uint32_t index[1] = { 0 };
	struct unwind_table t = { .index = index };
	_cleanup_(unwind_table) struct unwind_table *got = NULL;

	assert_int_equal(unwind_cache__store(f->cache, KEY, &t), 0);
	assert_int_equal(unwind_cache__load(f->cache, KEY, &got), 0);
	assert_same(&t, got);
	assert_null(unwind_table__lookup(got, 0));
}

static void test_keys(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(1, 0);
	char longest[82];

	memset(longest, 'a', 81);
	longest[81] = '\0';
	const char *bad[] = { "", "../x", "A", "a/b", "a.b", "a b", longest };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(unwind_cache__store(f->cache, bad[i], t), -EINVAL);
		assert_int_equal(load(f, bad[i]), -EINVAL);
	}
	assert_int_equal(unwind_cache__store(f->cache, longest + 1, t), 0);
	assert_int_equal(load(f, longest + 1), 0);
}

static void test_every_corrupt_byte(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);
	uint8_t bytes[4096];
	size_t size;

	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	size = read_file(f, KEY ".unwind", bytes, sizeof(bytes));
	for (size_t i = 0; i < size; i++) {
		for (unsigned bit = 1; bit < 256; bit <<= 3) {
			bytes[i] ^= (uint8_t)bit;
			write_file(f, KEY ".unwind", bytes, size);
			assert_int_equal(load(f, KEY), -ENOENT);
			assert_false(exists(f, KEY ".unwind"));
			bytes[i] ^= (uint8_t)bit;
		}
	}
	assert_int_equal(unwind_cache__stats(f->cache).corrupt, 3 * size);
	write_file(f, KEY ".unwind", bytes, size); /* the bytes themselves were good */
	assert_int_equal(load(f, KEY), 0);
}

static void test_every_truncation(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);
	uint8_t bytes[4096];
	size_t size;

	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	size = read_file(f, KEY ".unwind", bytes, sizeof(bytes));
	for (size_t n = 0; n < size; n++) {
		write_file(f, KEY ".unwind", bytes, n);
		assert_int_equal(load(f, KEY), -ENOENT);
		assert_false(exists(f, KEY ".unwind"));
	}
	bytes[size] = 0;
	write_file(f, KEY ".unwind", bytes, size + 1);
	assert_int_equal(load(f, KEY), -ENOENT);
}

/* Writes the table with a sound checksum, whatever it says. */
static void write_sealed(struct fixture *f, const struct unwind_table *t, const char *name, const char *key)
{
	_cleanup_close_ int fd = -1;
	char path[128];
	uint64_t bytes;

	path_of(f, name, path);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(unwind_cache_file__write(fd, key, t, &bytes), 0);
}

static void test_wrong_name(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);

	write_sealed(f, t, "beef.unwind", KEY);
	assert_int_equal(load(f, "beef"), -ENOENT);
	write_sealed(f, t, "beef.unwind", "beef");
	assert_int_equal(load(f, "beef"), 0);
}

/* A file whose checksum is right but whose numbers contradict each other. */
static void expect_refused(struct fixture *f, const struct unwind_table *t)
{
	assert_false(unwind_table__sound(t));
	write_sealed(f, t, KEY ".unwind", KEY);
	assert_int_equal(load(f, KEY), -ENOENT);
	assert_false(exists(f, KEY ".unwind"));
}

static void test_inconsistent(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);

#define WITH(lvalue, value)                         \
	do {                                        \
		__typeof__(lvalue) kept = (lvalue); \
		(lvalue) = (value);                 \
		expect_refused(f, t);               \
		(lvalue) = kept;                    \
	} while (0)
	WITH(t->index[0], 1);
	WITH(t->index[1], 0);
	WITH(t->index[2], t->n_rows + 1);
	WITH(t->index[2], 0);
	WITH(t->index[3], t->n_rows - 1);
	WITH(t->rows[0], SO_ROW(1, SO_FIRST_RULE));
	WITH(t->rows[3], SO_ROW(1, SO_FIRST_RULE));
	WITH(t->rows[3], t->rows[2]);
	WITH(t->rows[3], SO_ROW(SO_ROW_PC_LOW(t->rows[3]), SO_FIRST_RULE + 2));
	WITH(t->rows[t->n_rows - 1], SO_ROW(1000, SO_FIRST_RULE));
	WITH(t->rules[0].cfa_kind, SO_CFA_KINDS);
	WITH(t->rules[0].cfa_kind, SO_CFA_NONE);
	WITH(t->rules[0].cfa_reg, SO_NREGS);
	WITH(t->rules[0].saves, SO_SAVES(4, 0));
	WITH(t->rules[0].saves, SO_SAVES(0, 4));
	WITH(t->rules[0].ra, 2);
	WITH(t->first_block, 1ull << 40);
#undef WITH
	write_sealed(f, t, KEY ".unwind", KEY);
	assert_int_equal(load(f, KEY), 0);
}

static void test_other_version(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);
	struct unwind_cache_header h;
	uint8_t bytes[4096];
	size_t size;

	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	size = read_file(f, KEY ".unwind", bytes, sizeof(bytes));
	memcpy(&h, bytes, sizeof(h));
	assert_int_equal(h.version, UNWIND_CACHE_VERSION);
	h.version++;
	memcpy(bytes, &h, sizeof(h));
	write_file(f, KEY ".unwind", bytes, size);
	assert_int_equal(load(f, KEY), -ENOENT);
	assert_false(exists(f, KEY ".unwind"));
	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	assert_int_equal(load(f, KEY), 0);
}

/* Neither a link, nor a FIFO, nor a file that others may write is read. */
static void test_odd_files(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);
	char path[128], other[128];

	path_of(f, KEY ".unwind", path);
	path_of(f, "elsewhere", other);
	assert_int_equal(unwind_cache__store(f->cache, KEY, t), 0);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(load(f, KEY), -ENOENT);
	assert_true(exists(f, "elsewhere"));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(load(f, KEY), -ENOENT);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(load(f, KEY), -ENOENT);
	assert_false(exists(f, KEY ".unwind"));
}

static void test_folder_rights(void **state)
{
	struct fixture *f = *state;
	struct unwind_cache *cache = NULL;
	struct so_error err = { "" };

	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_int_equal(unwind_cache__open(f->dir, 0, &cache, &err), -EPERM);
	assert_non_null(strstr(err.text, f->dir));
	assert_int_equal(chmod(f->dir, 0720), 0);
	assert_int_equal(unwind_cache__open(f->dir, 0, &cache, &err), -EPERM);
	if (!geteuid()) {
		assert_int_equal(chmod(f->dir, 0700), 0);
		assert_int_equal(chown(f->dir, 65534, 65534), 0);
		assert_int_equal(unwind_cache__open(f->dir, 0, &cache, &err), -EPERM);
		assert_int_equal(chown(f->dir, 0, 0), 0);
	}
	assert_int_equal(chmod(f->dir, 0755), 0);
	assert_int_equal(unwind_cache__open(f->dir, 0, &cache, &err), 0);
	unwind_cache__close(cache);
	cache = NULL;
	assert_true(unwind_cache__open("/proc/self/none/such", 0, &cache, &err) < 0);
	assert_int_equal(unwind_cache__open("", 0, &cache, &err), -EINVAL);
	assert_null(cache);
}

/* In a child, because root first has to become somebody whom a folder's mode binds. */
static int child_in_read_only_folder(struct fixture *f)
{
	_cleanup_(unwind_table) struct unwind_table *t = make_table(3, 0), *got = NULL;
	struct unwind_cache *cache = NULL;

	if (!geteuid() && (chown(f->dir, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 1;
	if (unwind_cache__open(f->dir, 0, &cache, NULL))
		return 2;
	if (unwind_cache__store(cache, KEY, t))
		return 3;
	if (chmod(f->dir, 0500) || unwind_cache__store(cache, "other", t) != -EACCES)
		return 4;
	if (unwind_cache__load(cache, KEY, &got) || unwind_cache__stats(cache).store_failed != 1)
		return 5;
	unwind_cache__close(cache);
	return 0;
}

static void test_unwritable(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(child_in_read_only_folder(f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	chmod(f->dir, 0700);
}

static void test_creates_parents(void **state)
{
	struct fixture *f = *state;
	struct unwind_cache *cache = NULL;
	char path[128], inner[160];
	struct stat st;

	path_of(f, "a", path);
	snprintf(inner, sizeof(inner), "%s/b", path);
	assert_int_equal(setenv("STAKEOUT_CACHE_DIR", inner, 1), 0);
	assert_int_equal(unwind_cache__open(NULL, 0, &cache, NULL), 0);
	unsetenv("STAKEOUT_CACHE_DIR");
	unwind_cache__close(cache);
	assert_int_equal(stat(inner, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(rmdir(inner) | rmdir(path), 0);
}

static void set_age(struct fixture *f, const char *name, time_t seconds)
{
	struct timespec then[2] = { { .tv_sec = time(NULL) - seconds }, { .tv_sec = time(NULL) - seconds } };
	char path[128];

	path_of(f, name, path);
	assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

static void test_eviction(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(20, 0);
	_cleanup_(unwind_cache) struct unwind_cache *cache = NULL;
	char key[16], name[32], path[128];
	struct stat st;

	assert_int_equal(unwind_cache__store(f->cache, "k0", t), 0);
	path_of(f, "k0.unwind", path);
	assert_int_equal(stat(path, &st), 0);
	write_file(f, "notes.txt", "mine", 4); /* never touched */
	write_file(f, ".new-1-1", "old", 3);
	write_file(f, ".new-1-2", "young", 5);
	set_age(f, ".new-1-1", 3600);

	assert_int_equal(unwind_cache__open(f->dir, (uint64_t)st.st_size * 8, &cache, NULL), 0);
	assert_false(exists(f, ".new-1-1"));
	assert_true(exists(f, ".new-1-2"));
	for (int i = 0; i < 8; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		snprintf(name, sizeof(name), "k%d.unwind", i);
		assert_int_equal(unwind_cache__store(cache, key, t), 0);
		set_age(f, name, 1000 - i);
	}
	for (int i = 0; i < 8; i++) { /* the accounts are not off by the replaced k0 */
		snprintf(name, sizeof(name), "k%d.unwind", i);
		assert_true(exists(f, name));
	}
	assert_int_equal(load(f, "k0"), 0); /* used now: k1 is the one used longest ago */
	assert_int_equal(unwind_cache__store(cache, "k8", t), 0);
	assert_true(exists(f, "k0.unwind"));
	assert_false(exists(f, "k1.unwind"));
	assert_false(exists(f, "k2.unwind"));
	assert_true(exists(f, "k3.unwind"));
	assert_true(exists(f, "k8.unwind"));
	assert_true(exists(f, "notes.txt"));
}

struct worker {
	struct unwind_cache *cache;
	struct unwind_table *tables[2];
	atomic_uint *errors;
	int number;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 200; i++) {
		_cleanup_(unwind_table) struct unwind_table *got = NULL;
		int r;

		if (w->number & 1 && unwind_cache__store(w->cache, KEY, w->tables[i & 1]))
			atomic_fetch_add(w->errors, 1);
		r = unwind_cache__load(w->cache, KEY, &got);
		if (r || (got->rules[0].cfa_off != 8 && got->rules[0].cfa_off != 108) ||
		    got->n_rows != w->tables[got->rules[0].cfa_off == 108]->n_rows)
			atomic_fetch_add(w->errors, 1);
	}
	return NULL;
}

/* Whoever loads sees one of the two tables whole, never a mixture, never nothing. */
static void test_concurrent(void **state)
{
	struct fixture *f = *state;
	_cleanup_(unwind_table) struct unwind_table *a = make_table(20, 0), *b = make_table(300, 100);
	struct worker workers[4];
	pthread_t threads[4];
	atomic_uint errors = 0;

	assert_int_equal(unwind_cache__store(f->cache, KEY, a), 0);
	for (int i = 0; i < 4; i++) {
		workers[i] = (struct worker){ f->cache, { a, b }, &errors, i };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(errors, 0);
	assert_int_equal(unwind_cache__stats(f->cache).hits, 800);
	assert_int_equal(unwind_cache__stats(f->cache).stored, 401);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(round_trip),         TEST(real_file),        TEST(empty_table),   TEST(keys),
		TEST(every_corrupt_byte), TEST(every_truncation), TEST(wrong_name),    TEST(inconsistent),
		TEST(other_version),      TEST(odd_files),        TEST(folder_rights), TEST(unwritable),
		TEST(creates_parents),    TEST(eviction),         TEST(concurrent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
