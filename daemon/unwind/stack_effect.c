// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Three passes over the graph of instructions (stack_code.h). The first finds the state before each block, joined over
 * all ways that lead there, by repeating until nothing changes. The second looks at the returns: together they give the
 * verdict. The third writes the rule of each instruction from which such a return can be reached.
 */
#include "daemon/unwind/stack_effect.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/unwind/stack_rule.h"
#include "daemon/unwind/stack_state.h"

/* Instructions executed until nothing changes: each block is run again when one of its registers is lost. */
#define MAX_STEPS (8u * STACK_CODE_MAX_INSNS)

struct block {
	struct stack_state state; /* before its first instruction */
	int32_t node;
	bool reached, queued;
};

struct effect_reader {
	struct stack_decoder *decoder;
	struct stack_code code;
	struct block *blocks;
	uint32_t capacity; /* of blocks */
	uint32_t *queue;   /* as many, a ring */
	uint8_t *useful;   /* for each node: a return that counts can be reached */
};

int effect_reader__new(struct effect_reader **out)
{
	_cleanup_(effect_reader) struct effect_reader *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = stack_decoder__new(&r->decoder);
	if (!err)
		*out = TAKE_PTR(r);
	return err;
}

void effect_reader__free(struct effect_reader *r)
{
	if (!r)
		return;
	stack_decoder__free(r->decoder);
	stack_code__release(&r->code);
	free(r->blocks);
	free(r->queue);
	free(r->useful);
	free(r);
}

static int reserve_blocks(struct effect_reader *r)
{
	uint32_t n = r->code.n_blocks;
	struct block *blocks;
	uint32_t *queue;
	uint8_t *useful;

	if (n > r->capacity) {
		blocks = realloc(r->blocks, n * sizeof(*blocks));
		if (!blocks)
			return -ENOMEM;
		r->blocks = blocks;
		queue = realloc(r->queue, n * sizeof(*queue));
		if (!queue)
			return -ENOMEM;
		r->queue = queue;
		r->capacity = n;
	}
	useful = realloc(r->useful, r->code.n);
	if (!useful)
		return -ENOMEM;
	r->useful = useful;
	memset(useful, 0, r->code.n);
	for (uint32_t i = 0; i < n; i++)
		r->blocks[i].reached = r->blocks[i].queued = false;
	for (uint32_t i = 0; i < r->code.n; i++)
		if (r->code.nodes[i].block >= 0)
			r->blocks[r->code.nodes[i].block].node = (int32_t)i;
	return 0;
}

/* Blocks whose state has changed, each at most once. */
struct work {
	struct effect_reader *reader;
	uint32_t first, n;
};

static void flow_into(struct work *w, int32_t node, const struct stack_state *state)
{
	uint32_t n_blocks = w->reader->code.n_blocks;
	struct block *block;

	if (node < 0)
		return;
	block = &w->reader->blocks[w->reader->code.nodes[node].block];
	if (!block->reached) {
		block->state = *state;
		block->reached = true;
	} else if (!stack_state__join(&block->state, state)) {
		return;
	}
	if (block->queued)
		return;
	block->queued = true;
	w->reader->queue[(w->first + w->n++) % n_blocks] = (uint32_t)(block - w->reader->blocks);
}

/* Runs a block to its end and hands on the state. Returns the number of instructions. */
static uint32_t run_block(struct work *w, const struct block *block)
{
	const struct stack_node *nodes = w->reader->code.nodes;
	struct stack_state state = block->state;
	int32_t at = block->node;

	for (uint32_t steps = 1;; steps++) {
		const struct stack_node *node = &nodes[at];

		stack_state__apply(&state, &node->insn, node->fresh);
		flow_into(w, node->target, &state);
		at = node->next;
		if (at < 0)
			return steps;
		if (nodes[at].block >= 0) {
			flow_into(w, at, &state);
			return steps;
		}
	}
}

static int find_states(struct effect_reader *r, bool after_call)
{
	struct work w = { .reader = r };
	struct stack_state start;
	uint32_t steps = 0;

	stack_state__start(&start, after_call);
	if (r->code.returned)
		start.called = false;
	flow_into(&w, 0, &start);
	while (w.n) {
		struct block *block = &r->blocks[r->queue[w.first]];

		w.first = (w.first + 1) % r->code.n_blocks;
		w.n--;
		block->queued = false;
		steps += run_block(&w, block);
		if (steps > MAX_STEPS)
			return -ENOENT;
	}
	return 0;
}

/* Calls `visit` for each instruction that was reached, with the state before it. */
typedef int (*visit_fn)(void *context, uint32_t node, const struct stack_state *state);

static int walk(const struct effect_reader *r, visit_fn visit, void *context)
{
	const struct stack_node *nodes = r->code.nodes;
	int err = 0;

	for (uint32_t i = 0; i < r->code.n_blocks; i++) {
		struct stack_state state;
		int32_t at = r->blocks[i].node;

		if (!r->blocks[i].reached)
			continue;
		state = r->blocks[i].state;
		do {
			err = visit(context, (uint32_t)at, &state);
			if (err)
				return err;
			stack_state__apply(&state, &nodes[at].insn, nodes[at].fresh);
			at = nodes[at].next;
		} while (at >= 0 && nodes[at].block < 0);
	}
	return 0;
}

struct judge {
	struct effect_reader *reader;
	struct stack_verdict verdict;
	uint32_t n_ends;
};

/* A return, or a jump out of the limits if the stack is seen to be taken down before it. */
static int visit_end(void *context, uint32_t at, const struct stack_state *state)
{
	struct judge *judge = context;
	const struct stack_node *node = &judge->reader->code.nodes[at];
	struct stack_verdict verdict;

	if (node->insn.flow == STACK_FLOW_RETURN) {
		if (!stack_verdict__of_return(state, &verdict))
			return 0;
	} else if (node->target == STACK_EDGE_OUT) {
		if (!stack_verdict__of_tail_call(state, &verdict))
			return 0;
	} else {
		return 0;
	}
	judge->reader->useful[at] = 1;
	if (!judge->n_ends++)
		judge->verdict = verdict;
	else if (!stack_verdict__agree(&judge->verdict, &verdict))
		return -ENOENT;
	return 0;
}

static int visit_store(void *context, uint32_t at, const struct stack_state *state)
{
	struct judge *judge = context;
	const struct effect_reader *r = judge->reader;

	/* Only what lies on a way to such a return: behind a call that does not return may be another function. */
	if (!r->useful[at])
		return 0;
	return stack_verdict__survives(&judge->verdict, state, &r->code.nodes[at].insn) ? 0 : -ENOENT;
}

/* Spreads "useful" from the ends to all that leads there. */
static int mark_useful(struct effect_reader *r)
{
	const struct stack_node *nodes = r->code.nodes;
	/* Edges by their end: a list for each node, edge 2 * i leads to i's next, 2 * i + 1 to its target. */
	_cleanup_free_ int32_t *first = malloc(r->code.n * sizeof(*first));
	_cleanup_free_ int32_t *other = malloc(2 * (size_t)r->code.n * sizeof(*other));
	_cleanup_free_ uint32_t *todo = malloc(r->code.n * sizeof(*todo));
	uint32_t n = 0;

	if (!first || !other || !todo)
		return -ENOMEM;
	memset(first, 0xff, r->code.n * sizeof(*first));
	for (uint32_t i = 0; i < r->code.n; i++) {
		const int32_t ends[2] = { nodes[i].next, nodes[i].target };

		for (int32_t e = 0; e < 2; e++) {
			if (ends[e] < 0)
				continue;
			other[2 * i + (uint32_t)e] = first[ends[e]];
			first[ends[e]] = 2 * (int32_t)i + e;
		}
		if (r->useful[i])
			todo[n++] = i;
	}
	while (n) {
		for (int32_t next, e = first[todo[--n]]; e >= 0; e = next) {
			uint32_t from = (uint32_t)e / 2;

			next = other[e];
			if (r->useful[from])
				continue;
			r->useful[from] = 1;
			todo[n++] = from;
		}
	}
	return 0;
}

struct writer {
	const struct judge *judge;
	struct effect_row *rows;
	size_t n;
};

static int visit_row(void *context, uint32_t at, const struct stack_state *state)
{
	struct writer *w = context;
	const struct stack_insn *insn = &w->judge->reader->code.nodes[at].insn;
	struct effect_row row = { .address = insn->address, .length = insn->length };
	struct stack_state after;

	if (!w->judge->reader->useful[at])
		return 0;
	/* Its callee is unwound by the same rule, with the registers that it keeps and what it leaves of the stack. */
	if (insn->flow == STACK_FLOW_CALL) {
		after = *state;
		stack_state__apply(&after, insn, -1);
		state = &after;
	}
	if (stack_verdict__rule(&w->judge->verdict, state, &row.rule))
		w->rows[w->n++] = row;
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct effect_row *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* Each instruction begins with its own rule: one that is jumped into the midst of ends there. */
static void merge_rows(struct effect_rows *out)
{
	size_t n = 0;

	qsort(out->rows, out->n, sizeof(*out->rows), compare_rows);
	for (size_t i = 0; i < out->n; i++) {
		struct effect_row row = out->rows[i], *last = n ? &out->rows[n - 1] : NULL;

		if (last && row.address - last->address < last->length)
			last->length = (uint32_t)(row.address - last->address);
		if (last && last->address + last->length == row.address &&
		    !memcmp(&last->rule, &row.rule, sizeof(row.rule)))
			last->length += row.length;
		else
			out->rows[n++] = row;
	}
	out->n = n;
}

/* The last byte of the call gets the rule of the return address, unless the call was itself met, in a loop. */
static void extend_to_call(struct effect_rows *rows, uint64_t return_address)
{
	struct effect_row *row = rows->rows;

	if (!return_address || effect_rows__find(rows, return_address - 1))
		return;
	while (return_address - row->address >= row->length)
		row++;
	row->address--;
	row->length++;
}

static int write_rows(const struct judge *judge, uint64_t pc, bool after_call, struct effect_rows *out)
{
	_cleanup_free_ struct effect_row *rows = malloc(judge->reader->code.n * sizeof(*rows));
	struct writer w = { .judge = judge, .rows = rows };
	struct effect_rows merged;
	int err;

	if (!rows)
		return -ENOMEM;
	err = walk(judge->reader, visit_row, &w);
	if (err)
		return err;
	/* The first block is the first to be walked, so the row of pc is the first to be written. */
	if (!w.n || rows[0].address != pc)
		return -ENOENT;
	merged = (struct effect_rows){ .rows = TAKE_PTR(rows), .n = w.n };
	merge_rows(&merged);
	if (after_call)
		extend_to_call(&merged, pc);
	*out = merged;
	return 0;
}

static int follow(struct effect_reader *r, effect_read_fn read, void *context, uint64_t pc, uint64_t low, uint64_t high,
		  bool after_call, struct effect_rows *out)
{
	struct judge judge = { .reader = r };
	int err = stack_code__discover(&r->code, r->decoder, read, context, pc, low, high);

	if (!err)
		err = reserve_blocks(r);
	if (!err)
		err = find_states(r, after_call);
	if (!err)
		err = walk(r, visit_end, &judge);
	if (!err && !judge.n_ends)
		err = -ENOENT;
	if (!err)
		err = mark_useful(r);
	if (!err)
		err = walk(r, visit_store, &judge);
	if (!err)
		err = write_rows(&judge, pc, after_call, out);
	return err;
}

#define MAX_BEGIN_INSNS 24
#define MAX_BEGIN_BYTES 128
#define MAX_CALL_BYTES  7

/* e8 and a distance, or ff /2 of two to seven bytes. What cannot be read may be a call. */
static bool may_be_behind_call(effect_read_fn read, void *context, uint64_t address)
{
	uint8_t code[MAX_CALL_BYTES];

	if (address < sizeof(code) || read(context, address - sizeof(code), code, sizeof(code)) < sizeof(code))
		return true;
	for (unsigned length = 2; length <= MAX_CALL_BYTES; length++)
		if (code[MAX_CALL_BYTES - length] == 0xff && (code[MAX_CALL_BYTES - length + 1] & 0x38) == 0x10)
			return true;
	return code[MAX_CALL_BYTES - 5] == 0xe8;
}

bool stack_effect__is_begin(struct effect_reader *r, effect_read_fn read, void *context, uint64_t address)
{
	bool traps = false;

	if (may_be_behind_call(read, context, address) ||
	    stack_code__discover(&r->code, r->decoder, read, context, address, address, address + MAX_BEGIN_BYTES) ||
	    r->code.n > MAX_BEGIN_INSNS)
		return false;
	for (uint32_t i = 0; i < r->code.n; i++) {
		const struct stack_node *node = &r->code.nodes[i];

		if (node->insn.flow == STACK_FLOW_RETURN || node->insn.by_reg || node->target == STACK_EDGE_OUT)
			return false;
		if (node->insn.flow == STACK_FLOW_STOP)
			traps = true;
		else if (node->next < 0 && node->target < 0)
			return false;
	}
	return traps;
}

int stack_effect__follow(struct effect_reader *reader, effect_read_fn read, void *context, uint64_t pc,
			 uint64_t limit_low, uint64_t limit_high, struct effect_rows *out)
{
	return follow(reader, read, context, pc, limit_low, limit_high, false, out);
}

int stack_effect__follow_return(struct effect_reader *reader, effect_read_fn read, void *context,
				uint64_t return_address, uint64_t limit_low, uint64_t limit_high,
				struct effect_rows *out)
{
	return follow(reader, read, context, return_address, limit_low, limit_high, true, out);
}

const struct effect_row *effect_rows__find(const struct effect_rows *rows, uint64_t address)
{
	size_t lo = 0, hi = rows->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (rows->rows[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || address - rows->rows[lo - 1].address >= rows->rows[lo - 1].length)
		return NULL;
	return &rows->rows[lo - 1];
}

void effect_rows__release(struct effect_rows *rows)
{
	free(rows->rows);
	*rows = (struct effect_rows){ 0 };
}
