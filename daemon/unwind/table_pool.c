// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/table_pool.h"

#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/u64_table.h"
#include "daemon/os/user_shares.h"
#include "stakeout/array.h"

/*
 * A table that fits nowhere whole is cut into pieces, each of which is an entry more in the mappings of every process.
 * While another shard can be had, pieces are not smaller than the first; otherwise not smaller than the second.
 */
#define GOOD_PIECE_WORDS 65536
#define MIN_PIECE_WORDS  8192

/* Of a shared rule. One that no table has is found again as long as its number is not taken for another. */
struct rule_use {
	uint32_t tables;
	bool vacant;        /* its number is free for another rule */
	uint64_t unused_ns; /* since when no table has it */
};

struct table_pool {
	struct sampler *sampler;
	struct pool_space *space;
	uint32_t era;
	struct u64_table by_hash; /* rule's hash -> number of the first rule with that hash */
	struct rule_use *uses;    /* by number */
	size_t cap_uses;
	uint32_t n_rules;  /* numbers that were ever taken, the reserved ones included */
	uint32_t n_unused; /* of these, rules that no table has */
	uint32_t n_vacant;
	uint32_t next_vacant; /* none is below */
	uint64_t next_vacate_ns;
	struct user_shares rule_shares, word_shares;
	struct table_pool_stats stats;
};

int table_pool__new(struct sampler *sampler, struct table_pool **out)
{
	struct table_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	if (pool_space__new(sampler, &pool->space)) {
		free(pool);
		return -ENOMEM;
	}
	pool->sampler = sampler;
	pool->rule_shares = user_shares__of(SO_MAX_RULES);
	pool->word_shares = user_shares__of(SO_MAX_SHARDS * SO_SHARD_WORDS);
	pool->n_rules = SO_FIRST_RULE;
	pool->next_vacant = SO_FIRST_RULE;
	*out = pool;
	return 0;
}

static uint64_t rule_hash(const struct so_unwind_rule *rule)
{
	uint64_t words[2];

	_Static_assert(sizeof(*rule) == sizeof(words), "a rule is two words");
	memcpy(words, rule, sizeof(words));
	words[0] *= 0x9e3779b97f4a7c15ull;
	return (words[0] ^ words[0] >> 31 ^ words[1]) * 0xc2b2ae3d27d4eb4full;
}

/* Where a rule is, or the free place for its hash: different rules of one hash sit under the next hash values. */
static bool find_rule(const struct table_pool *pool, const struct so_unwind_rule *rule, uint64_t *hash,
		      uint32_t *number)
{
	const struct so_unwind_rule *rules = sampler__rules(pool->sampler);

	for (*hash = rule_hash(rule); u64_table__get(&pool->by_hash, *hash, number); ++*hash) {
		if (!memcmp(&rules[*number], rule, sizeof(*rule)))
			return true;
	}
	return false;
}

/* Gives up numbers of rules that have been in no table for longer than any walk takes; makes the hash table anew. */
static void vacate_unused(struct table_pool *pool)
{
	const struct so_unwind_rule *rules = sampler__rules(pool->sampler);
	uint64_t now = clock__now_ns(), before = now - POOL_SPACE_GRACE_NS, hash;
	struct u64_table by_hash = pool->by_hash;
	uint32_t n_vacant = 0, same;
	int ret = 0;

	if (now < pool->next_vacate_ns)
		return;
	pool->next_vacate_ns = now + POOL_SPACE_GRACE_NS;
	pool->by_hash = (struct u64_table){ 0 };
	for (uint32_t i = SO_FIRST_RULE; !ret && i < pool->n_rules; i++) {
		const struct rule_use *use = &pool->uses[i];

		if (use->vacant || (!use->tables && use->unused_ns < before))
			n_vacant++;
		else if (!find_rule(pool, &rules[i], &hash, &same))
			ret = u64_table__set(&pool->by_hash, hash, i);
	}
	if (ret || n_vacant == pool->n_vacant) {
		u64_table__release(&pool->by_hash);
		pool->by_hash = by_hash;
		return;
	}
	u64_table__release(&by_hash);
	for (uint32_t i = SO_FIRST_RULE; i < pool->n_rules; i++) {
		if (!pool->uses[i].tables && pool->uses[i].unused_ns < before)
			pool->uses[i].vacant = true;
	}
	pool->n_unused -= n_vacant - pool->n_vacant;
	pool->n_vacant = n_vacant;
	pool->next_vacant = SO_FIRST_RULE;
}

/* A number for another rule; SO_RULE_UNAVAILABLE: all are taken. */
static uint32_t vacant_number(struct table_pool *pool)
{
	uint32_t number = pool->n_rules;

	if (number == SO_MAX_RULES) {
		if (!pool->n_vacant && pool->n_unused)
			vacate_unused(pool);
		if (!pool->n_vacant)
			return SO_RULE_UNAVAILABLE;
		while (!pool->uses[pool->next_vacant].vacant)
			pool->next_vacant++;
		return pool->next_vacant;
	}
	if (ARRAY_RESERVE(pool->uses, pool->cap_uses, (size_t)number + 1))
		return SO_RULE_UNAVAILABLE;
	pool->uses[number] = (struct rule_use){ .vacant = true };
	pool->n_vacant++;
	pool->n_rules++;
	return number;
}

/* One rule more that no table has had. */
static bool take_own_rule(struct table_pool *pool, struct table_pieces *of)
{
	if (of->owner && of->own_rules == TABLE_POOL_OWN_RULES)
		return false;
	if (!user_shares__take(&pool->rule_shares, of->owner, 1))
		return false;
	of->own_rules++;
	return true;
}

static void give_own_rules(struct table_pool *pool, struct table_pieces *of, uint32_t n)
{
	user_shares__give(&pool->rule_shares, of->owner, n);
	of->own_rules -= n;
}

/* The shared number of a rule, for one table more; SO_RULE_UNAVAILABLE when there is no room for another. */
static uint32_t share_rule(struct table_pool *pool, const struct so_unwind_rule *rule, struct table_pieces *of)
{
	uint32_t number, same;
	uint64_t hash;

	if (find_rule(pool, rule, &hash, &number)) {
		if (!pool->uses[number].tables++)
			pool->n_unused--;
		return number;
	}
	if (!take_own_rule(pool, of)) {
		pool->stats.rules_refused++;
		return SO_RULE_UNAVAILABLE;
	}
	number = vacant_number(pool);
	/* The table of hashes may be another one now. */
	if (number == SO_RULE_UNAVAILABLE || find_rule(pool, rule, &hash, &same) ||
	    u64_table__set(&pool->by_hash, hash, number)) {
		give_own_rules(pool, of, 1);
		pool->stats.rules_refused++;
		return SO_RULE_UNAVAILABLE;
	}
	sampler__rules(pool->sampler)[number] = *rule;
	pool->uses[number] = (struct rule_use){ .tables = 1 };
	pool->n_vacant--;
	return number;
}

static void give_back_rules(struct table_pool *pool, const uint32_t *numbers, size_t n)
{
	uint64_t now = clock__now_ns();

	for (size_t i = 0; i < n; i++) {
		struct rule_use *use = &pool->uses[numbers[i]];

		if (--use->tables)
			continue;
		use->unused_ns = now;
		pool->n_unused++;
	}
}

/* By the table's own numbers; those that are to be given back are in *out also. */
static uint32_t *share_rules(struct table_pool *pool, const struct unwind_table *table, struct table_pieces *out)
{
	uint32_t *numbers = calloc(table->n_rules + SO_FIRST_RULE, sizeof(*numbers));

	out->rules = calloc(table->n_rules + 1, sizeof(*out->rules));
	if (!numbers || !out->rules) {
		free(numbers);
		free(TAKE_PTR(out->rules));
		return NULL;
	}
	numbers[SO_RULE_NONE] = SO_RULE_NONE;
	numbers[SO_RULE_UNAVAILABLE] = SO_RULE_UNAVAILABLE;
	for (uint32_t i = 0; i < table->n_rules; i++) {
		uint32_t number = share_rule(pool, &table->rules[i], out);

		numbers[SO_FIRST_RULE + i] = number;
		if (number != SO_RULE_UNAVAILABLE)
			out->rules[out->n_rules++] = number;
	}
	return numbers;
}

static uint64_t piece_words(const struct unwind_table *t, uint32_t first, uint32_t n)
{
	return (uint64_t)n + 1 + (t->index[first + n] - t->index[first]) + !!t->index[first];
}

/* The most blocks from `first` on whose index and rows fit into `words`. */
static uint32_t blocks_that_fit(const struct unwind_table *t, uint32_t first, uint32_t words)
{
	uint32_t lo = 0, hi = t->n_blocks - first;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if (piece_words(t, first, mid) <= words)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

static uint32_t translate(uint32_t row, const uint32_t *numbers)
{
	return SO_ROW(SO_ROW_PC_LOW(row), numbers[SO_ROW_RULE(row)]);
}

/* Writes blocks [first, first + n) to where the extent begins, which is words[0]. */
static void write_piece(struct table_pool *pool, uint32_t *words, const struct unwind_table *t, uint32_t first,
			uint32_t n, const uint32_t *numbers, const struct pool_extent *to, struct table_piece *piece)
{
	uint32_t begin = t->index[first], end = t->index[first + n];
	uint32_t rows_at = n + 1;

	/* The row that applies where the piece begins, if it began before. */
	if (begin)
		words[rows_at++] = SO_ROW(0, numbers[SO_ROW_RULE(t->rows[begin - 1])]);
	for (uint32_t i = 0; i <= n; i++)
		words[i] = to->begin + rows_at + (t->index[first + i] - begin);
	for (uint32_t i = begin; i < end; i++)
		words[rows_at + (i - begin)] = translate(t->rows[i], numbers);
	*piece = (struct table_piece){ t->first_block + first, n, to->shard, to->begin, rows_at + (end - begin) };
	pool->stats.rows += end - begin + !!begin;
	pool->stats.index_words += n + 1;
}

static void give_back(struct table_pool *pool, const struct table_piece *piece, bool later)
{
	const struct pool_extent extent = { piece->shard, piece->index, piece->index + piece->words };

	if (!piece->words)
		return;
	pool->stats.index_words -= piece->n_blocks + 1;
	pool->stats.rows -= piece->words - (piece->n_blocks + 1);
	pool_space__give(pool->space, &extent, later);
}

static int append(struct table_pieces *list, struct table_piece piece)
{
	struct table_piece *more = reallocarray(list->pieces, list->n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	list->pieces = more;
	list->pieces[list->n++] = piece;
	return 0;
}

/* Where the blocks from `first` on go, and how many of them. */
static int choose(struct table_pool *pool, const struct unwind_table *t, uint32_t first, struct pool_extent *to,
		  uint32_t *n)
{
	uint64_t rest = piece_words(t, first, t->n_blocks - first);
	int ret = 0;

	while (!ret) {
		bool any;

		*n = t->n_blocks - first;
		if (pool_space__fitting(pool->space, rest, to))
			return 0;
		any = pool_space__largest(pool->space, to);
		*n = any ? blocks_that_fit(t, first, to->end - to->begin) : 0;
		if (*n && to->end - to->begin >= GOOD_PIECE_WORDS)
			return 0;
		ret = pool_space__open_shard(pool->space);
	}
	return *n && to->end - to->begin >= MIN_PIECE_WORDS ? 0 : ret;
}

static int place(struct table_pool *pool, const struct unwind_table *t, const uint32_t *numbers,
		 struct table_pieces *out)
{
	for (uint32_t first = 0, n; first < t->n_blocks; first += n) {
		struct table_piece piece;
		struct sampler_words to_words;
		struct pool_extent to;
		int ret = choose(pool, t, first, &to, &n);

		ret = ret
			      ?: sampler__words_open(pool->sampler, to.shard, to.begin,
						     (uint32_t)piece_words(t, first, n), &to_words);
		if (ret)
			return ret;
		write_piece(pool, to_words.words, t, first, n, numbers, &to, &piece);
		sampler__words_close(&to_words);
		pool_space__take(pool->space, &to, piece.words);
		ret = append(out, piece);
		if (ret) {
			give_back(pool, &piece, false);
			return ret;
		}
	}
	return 0;
}

static void give_shares(struct table_pool *pool, struct table_pieces *of)
{
	give_back_rules(pool, of->rules, of->n_rules);
	give_own_rules(pool, of, of->own_rules);
	user_shares__give(&pool->word_shares, of->owner, of->own_words);
	of->own_words = 0;
}

bool table_pool__has_share(const struct table_pool *pool, uid_t owner, uint64_t words)
{
	return words <= UINT32_MAX && user_shares__has_room(&pool->word_shares, owner, (uint32_t)words);
}

int table_pool__add(struct table_pool *pool, const struct unwind_table *table, struct table_pieces *out)
{
	return table_pool__add_of(pool, 0, table, out);
}

int table_pool__add_of(struct table_pool *pool, uid_t owner, const struct unwind_table *table, struct table_pieces *out)
{
	uint64_t words = table->n_blocks ? piece_words(table, 0, table->n_blocks) : 0;
	struct table_pieces list = { .era = pool->era, .owner = owner };
	_cleanup_free_ uint32_t *numbers = NULL;
	int ret;

	if (table->first_block + table->n_blocks > UINT32_MAX)
		return -EFBIG;
	if (words > UINT32_MAX || !user_shares__take(&pool->word_shares, owner, (uint32_t)words))
		return -EDQUOT;
	list.own_words = (uint32_t)words;
	numbers = share_rules(pool, table, &list);
	if (!numbers) {
		give_shares(pool, &list);
		return -ENOMEM;
	}
	ret = place(pool, table, numbers, &list);
	if (ret) {
		/* The kernel side has not heard of them. */
		for (size_t i = 0; i < list.n; i++)
			give_back(pool, &list.pieces[i], false);
		give_shares(pool, &list);
		free(list.pieces);
		free(list.rules);
		return ret;
	}
	*out = list;
	return 0;
}

void table_pool__release(struct table_pool *pool, struct table_pieces *pieces)
{
	for (size_t i = 0; i < pieces->n && pieces->era == pool->era; i++) {
		pool->stats.released += pieces->pieces[i].words * sizeof(uint32_t);
		give_back(pool, &pieces->pieces[i], true);
	}
	if (pieces->era == pool->era)
		give_shares(pool, pieces);
	free(pieces->pieces);
	free(pieces->rules);
	*pieces = (struct table_pieces){ 0 };
}

int table_pieces__move(struct table_pieces *to, struct table_pieces *from)
{
	struct table_piece *pieces = reallocarray(to->pieces, to->n + from->n + 1, sizeof(*pieces));
	uint32_t *rules;

	if (!pieces)
		return -ENOMEM;
	to->pieces = pieces;
	rules = reallocarray(to->rules, to->n_rules + from->n_rules + 1, sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	to->rules = rules;
	for (size_t i = 0; i < from->n; i++)
		to->pieces[to->n++] = from->pieces[i];
	for (size_t i = 0; i < from->n_rules; i++)
		to->rules[to->n_rules++] = from->rules[i];
	to->era = from->era;
	to->owner = from->owner;
	to->own_rules += from->own_rules;
	to->own_words += from->own_words;
	free(from->pieces);
	free(from->rules);
	*from = (struct table_pieces){ 0 };
	return 0;
}

struct row_visit {
	void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule);
	void *context;
	const struct so_unwind_rule *rules;
};

static void visit_row(const struct row_visit *v, uint64_t address, uint32_t row)
{
	uint32_t rule = SO_ROW_RULE(row);

	v->visit(v->context, address, rule >= SO_FIRST_RULE ? &v->rules[rule & (SO_MAX_RULES - 1)] : NULL);
}

/* Blocks [from, to) of one piece. */
static void visit_piece(const struct row_visit *v, const uint32_t *words, const struct table_piece *piece,
			uint64_t from, uint64_t to)
{
	uint32_t index = piece->index + (uint32_t)(from - piece->first_block);
	uint32_t at = words[index];

	/* What applies where the range begins, unless a row begins just there. */
	if (at == words[index + 1] || SO_ROW_PC_LOW(words[at]))
		visit_row(v, from << SO_BLOCK_SHIFT, words[at - 1]);
	for (uint64_t block = from; block < to; block++, index++) {
		for (at = words[index]; at < words[index + 1]; at++)
			visit_row(v, (block << SO_BLOCK_SHIFT) + SO_ROW_PC_LOW(words[at]), words[at]);
	}
}

int table_pool__each_row(struct table_pool *pool, const struct table_pieces *pieces, uint64_t first, uint64_t end,
			 void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule),
			 void *context)
{
	struct row_visit v = { visit, context, sampler__rules(pool->sampler) };
	uint64_t at = first;

	for (size_t i = 0; i < pieces->n; i++) {
		const struct table_piece *piece = &pieces->pieces[i];
		uint64_t piece_end = piece->first_block + piece->n_blocks;
		uint64_t from = piece->first_block > at ? piece->first_block : at,
			 to = piece_end < end ? piece_end : end;
		uint32_t *words;
		int ret;

		if (from >= to)
			continue;
		if (from > at)
			visit(context, at << SO_BLOCK_SHIFT, NULL);
		ret = sampler__shard_open(pool->sampler, piece->shard, &words);
		if (ret)
			return ret;
		visit_piece(&v, words, piece, from, to);
		sampler__shard_close(words);
		at = to;
	}
	if (at < end)
		visit(context, at << SO_BLOCK_SHIFT, NULL);
	return 0;
}

struct gap {
	uint64_t vaddr, low, high;
	bool inside, past; /* in a segment without rule; beyond the one that holds vaddr */
};

static void on_gap_row(void *context, uint64_t address, const struct so_unwind_rule *rule)
{
	struct gap *g = context;

	if (g->past)
		return;
	if (address > g->vaddr && (rule || !g->inside)) {
		g->past = true;
		if (g->inside)
			g->high = address;
		return;
	}
	if (!rule && !g->inside)
		g->low = address;
	g->inside = !rule;
}

int table_pool__gap(struct table_pool *pool, const struct table_pieces *pieces, uint64_t vaddr, uint64_t reach,
		    uint64_t *low, uint64_t *high)
{
	uint64_t from = (vaddr > reach ? vaddr - reach : 0) >> SO_BLOCK_SHIFT;
	uint64_t to = ((vaddr + reach) >> SO_BLOCK_SHIFT) + 1;
	struct gap g = { .vaddr = vaddr, .high = to << SO_BLOCK_SHIFT };
	int ret = table_pool__each_row(pool, pieces, from, to, on_gap_row, &g);

	if (ret)
		return ret;
	*low = g.inside ? g.low : vaddr;
	*high = g.inside ? g.high : vaddr;
	return 0;
}

void table_pool__reset(struct table_pool *pool)
{
	u64_table__release(&pool->by_hash);
	user_shares__reset(&pool->rule_shares);
	user_shares__reset(&pool->word_shares);
	pool_space__reset(pool->space);
	pool->era++;
	pool->n_rules = SO_FIRST_RULE;
	pool->n_unused = 0;
	pool->n_vacant = 0;
	pool->next_vacant = SO_FIRST_RULE;
	pool->stats = (struct table_pool_stats){ .released = pool->stats.released,
						 .rules_refused = pool->stats.rules_refused };
}

struct table_pool_stats table_pool__stats(const struct table_pool *pool)
{
	struct table_pool_stats stats = pool->stats;

	stats.rules = pool->n_rules - SO_FIRST_RULE - pool->n_unused - pool->n_vacant;
	stats.bytes = (stats.rows + stats.index_words) * sizeof(uint32_t) + stats.rules * sizeof(struct so_unwind_rule);
	stats.free_bytes = pool_space__free_words(pool->space) * sizeof(uint32_t);
	return stats;
}

void table_pool__free(struct table_pool *pool)
{
	if (!pool)
		return;
	u64_table__release(&pool->by_hash);
	user_shares__reset(&pool->rule_shares);
	user_shares__reset(&pool->word_shares);
	pool_space__free(pool->space);
	free(pool->uses);
	free(pool);
}
