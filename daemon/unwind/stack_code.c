// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/stack_code.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/unwind/stack_state.h"
#include "daemon/os/u64_table.h"

/* Code is read a page at a time and kept for one discovery, so that it cannot change in the midst of it. */
#define PAGE_BYTES 4096u
#define N_PAGES    64u

/* GCC aligns jump targets to 16 bytes, or to 8 where that would take more than 10 of padding. */
#define COMPILER_ALIGNMENT 8
#define MAX_ALIGNMENT      64

/* Looking at callees, for whether they return: instructions decoded of one and of all, branches and callees noted. */
#define MAX_CALLEE_INSNS    512
#define MAX_CALLEES_INSNS   4096
#define MAX_CALLEE_BRANCHES 32
#define MAX_CALLEES         16

/* A switch's jump is that near behind the load from its table. */
#define MAX_SWITCH_INSNS 12

struct page {
	uint64_t start; /* address of bytes[0] */
	uint32_t n;     /* read so far; 0: none */
	uint8_t bytes[PAGE_BYTES];
};

struct discovery {
	struct stack_code *code;
	struct stack_decoder *decoder;
	effect_read_fn read;
	void *context;
	uint64_t low, high;
	struct page *pages;
	struct u64_table places; /* address -> node */
	uint64_t *pending;       /* a queue: each address is put there once for each branch to it */
	uint32_t n_pending;
	int32_t n_fresh;
	uint32_t n_callee_insns, n_callees;
	struct {
		uint64_t address;
		bool returns;
	} callees[MAX_CALLEES];
};

/* The page that holds the address, from the lower limit on: what lies before it need not be readable. */
static const struct page *find_page(struct discovery *d, uint64_t address)
{
	struct page *page = &d->pages[address / PAGE_BYTES % N_PAGES];
	uint64_t start = address & ~(uint64_t)(PAGE_BYTES - 1);
	uint64_t end = start + PAGE_BYTES;
	size_t n;

	if (start < d->low)
		start = d->low;
	if (page->n && page->start == start)
		return page;
	if (!end || end > d->high)
		end = d->high;
	n = d->read(d->context, start, page->bytes, end - start);
	page->start = start;
	page->n = n > end - start ? (uint32_t)(end - start) : (uint32_t)n;
	return page;
}

static size_t fetch(struct discovery *d, uint64_t address, uint8_t code[STACK_INSN_MAX_BYTES])
{
	size_t n = 0;

	while (n < STACK_INSN_MAX_BYTES && address < d->high) {
		const struct page *page = find_page(d, address);
		uint64_t at = address - page->start;
		size_t some;

		if (at >= page->n)
			break;
		some = page->n - at;
		if (some > STACK_INSN_MAX_BYTES - n)
			some = STACK_INSN_MAX_BYTES - n;
		memcpy(code + n, page->bytes + at, some);
		n += some;
		address += some;
	}
	return n;
}

/* Ways through a callee that are still to be looked at: each place that is jumped to, once. */
struct ways {
	uint64_t at[MAX_CALLEE_BRANCHES];
	unsigned n, next;
};

static void add_way(struct ways *ways, uint64_t address)
{
	for (unsigned i = 0; i < ways->n; i++)
		if (ways->at[i] == address)
			return;
	if (ways->n < MAX_CALLEE_BRANCHES)
		ways->at[ways->n++] = address;
}

/* Whether code that begins at the address gets to a return without a call on its way. */
static bool gets_to_return(struct discovery *d, uint64_t address)
{
	struct ways ways = { .at = { address }, .n = 1 };
	uint8_t bytes[STACK_INSN_MAX_BYTES];
	struct stack_insn insn = { .flow = STACK_FLOW_STOP };

	for (unsigned i = 0; i < MAX_CALLEE_INSNS && d->n_callee_insns < MAX_CALLEES_INSNS; i++) {
		if (insn.flow != STACK_FLOW_NEXT && insn.flow != STACK_FLOW_BRANCH) {
			if (ways.next == ways.n)
				return false;
			address = ways.at[ways.next++];
		}
		d->n_callee_insns++;
		insn.flow = STACK_FLOW_STOP;
		if (address < d->low || address >= d->high ||
		    stack_decoder__decode(d->decoder, bytes, fetch(d, address, bytes), address, &insn))
			continue;
		if (insn.flow == STACK_FLOW_RETURN)
			return true;
		if (insn.flow == STACK_FLOW_BRANCH || insn.flow == STACK_FLOW_JUMP)
			add_way(&ways, insn.target);
		address += insn.length;
	}
	return false;
}

/* Then what lies behind a call of it belongs to the caller. Callees outside of the limits are not known. */
static bool can_return(struct discovery *d, uint64_t callee)
{
	bool returns;

	if (callee < d->low || callee >= d->high)
		return false;
	for (uint32_t i = 0; i < d->n_callees; i++)
		if (d->callees[i].address == callee)
			return d->callees[i].returns;
	returns = gets_to_return(d, callee);
	if (d->n_callees < MAX_CALLEES) {
		d->callees[d->n_callees].address = callee;
		d->callees[d->n_callees++].returns = returns;
	}
	return returns;
}

/* The same of the direct call (e8, distance) that returns to the address. */
static bool has_returned(struct discovery *d, uint64_t address)
{
	uint8_t bytes[STACK_INSN_MAX_BYTES];
	int32_t distance;

	if (address < 5 || address - 5 < d->low || fetch(d, address - 5, bytes) < 5 || bytes[0] != 0xe8)
		return false;
	memcpy(&distance, bytes + 1, sizeof(distance));
	return can_return(d, address + (uint64_t)distance);
}

static int reserve(struct stack_code *code)
{
	uint32_t capacity = code->capacity ? code->capacity * 2 : 256;
	struct stack_node *nodes;

	if (code->n < code->capacity)
		return 0;
	nodes = realloc(code->nodes, capacity * sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	code->nodes = nodes;
	code->capacity = capacity;
	return 0;
}

/* -ENOENT: the instruction at the address is not to be had, or the budget is spent. */
static int add_node(struct discovery *d, uint64_t address, int32_t *added)
{
	uint8_t bytes[STACK_INSN_MAX_BYTES];
	struct stack_code *code = d->code;
	struct stack_node node = { .next = STACK_EDGE_NONE, .target = STACK_EDGE_NONE, .block = -1, .fresh = -1 };
	int err;

	if (address < d->low || address >= d->high || code->n == STACK_CODE_MAX_INSNS)
		return -ENOENT;
	if (stack_decoder__decode(d->decoder, bytes, fetch(d, address, bytes), address, &node.insn))
		return -ENOENT;
	err = reserve(code);
	if (!err)
		err = u64_table__set(&d->places, address, code->n);
	if (err)
		return err;
	if (node.insn.flow == STACK_FLOW_CALL)
		node.insn.returns = can_return(d, node.insn.target);
	if (node.insn.op == STACK_OP_REALIGN && d->n_fresh < STACK_N_FRESH)
		node.fresh = d->n_fresh++;
	*added = (int32_t)code->n;
	code->nodes[code->n++] = node;
	return 0;
}

static void begin_block(struct discovery *d, int32_t at)
{
	if (d->code->nodes[at].block < 0)
		d->code->nodes[at].block = (int32_t)d->code->n_blocks++;
}

/* Notes where a branch leads; to be decoded later. */
static void queue_target(struct discovery *d, struct stack_node *node)
{
	uint64_t target = node->insn.target;

	if (node->insn.flow != STACK_FLOW_BRANCH && node->insn.flow != STACK_FLOW_JUMP)
		return;
	if (target < d->low || target >= d->high)
		node->target = STACK_EDGE_OUT;
	else if (d->n_pending < STACK_CODE_MAX_BLOCKS)
		d->pending[d->n_pending++] = target;
}

static bool is_nop(const uint8_t *bytes, size_t n)
{
	size_t at = 0;

	while (at + 1 < n && (bytes[at] == 0x66 || bytes[at] == 0x2e))
		at++;
	if (at < n && bytes[at] == 0x90)
		return true;
	return at + 1 < n && bytes[at] == 0x0f && bytes[at + 1] == 0x1f;
}

/* Alignment behind a call that does not return, before code entered by a jump; also that of loops fallen into. */
static bool is_aligned_away(struct discovery *d, uint64_t address)
{
	uint8_t bytes[STACK_INSN_MAX_BYTES];
	struct stack_insn insn;
	uint64_t at = address;
	size_t n;

	for (n = fetch(d, at, bytes); at - address < MAX_ALIGNMENT && is_nop(bytes, n); n = fetch(d, at, bytes)) {
		if (stack_decoder__decode(d->decoder, bytes, n, at, &insn))
			return false;
		at += insn.length;
	}
	return at != address && at % COMPILER_ALIGNMENT == 0;
}

/*
 * A jump by a register into which an element of a table was loaded shortly before. Where it leads is not known, but one
 * of its targets is what lies behind it: nothing else leads there.
 */
static bool is_switch(const struct stack_insn *insn, int32_t n_since_element)
{
	return insn->flow == STACK_FLOW_STOP && insn->by_reg && n_since_element < MAX_SWITCH_INSNS;
}

/* Decodes from one address on until the way ends or joins one that is known. */
static int decode_run(struct discovery *d, uint64_t address)
{
	int32_t before = -1, at, element_at = INT32_MIN / 2;
	uint32_t known;
	int err;

	for (;;) {
		bool met = u64_table__get(&d->places, address, &known);

		if (met) {
			at = (int32_t)known;
		} else {
			err = add_node(d, address, &at);
			if (err)
				return err == -ENOENT ? 0 : err;
		}
		if (before >= 0)
			d->code->nodes[before].next = at;
		if (met || before < 0)
			begin_block(d, at);
		if (met)
			return 0;
		queue_target(d, &d->code->nodes[at]);
		if (d->code->nodes[at].insn.element)
			element_at = (int32_t)d->code->n;
		if (d->code->nodes[at].insn.flow >= STACK_FLOW_JUMP &&
		    !is_switch(&d->code->nodes[at].insn, at - element_at))
			return 0;
		address += d->code->nodes[at].insn.length;
		if (d->code->nodes[at].insn.flow == STACK_FLOW_CALL && !d->code->nodes[at].insn.returns &&
		    is_aligned_away(d, address))
			return 0;
		before = at;
	}
}

static void link_targets(struct discovery *d)
{
	for (uint32_t i = 0; i < d->code->n; i++) {
		struct stack_node *node = &d->code->nodes[i];
		uint32_t target;

		if (node->insn.flow != STACK_FLOW_BRANCH && node->insn.flow != STACK_FLOW_JUMP)
			continue;
		if (node->target == STACK_EDGE_NONE && u64_table__get(&d->places, node->insn.target, &target)) {
			node->target = (int32_t)target;
			begin_block(d, node->target);
		}
	}
}

int stack_code__discover(struct stack_code *code, struct stack_decoder *decoder, effect_read_fn read, void *context,
			 uint64_t pc, uint64_t low, uint64_t high)
{
	_cleanup_free_ struct page *pages = calloc(N_PAGES, sizeof(*pages));
	_cleanup_free_ uint64_t *pending = calloc(STACK_CODE_MAX_BLOCKS, sizeof(*pending));
	struct discovery d = { .code = code,
			       .decoder = decoder,
			       .read = read,
			       .context = context,
			       .low = low,
			       .high = high,
			       .pages = pages,
			       .pending = pending };
	int err;

	code->n = code->n_blocks = 0;
	if (!pages || !pending)
		return -ENOMEM;
	code->returned = has_returned(&d, pc);
	err = decode_run(&d, pc);
	for (uint32_t i = 0; !err && i < d.n_pending; i++)
		err = decode_run(&d, pending[i]);
	if (!err && !code->n)
		err = -ENOENT;
	if (!err)
		link_targets(&d);
	u64_table__release(&d.places);
	return err;
}

void stack_code__release(struct stack_code *code)
{
	free(code->nodes);
	*code = (struct stack_code){ 0 };
}
