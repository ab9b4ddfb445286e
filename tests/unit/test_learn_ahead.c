// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/learner/learn_ahead.h"

#define MAX_REGIONS 256 /* that are remembered */
#define REGION      (1ull << 20)
#define REST_NS     600000000000ull

static uint64_t now_ns = 1000000000ull;

/* Takes the C library's place: the module's clock stands still until a test moves it. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	*ts = (struct timespec){ (time_t)(now_ns / 1000000000ull), (long)(now_ns % 1000000000ull) };
	return 0;
}

/* Files without functions, so that a region is done as soon as it is looked at. */

size_t file_registry__functions(struct file_registry *registry, uint32_t number, uint64_t low, uint64_t high,
				struct elf_symbol *out, size_t room)
{
	return 0;
}

struct learned_code *file_registry__learned(struct file_registry *registry, uint32_t number)
{
	return NULL;
}

int file_registry__each_row(struct file_registry *registry, uint32_t number, uint64_t low, uint64_t high,
			    void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule),
			    void *context)
{
	return 0;
}

const struct file_entry *file_registry__get(struct file_registry *registry, uint32_t number)
{
	return NULL;
}

const struct so_unwind_rule *learned_code__find(const struct learned_code *code, uint64_t address)
{
	return NULL;
}

int learned_code__add(struct learned_code *code, const struct effect_rows *rows)
{
	return 0;
}

int effect_reader__new(struct effect_reader **out)
{
	return -ENOMEM;
}

void effect_reader__free(struct effect_reader *reader)
{
}

void effect_rows__release(struct effect_rows *rows)
{
}

int stack_effect__follow(struct effect_reader *reader, effect_read_fn read, void *context, uint64_t pc,
			 uint64_t limit_low, uint64_t limit_high, struct effect_rows *out)
{
	return -ENOENT;
}

size_t file_registry__read_code(struct file_registry *registry, uint32_t number, uint64_t vaddr, void *buf,
				size_t size)
{
	return 0;
}

void learn_notes__add(struct learn_notes *notes, pid_t tgid, uint32_t file, uint64_t start)
{
}

void learn_notes__publish(struct learn_notes *notes)
{
}

void scan_queue__wake(struct scan_queue *queue)
{
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scan_queue scans = { .lock = &lock, .wanted = PTHREAD_COND_INITIALIZER };
static struct learn_ahead ahead = { .lock = &lock, .scans = &scans };

static void plan(uint64_t region)
{
	learn_ahead__plan(&ahead, 1, 1, region * REGION + 8);
}

/* How many regions were waiting. */
static unsigned look(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	while (learn_ahead__work(&ahead))
		n++;
	pthread_mutex_unlock(&lock);
	return n;
}

static void test_a_region_is_looked_at_once(void **state)
{
	plan(1);
	plan(1);
	plan(2);
	assert_int_equal(look(), 2);
	plan(2);
	assert_int_equal(look(), 0);
	learn_ahead__forget(&ahead);
}

/* As many as there is room for may wait; one that is done makes room. */
static void test_those_that_are_done_make_room(void **state)
{
	for (uint64_t region = 0; region < MAX_REGIONS + 10; region++)
		plan(region);
	assert_int_equal(look(), MAX_REGIONS);
	/* Not at once: where more than have a place are met again and again, nothing else would be done. */
	plan(999);
	assert_int_equal(look(), 0);
	for (uint64_t region = 1000; region < 1000 + 2 * MAX_REGIONS; region++) {
		now_ns += REST_NS;
		plan(region);
		assert_int_equal(look(), 1);
	}
	now_ns += REST_NS;
	/* The one that was planned first is forgotten first. */
	plan(1000 + 2 * MAX_REGIONS - 1);
	plan(1000 + MAX_REGIONS);
	assert_int_equal(look(), 0);
	plan(1000 + MAX_REGIONS - 1);
	assert_int_equal(look(), 1);
	learn_ahead__forget(&ahead);
}

/* Only one is done: of those that wait none goes. */
static void test_those_that_wait_stay(void **state)
{
	plan(0);
	assert_int_equal(look(), 1);
	for (uint64_t region = 1; region < MAX_REGIONS; region++)
		plan(region);
	now_ns += REST_NS;
	plan(1000);
	plan(1001);
	assert_int_equal(look(), MAX_REGIONS);
	learn_ahead__forget(&ahead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_region_is_looked_at_once),
		cmocka_unit_test(test_those_that_are_done_make_room),
		cmocka_unit_test(test_those_that_wait_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
