// SPDX-License-Identifier: GPL-2.0-or-later
/* What is learned must be found again: in the list itself, in the pool beside the file's own rows, and from a cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/unwind/learned_code.h"
#include "tests/unit/fake_sampler.h"

#define TEXT       0x100000u /* where the made-up file's text begins, and how long it is */
#define TEXT_BYTES (64u << SO_BLOCK_SHIFT)

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
	struct learned_code code;
	int64_t model[TEXT_BYTES]; /* for each byte of text cfa_off of its rule, or one of these */
};

enum { NOTHING = -1, FAILED = -2 };

static int set_up(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.sampler = fake_sampler__new();
	assert_non_null(w.sampler);
	assert_int_equal(table_pool__new(w.sampler, &w.pool), 0);
	for (unsigned i = 0; i < TEXT_BYTES; i++)
		w.model[i] = NOTHING;
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	learned_code__release(&w->code, w->pool);
	table_pool__free(w->pool);
	sampler__free(w->sampler);
	return 0;
}

static uint32_t random_word(void)
{
	static uint64_t seed = 88172645463325252ull;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16);
}

static struct so_unwind_rule rule_of(int64_t cfa_off)
{
	return (struct so_unwind_rule){ .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = cfa_off };
}

static void learn(struct world *w, uint32_t at, uint32_t length, int64_t cfa_off)
{
	struct effect_row row = { .address = TEXT + at, .length = length, .rule = rule_of(cfa_off) };
	struct effect_rows rows = { .rows = &row, .n = 1 };

	assert_int_equal(learned_code__add(&w->code, &rows), 0);
	/* What was there first stays, and a row that begins in another is dropped whole. */
	if (w->model[at] != NOTHING)
		return;
	for (uint32_t i = at; i < at + length && w->model[i] == NOTHING; i++)
		w->model[i] = cfa_off;
}

static void expect_found(const struct world *w, const struct learned_code *code, bool failures)
{
	for (uint32_t i = 0; i < TEXT_BYTES; i++) {
		const struct so_unwind_rule *rule = learned_code__find(code, TEXT + i);
		int64_t want = w->model[i];

		if (want == NOTHING || (want == FAILED && !failures))
			assert_null(rule);
		else if (want == FAILED)
			assert_true(rule && rule->cfa_kind == SO_CFA_NONE);
		else
			assert_true(rule && rule->cfa_kind == SO_CFA_REG && rule->cfa_off == want);
	}
}

static void learn_at_random(struct world *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t at = random_word() % (TEXT_BYTES - 256);

		if (i % 16 == 5) {
			assert_int_equal(learned_code__add_failure(&w->code, TEXT + at), 0);
			if (w->model[at] == NOTHING)
				w->model[at] = FAILED;
		} else {
			learn(w, at, 1 + random_word() % 200, 8 + 8 * (random_word() % 50));
		}
	}
}

static void test_find(void **state)
{
	struct world *w = *state;

	learn_at_random(w, 400);
	expect_found(w, &w->code, true);
}

static void test_full(void **state)
{
	struct world *w = *state;
	struct effect_row row = { .length = 1, .rule = rule_of(8) };
	struct effect_rows rows = { .rows = &row, .n = 1 };

	for (row.address = 0; row.address < 2 * LEARNED_MAX_ROWS; row.address += 2)
		assert_int_equal(learned_code__add(&w->code, &rows), 0);
	assert_int_equal(learned_code__add(&w->code, &rows), -ENOSPC);
	assert_int_equal(w->code.n, LEARNED_MAX_ROWS);
}

/* To a table and back, as a cache has it. */
static void test_table(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *table = NULL;
	struct learned_code again = { 0 };

	learn_at_random(w, 400);
	learn(w, TEXT_BYTES - 40, 40, 1234 * 8); /* to the last byte of a block */
	assert_int_equal(learned_code__to_table(&w->code, &table), 0);
	assert_true(unwind_table__sound(table));
	for (uint32_t i = 0; i < TEXT_BYTES; i++) {
		const struct so_unwind_rule *rule = unwind_table__lookup(table, TEXT + i);

		assert_int_equal(rule ? rule->cfa_off : NOTHING, w->model[i] == FAILED ? NOTHING : w->model[i]);
	}
	assert_int_equal(learned_code__add_table(&again, table), 0);
	expect_found(w, &again, false);
	learned_code__release(&again, NULL);
}

static void test_nothing_to_keep(void **state)
{
	struct world *w = *state;
	struct unwind_table *table = NULL;

	assert_int_equal(learned_code__to_table(&w->code, &table), -ENOENT);
	assert_int_equal(learned_code__add_failure(&w->code, TEXT), 0);
	assert_int_equal(learned_code__to_table(&w->code, &table), -ENOENT);
	assert_null(table);
}

struct reading {
	const struct world *w;
	uint64_t from;
	int64_t rule;
	uint64_t compared;
};

/* What the pieces say from one row to the next is what the model says. */
static void end_row(struct reading *r, uint64_t to)
{
	for (; r->from < to; r->from++, r->compared++)
		assert_int_equal(r->w->model[r->from - TEXT], r->rule);
}

static void on_row(void *context, uint64_t address, const struct so_unwind_rule *rule)
{
	struct reading *r = context;

	end_row(r, address);
	r->rule = rule ? rule->cfa_kind == SO_CFA_NONE ? FAILED : rule->cfa_off : NOTHING;
}

static void expect_published(const struct world *w)
{
	struct reading r = { .w = w, .from = TEXT };
	uint64_t first = TEXT >> SO_BLOCK_SHIFT, end = (TEXT + TEXT_BYTES) >> SO_BLOCK_SHIFT;

	assert_int_equal(table_pool__each_row(w->pool, &w->code.table->pieces, first, end, on_row, &r), 0);
	end_row(&r, TEXT + TEXT_BYTES);
	assert_int_equal(r.compared, TEXT_BYTES);
}

static void test_publish_alone(void **state)
{
	struct world *w = *state;
	const struct table_pieces none = { 0 };

	for (unsigned round = 0; round < 5; round++) {
		learn_at_random(w, 1 + 30 * round);
		assert_int_equal(learned_code__publish(&w->code, w->pool, &none), 0);
		assert_int_equal(w->code.published, w->code.n);
		expect_published(w);
	}
}

/* A file with rules for every other 300 bytes, and what is learned of the rest. */
static void test_publish_beside_a_file(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *own = NULL;
	struct learned_code file = { 0 };
	struct table_pieces base = { 0 };

	for (uint32_t at = 0; at + 700 < TEXT_BYTES; at += 600) {
		struct effect_row row = { .address = TEXT + at, .length = 300, .rule = rule_of(16 + at) };
		struct effect_rows rows = { .rows = &row, .n = 1 };

		assert_int_equal(learned_code__add(&file, &rows), 0);
		for (uint32_t i = at; i < at + 300; i++)
			w->model[i] = 16 + at;
	}
	assert_int_equal(learned_code__to_table(&file, &own), 0);
	assert_int_equal(table_pool__add(w->pool, own, &base), 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 20; i++) {
			uint32_t gap = random_word() % (TEXT_BYTES / 600 - 2) * 600 + 300;

			learn(w, gap + random_word() % 100, 1 + random_word() % 200, 8 * (1 + round));
		}
		assert_int_equal(learned_code__publish(&w->code, w->pool, &base), 0);
		expect_published(w);
	}
	learned_code__release(&w->code, w->pool);
	table_pool__release(w->pool, &base);
	assert_int_equal(table_pool__stats(w->pool).rows, 0);
	assert_int_equal(table_pool__stats(w->pool).index_words, 0);
	learned_code__release(&file, NULL);
}

/* However often it is published, it is there once; an earlier table stays as long as somebody refers to it. */
static void test_published_again(void **state)
{
	struct world *w = *state;
	const struct table_pieces none = { 0 };
	struct learned_table *old;
	struct table_pool_stats first, stats;
	struct table_piece piece;

	learn(w, 0, 4, 8);
	assert_int_equal(learned_code__publish(&w->code, w->pool, &none), 0);
	first = table_pool__stats(w->pool);
	old = w->code.table;
	piece = old->pieces.pieces[0];
	old->refs++;
	learn(w, 4, 4, 16);
	assert_int_equal(learned_code__publish(&w->code, w->pool, &none), 0);
	assert_ptr_not_equal(w->code.table, old);
	assert_true(piece.index != w->code.table->pieces.pieces[0].index);
	stats = table_pool__stats(w->pool);
	assert_int_equal(stats.index_words, 2 * first.index_words);
	learned_table__unref(old, w->pool);
	for (unsigned i = 8; i < 200; i++) {
		learn(w, i, 1, 8 * i);
		assert_int_equal(learned_code__publish(&w->code, w->pool, &none), 0);
	}
	expect_published(w);
	stats = table_pool__stats(w->pool);
	assert_int_equal(stats.index_words, first.index_words);
	assert_true(stats.released > first.index_words * sizeof(uint32_t) * 190);
	learned_table__unref(NULL, w->pool);
}

/* What cannot be published whole takes nothing. */
static void test_publish_without_room(void **state)
{
	struct world *w = *state;
	const struct table_pieces none = { 0 };

	learn(w, 0, 4, 8);
	fake_sampler__limit_shards(w->sampler, 0, -ENOSPC);
	assert_int_equal(learned_code__publish(&w->code, w->pool, &none), -ENOSPC);
	assert_null(w->code.table);
	assert_int_equal(table_pool__stats(w->pool).index_words, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(find),
		TEST(full),
		TEST(table),
		TEST(nothing_to_keep),
		TEST(publish_alone),
		TEST(publish_beside_a_file),
		TEST(published_again),
		TEST(publish_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
