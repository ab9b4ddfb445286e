// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/unwind_table.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "daemon/unwind/cfi_entries.h"
#include "daemon/unwind/cfi_rules.h"
#include "daemon/unwind/eh_frame.h"
#include "daemon/unwind/go_rules.h"
#include "daemon/unwind/kept_cfa.h"

#define MAX_SPAN_BYTES ((uint64_t)(UNWIND_TABLE_MAX_BLOCKS - 1) << SO_BLOCK_SHIFT)

/* A gap between two functions that is shorter is alignment padding: nothing executes there. */
#define PADDING_BYTES 16

struct builder {
	struct unwind_table *table;
	uint64_t first_vaddr; /* where the first block begins */
	uint64_t covered_to;  /* end of the text described so far */
	uint32_t rows_room;
	uint32_t indexed; /* index words known */
	struct cfi_rules rules;
	/* The entry at work. */
	bool signal_frame;
	uint64_t from;         /* text before this address is an earlier entry's */
	uint32_t rule_at_from; /* rule in force at `from`, as far as the program has run */
	bool pending;          /* rule_at_from is not a row yet */
	/* Of a Go program; NULL: of another. The next one of its functions. */
	struct go_rules *go;
	uint32_t go_next;
};

static int append_row(struct builder *b, uint64_t pc, uint32_t rule)
{
	struct unwind_table *t = b->table;
	uint64_t block = (pc - b->first_vaddr) >> SO_BLOCK_SHIFT;

	if (t->n_rows && SO_ROW_RULE(t->rows[t->n_rows - 1]) == rule)
		return 0;
	if (t->n_rows == b->rows_room) {
		uint32_t room = b->rows_room + b->rows_room / 2 + 64;
		void *p;

		if (t->n_rows >= UNWIND_TABLE_MAX_ROWS)
			return -E2BIG;
		p = realloc(t->rows, (size_t)room * sizeof(*t->rows));
		if (!p)
			return -ENOMEM;
		t->rows = p;
		b->rows_room = room;
	}
	while (b->indexed <= block)
		t->index[b->indexed++] = t->n_rows;
	t->rows[t->n_rows++] = SO_ROW(pc, rule);
	return 0;
}

static int flush_pending(struct builder *b)
{
	if (!b->pending)
		return 0;
	b->pending = false;
	return append_row(b, b->from, b->rule_at_from);
}

static int on_row(void *context, uint64_t pc, const struct cfi_state *state)
{
	struct builder *b = context;
	struct so_unwind_rule rule;
	uint32_t number;
	int ret;

	cfi_rules__translate(state, b->signal_frame, &rule);
	ret = cfi_rules__number(&b->rules, &rule, &number);
	if (ret)
		return ret;
	if (pc <= b->from) {
		b->rule_at_from = number;
		b->pending = true;
		return 0;
	}
	ret = flush_pending(b);
	return ret ? ret : append_row(b, pc, number);
}

/* What has no entry, up to `start`, gets no rule; padding from `padding` bytes on. */
static int append_gap(struct builder *b, uint64_t start, uint64_t padding)
{
	if (!b->table->n_rows)
		return start > b->first_vaddr ? append_row(b, b->first_vaddr, SO_RULE_NONE) : 0;
	return start > b->covered_to && start - b->covered_to >= padding ? append_row(b, b->covered_to, SO_RULE_NONE)
									 : 0;
}

/*
 * A function below which a coroutine's stack begins is entered by a return to its first byte, so it is looked up one
 * byte before that. It is small, and says nothing of its stack; from the padding before it that can be learned.
 */
#define MIN_BEGIN_BYTES 20
#define MAX_BEGIN_BYTES 32

static bool may_begin_stack(const struct cfi_program *program)
{
	uint64_t length = program->end - program->start;
	size_t i = 0;

	if (length < MIN_BEGIN_BYTES || length > MAX_BEGIN_BYTES)
		return false;
	while (i < program->size && program->code[i] == DW_CFA_nop)
		i++;
	return i == program->size;
}

/* A damaged entry leaves nothing behind; its text is then a gap. */
static int append_fde(struct builder *b, const struct eh_frame *eh, const struct cfi_cie *cie,
		      const struct cfi_fde *fde)
{
	struct unwind_table *t = b->table;
	const struct cfi_program program = {
		.code = eh->data + fde->code,
		.size = fde->code_bytes,
		.code_vaddr = eh->vaddr + fde->code,
		.start = fde->start,
		.end = fde->start + fde->length,
	};
	uint32_t n_rows = t->n_rows, indexed = b->indexed;
	int ret;

	if (fde->start < b->covered_to) {
		t->n_bad_fdes++;
		if (program.end <= b->covered_to)
			return 0;
	}
	b->signal_frame = cie->signal_frame;
	b->from = fde->start > b->covered_to ? fde->start : b->covered_to;
	b->pending = false;
	ret = append_gap(b, b->from, may_begin_stack(&program) ? 1 : PADDING_BYTES);
	ret = ret ?: cfi_program__run(&program, cie, on_row, b);
	ret = ret ?: flush_pending(b);
	if (ret == -EINVAL) {
		t->n_rows = n_rows;
		b->indexed = indexed;
		t->n_bad_fdes += fde->start >= b->covered_to;
		return 0;
	}
	b->covered_to = program.end;
	return ret;
}

static int append_plain(struct builder *b, uint64_t pc, enum so_cfa_kind kind, int32_t offset, int32_t more_from)
{
	const struct so_unwind_rule rule = { .cfa_kind = (uint8_t)kind,
					     .cfa_reg = SO_REG_RSP,
					     .cfa_off = offset,
					     .cfa_off2 = more_from,
					     .saves = SO_SAVES(SO_SAVE_SAME, SO_SAVE_SAME),
					     .ra = SO_RA(SO_RA_CFA8, 0) };
	uint32_t number;
	int ret = cfi_rules__number(&b->rules, &rule, &number);

	return ret ? ret : append_row(b, pc, number);
}

/* What linkage tables without an entry push, by their form. `next`: where the next entry's text begins. */
static int append_plt(struct builder *b, const struct eh_frame_plt *plt, uint64_t next)
{
	uint64_t entries = plt->start + (plt->header ? 16 : 0);
	int ret;

	if (plt->start < b->covered_to || plt->end > next || plt->end - b->first_vaddr > MAX_SPAN_BYTES)
		return 0;
	ret = append_gap(b, plt->start, PADDING_BYTES);
	/* The entry's number is pushed, then the loader's word on the file. */
	if (!ret && plt->header)
		ret = append_plain(b, plt->start, SO_CFA_REG, 16, 0);
	if (!ret && plt->header)
		ret = append_plain(b, plt->start + 6, SO_CFA_REG, 24, 0);
	if (!ret && entries < plt->end)
		ret = append_plain(b, entries, plt->pushed_from < 16 ? SO_CFA_PLT : SO_CFA_REG, 8,
				   plt->pushed_from < 16 ? plt->pushed_from : 0);
	b->covered_to = plt->end;
	return ret;
}

static int put_go_row(void *context, uint64_t pc, const struct so_unwind_rule *rule)
{
	struct builder *b = context;
	uint32_t number;
	int ret = cfi_rules__number(&b->rules, rule, &number);

	return ret ? ret : append_row(b, pc, number);
}

/* A function whose table is damaged leaves nothing behind. */
static int append_go_function(struct builder *b, uint32_t i, uint64_t start)
{
	uint32_t n_rows, indexed;
	int ret = append_gap(b, start, PADDING_BYTES);

	n_rows = b->table->n_rows;
	indexed = b->indexed;
	ret = ret ?: go_rules__each(b->go, i, put_go_row, b);
	if (ret == -EINVAL) {
		b->table->n_rows = n_rows;
		b->indexed = indexed;
		ret = append_row(b, start, SO_RULE_NONE);
	}
	return ret;
}

/* Go's functions that begin before `next`; what overlaps an entry is the entry's. */
static int append_go(struct builder *b, uint64_t next)
{
	int ret = 0;

	for (; b->go && b->go_next < go_rules__n(b->go) && !ret; b->go_next++) {
		uint64_t start, end;

		if (!go_rules__function(b->go, b->go_next, &start, &end))
			continue;
		if (start >= next)
			return 0;
		if (start < b->covered_to || start < b->first_vaddr || end > next ||
		    end - b->first_vaddr > MAX_SPAN_BYTES)
			continue;
		ret = append_go_function(b, b->go_next, start);
		b->covered_to = end;
	}
	return ret;
}

/* What has no entry of its own, up to the next entry: Go's functions, and linkage tables. */
static int append_others(struct builder *b, const struct eh_frame *eh, size_t *plt, uint64_t next)
{
	int ret = 0;

	for (; *plt < eh->n_plts && eh->plts[*plt].start < next && !ret; (*plt)++) {
		ret = append_go(b, eh->plts[*plt].start);
		ret = ret ?: append_plt(b, &eh->plts[*plt], next);
	}
	return ret ?: append_go(b, next);
}

/* The span of text, and how many of the (sorted) entries lie in it. */
static uint32_t measure_span(const struct eh_frame *eh, const struct cfi_entries *entries, const struct go_rules *go,
			     uint64_t *first_vaddr, uint64_t *end)
{
	uint64_t go_start = UINT64_MAX, go_end = 0;
	uint32_t n;

	if (go)
		go_rules__span(go, &go_start, &go_end);
	*first_vaddr = entries->n_fdes && entries->fdes[0].start < go_start ? entries->fdes[0].start : go_start;
	if (eh->n_plts && eh->plts[0].start < *first_vaddr)
		*first_vaddr = eh->plts[0].start;
	*first_vaddr &= ~(uint64_t)SO_BLOCK_MASK;
	*end = *first_vaddr;
	for (n = 0; n < entries->n_fdes; n++) {
		const struct cfi_fde *fde = &entries->fdes[n];

		if (fde->start + fde->length - *first_vaddr > MAX_SPAN_BYTES)
			break;
		if (fde->start + fde->length > *end)
			*end = fde->start + fde->length;
	}
	if (go_end > *end && go_end - *first_vaddr <= MAX_SPAN_BYTES)
		*end = go_end;
	for (size_t i = 0; i < eh->n_plts; i++)
		if (eh->plts[i].end > *end && eh->plts[i].end - *first_vaddr <= MAX_SPAN_BYTES)
			*end = eh->plts[i].end;
	return n;
}

static int append_all(struct builder *b, const struct eh_frame *eh, const struct cfi_entries *entries, uint32_t n)
{
	struct unwind_table *t = b->table;
	size_t plt = 0;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		ret = append_others(b, eh, &plt, entries->fdes[i].start);
		ret = ret ?: append_fde(b, eh, &entries->cies[entries->fdes[i].cie], &entries->fdes[i]);
	}
	ret = ret ?: append_others(b, eh, &plt, UINT64_MAX);
	if (!ret && t->n_rows)
		ret = append_row(b, b->covered_to, SO_RULE_NONE);
	while (!ret && b->indexed <= t->n_blocks)
		t->index[b->indexed++] = t->n_rows;
	return ret;
}

/* Gives back what growing left over; failing to shrink costs only memory. */
static void *shrink(void *p, size_t bytes)
{
	void *smaller = bytes ? realloc(p, bytes) : NULL;

	return smaller ? smaller : p;
}

static void count_unsupported(struct unwind_table *t)
{
	for (uint32_t i = 0; i < t->n_rows; i++) {
		uint32_t rule = SO_ROW_RULE(t->rows[i]);

		t->n_unsupported_rows +=
			rule >= SO_FIRST_RULE && t->rules[rule - SO_FIRST_RULE].cfa_kind == SO_CFA_UNSUPPORTED;
	}
}

static int build(struct unwind_table *t, const struct eh_frame *eh, const struct cfi_entries *entries,
		 struct go_rules *go)
{
	struct builder b = { .table = t, .go = go };
	uint64_t end;
	uint32_t n;
	int ret;

	n = measure_span(eh, entries, go, &b.first_vaddr, &end);
	t->n_bad_fdes += entries->n_fdes - n;
	t->first_block = b.first_vaddr >> SO_BLOCK_SHIFT;
	/* The block of the end is one of the table's, so that the row that ends the last function is in it. */
	t->n_blocks = (uint32_t)((end >> SO_BLOCK_SHIFT) - t->first_block + 1);
	t->index = malloc(((size_t)t->n_blocks + 1) * sizeof(*t->index));
	if (!t->index)
		return -ENOMEM;
	ret = cfi_rules__init(&b.rules);
	ret = ret ?: append_all(&b, eh, entries, n);
	ret = ret ?: kept_cfa__mark(eh, t, &b.rules);
	t->rows = shrink(t->rows, t->n_rows * sizeof(*t->rows));
	t->n_rules = b.rules.n;
	t->rules = shrink(TAKE_PTR(b.rules.rules), t->n_rules * sizeof(*t->rules));
	cfi_rules__release(&b.rules);
	if (!ret)
		count_unsupported(t);
	return ret;
}

static int build_empty(struct unwind_table *t)
{
	t->index = calloc(1, sizeof(*t->index));
	return t->index ? 0 : -ENOMEM;
}

static int compile(const struct eh_frame *eh, struct unwind_table **out, struct so_error *err)
{
	_cleanup_(unwind_table) struct unwind_table *t = calloc(1, sizeof(*t));
	_cleanup_(cfi_entries) struct cfi_entries entries = { 0 };
	_cleanup_(go_rules) struct go_rules *go = NULL;
	int ret = t ? cfi_entries__read(eh, &entries) : -ENOMEM;

	/* Without the table of a Go program, its functions have no rules. */
	if (!ret && go_rules__new(eh, &go) == -ENOMEM)
		ret = -ENOMEM;
	if (!ret) {
		t->n_fdes = entries.n_read;
		t->n_bad_fdes = entries.n_bad;
		ret = entries.n_fdes || go ? build(t, eh, &entries, go) : build_empty(t);
	}
	if (ret == -E2BIG)
		return so_err(err, -EINVAL, ".eh_frame needs more than %u rows", UNWIND_TABLE_MAX_ROWS);
	if (ret)
		return so_err(err, ret, "cannot compile .eh_frame: %s", strerror(-ret));
	*out = TAKE_PTR(t);
	return 0;
}

int unwind_table__compile(int elf_fd, struct unwind_table **out, struct so_error *err)
{
	_cleanup_(eh_frame) struct eh_frame eh = { 0 };
	int ret = eh_frame__read(elf_fd, &eh, err);

	return ret ? ret : compile(&eh, out, err);
}

int unwind_table__compile_memory(const void *image, size_t size, struct unwind_table **out, struct so_error *err)
{
	_cleanup_(eh_frame) struct eh_frame eh = { 0 };
	int ret = eh_frame__read_memory(image, size, &eh, err);

	return ret ? ret : compile(&eh, out, err);
}

const struct so_unwind_rule *unwind_table__lookup(const struct unwind_table *table, uint64_t vaddr)
{
	static const struct so_unwind_rule unavailable = { .cfa_kind = SO_CFA_UNSUPPORTED };
	uint64_t block = vaddr >> SO_BLOCK_SHIFT;
	uint32_t low, high, rule;

	if (!table->n_rows || block < table->first_block || block - table->first_block >= table->n_blocks)
		return NULL;
	block -= table->first_block;
	low = table->index[block];
	high = table->index[block + 1];
	while (low < high) { /* the first row of the block that begins after vaddr */
		uint32_t middle = low + (high - low) / 2;

		if (SO_ROW_PC_LOW(table->rows[middle]) <= (vaddr & SO_BLOCK_MASK))
			low = middle + 1;
		else
			high = middle;
	}
	rule = low ? SO_ROW_RULE(table->rows[low - 1]) : SO_RULE_NONE;
	if (rule == SO_RULE_UNAVAILABLE)
		return &unavailable;
	return rule == SO_RULE_NONE ? NULL : &table->rules[rule - SO_FIRST_RULE];
}

static bool rules_sound(const struct unwind_table *t)
{
	for (uint32_t i = 0; i < t->n_rules; i++) {
		const struct so_unwind_rule *r = &t->rules[i];

		if (r->cfa_kind == SO_CFA_NONE || r->cfa_kind >= SO_CFA_KINDS ||
		    (r->cfa_reg >= SO_NREGS && r->cfa_kind != SO_CFA_INDEXED) || (r->saves & 15) > SO_SAVE_UNDEFINED ||
		    r->saves >> 4 > SO_SAVE_UNDEFINED || (r->ra & 15) > SO_RA_REG)
			return false;
	}
	return true;
}

static bool block_sound(const struct unwind_table *t, uint32_t block)
{
	uint32_t low = t->index[block], high = t->index[block + 1];

	if (low > high || high > t->n_rows)
		return false;
	for (uint32_t i = low; i < high; i++) {
		if (i > low && SO_ROW_PC_LOW(t->rows[i]) <= SO_ROW_PC_LOW(t->rows[i - 1]))
			return false;
		if (SO_ROW_RULE(t->rows[i]) >= SO_FIRST_RULE + t->n_rules)
			return false;
	}
	return true;
}

bool unwind_table__sound(const struct unwind_table *t)
{
	if (t->n_rows > UNWIND_TABLE_MAX_ROWS || t->n_rules > SO_MAX_RULES - SO_FIRST_RULE ||
	    t->n_blocks > UNWIND_TABLE_MAX_BLOCKS || t->first_block >= 1ull << (48 - SO_BLOCK_SHIFT))
		return false;
	if (t->index[0] != 0 || t->index[t->n_blocks] != t->n_rows || !rules_sound(t))
		return false;
	for (uint32_t block = 0; block < t->n_blocks; block++)
		if (!block_sound(t, block))
			return false;
	/* The first row answers for the first block's beginning, the last one ends the last function. */
	return !t->n_rows || (t->n_blocks && t->index[1] && SO_ROW_PC_LOW(t->rows[0]) == 0 &&
			      SO_ROW_RULE(t->rows[t->n_rows - 1]) == SO_RULE_NONE);
}

void unwind_table__free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->index);
	free(table->rows);
	free(table->rules);
	free(table);
}
