// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/learned_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Ranges of blocks less than this far apart share a piece. */
#define NEAR_BLOCKS 8

/* Number of rows that begin at or before the address. */
static size_t rows_up_to(const struct learned_code *code, uint64_t address)
{
	size_t lo = 0, hi = code->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (code->rows[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int insert(struct learned_code *code, const struct effect_row *row)
{
	size_t at = rows_up_to(code, row->address);
	struct effect_row cut = *row;
	struct effect_row *more;

	cut.group = code->groups;
	cut.checksum = 0;

	/* What is there stays; a new row gets the room that is left. */
	if (at && code->rows[at - 1].address + code->rows[at - 1].length > cut.address)
		return 0;
	if (at < code->n && cut.address + cut.length > code->rows[at].address)
		cut.length = code->rows[at].address - cut.address;
	if (!cut.length)
		return 0;
	if (code->n == LEARNED_MAX_ROWS)
		return -ENOSPC;
	if (code->n == code->capacity) {
		size_t capacity = code->capacity ? code->capacity * 2 : 64;

		more = reallocarray(code->rows, capacity, sizeof(*more));
		if (!more)
			return -ENOMEM;
		code->rows = more;
		code->capacity = capacity;
	}
	memmove(&code->rows[at + 1], &code->rows[at], (code->n - at) * sizeof(*code->rows));
	code->rows[at] = cut;
	code->n++;
	return 0;
}

int learned_code__add(struct learned_code *code, const struct effect_rows *rows)
{
	int ret = 0;

	code->groups++;
	for (size_t i = 0; !ret && i < rows->n; i++)
		ret = insert(code, &rows->rows[i]);
	return ret;
}

int learned_code__add_failure(struct learned_code *code, uint64_t address)
{
	struct effect_row row = { .address = address, .length = 1, .rule = { .cfa_kind = SO_CFA_NONE } };

	code->groups++;
	return insert(code, &row);
}

static int compare_groups(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

size_t learned_code__forget(struct learned_code *code, learned_changed_fn changed, void *context)
{
	_cleanup_free_ uint32_t *groups = calloc(code->n + 1, sizeof(*groups));
	size_t n_groups = 0, n = 0;

	for (size_t i = 0; groups && i < code->n; i++) {
		if (changed(context, &code->rows[i]))
			groups[n_groups++] = code->rows[i].group;
	}
	if (n_groups)
		qsort(groups, n_groups, sizeof(*groups), compare_groups);
	/* Without memory for the list all is forgotten. */
	for (size_t i = 0; groups && i < code->n; i++) {
		if (!bsearch(&code->rows[i].group, groups, n_groups, sizeof(*groups), compare_groups))
			code->rows[n++] = code->rows[i];
	}
	code->n = n;
	return n;
}

const struct so_unwind_rule *learned_code__find(const struct learned_code *code, uint64_t address)
{
	size_t at = rows_up_to(code, address);

	if (!at || address - code->rows[at - 1].address >= code->rows[at - 1].length)
		return NULL;
	return &code->rows[at - 1].rule;
}

/* A table under construction: change points in order of address. */
struct point {
	uint64_t address;
	struct so_unwind_rule rule;
	bool none;
};

struct points {
	struct point *list;
	size_t n, capacity;
	int error;
};

static void add_point(struct points *p, uint64_t address, const struct so_unwind_rule *rule)
{
	struct point *more;

	if (p->n && p->list[p->n - 1].address == address)
		p->n--;
	if (p->n == p->capacity) {
		p->capacity = p->capacity ? p->capacity * 2 : 256;
		more = reallocarray(p->list, p->capacity, sizeof(*more));
		if (!more) {
			p->error = -ENOMEM;
			return;
		}
		p->list = more;
	}
	p->list[p->n] = (struct point){ .address = address, .none = !rule };
	if (rule)
		p->list[p->n].rule = *rule;
	p->n++;
}

/* The learned rules between two addresses at which the file has none. */
static void add_learned(struct points *p, const struct learned_code *code, uint64_t from, uint64_t to)
{
	size_t at = rows_up_to(code, from);

	add_point(p, from, NULL);
	if (at)
		at--;
	for (; at < code->n && code->rows[at].address < to; at++) {
		uint64_t begin = code->rows[at].address, end = begin + code->rows[at].length;

		if (end <= from)
			continue;
		add_point(p, begin < from ? from : begin, &code->rows[at].rule);
		if (end < to)
			add_point(p, end, NULL);
	}
}

struct merge {
	const struct learned_code *code;
	struct points *points;
	uint64_t from;                     /* where the segment being read begins */
	const struct so_unwind_rule *rule; /* of that segment; NULL: none */
};

static void end_segment(struct merge *m, uint64_t to)
{
	if (to <= m->from)
		return;
	if (m->rule)
		add_point(m->points, m->from, m->rule);
	else
		add_learned(m->points, m->code, m->from, to);
}

static void on_base_row(void *context, uint64_t address, const struct so_unwind_rule *rule)
{
	struct merge *m = context;

	if (address > m->from) {
		end_segment(m, address);
		m->from = address;
	}
	m->rule = rule;
}

static int fill_table(struct unwind_table *t, const struct points *p)
{
	uint64_t first = t->first_block << SO_BLOCK_SHIFT;
	uint32_t block = 0;

	t->index = calloc(t->n_blocks + 1, sizeof(*t->index));
	t->rows = calloc(p->n + 1, sizeof(*t->rows));
	t->rules = calloc(p->n + 1, sizeof(*t->rules));
	if (!t->index || !t->rows || !t->rules)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++) {
		uint32_t of = (p->list[i].address - first) >> SO_BLOCK_SHIFT, rule = SO_RULE_NONE;

		while (block < of)
			t->index[++block] = t->n_rows;
		if (!p->list[i].none) {
			rule = SO_FIRST_RULE + t->n_rules;
			t->rules[t->n_rules++] = p->list[i].rule;
		}
		t->rows[t->n_rows++] = SO_ROW(p->list[i].address, rule);
	}
	while (block < t->n_blocks)
		t->index[++block] = t->n_rows;
	return 0;
}

/* One range of blocks, the file's rows and the learned ones merged, put into the pool. */
static int publish_range(const struct learned_code *code, struct table_pool *pool, const struct table_pieces *base,
			 uint64_t first, uint64_t end, struct table_pieces *out)
{
	_cleanup_(unwind_table) struct unwind_table *t = calloc(1, sizeof(*t));
	struct points points = { 0 };
	struct merge m = { .code = code, .points = &points, .from = first << SO_BLOCK_SHIFT };
	int ret;

	if (!t)
		return -ENOMEM;
	t->first_block = first;
	t->n_blocks = end - first;
	ret = table_pool__each_row(pool, base, first, end, on_base_row, &m);
	end_segment(&m, end << SO_BLOCK_SHIFT);
	ret = ret ?: points.error;
	ret = ret ?: fill_table(t, &points);
	ret = ret ?: table_pool__add_of(pool, code->owner, t, out);
	free(points.list);
	return ret;
}

static int append(struct table_pieces *list, const struct table_piece *pieces, size_t n)
{
	struct table_piece *more = reallocarray(list->pieces, list->n + n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	list->pieces = more;
	if (n)
		memcpy(&more[list->n], pieces, n * sizeof(*more));
	list->n += n;
	return 0;
}

/* Appends what the base pieces have of blocks [first, end). Their index arrays serve any part of them. */
static int append_base(struct table_pieces *out, const struct table_pieces *base, uint64_t first, uint64_t end)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < base->n; i++) {
		struct table_piece p = base->pieces[i];
		uint64_t p_end = p.first_block + p.n_blocks, from = p.first_block > first ? p.first_block : first;
		uint64_t to = p_end < end ? p_end : end;

		if (from >= to)
			continue;
		p.words = 0;
		p.index += from - p.first_block;
		p.first_block = from;
		p.n_blocks = to - from;
		ret = append(out, &p, 1);
	}
	return ret;
}

void learned_table__unref(struct learned_table *table, struct table_pool *pool)
{
	if (!table || --table->refs)
		return;
	table_pool__release(pool, &table->pieces);
	free(table);
}

/* Takes the range's pieces, also on failure. */
static int append_range(struct table_pieces *out, struct table_pool *pool, struct table_pieces *range)
{
	int ret = table_pieces__move(out, range);

	if (ret)
		table_pool__release(pool, range);
	return ret;
}

static int make_pieces(const struct learned_code *code, struct table_pool *pool, const struct table_pieces *base,
		       struct table_pieces *out)
{
	uint64_t done = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < code->n;) {
		uint64_t first = code->rows[i].address >> SO_BLOCK_SHIFT, end = first;
		struct table_pieces range = { 0 };

		for (; i < code->n && code->rows[i].address >> SO_BLOCK_SHIFT <= end + NEAR_BLOCKS; i++)
			end = (code->rows[i].address + code->rows[i].length - 1) >> SO_BLOCK_SHIFT;
		end++;
		ret = append_base(out, base, done, first);
		ret = ret ?: publish_range(code, pool, base, first, end, &range);
		ret = ret ?: append_range(out, pool, &range);
		done = end;
	}
	return ret ?: append_base(out, base, done, UINT64_MAX);
}

int learned_code__publish(struct learned_code *code, struct table_pool *pool, const struct table_pieces *base)
{
	struct learned_table *table = calloc(1, sizeof(*table));
	int ret;

	if (!table)
		return -ENOMEM;
	table->refs = 1;
	ret = make_pieces(code, pool, base, &table->pieces);
	if (ret) {
		learned_table__unref(table, pool);
		return ret;
	}
	learned_table__unref(code->table, pool);
	code->table = table;
	code->published = code->n;
	return 0;
}

static int copy_understood(const struct learned_code *code, struct learned_code *out)
{
	out->rows = calloc(code->n + 1, sizeof(*out->rows));
	if (!out->rows)
		return -ENOMEM;
	for (size_t i = 0; i < code->n; i++) {
		if (code->rows[i].rule.cfa_kind != SO_CFA_NONE)
			out->rows[out->n++] = code->rows[i];
	}
	return out->n ? 0 : -ENOENT;
}

int learned_code__to_table(const struct learned_code *code, struct unwind_table **out)
{
	_cleanup_(unwind_table) struct unwind_table *t = calloc(1, sizeof(*t));
	struct learned_code good = { 0 };
	struct points points = { 0 };
	int ret = t ? copy_understood(code, &good) : -ENOMEM;

	if (!ret) {
		const struct effect_row *last = &good.rows[good.n - 1];
		uint64_t first = good.rows[0].address >> SO_BLOCK_SHIFT;
		uint64_t end = ((last->address + last->length) >> SO_BLOCK_SHIFT) + 1;

		t->first_block = first;
		t->n_blocks = end - first;
		if (end - first <= UNWIND_TABLE_MAX_BLOCKS)
			add_learned(&points, &good, first << SO_BLOCK_SHIFT, end << SO_BLOCK_SHIFT);
		else
			points.error = -ENOSPC;
		ret = points.error ?: fill_table(t, &points);
		free(points.list);
	}
	learned_code__release(&good, NULL);
	if (!ret)
		*out = TAKE_PTR(t);
	return ret;
}

/* The address at which a row of the table begins; its block is looked for from *block on. */
static uint64_t row_address(const struct unwind_table *t, uint32_t row, uint32_t *block)
{
	while (t->index[*block + 1] <= row)
		++*block;
	return (t->first_block + *block) << SO_BLOCK_SHIFT | SO_ROW_PC_LOW(t->rows[row]);
}

int learned_code__add_table(struct learned_code *code, const struct unwind_table *t)
{
	uint32_t block = 0;
	int ret = 0;

	/* The last row ends the last function (unwind_table.h), so each row with a rule has one behind it. */
	for (uint32_t i = 0; !ret && i + 1 < t->n_rows; i++) {
		uint64_t address = row_address(t, i, &block);
		uint32_t next = block, id = SO_ROW_RULE(t->rows[i]);
		struct effect_row row = { .address = address };

		row.length = row_address(t, i + 1, &next) - address;
		if (id < SO_FIRST_RULE)
			continue;
		row.rule = t->rules[id - SO_FIRST_RULE];
		ret = insert(code, &row);
	}
	return ret;
}

void learned_code__release(struct learned_code *code, struct table_pool *pool)
{
	free(code->rows);
	learned_table__unref(code->table, pool);
	*code = (struct learned_code){ 0 };
}
