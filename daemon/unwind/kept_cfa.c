// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/kept_cfa.h"

#include <errno.h>
#include <string.h>

#include "daemon/unwind/stack_code.h"

#define MAX_ROW_BYTES (64u << 10)
#define MAX_FUNCTIONS 32  /* that one call leads to */
#define MAX_ANSWERS   256 /* of different calls in a file */
#define MAX_INSNS     (1u << 19)

#define CALL_OPCODE 0xe8
#define CALL_BYTES  5

/* Whether a called function, with all that it calls, leaves a register alone. */
struct answer {
	uint64_t function;
	uint8_t reg;
	bool keeps;
};

struct search {
	const struct eh_frame *eh;
	struct unwind_table *table;
	struct cfi_rules *rules;
	struct stack_decoder *decoder; /* NULL until a row needs it */
	struct stack_code code;
	uint8_t *bytes; /* of one row */
	uint32_t n_insns;
	uint32_t n_answers;
	struct answer answers[MAX_ANSWERS];
};

static bool writes(const struct stack_insn *insn, uint8_t reg)
{
	if (insn->written >> reg & 1)
		return true;
	return insn->reg == reg && (insn->op == STACK_OP_LEA || insn->op == STACK_OP_LOAD || insn->op == STACK_OP_POP);
}

/* Whether everything that may run after the instruction was decoded, apart from the function that it calls. */
static bool is_followed(const struct stack_node *node)
{
	switch (node->insn.flow) {
	case STACK_FLOW_NEXT:
	case STACK_FLOW_CALL:
		return node->next >= 0;
	case STACK_FLOW_BRANCH:
		return node->next >= 0 && node->target >= 0;
	case STACK_FLOW_JUMP:
		return node->target >= 0;
	default:
		return node->insn.flow == STACK_FLOW_RETURN;
	}
}

struct functions {
	uint64_t at[MAX_FUNCTIONS];
	unsigned n;
};

static bool add_function(struct functions *f, uint64_t address)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->at[i] == address)
			return true;
	if (f->n == MAX_FUNCTIONS)
		return false;
	f->at[f->n++] = address;
	return true;
}

/* Whether one function leaves the register alone; adds those that it calls. */
static int look_at_function(struct search *s, uint64_t address, uint8_t reg, struct functions *f)
{
	const struct eh_frame_range *text = eh_frame__text_at(s->eh, address);
	int ret;

	if (!text)
		return -ENOENT;
	ret = stack_code__discover(&s->code, s->decoder, eh_frame__read_code, (void *)s->eh, address, text->start,
				   text->end);
	if (ret)
		return ret;
	s->n_insns += s->code.n;
	for (uint32_t i = 0; i < s->code.n; i++) {
		const struct stack_node *node = &s->code.nodes[i];

		if (!is_followed(node) || writes(&node->insn, reg))
			return -ENOENT;
		if (node->insn.flow == STACK_FLOW_CALL && !add_function(f, node->insn.target))
			return -ENOENT;
	}
	return 0;
}

/* 0, -ENOENT: it may change the register; -ENOMEM. */
static int look_at_call(struct search *s, uint64_t function, uint8_t reg)
{
	struct functions f = { .at = { function }, .n = 1 };
	int ret = 0;

	for (uint32_t i = 0; i < s->n_answers; i++)
		if (s->answers[i].function == function && s->answers[i].reg == reg)
			return s->answers[i].keeps ? 0 : -ENOENT;
	if (s->n_answers == MAX_ANSWERS)
		return -ENOENT;
	for (unsigned i = 0; i < f.n && !ret; i++)
		ret = s->n_insns < MAX_INSNS ? look_at_function(s, f.at[i], reg, &f) : -ENOENT;
	if (ret != -ENOMEM)
		s->answers[s->n_answers++] = (struct answer){ function, reg, !ret };
	return ret;
}

/* What may be a direct call: most rows have none and need not be decoded. */
static bool may_call(const struct search *s, uint64_t pc, size_t size)
{
	const uint8_t *at = s->bytes, *end = s->bytes + size;

	while (at + CALL_BYTES <= end && (at = memchr(at, CALL_OPCODE, (size_t)(end - at)))) {
		int32_t distance;

		if (at + CALL_BYTES > end)
			return false;
		memcpy(&distance, at + 1, sizeof(distance));
		at++;
		if (eh_frame__text_at(s->eh, pc + (uint64_t)(at - s->bytes) + CALL_BYTES - 1 + (uint64_t)distance))
			return true;
	}
	return false;
}

/* Whether all calls in [pc, end) leave the register alone, and there is one. 0, -ENOENT, -ENOMEM. */
static int look_at_row(struct search *s, uint64_t pc, uint64_t end, uint8_t reg)
{
	size_t size = end - pc, at = 0;
	struct stack_insn insn;
	bool called = false;
	int ret;

	if (end - pc > MAX_ROW_BYTES || eh_frame__read_code((void *)s->eh, pc, s->bytes, size) < size ||
	    !may_call(s, pc, size))
		return -ENOENT;
	if (!s->decoder && (ret = stack_decoder__new(&s->decoder)))
		return ret;
	for (; at < size; at += insn.length) {
		if (s->n_insns++ >= MAX_INSNS ||
		    stack_decoder__decode(s->decoder, s->bytes + at, size - at, pc + at, &insn))
			return -ENOENT;
		if (insn.flow != STACK_FLOW_CALL)
			continue;
		called = true;
		ret = look_at_call(s, insn.target, reg);
		if (ret)
			return ret;
	}
	return called ? 0 : -ENOENT;
}

static bool is_candidate(const struct so_unwind_rule *rule)
{
	return rule->cfa_kind == SO_CFA_REG && rule->cfa_reg != SO_REG_RSP && rule->cfa_reg != SO_REG_RBP &&
	       rule->cfa_reg != SO_REG_RBX;
}

static int mark_row(struct search *s, uint32_t *row, uint64_t pc, uint64_t end)
{
	uint32_t number = SO_ROW_RULE(*row);
	struct so_unwind_rule rule;
	int ret;

	if (number < SO_FIRST_RULE)
		return 0;
	rule = s->rules->rules[number - SO_FIRST_RULE];
	if (!is_candidate(&rule))
		return 0;
	ret = look_at_row(s, pc, end, rule.cfa_reg);
	if (ret)
		return ret == -ENOMEM ? ret : 0;
	rule.cfa_kind = SO_CFA_KEPT;
	ret = cfi_rules__number(s->rules, &rule, &number);
	if (!ret)
		*row = SO_ROW(pc, number);
	return ret;
}

static int mark_rows(struct search *s)
{
	struct unwind_table *t = s->table;
	uint64_t before = 0;

	for (uint32_t block = 0; block < t->n_blocks; block++) {
		for (uint32_t i = t->index[block]; i < t->index[block + 1]; i++) {
			uint64_t pc = ((t->first_block + block) << SO_BLOCK_SHIFT) + SO_ROW_PC_LOW(t->rows[i]);
			int ret = i ? mark_row(s, &t->rows[i - 1], before, pc) : 0;

			if (ret)
				return ret;
			before = pc;
		}
	}
	return 0;
}

int kept_cfa__mark(const struct eh_frame *eh, struct unwind_table *table, struct cfi_rules *rules)
{
	_cleanup_free_ struct search *s = NULL;
	uint32_t i = 0;
	int ret;

	while (i < rules->n && !is_candidate(&rules->rules[i]))
		i++;
	if (i == rules->n)
		return 0;
	s = calloc(1, sizeof(*s) + MAX_ROW_BYTES);
	if (!s)
		return -ENOMEM;
	s->eh = eh;
	s->table = table;
	s->rules = rules;
	s->bytes = (uint8_t *)(s + 1);
	ret = mark_rows(s);
	stack_code__release(&s->code);
	stack_decoder__free(s->decoder);
	return ret;
}
