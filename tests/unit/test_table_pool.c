// SPDX-License-Identifier: GPL-2.0-or-later
/* Tables in the pool's shards must answer as they did before: uw_search_rows() against unwind_table__lookup(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/unwind/table_pool.h"
#include "tests/golden/user_space.h"

static uint64_t now_ns = 1000000000ull;

/* Takes the C library's place: the module's clock stands still until a test moves it. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = (struct timespec){ (time_t)(now_ns / 1000000000ull), (long)(now_ns % 1000000000ull) };
	return 0;
}

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
};

static int set_up(void **state)
{
	static struct world w;

	w.sampler = fake_sampler__new();
	assert_non_null(w.sampler);
	assert_int_equal(table_pool__new(w.sampler, &w.pool), 0);
	user_space.sampler = w.sampler;
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	assert_int_equal(fake_sampler__open_shards(), 0);
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

static struct so_unwind_rule numbered_rule(uint32_t number)
{
	return (struct so_unwind_rule){ .cfa_kind = SO_CFA_REG,
					.cfa_reg = SO_REG_RSP,
					.cfa_off = 8 + (int32_t)(number % 4096) * 8,
					.rbp_off = (int16_t)(number >> 12) };
}

/* A table without rows yet; rule i of its n_rules is numbered_rule(first_rule + i). */
static struct unwind_table *make_table(uint64_t first_block, uint32_t n_blocks, uint32_t max_rows,
				       uint32_t first_rule, uint32_t n_rules)
{
	struct unwind_table *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->first_block = first_block;
	t->n_blocks = n_blocks;
	t->index = calloc(n_blocks + 1, sizeof(*t->index));
	t->rows = calloc(max_rows, sizeof(*t->rows));
	t->rules = calloc(n_rules, sizeof(*t->rules));
	assert_true(t->index && t->rows && t->rules);
	t->n_rules = n_rules;
	for (uint32_t i = 0; i < n_rules; i++)
		t->rules[i] = numbered_rule(first_rule + i);
	return t;
}

/* Rows of random rules, up to `per_block` in each block, some blocks empty, some full to the last byte. */
static void fill_rows(struct unwind_table *t, uint32_t per_block, uint32_t max_rows)
{
	for (uint32_t block = 0; block < t->n_blocks; block++) {
		uint32_t rows = random_word() % (per_block + 1), pc = 0;

		if (random_word() % 8 == 0)
			rows = 0;
		if (block == 0)
			rows = 1 + rows;
		t->index[block] = t->n_rows;
		for (; rows && pc < SO_BLOCK_BYTES && t->n_rows < max_rows - 1; rows--) {
			t->rows[t->n_rows++] = SO_ROW(pc, random_word() % (t->n_rules + SO_FIRST_RULE));
			pc += 1 + random_word() % (2 * SO_BLOCK_BYTES / per_block);
		}
	}
	t->rows[t->n_rows - 1] = SO_ROW(SO_ROW_PC_LOW(t->rows[t->n_rows - 1]), SO_RULE_NONE);
	t->index[t->n_blocks] = t->n_rows;
	assert_true(unwind_table__sound(t));
}

static const struct table_piece *find_piece(const struct table_pieces *p, uint64_t block)
{
	for (size_t i = 0; i < p->n; i++) {
		if (block >= p->pieces[i].first_block &&
		    block - p->pieces[i].first_block < p->pieces[i].n_blocks)
			return &p->pieces[i];
	}
	return NULL;
}

/* What the kernel side would find for an address. */
static uint32_t find_number(const struct table_pieces *p, uint64_t vaddr)
{
	const struct table_piece *piece = find_piece(p, vaddr >> SO_BLOCK_SHIFT);

	assert_non_null(piece);
	return uw_search_rows(piece->shard,
			      piece->index + (uint32_t)((vaddr >> SO_BLOCK_SHIFT) - piece->first_block),
			      vaddr & SO_BLOCK_MASK);
}

static void compare_at(struct world *w, const struct unwind_table *t, const struct table_pieces *p,
		       uint64_t vaddr)
{
	const struct so_unwind_rule *want = unwind_table__lookup(t, vaddr);
	uint32_t number = find_number(p, vaddr);
	bool same =
		want ? number == SO_RULE_UNAVAILABLE
				? want->cfa_kind == SO_CFA_UNSUPPORTED
				: number && !memcmp(&sampler__rules(w->sampler)[number], want, sizeof(*want))
		     : number == SO_RULE_NONE;

	if (!same)
		fail_msg("at %#lx rule %u", (unsigned long)vaddr, number);
}

/* At each row's first address and the one before it, and at both ends of each block. */
static void compare_all(struct world *w, const struct unwind_table *t, const struct table_pieces *p)
{
	for (uint32_t block = 0; block < t->n_blocks; block++) {
		uint64_t begin = (t->first_block + block) << SO_BLOCK_SHIFT;

		compare_at(w, t, p, begin);
		compare_at(w, t, p, begin + SO_BLOCK_BYTES - 1);
		for (uint32_t i = t->index[block]; i < t->index[block + 1]; i++) {
			uint64_t at = begin + SO_ROW_PC_LOW(t->rows[i]);

			compare_at(w, t, p, at);
			if (at > begin)
				compare_at(w, t, p, at - 1);
		}
	}
}

/* The pieces follow each other without gap or overlap and lie within their shards. */
static void check_pieces(const struct unwind_table *t, const struct table_pieces *p)
{
	uint64_t next = t->first_block;

	for (size_t i = 0; i < p->n; i++) {
		const struct table_piece *piece = &p->pieces[i];

		assert_int_equal(piece->first_block, next);
		assert_true(piece->n_blocks > 0);
		assert_true((uint64_t)piece->index + piece->n_blocks < SO_SHARD_WORDS);
		next += piece->n_blocks;
	}
	assert_int_equal(next, t->first_block + t->n_blocks);
}

static void test_one_piece(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0x40, 200, 10000, 0, 50);
	struct table_pieces p = { 0 };
	struct table_pool_stats stats;

	fill_rows(t, 40, 10000);
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	assert_int_equal(p.n, 1);
	check_pieces(t, &p);
	compare_all(w, t, &p);
	stats = table_pool__stats(w->pool);
	assert_int_equal(stats.rows, t->n_rows);
	assert_int_equal(stats.index_words, 201);
	assert_int_equal(stats.rules, 50);
	assert_int_equal(stats.rules_refused, 0);
	assert_int_equal(stats.bytes, (t->n_rows + 201) * 4 + 50 * 16);
	table_pool__release(w->pool, &p);
}

/* Every byte a row: the search's last step. */
static void test_dense_block(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 2, 2 * SO_BLOCK_BYTES, 0, 2);
	struct table_pieces p = { 0 };

	for (uint32_t i = 0; i < 2 * SO_BLOCK_BYTES; i++)
		t->rows[i] = SO_ROW(i, SO_FIRST_RULE + i % 2);
	t->n_rows = 2 * SO_BLOCK_BYTES;
	t->rows[t->n_rows - 1] = SO_ROW(SO_BLOCK_BYTES - 1, SO_RULE_NONE);
	t->index[1] = SO_BLOCK_BYTES;
	t->index[2] = t->n_rows;
	assert_true(unwind_table__sound(t));
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	for (uint64_t vaddr = 0; vaddr < 2 * SO_BLOCK_BYTES; vaddr++)
		compare_at(w, t, &p, vaddr);
	table_pool__release(w->pool, &p);
}

/* Larger than a shard, and beginning in the middle of one. */
static void test_split(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *small = make_table(7, 100, 10000, 0, 5);
	_cleanup_(unwind_table) struct unwind_table *large = make_table(0x100000, 90000, 4000000, 3, 3000);
	struct table_pieces p = { 0 }, q = { 0 }, r = { 0 };

	fill_rows(small, 100, 10000);
	fill_rows(large, 80, 4000000);
	assert_true(large->n_rows > 2 * SO_SHARD_WORDS);
	assert_int_equal(table_pool__add(w->pool, small, &p), 0);
	assert_int_equal(table_pool__add(w->pool, large, &q), 0);
	assert_int_equal(table_pool__add(w->pool, small, &r), 0);
	assert_true(q.n >= 3);
	assert_int_equal(q.pieces[0].shard, 0);
	assert_int_equal(q.pieces[0].index, small->n_rows + small->n_blocks + 1);
	check_pieces(large, &q);
	compare_all(w, large, &q);
	compare_all(w, small, &p);
	compare_all(w, small, &r);
	assert_int_equal(table_pool__stats(w->pool).rules, 3003);
	table_pool__release(w->pool, &p);
	table_pool__release(w->pool, &q);
	table_pool__release(w->pool, &r);
}

/* An index larger than a shard, with few rows: most blocks take the row before them, across pieces. */
static void test_sparse(void **state)
{
	struct world *w = *state;
	uint32_t n_blocks = 2 * SO_SHARD_WORDS + 5000;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(1, n_blocks, 16, 0, 3);
	struct table_pieces p = { 0 };
	const uint32_t with_row[] = { 0, 10, SO_SHARD_WORDS + 77, n_blocks - 1 };
	uint32_t next = 0;

	for (uint32_t block = 0; block < n_blocks; block++) {
		t->index[block] = t->n_rows;
		if (next < 4 && block == with_row[next])
			t->rows[t->n_rows++] =
				SO_ROW(next ? 100 : 0, next == 3 ? SO_RULE_NONE : SO_FIRST_RULE + next);
		next += next < 4 && block == with_row[next];
	}
	t->index[n_blocks] = t->n_rows;
	assert_true(unwind_table__sound(t));
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	assert_int_equal(p.n, 3);
	check_pieces(t, &p);
	compare_all(w, t, &p);
	table_pool__release(w->pool, &p);
}

/* A table that would leave only a small piece in the rest of a shard begins in the next one. */
static void test_small_rest(void **state)
{
	struct world *w = *state;
	uint32_t n_blocks = SO_SHARD_WORDS - 6000;
	_cleanup_(unwind_table) struct unwind_table *filler = make_table(0, n_blocks, 1, 0, 1);
	_cleanup_(unwind_table) struct unwind_table *fits = make_table(0, 100, 5000, 0, 1);
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 400, 10000, 0, 1);
	struct table_pieces p = { 0 }, q = { 0 }, r = { 0 };

	filler->n_rows = 1;
	for (uint32_t i = 1; i <= n_blocks; i++)
		filler->index[i] = 1;
	fill_rows(fits, 20, 5000);
	fill_rows(t, 40, 10000);
	assert_true(t->n_rows > 6000 && fits->n_rows < 5000);
	assert_int_equal(table_pool__add(w->pool, filler, &p), 0);
	assert_int_equal(table_pool__add(w->pool, fits, &q), 0);
	assert_int_equal(q.pieces[0].shard, 0);
	assert_int_equal(table_pool__add(w->pool, t, &r), 0);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.pieces[0].shard, 1);
	assert_int_equal(r.pieces[0].index, 0);
	compare_all(w, fits, &q);
	compare_all(w, t, &r);
	table_pool__release(w->pool, &p);
	table_pool__release(w->pool, &q);
	table_pool__release(w->pool, &r);
}

static void test_shared_rules(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *a = make_table(0, 10, 1000, 0, 30);
	_cleanup_(unwind_table) struct unwind_table *b = make_table(0, 10, 1000, 20, 30);
	struct table_pieces p = { 0 }, q = { 0 };

	fill_rows(a, 50, 1000);
	fill_rows(b, 50, 1000);
	assert_int_equal(table_pool__add(w->pool, a, &p), 0);
	assert_int_equal(table_pool__stats(w->pool).rules, 30);
	assert_int_equal(table_pool__add(w->pool, b, &q), 0);
	assert_int_equal(table_pool__stats(w->pool).rules, 50);
	compare_all(w, a, &p);
	compare_all(w, b, &q);
	table_pool__release(w->pool, &p);
	table_pool__release(w->pool, &q);
}

/* A user's table has so many rules of its own, a user's tables a quarter of all; root's have what is left. */
static void test_rules_of_users(void **state)
{
	struct world *w = *state;
	struct table_pieces p[10] = { 0 }, q = { 0 };
	uint64_t room = SO_MAX_RULES / 4;

	for (uint32_t i = 0; i < 10; i++) {
		_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 4, 100, i * 20000, 20000);
		uint64_t most = (i + 1) * TABLE_POOL_OWN_RULES;

		fill_rows(t, 20, 100);
		assert_int_equal(table_pool__add_of(w->pool, 1000, t, &p[i]), 0);
		assert_int_equal(table_pool__stats(w->pool).rules, most < room ? most : room);
	}
	{
		_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 4, 100, 200000, 50000);

		fill_rows(t, 20, 100);
		assert_int_equal(table_pool__add(w->pool, t, &q), 0);
		compare_all(w, t, &q);
	}
	for (uint32_t i = 0; i < 10; i++)
		table_pool__release(w->pool, &p[i]);
	table_pool__release(w->pool, &q);
	assert_int_equal(table_pool__stats(w->pool).rules, 0);
	/* The share is whole again. */
	{
		_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 4, 100, 300000, 10000);

		fill_rows(t, 20, 100);
		assert_int_equal(table_pool__add_of(w->pool, 1000, t, &p[0]), 0);
		compare_all(w, t, &p[0]);
		table_pool__release(w->pool, &p[0]);
	}
}

/* Rules beyond SO_MAX_RULES become SO_RULE_UNAVAILABLE, those that are there already stay usable. */
static void test_too_many_rules(void **state)
{
	struct world *w = *state;
	uint32_t room = SO_MAX_RULES - SO_FIRST_RULE;
	_cleanup_(unwind_table) struct unwind_table *a = make_table(0, 4, 100, 0, room - 10);
	_cleanup_(unwind_table) struct unwind_table *b = make_table(4, 1, 100, room - 15, 30);
	struct table_pieces p = { 0 }, q = { 0 };

	fill_rows(a, 20, 100);
	for (uint32_t i = 0; i < 30; i++)
		b->rows[b->n_rows++] = SO_ROW(i * 16, SO_FIRST_RULE + i);
	b->rows[b->n_rows++] = SO_ROW(30 * 16, SO_RULE_NONE);
	b->index[1] = b->n_rows;
	assert_int_equal(table_pool__add(w->pool, a, &p), 0);
	assert_int_equal(table_pool__add(w->pool, b, &q), 0);
	assert_int_equal(table_pool__stats(w->pool).rules, room);
	assert_int_equal(table_pool__stats(w->pool).rules_refused, 15);
	for (uint32_t i = 0; i < 30; i++) {
		uint64_t vaddr = (4 << SO_BLOCK_SHIFT) + i * 16;

		if (i < 15)
			compare_at(w, b, &q, vaddr);
		else
			assert_int_equal(find_number(&q, vaddr), SO_RULE_UNAVAILABLE);
	}
	assert_int_equal(find_number(&q, (4 << SO_BLOCK_SHIFT) + 480), SO_RULE_NONE);
	compare_all(w, a, &p);
	table_pool__release(w->pool, &p);
	table_pool__release(w->pool, &q);
}

/*
 * A rule that no table has goes when its number is needed, and not before a walk can no longer be at a row that names
 * it.
 */
static void test_rules_make_room(void **state)
{
	struct world *w = *state;
	uint32_t room = SO_MAX_RULES - SO_FIRST_RULE;
	_cleanup_(unwind_table) struct unwind_table *a = make_table(0, 4, 100, 0, room - 10);
	_cleanup_(unwind_table) struct unwind_table *kept = make_table(4, 4, 100, 1000, 40);
	_cleanup_(unwind_table) struct unwind_table *b = make_table(8, 4, 1000, room, 500);
	_cleanup_(unwind_table) struct unwind_table *again = make_table(0, 4, 100, 1020, 2000);
	struct table_pieces p = { 0 }, q = { 0 }, r = { 0 };

	fill_rows(a, 20, 100);
	fill_rows(kept, 20, 100);
	fill_rows(b, 200, 1000);
	fill_rows(again, 20, 100);
	assert_int_equal(table_pool__add(w->pool, a, &p), 0);
	assert_int_equal(table_pool__add(w->pool, kept, &q), 0);
	table_pool__release(w->pool, &p);
	assert_null(p.rules);
	assert_int_equal(table_pool__stats(w->pool).rules, 40);
	now_ns += POOL_SPACE_GRACE_NS;
	assert_int_equal(table_pool__add(w->pool, b, &r), 0);
	assert_int_equal(table_pool__stats(w->pool).rules_refused, 490);
	table_pool__release(w->pool, &r);
	now_ns += POOL_SPACE_GRACE_NS + 1;
	assert_int_equal(table_pool__add(w->pool, b, &r), 0);
	assert_int_equal(table_pool__stats(w->pool).rules_refused, 490);
	assert_int_equal(table_pool__stats(w->pool).rules, 540);
	compare_all(w, kept, &q);
	compare_all(w, b, &r);
	/* Those of the table that went are new ones again. */
	assert_int_equal(table_pool__add(w->pool, again, &p), 0);
	assert_int_equal(table_pool__stats(w->pool).rules_refused, 490);
	assert_int_equal(table_pool__stats(w->pool).rules, 40 + 500 + 2000 - 20);
	compare_all(w, again, &p);
	compare_all(w, kept, &q);
	compare_all(w, b, &r);
	table_pool__release(w->pool, &p);
	table_pool__release(w->pool, &q);
	table_pool__release(w->pool, &r);
	assert_int_equal(table_pool__stats(w->pool).rules, 0);
}

/* Tables come and go, and share rules: at any time each says what it said. */
static void test_rules_churn(void **state)
{
	enum { TABLES = 6, RULES = 20000 };
	struct world *w = *state;
	struct unwind_table *tables[TABLES] = { 0 };
	struct table_pieces pieces[TABLES] = { { 0 } };

	for (unsigned round = 0; round < 60; round++) {
		unsigned at = random_word() % TABLES;

		unwind_table__free(tables[at]);
		table_pool__release(w->pool, &pieces[at]);
		now_ns += POOL_SPACE_GRACE_NS + 1;
		tables[at] = make_table(round, 20, 2000, random_word() % 50 * (RULES / 2), RULES);
		fill_rows(tables[at], 100, 2000);
		assert_int_equal(table_pool__add(w->pool, tables[at], &pieces[at]), 0);
		for (unsigned i = 0; i < TABLES; i++) {
			if (tables[i])
				compare_all(w, tables[i], &pieces[i]);
		}
	}
	assert_int_equal(table_pool__stats(w->pool).rules_refused, 0);
	for (unsigned i = 0; i < TABLES; i++) {
		unwind_table__free(tables[i]);
		table_pool__release(w->pool, &pieces[i]);
	}
	assert_int_equal(table_pool__stats(w->pool).rules, 0);
}

/* When there is no shard for all of a table, nothing is handed out. */
static void test_full(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 90000, 4000000, 0, 10);
	struct table_pieces p = { .n = 12345 };

	fill_rows(t, 80, 4000000);
	fake_sampler__limit_shards(w->sampler, 2, -ENOSPC);
	assert_int_equal(table_pool__add(w->pool, t, &p), -ENOSPC);
	assert_int_equal(p.n, 12345);
	assert_null(p.pieces);
	assert_int_equal(fake_sampler__open_shards(), 0);
	table_pool__reset(w->pool);
	fake_sampler__limit_shards(w->sampler, 0, -ENOMEM);
	assert_int_equal(table_pool__add(w->pool, t, &p), -ENOMEM);
	assert_int_equal(p.n, 12345);
}

struct reread {
	const struct unwind_table *table;
	uint64_t at; /* where the row being read began */
	const struct so_unwind_rule *rule;
	uint64_t rows;
};

static bool same_rule(const struct so_unwind_rule *a, const struct so_unwind_rule *b)
{
	return a && b ? !memcmp(a, b, sizeof(*a)) : a == b;
}

/* A row's rule is the table's at its first address, and still at the last one before the next row. */
static void on_row(void *context, uint64_t address, const struct so_unwind_rule *rule)
{
	struct reread *r = context;

	assert_true(!r->rows || address > r->at);
	if (r->rows)
		assert_true(same_rule(unwind_table__lookup(r->table, address - 1), r->rule));
	assert_true(same_rule(unwind_table__lookup(r->table, address), rule));
	r->at = address;
	r->rule = rule;
	r->rows++;
}

/* Reads a table of several pieces back, whole and in parts, and beyond its ends. */
static void test_each_row(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(1000, 40000, 2000000, 0, 200);
	struct reread whole = { .table = t }, part = { .table = t }, outside = { .table = t };
	struct table_pieces p = { 0 };

	fill_rows(t, 80, 2000000);
	for (uint32_t i = 0; i < t->n_rows; i++) { /* it would come back as no rule */
		if (SO_ROW_RULE(t->rows[i]) == SO_RULE_UNAVAILABLE)
			t->rows[i] = SO_ROW(t->rows[i], SO_RULE_NONE);
	}
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	assert_true(p.n >= 2);
	assert_int_equal(table_pool__each_row(w->pool, &p, 1000, 41000, on_row, &whole), 0);
	assert_in_range(whole.rows, t->n_rows, t->n_rows + p.n);
	for (uint64_t first = 1000; first < 41000; first += 977) {
		part.rows = 0;
		assert_int_equal(table_pool__each_row(w->pool, &p, first, first + 3, on_row, &part), 0);
		assert_true(part.rows >= 1);
	}
	assert_int_equal(table_pool__each_row(w->pool, &p, 990, 1001, on_row, &outside), 0);
	assert_true(outside.rows >= 2);
	outside.rows = 0;
	assert_int_equal(table_pool__each_row(w->pool, &p, 50000, 50010, on_row, &outside), 0);
	assert_int_equal(outside.rows, 1);
	assert_null(outside.rule);
	table_pool__release(w->pool, &p);
}

static void test_far_address(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(UINT32_MAX - 9ull, 10, 100, 0, 1);
	struct table_pieces p = { 0 };

	fill_rows(t, 5, 100);
	assert_int_equal(table_pool__add(w->pool, t, &p), -EFBIG);
	assert_null(p.pieces);
	t->first_block--;
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	compare_all(w, t, &p);
	table_pool__release(w->pool, &p);
}

static void test_reset(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *a = make_table(0, 10, 1000, 0, 30);
	_cleanup_(unwind_table) struct unwind_table *b = make_table(0, 10, 1000, 100, 7);
	struct table_pieces p = { 0 };

	fill_rows(a, 50, 1000);
	fill_rows(b, 50, 1000);
	assert_int_equal(table_pool__add(w->pool, a, &p), 0);
	table_pool__release(w->pool, &p);
	table_pool__reset(w->pool);
	assert_int_equal(table_pool__stats(w->pool).bytes, 0);
	assert_int_equal(table_pool__add(w->pool, b, &p), 0);
	assert_int_equal(p.pieces[0].shard, 0);
	assert_int_equal(p.pieces[0].index, 0);
	assert_int_equal(table_pool__stats(w->pool).rules, 7);
	compare_all(w, b, &p);
	table_pool__release(w->pool, &p);
}

static struct table_piece only_piece(const struct table_pieces *p)
{
	assert_int_equal(p->n, 1);
	return p->pieces[0];
}

/* Released words go to the next table, but not before the grace time is over. */
static void test_released_words_rest(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 200, 10000, 0, 50);
	struct table_pieces p = { 0 }, q = { 0 }, r = { 0 };
	struct table_pool_stats one, stats;
	struct table_piece first;

	fill_rows(t, 40, 10000);
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	one = table_pool__stats(w->pool);
	first = only_piece(&p);
	assert_int_equal(first.words, t->n_rows + 201);
	assert_int_equal(one.free_bytes, (uint64_t)SO_MAX_SHARDS * SO_SHARD_WORDS * 4 - first.words * 4ull);
	table_pool__release(w->pool, &p);
	assert_null(p.pieces);
	assert_int_equal(p.n, 0);
	stats = table_pool__stats(w->pool);
	assert_int_equal(stats.rows + stats.index_words, 0);
	assert_int_equal(stats.bytes, 0);
	assert_int_equal(stats.released, first.words * 4);
	now_ns += POOL_SPACE_GRACE_NS;
	assert_int_equal(table_pool__add(w->pool, t, &q), 0);
	assert_true(only_piece(&q).index >= first.index + first.words);
	now_ns += 1;
	assert_int_equal(table_pool__add(w->pool, t, &r), 0);
	assert_int_equal(only_piece(&r).shard, first.shard);
	assert_int_equal(only_piece(&r).index, first.index);
	compare_all(w, t, &q);
	compare_all(w, t, &r);
	assert_int_equal(table_pool__stats(w->pool).rows, 2 * one.rows);
	table_pool__release(w->pool, &q);
	table_pool__release(w->pool, &r);
	table_pool__release(w->pool, &r); /* nothing is released twice */
	assert_int_equal(table_pool__stats(w->pool).index_words, 0);
}

/* Free neighbours become one extent; what lies between tables that stay is used again. */
static void test_holes(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 200, 10000, 0, 50);
	_cleanup_(unwind_table) struct unwind_table *large = make_table(0, 550, 30000, 0, 50);
	struct table_pieces p[6] = { 0 }, q = { 0 };
	uint32_t words;

	fill_rows(t, 40, 10000);
	fill_rows(large, 40, 30000);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(table_pool__add(w->pool, t, &p[i]), 0);
	words = only_piece(&p[0]).words;
	assert_true(large->n_rows + 552 > 2 * words && large->n_rows + 552 <= 3 * words);
	/* In any order: the middle one joins both sides. */
	table_pool__release(w->pool, &p[1]);
	table_pool__release(w->pool, &p[3]);
	now_ns += 2 * POOL_SPACE_GRACE_NS;
	assert_int_equal(table_pool__add(w->pool, large, &q), 0);
	assert_true(only_piece(&q).index >= 6 * words); /* it fits into neither */
	table_pool__release(w->pool, &q);
	table_pool__release(w->pool, &p[2]);
	now_ns += 2 * POOL_SPACE_GRACE_NS;
	assert_int_equal(table_pool__add(w->pool, large, &q), 0);
	assert_int_equal(only_piece(&q).index, words);
	compare_all(w, large, &q);
	compare_all(w, t, &p[0]);
	compare_all(w, t, &p[4]);
	compare_all(w, t, &p[5]);
	for (unsigned i = 0; i < 6; i++)
		table_pool__release(w->pool, &p[i]);
	table_pool__release(w->pool, &q);
	assert_int_equal(table_pool__stats(w->pool).rows, 0);
}

/* For as long as one likes: tables of different sizes, a few of which stay, need no more shards than at once. */
static void test_churn(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *small = make_table(0, 300, 20000, 0, 50);
	_cleanup_(unwind_table) struct unwind_table *large = make_table(0, 20000, 900000, 0, 50);
	struct table_pieces p[40] = { 0 };
	uint32_t highest = 0;

	fill_rows(small, 40, 20000);
	fill_rows(large, 60, 900000);
	for (unsigned round = 0; round < 4000; round++) {
		unsigned i = random_word() % 40;

		table_pool__release(w->pool, &p[i]);
		if (round % 2)
			now_ns += POOL_SPACE_GRACE_NS;
		/* Two large ones at most: 5 shards for all, and as much again for what waits. */
		assert_int_equal(table_pool__add(w->pool, i < 2 ? large : small, &p[i]), 0);
		for (size_t j = 0; j < p[i].n; j++)
			highest = p[i].pieces[j].shard > highest ? p[i].pieces[j].shard : highest;
		if (round % 400 == 0)
			compare_all(w, i < 2 ? large : small, &p[i]);
	}
	assert_true(highest < 6);
	for (unsigned i = 0; i < 40; i++) {
		if (p[i].n && i >= 2)
			compare_all(w, small, &p[i]);
		table_pool__release(w->pool, &p[i]);
	}
	assert_int_equal(table_pool__stats(w->pool).rows, 0);
	assert_int_equal(table_pool__stats(w->pool).index_words, 0);
}

/* A full pool takes tables again once others are released, also in pieces; what failed took nothing. */
static void test_full_and_again(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 4000, 900000, 0, 10);
	struct table_pieces p[64] = { 0 }, q = { 0 };
	struct table_pool_stats full;
	unsigned n = 0;

	fill_rows(t, 80, 900000);
	fake_sampler__limit_shards(w->sampler, 2, -ENOSPC);
	while (n < 64 && !table_pool__add(w->pool, t, &p[n]))
		n++;
	assert_true(n >= 10 && n < 64);
	full = table_pool__stats(w->pool);
	assert_int_equal(table_pool__add(w->pool, t, &q), -ENOSPC);
	assert_int_equal(table_pool__stats(w->pool).rows, full.rows);
	assert_int_equal(table_pool__stats(w->pool).free_bytes, full.free_bytes);
	table_pool__release(w->pool, &p[1]);
	assert_int_equal(table_pool__add(w->pool, t, &q), -ENOSPC);
	now_ns += 2 * POOL_SPACE_GRACE_NS;
	assert_int_equal(table_pool__add(w->pool, t, &p[1]), 0);
	compare_all(w, t, &p[1]);
	for (unsigned i = 0; i < n; i++) {
		compare_all(w, t, &p[i]);
		table_pool__release(w->pool, &p[i]);
	}
	assert_int_equal(table_pool__stats(w->pool).rows, 0);
}

/* Pieces from before a reset have nothing to give back. */
static void test_release_after_reset(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_table) struct unwind_table *t = make_table(0, 10, 1000, 0, 30);
	struct table_pieces p = { 0 }, q = { 0 };
	struct table_pool_stats before;

	fill_rows(t, 50, 1000);
	assert_int_equal(table_pool__add(w->pool, t, &p), 0);
	table_pool__reset(w->pool);
	assert_int_equal(table_pool__add(w->pool, t, &q), 0);
	before = table_pool__stats(w->pool);
	table_pool__release(w->pool, &p);
	assert_null(p.pieces);
	assert_int_equal(table_pool__stats(w->pool).rows, before.rows);
	assert_int_equal(table_pool__stats(w->pool).free_bytes, before.free_bytes);
	compare_all(w, t, &q);
	table_pool__release(w->pool, &q);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(one_piece),       TEST(dense_block),  TEST(split),          TEST(sparse),
		TEST(small_rest),      TEST(shared_rules), TEST(too_many_rules), TEST(full),
		TEST(far_address),     TEST(each_row),     TEST(reset),          TEST(released_words_rest),
		TEST(holes),           TEST(churn),        TEST(full_and_again), TEST(release_after_reset),
		TEST(rules_make_room), TEST(rules_churn),  TEST(rules_of_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
