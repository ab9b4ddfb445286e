// SPDX-License-Identifier: GPL-2.0-or-later
/* How long files are kept, when their numbers come back, and how many a user may have. */
#include "tests/unit/registry_world.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>

#define SECOND_NS 1000000000ull

static uint64_t ahead_ns;

/* Takes the C library's place: a test may be ahead of the real time. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = (int)syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_MONOTONIC)
		ts->tv_sec += (time_t)(ahead_ns / SECOND_NS);
	return ret;
}

/* A file that is mapped here, as another one that the kernel lists by these numbers. */
static int prepare_and_add_as(struct world *w, const struct proc_map *map, const struct proc_map *as)
{
	struct prepared_file *p = NULL;
	int ret = file_registry__prepare(w->files, getpid(), map, &p);

	if (ret)
		return ret;
	p->dev = map_dev(as);
	p->inode = as->inode;
	return file_registry__add(w->files, p);
}

static bool retire_all(struct world *w, uint64_t idle_ns, uint64_t moment)
{
	return file_registry__retire_idle(w->files, idle_ns, moment, UINT64_MAX);
}

static struct file_registry_stats stats_of(struct world *w)
{
	return file_registry__stats(w->files);
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Takes out all that is retired; returns how many. */
static uint64_t collect(struct world *w, const struct file_set *live, uint64_t moment)
{
	uint64_t before = stats_of(w).freed;

	dead_files__free(file_registry__collect(w->files, live, moment));
	return stats_of(w).freed - before;
}

static const struct file_set nothing;

/* In use: found for ever. Idle: found for a while. Retired: known by its number alone. */
static void test_retire(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	uint64_t rows = table_pool__stats(w->pool).rows, vaddr, start;
	const struct file_entry *file;
	struct file_use use, other;
	char name[64];

	assert_int_equal(prepare_and_add(w, &map), 0);
	file = expect_known(w, &map, true);
	use = file_registry__use(w->files, &map);
	other = file_registry__use(w->files, &map);
	assert_int_equal(use.place, file->number);
	assert_int_equal(stats_of(w).idle, 0);
	file_registry__unuse(w->files, other);
	ahead_ns += 1000 * SECOND_NS;
	assert_true(retire_all(w, 600 * SECOND_NS, 1));
	assert_ptr_equal(expect_known(w, &map, true), file);
	file_registry__unuse(w->files, use);
	assert_int_equal(stats_of(w).idle, 1);
	ahead_ns += 599 * SECOND_NS;
	retire_all(w, 600 * SECOND_NS, 1);
	assert_ptr_equal(expect_known(w, &map, true), file);
	ahead_ns += 2 * SECOND_NS;
	/* There is no time. */
	assert_false(file_registry__retire_idle(w->files, 600 * SECOND_NS, 1, 0));
	assert_ptr_equal(expect_known(w, &map, true), file);
	assert_true(retire_all(w, 600 * SECOND_NS, 1));

	assert_null(expect_known(w, &map, false));
	assert_int_equal(table_pool__stats(w->pool).rows, rows);
	assert_int_equal(stats_of(w).files, 0);
	assert_int_equal(stats_of(w).idle, 0);
	assert_int_equal(stats_of(w).retired, 1);
	assert_int_equal(stats_of(w).bad_fdes + stats_of(w).unsupported_rows, 0);
	assert_ptr_equal(file_registry__get(w->files, file->number), file);
	assert_string_equal(file->path, map.path);
	assert_true(file->elf.build_id[0]);
	vaddr = own_vaddr(&map, file, (const void *)l64a);
	assert_int_equal(file_registry__symbol(w->files, file->number, vaddr, name, sizeof(name), &start), 0);
	assert_string_equal(name, "l64a");
	assert_int_equal(file_registry__publish_learned(w->files, file->number), -ENOENT);
	release_map(&map);
}

/* A process that maps it again makes a new entry; each stack keeps the number that it was taken with. */
static void test_retired_file_again(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	struct file_set live = { 0 };
	const struct file_entry *old, *new;
	uint32_t old_number;
	uint64_t start;
	unsigned fds;
	char name[64];

	assert_int_equal(prepare_and_add(w, &map), 0);
	old = expect_known(w, &map, true);
	old_number = old->number;
	retire_all(w, 0, 5);
	assert_int_equal(prepare_and_add(w, &map), 0);
	new = expect_known(w, &map, true);
	assert_non_null(new);
	assert_int_not_equal(new->number, old_number);
	assert_int_equal(new->state, SO_MAPPING_TABLE);
	assert_int_equal(stats_of(w).files, 1);
	assert_int_equal(stats_of(w).places, stats_of(w).retired + 1 + !!getauxval(AT_SYSINFO_EHDR));

	file_set__add(&live, old_number);
	assert_int_equal(file_registry__count_retired(w->files, 4), 0);
	assert_int_equal(file_registry__count_retired(w->files, 5), 1);
	assert_int_equal(collect(w, &nothing, 4), 0); /* not for long enough */
	assert_int_equal(collect(w, &live, 5), 0);    /* a stack names it */
	assert_ptr_equal(file_registry__get(w->files, old_number), old);
	fds = open_descriptors();
	assert_int_equal(collect(w, &nothing, 5), 1);
	assert_int_equal(open_descriptors(), fds - 1);
	assert_null(file_registry__get(w->files, old_number));
	assert_null(file_registry__learned(w->files, old_number));
	assert_int_equal(file_registry__symbol(w->files, old_number, 0, name, sizeof(name), &start), -ENOENT);
	assert_ptr_equal(expect_known(w, &map, true), new);
	drop_symbols(w->files);
	release_map(&map);
}

/* What is no ELF file has a descriptor, and no number that a stack could name. */
static void test_other_files_retire(void **state)
{
	struct world *w = *state;
	void *at = map_bytes(w, "text", "#!/bin/sh\n", 10);
	struct proc_map map = map_of(at);
	struct file_set live;
	struct file_use use;
	unsigned fds = open_descriptors();

	memset(&live, 0xff, sizeof(live));
	assert_int_equal(prepare_and_add(w, &map), 0);
	use = file_registry__use(w->files, &map);
	assert_true(use.place > 0);
	retire_all(w, 0, 1);
	assert_null(expect_known(w, &map, true));
	file_registry__unuse(w->files, use);
	retire_all(w, 0, 1);
	assert_null(expect_known(w, &map, false));
	assert_int_equal(open_descriptors(), fds + 1);
	assert_int_equal(collect(w, &live, 1), 1);
	assert_int_equal(open_descriptors(), fds);
	munmap(at, PAGE);
	release_map(&map);
}

/* Mappings of no file, and of a file that is not known, are no use of anything. */
static void test_use_of_nothing(void **state)
{
	struct world *w = *state;
	const struct proc_map anonymous = { .path = "" }, unknown = { .path = "/nowhere", .inode = 1234567 };

	assert_int_equal(file_registry__use(w->files, &anonymous).place, 0);
	assert_int_equal(file_registry__use(w->files, &unknown).place, 0);
	file_registry__unuse(w->files, (struct file_use){ 0 });
}

/* The vdso is no file: it is never idle. */
static void test_vdso_stays(void **state)
{
	struct world *w = *state;
	const struct proc_map map = { .path = "[vdso]" };
	struct file_use use;

	if (!getauxval(AT_SYSINFO_EHDR))
		skip();
	use = file_registry__use(w->files, &map);
	assert_int_equal(use.place, 1);
	file_registry__unuse(w->files, use);
	ahead_ns += 10000 * SECOND_NS;
	retire_all(w, 0, 1);
	assert_int_equal(stats_of(w).idle + stats_of(w).retired, 0);
	assert_int_equal(expect_known(w, &map, true)->state, SO_MAPPING_TABLE);
}

/* As file_registry_internal.h makes keys of files: another file of the same key. */
static struct proc_map same_key(struct proc_map map, uint32_t minor)
{
	const uint64_t factor = 0x9e3779b97f4a7c15ull;
	uint64_t before = ((uint64_t)map.dev_major << 32 | map.dev_minor) * factor;

	map.dev_minor = minor;
	map.inode ^= before ^ ((uint64_t)map.dev_major << 32 | minor) * factor;
	return map;
}

/* Files whose keys hash alike: each of them may go first. */
static void test_same_key(void **state)
{
	struct world *w = *state;
	void *at = map_bytes(w, "text", "#!/bin/sh\n", 10);
	struct proc_map maps[4] = { map_of(at) };

	for (unsigned i = 1; i < 4; i++)
		maps[i] = same_key(maps[0], 100 + i);
	for (unsigned first = 0; first < 4; first++) {
		struct file_use uses[4];

		for (unsigned i = 0; i < 4; i++) {
			assert_null(expect_known(w, &maps[i], false));
			assert_int_equal(prepare_and_add_as(w, &maps[0], &maps[i]), 0);
			uses[i] = file_registry__use(w->files, &maps[i]);
			assert_true(uses[i].place > 0);
		}
		for (unsigned i = 0; i < 4; i++) {
			file_registry__unuse(w->files, uses[(first + i) % 4]);
			retire_all(w, 0, 1);
			assert_int_equal(collect(w, &nothing, 1), 1);
			for (unsigned j = 0; j < 4; j++)
				expect_known(w, &maps[(first + j) % 4], j > i);
		}
	}
	munmap(at, PAGE);
	release_map(&maps[0]);
}

/* Thousands of files one after the other: numbers come back, but not at once. */
static void test_numbers_are_used_again(void **state)
{
	struct world *w = *state;
	void *at = map_bytes(w, "text", "#!/bin/sh\n", 10);
	struct proc_map mapped = map_of(at), map = mapped;
	uint32_t highest = 0, first = 0, again = 0;

	for (unsigned i = 0; i < 10000; i++) {
		struct file_use use;

		map.inode = mapped.inode + i;
		assert_int_equal(prepare_and_add_as(w, &mapped, &map), 0);
		use = file_registry__use(w->files, &map);
		highest = use.place > highest ? use.place : highest;
		if (!i)
			first = use.place;
		else if (use.place == first && !again)
			again = i;
		file_registry__unuse(w->files, use);
		retire_all(w, 0, i);
		assert_int_equal(collect(w, &nothing, i), 1);
	}
	assert_true(again > 4000);
	assert_in_range(highest, 4000, 4200);
	assert_int_equal(stats_of(w).freed, 10000);
	munmap(at, PAGE);
	release_map(&map);
}

/* A user has so many places, and root's files are known all the same. */
static void test_places_of_users(void **state)
{
	struct world *w = *state;
	void *at = map_bytes(w, "text", "#!/bin/sh\n", 10);
	struct proc_map mapped = map_of(at), map = mapped;
	struct prepared_file *p;

	w->files->place_shares = (struct user_shares){ .of_one = 2, .of_all = 3 };
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(file_registry__prepare(w->files, getpid(), &mapped, &p), 0);
		p->inode += i;
		p->slot->reader.uid = i < 3 ? 1000 : 0;
		assert_int_equal(file_registry__add(w->files, p), i == 2 ? -ENOSPC : 0);
		map.inode = mapped.inode + i;
		expect_known(w, &map, i != 2);
	}
	/* Places that are left are no use to the user who was refused one, until one of theirs is given back. */
	assert_int_equal(stats_of(w).refused_files, 0);
	assert_int_equal(stats_of(w).refused_shares, 1);
	assert_true(file_registry__has_refused(w->files));
	assert_false(file_registry__has_place_again(w->files, 1000));
	file_registry__forget_refused(w->files);
	assert_true(file_registry__has_refused(w->files));
	retire_all(w, 0, 1);
	assert_int_equal(collect(w, &nothing, 1), 3);
	assert_int_equal(w->files->place_shares.all, 0);
	assert_true(file_registry__has_place_again(w->files, 1000));
	assert_false(file_registry__has_place_again(w->files, 1001));
	file_registry__forget_refused(w->files);
	assert_false(file_registry__has_place_again(w->files, 1000));
	assert_false(file_registry__has_refused(w->files));
	munmap(at, PAGE);
	release_map(&mapped);
}

/* What is learned of a file comes back with it, and a table that a run of mappings still has outlives the next one. */
static void test_learned_of_retired(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_cache) struct unwind_cache *cache = NULL;
	struct proc_map map = map_of((const void *)l64a);
	struct effect_row row = { .address = 16,
				  .length = 4,
				  .rule = { .cfa_kind = SO_CFA_REG, .cfa_off = 4242 * 8 } },
			  more = { .address = 64,
				   .length = 4,
				   .rule = { .cfa_kind = SO_CFA_REG, .cfa_off = 4243 * 8 } };
	struct effect_rows rows = { .rows = &row, .n = 1 }, more_rows = { .rows = &more, .n = 1 };
	struct file_use use, later;
	uint64_t rows_before;
	uint32_t number;

	assert_int_equal(unwind_cache__open(w->dir, 0, &cache, NULL), 0);
	file_registry__free(w->files);
	assert_int_equal(file_registry__new(w->pool, cache, "", &w->files, NULL), 0);
	rows_before = table_pool__stats(w->pool).rows;
	assert_int_equal(prepare_and_add(w, &map), 0);
	number = expect_known(w, &map, true)->number;
	assert_int_equal(learned_code__add(file_registry__learned(w->files, number), &rows), 0);
	assert_int_equal(file_registry__publish_learned(w->files, number), 0);
	use = file_registry__use(w->files, &map);
	assert_non_null(use.learned);
	assert_int_equal(learned_code__add(file_registry__learned(w->files, number), &more_rows), 0);
	assert_int_equal(file_registry__publish_learned(w->files, number), 0);
	later = file_registry__use(w->files, &map);
	assert_ptr_not_equal(use.learned, later.learned);
	assert_int_equal(use.learned->refs, 1);
	file_registry__unuse(w->files, use);
	file_registry__unuse(w->files, later);
	retire_all(w, 0, 1);
	assert_int_equal(table_pool__stats(w->pool).rows, rows_before);
	/* What comes too late is not written over what was kept. */
	assert_int_equal(learned_code__add(file_registry__learned(w->files, number), &rows), 0);

	assert_int_equal(prepare_and_add(w, &map), 0);
	number = expect_known(w, &map, true)->number;
	assert_non_null(learned_code__find(file_registry__learned(w->files, number), row.address));
	assert_non_null(learned_code__find(file_registry__learned(w->files, number), more.address));
	assert_int_equal(stats_of(w).from_cache, 1);
	file_registry__reset(w->files);
	assert_int_equal(prepare_and_add(w, &map), 0);
	number = expect_known(w, &map, true)->number;
	assert_non_null(learned_code__find(file_registry__learned(w->files, number), more.address));
	/* It is written to the cache, which ends before the registry does. */
	file_registry__free(w->files);
	assert_int_equal(file_registry__new(w->pool, NULL, "", &w->files, NULL), 0);
	release_map(&map);
}

/* A file that there was no room for is tried again when there is some, though it is in use. */
static void test_full_is_tried_again(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	const struct file_entry *file;
	struct file_use use;

	table_pool__reset(w->pool);
	fake_sampler__limit_shards(w->sampler, 0, -ENOSPC);
	assert_int_equal(prepare_and_add(w, &map), 0);
	file = expect_known(w, &map, true);
	assert_int_equal(file->state, SO_MAPPING_FULL);
	assert_int_equal(stats_of(w).full, 1);
	assert_int_equal(stats_of(w).refused_tables, 1);
	use = file_registry__use(w->files, &map);
	fake_sampler__limit_shards(w->sampler, SO_MAX_SHARDS, -ENOSPC);
	assert_int_equal(file_registry__retire_full(w->files, 3), 1);
	assert_int_equal(file_registry__retire_full(w->files, 3), 0);
	assert_int_equal(stats_of(w).full, 0);
	assert_null(expect_known(w, &map, false));
	assert_int_equal(prepare_and_add(w, &map), 0);
	assert_int_equal(expect_known(w, &map, true)->state, SO_MAPPING_TABLE);
	assert_int_equal(collect(w, &nothing, 3), 0); /* it is in use still */
	file_registry__unuse(w->files, use);
	assert_int_equal(stats_of(w).idle, 1); /* the new one */
	assert_int_equal(collect(w, &nothing, 3), 1);
	release_map(&map);
}

static void add_of(struct world *w, const struct proc_map *map, uid_t owner, uint64_t inode)
{
	struct prepared_file *p;

	assert_int_equal(file_registry__prepare(w->files, getpid(), map, &p), 0);
	p->inode = inode;
	p->slot->owner = owner;
	assert_int_equal(file_registry__add(w->files, p), 0);
}

/* A table that was beyond its owner's share is tried again once there is room in it, and no more than fit. */
static void test_share_is_tried_again(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	struct file_use use;
	uint32_t one;

	add_of(w, &map, 1000, map.inode);
	one = user_shares__used(&w->pool->word_shares, 1000);
	assert_true(one > 0);
	w->pool->word_shares.of_one = one + one / 2;
	use = file_registry__use(w->files, &map);
	for (unsigned i = 1; i < 4; i++)
		add_of(w, &map, 1000, map.inode + i);
	assert_int_equal(stats_of(w).full, 3);
	assert_int_equal(file_registry__retire_full(w->files, 3), 0);
	w->pool->word_shares.of_one = 3 * one + one / 2;
	assert_int_equal(file_registry__retire_full(w->files, 3), 2);
	assert_int_equal(stats_of(w).full, 1);
	file_registry__unuse(w->files, use);
	release_map(&map);
}

static void test_file_set(void **state)
{
	struct file_set set = { 0 };

	assert_false(file_set__has(&set, 0));
	file_set__add(&set, 63);
	file_set__add(&set, SO_MAX_FILES);
	file_set__add(&set, SO_MAX_FILES + 1);
	file_set__add(&set, UINT32_MAX);
	assert_true(file_set__has(&set, 63));
	assert_true(file_set__has(&set, SO_MAX_FILES));
	assert_false(file_set__has(&set, 62));
	assert_false(file_set__has(&set, 64));
	assert_false(file_set__has(&set, UINT32_MAX));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(retire),
		TEST(retired_file_again),
		TEST(other_files_retire),
		TEST(use_of_nothing),
		TEST(vdso_stays),
		TEST(same_key),
		TEST(numbers_are_used_again),
		TEST(places_of_users),
		TEST(learned_of_retired),
		TEST(full_is_tried_again),
		TEST(share_is_tried_again),
		TEST(file_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
