// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/processes/past_mappings.h"
#include "tests/unit/fake_sampler.h"

#define PAGE 4096

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
	struct file_registry *files;
	struct process_table *table;
	struct process *process;
};

static int set_up(void **state)
{
	static struct world w;
	const struct so_process kernel = { .rate_hz = 99 };

	w = (struct world){ .sampler = fake_sampler__new() };
	assert_int_equal(table_pool__new(w.sampler, &w.pool), 0);
	assert_int_equal(file_registry__new(w.pool, NULL, "", &w.files, NULL), 0);
	assert_int_equal(process_table__new(w.sampler, w.files, w.pool, &w.table), 0);
	assert_int_equal(process_table__add(w.table, 100, &kernel, &w.process), 0);
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	process_table__free(w->table);
	file_registry__free(w->files);
	table_pool__free(w->pool);
	sampler__free(w->sampler);
	return 0;
}

/* A file that there is not, so that its pieces have a name alone. */
static struct proc_map file_map(uint64_t start, uint64_t pages, uint64_t inode)
{
	return (struct proc_map){ .start = start,
				  .end = start + pages * PAGE,
				  .inode = inode,
				  .dev_major = 250,
				  .executable = true,
				  .readable = true,
				  .path = "/no/such/file" };
}

static void reported(struct world *w, uint64_t time_ns, struct proc_map map)
{
	const struct mapping_event event = { .tgid = 100, .time_ns = time_ns, .map = map };

	mapping_changes__note(w->process, &event);
}

/* The mappings were read from read_ns on, in 10 ns. */
static void scan(struct world *w, uint64_t read_ns, const struct proc_map *maps, size_t n)
{
	_cleanup_(process_scan) struct process_scan scan = {
		.tgid = 100, .read_ns = read_ns, .was_read_ns = read_ns + 10
	};

	scan.maps.maps = calloc(n + 1, sizeof(*maps));
	assert_non_null(scan.maps.maps);
	memcpy(scan.maps.maps, maps, n * sizeof(*maps));
	scan.maps.n = n;
	assert_int_equal(process_table__begin_scan(w->table, &scan), 0);
	process_scan__prepare(&scan, w->files);
	assert_int_equal(process_table__end_scan(w->table, &scan), 0);
}

/* The inode whose file was at the address then; 0: none, or one of those that none of these has. */
static uint64_t at(struct world *w, uint64_t when_ns, uint64_t address)
{
	const struct so_mapping *all = sampler__mappings(w->sampler);
	struct so_mapping *list;
	size_t n = process_table__mappings_at(w->table, w->process, when_ns, &list);
	const struct so_mapping *m = list ?: all + w->process->run->first;
	uint64_t found = 0;

	if (!list)
		n = w->process->run->n;
	for (size_t i = 0; i < n; i++) {
		assert_true(m[i].start < m[i].end);
		assert_true(!i || m[i - 1].end <= m[i].start);
		for (uint64_t inode = 1; inode < 10; inode++) {
			struct proc_map map = file_map(0x10000, 4, inode);

			if (address >= m[i].start && address < m[i].end && m[i].id == mapping_list__id(&map))
				found = inode;
		}
	}
	free(list);
	return found;
}

/* 1, then 2 and 1 again between two scans, then 3. */
static void test_in_turn(void **state)
{
	const struct proc_map maps[] = { file_map(0x10000, 4, 1), file_map(0x10000, 4, 2), file_map(0x10000, 4, 3) };
	struct world *w = *state;

	scan(w, 100, &maps[0], 1);
	assert_int_equal(at(w, 50, 0x10000), 1);
	reported(w, 300, maps[0]);
	reported(w, 200, maps[1]);
	scan(w, 400, &maps[0], 1);
	reported(w, 500, maps[2]);
	scan(w, 600, &maps[2], 1);
	assert_int_equal(at(w, 150, 0x11000), 1);
	assert_int_equal(at(w, 200, 0x11000), 2);
	assert_int_equal(at(w, 299, 0x11000), 2);
	assert_int_equal(at(w, 300, 0x11000), 1);
	assert_int_equal(at(w, 499, 0x11000), 1);
	assert_int_equal(at(w, 500, 0x11000), 3);
	assert_int_equal(at(w, 5000, 0x11000), 3);
}

/* What is reported while the mappings are read may be in them already, or not. */
static void test_while_it_is_read(void **state)
{
	const struct proc_map maps[] = { file_map(0x10000, 4, 1), file_map(0x10000, 4, 2) };

	for (unsigned late = 0; late < 2; late++) {
		struct world *w = *state;

		scan(w, 1000 * late + 100, &maps[0], 1);
		reported(w, 1000 * late + 205, maps[1]);
		scan(w, 1000 * late + 200, &maps[!late], 1);
		scan(w, 1000 * late + 300, &maps[1], 1);
		assert_int_equal(at(w, 1000 * late + 204, 0x10000), 1);
		assert_int_equal(at(w, 1000 * late + 205, 0x10000), 2);
		assert_int_equal(at(w, 1000 * late + 400, 0x10000), 2);
		reported(w, 1000 * late + 500, maps[0]);
	}
}

/* It was unmapped, and nothing mapped there since: until then it was there. */
static void test_gone(void **state)
{
	const struct proc_map maps[] = { file_map(0x10000, 4, 1), file_map(0x40000, 4, 2) };
	struct world *w = *state;

	scan(w, 100, maps, 2);
	scan(w, 200, maps + 1, 1);
	assert_int_equal(at(w, 150, 0x13fff), 1);
	assert_int_equal(at(w, 300, 0x13fff), 0);
}

/* A smaller one in the middle of a larger one: what lay beside it was there all the time. */
static void test_part(void **state)
{
	const struct proc_map whole = file_map(0x10000, 4, 1);
	struct proc_map maps[] = { whole, file_map(0x11000, 1, 2), whole };
	struct world *w = *state;

	scan(w, 100, &whole, 1);
	maps[0].end = 0x11000;
	maps[2].start = 0x12000;
	maps[2].offset = 0x2000;
	reported(w, 200, maps[1]);
	scan(w, 300, maps, 3);
	assert_int_equal(at(w, 150, 0x11000), 1);
	for (unsigned when = 150; when < 400; when += 100) {
		assert_int_equal(at(w, when, 0x10000), 1);
		assert_int_equal(at(w, when, 0x13000), 1);
	}
	assert_int_not_equal(at(w, 250, 0x11000), 1);
}

/* The process has ended before it could be read again. */
static void test_ended(void **state)
{
	const struct proc_map maps[] = { file_map(0x10000, 4, 1), file_map(0x10000, 4, 2) };
	struct world *w = *state;

	scan(w, 100, maps, 1);
	reported(w, 200, maps[1]);
	assert_int_equal(at(w, 250, 0x10000), 1);
	w->process->gone = true;
	assert_int_equal(at(w, 150, 0x10000), 1);
	assert_int_equal(at(w, 250, 0x10000), 2);
}

/* A scan that came to nothing gives back what was reported. */
static void test_given_back(void **state)
{
	const struct proc_map maps[] = { file_map(0x10000, 4, 1), file_map(0x10000, 4, 2) };
	struct process_scan lost = { .tgid = 100, .read_ns = 300, .was_read_ns = 310 };
	struct world *w = *state;

	scan(w, 100, maps, 1);
	reported(w, 200, maps[1]);
	assert_int_equal(process_table__begin_scan(w->table, &lost), 0);
	assert_int_equal(w->process->n_changes, 0);
	w->process->gone = true;
	assert_int_equal(process_table__end_scan(w->table, &lost), -ENOENT);
	process_scan__release(&lost);
	assert_int_equal(w->process->n_changes, 1);
	assert_int_equal(at(w, 250, 0x10000), 2);
}

/* The kernel side searches each once, however often it was there; after a while nothing is left of them. */
static void test_for_the_kernel(void **state)
{
	const struct proc_map maps[] = { file_map(0x10000, 4, 1), file_map(0x10000, 4, 2) };
	struct world *w = *state;
	struct so_process kernel;
	uint64_t past = 0;

	for (unsigned i = 0; i < 40; i++) {
		reported(w, 100 * i + 50, maps[i % 2]);
		scan(w, 100 * i + 100, &maps[i % 2], 1);
		assert_int_equal(sampler__get_process(w->sampler, 100, &kernel), 0);
		assert_int_equal((uint32_t)kernel.past, i < 2 ? i : 2);
		/* The same run, once both are in it. */
		assert_true(i <= 2 || kernel.past == past);
		past = kernel.past;
	}
	process_table__forget_past(w->table, w->process);
	assert_int_equal(sampler__get_process(w->sampler, 100, &kernel), 0);
	assert_int_equal(kernel.past, 0);
	assert_int_equal(w->process->n_past, 0);
}

/* More than are kept, of more files than the kernel side gets. */
static void test_bounds(void **state)
{
	struct world *w = *state;
	struct so_process kernel;
	struct proc_map map;

	for (unsigned i = 0; i < 3000; i++) {
		map = file_map(0x10000, 4, i + 1);
		reported(w, 100 * i + 50, map);
		if (i % 100 == 99)
			scan(w, 100 * i + 100, &map, 1);
	}
	assert_true(w->process->n_past <= 512);
	assert_int_equal(sampler__get_process(w->sampler, 100, &kernel), 0);
	assert_int_equal((uint32_t)kernel.past, SO_MAX_PAST_MAPPINGS);
	for (unsigned i = 0; i < 9000; i++)
		reported(w, 100 * i + 400000, map);
	assert_true(w->process->n_changes <= 512);
	process_table__exec(w->table, w->process);
	assert_int_equal(w->process->n_past, 0);
	assert_int_equal(w->process->n_changes, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(in_turn), TEST(while_it_is_read), TEST(gone),           TEST(part),
		TEST(ended),   TEST(given_back),       TEST(for_the_kernel), TEST(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
