// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/cfi_rules.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/unwind/cfi_reader.h"

_Static_assert(sizeof(struct so_unwind_rule) == 2 * sizeof(uint64_t), "rules are hashed as two words");

/* rip in the signal frame, from rsp in the trampoline: uc_mcontext at 40 in ucontext, gregs[REG_RIP] at 128. */
#define SIGNAL_RIP_OFFSET 168

/* The longest expressions in use have 5 operations. */
#define MAX_OPERATIONS 16
#define STACK_DEPTH    4

/* What an expression yields, as far as it has one of the forms that a rule can hold. */
enum form {
	FORM_NONE,     /* nothing that a rule can hold */
	FORM_CONSTANT, /* add */
	FORM_REGISTER, /* reg + add */
	FORM_CFA,      /* CFA + add */
	FORM_MEMORY,   /* *(reg + offset) + add */
	FORM_SCALED,   /* reg * 8 */
	FORM_INDEXED,  /* reg + index * 8 + add */
	FORM_ELEMENT,  /* *(reg + index * 8 + offset) + add */
	FORM_PLT,      /* the procedure linkage table's CFA: rsp + offset, 8 more from entry byte `add` on */
};

struct value {
	uint8_t form;       /* enum form */
	uint8_t reg, index; /* enum so_reg */
	int64_t offset;
	int64_t add;
};

struct evaluation {
	struct cfi_reader code;
	struct value stack[STACK_DEPTH];
	unsigned depth;
};

static bool push(struct evaluation *e, struct value v)
{
	if (e->depth == STACK_DEPTH)
		return false;
	e->stack[e->depth++] = v;
	return true;
}

static bool push_constant(struct evaluation *e, int64_t v)
{
	return push(e, (struct value){ .form = FORM_CONSTANT, .add = v });
}

static bool push_register(struct evaluation *e, uint64_t reg)
{
	int64_t offset;

	if (!cfi_reader__sleb(&e->code, &offset) || reg >= SO_NREGS)
		return false;
	return push(e, (struct value){ .form = FORM_REGISTER, .reg = (uint8_t)reg, .add = offset });
}

/* Constants of a fixed width; the signed forms have odd numbers above the unsigned ones. */
static bool push_fixed(struct evaluation *e, uint8_t op)
{
	unsigned width = 1u << ((op - DW_OP_const1u) / 2), spare = 64 - 8 * width;
	uint64_t v;

	if (!cfi_reader__fixed(&e->code, width, &v))
		return false;
	if ((op - DW_OP_const1u) & 1)
		v = (uint64_t)((int64_t)(v << spare) >> spare);
	return push_constant(e, (int64_t)v);
}

static bool add_constant(struct evaluation *e, int64_t v)
{
	struct value *top = e->depth ? &e->stack[e->depth - 1] : NULL;

	return top && !__builtin_add_overflow(top->add, v, &top->add);
}

/* Eight times a register, of which the index of an array on the stack is made. */
static bool scale(struct evaluation *e, int64_t by)
{
	struct value *reg, factor;

	if (e->depth < 2)
		return false;
	factor = e->stack[--e->depth];
	reg = &e->stack[e->depth - 1];
	if (factor.form != FORM_CONSTANT || factor.add != by || reg->form != FORM_REGISTER || reg->add ||
	    reg->reg == SO_REG_RAX)
		return false;
	reg->form = FORM_SCALED;
	return true;
}

/* A register and a scaled one. */
static bool add_index(struct value *a, const struct value *b)
{
	if (a->form != FORM_REGISTER || b->form != FORM_SCALED)
		return false;
	a->form = FORM_INDEXED;
	a->index = b->reg;
	return true;
}

/* The sum of a constant and anything, in either order; the difference of anything and a constant. */
static bool combine(struct evaluation *e, bool subtract)
{
	struct value *a, b;

	if (e->depth < 2)
		return false;
	b = e->stack[--e->depth];
	a = &e->stack[e->depth - 1];
	if (b.form == FORM_CONSTANT)
		return subtract ? !__builtin_sub_overflow(a->add, b.add, &a->add) : add_constant(e, b.add);
	if (!subtract && add_index(a, &b))
		return true;
	if (subtract || a->form != FORM_CONSTANT || __builtin_add_overflow(a->add, b.add, &b.add))
		return false;
	*a = b;
	return true;
}

static bool dereference(struct evaluation *e)
{
	struct value *top = e->depth ? &e->stack[e->depth - 1] : NULL;

	if (!top || (top->form != FORM_REGISTER && top->form != FORM_INDEXED))
		return false;
	*top = (struct value){ .form = top->form == FORM_REGISTER ? FORM_MEMORY : FORM_ELEMENT,
			       .reg = top->reg,
			       .index = top->index,
			       .offset = top->add };
	return true;
}

static bool operate(struct evaluation *e, uint8_t op)
{
	uint64_t u;
	int64_t s;

	if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		return push_register(e, op - DW_OP_breg0);
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		return push_constant(e, op - DW_OP_lit0);
	if (op >= DW_OP_const1u && op <= DW_OP_const8s)
		return push_fixed(e, op);
	switch (op) {
	case DW_OP_bregx:
		return cfi_reader__uleb(&e->code, &u) && push_register(e, u);
	case DW_OP_constu:
		return cfi_reader__uleb(&e->code, &u) && u <= INT64_MAX && push_constant(e, (int64_t)u);
	case DW_OP_consts:
		return cfi_reader__sleb(&e->code, &s) && push_constant(e, s);
	case DW_OP_plus_uconst:
		return cfi_reader__uleb(&e->code, &u) && u <= INT64_MAX && add_constant(e, (int64_t)u);
	case DW_OP_plus:
		return combine(e, false);
	case DW_OP_minus:
		return combine(e, true);
	case DW_OP_mul:
		return scale(e, 8);
	case DW_OP_shl:
		return scale(e, 3);
	case DW_OP_deref:
		return dereference(e);
	case DW_OP_nop:
		return true;
	default:
		return false;
	}
}

/* about_cfa: the expression starts with the CFA on its stack (all but the CFA's own do). */
static struct value evaluate(const struct cfi_place *place, bool about_cfa)
{
	struct evaluation e = { .code = { place->expression, place->expression + place->number } };

	if (about_cfa)
		push(&e, (struct value){ .form = FORM_CFA });
	for (unsigned i = 0; i < MAX_OPERATIONS; i++) {
		if (e.code.at == e.code.end)
			return e.depth ? e.stack[e.depth - 1] : (struct value){ .form = FORM_NONE };
		if (!operate(&e, *e.code.at++))
			break;
	}
	return (struct value){ .form = FORM_NONE };
}

/*
 * What linkers write for the lazy procedure linkage table, whose entries push twice within 16 bytes: breg7 N;
 * breg16 0; lit15; and; litT; ge; lit3; shl; plus. The threshold T is 11, or 10 where entries begin with endbr64.
 */
static bool match_plt(const struct cfi_place *place, struct value *out)
{
	struct cfi_reader r = { place->expression, place->expression + place->number };
	static const uint8_t middle[] = { DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and };
	static const uint8_t tail[] = { DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus };
	uint64_t op, threshold;
	int64_t offset;

	if (!cfi_reader__fixed(&r, 1, &op) || op != DW_OP_breg7 || !cfi_reader__sleb(&r, &offset) ||
	    cfi_reader__left(&r) != sizeof(middle) + 1 + sizeof(tail) || memcmp(r.at, middle, sizeof(middle)))
		return false;
	cfi_reader__skip(&r, sizeof(middle));
	if (!cfi_reader__fixed(&r, 1, &op) || op < DW_OP_lit0 || op > DW_OP_lit15 || memcmp(r.at, tail, sizeof(tail)))
		return false;
	threshold = op - DW_OP_lit0;
	*out = (struct value){ .form = FORM_PLT, .reg = SO_REG_RSP, .offset = offset, .add = (int64_t)threshold };
	return true;
}

static struct value cfa_of(const struct cfi_cfa *cfa)
{
	struct value v = { .form = FORM_NONE };

	if (cfa->how == CFI_REGISTER && cfa->reg < SO_NREGS)
		return (struct value){ .form = FORM_REGISTER, .reg = (uint8_t)cfa->reg, .add = cfa->offset };
	if (cfa->how == CFI_EXPRESSION && !match_plt(&cfa->expression, &v))
		v = evaluate(&cfa->expression, false);
	return v;
}

/* Where in memory the column is saved; relative to the CFA if it can be said so. */
static struct value location(const struct cfi_place *place, const struct value *cfa)
{
	struct value v;

	if (place->how == CFI_OFFSET)
		return (struct value){ .form = FORM_CFA, .add = place->offset };
	if (place->how != CFI_EXPRESSION)
		return (struct value){ .form = FORM_NONE };
	v = evaluate(place, true);
	if (v.form == cfa->form && (v.form == FORM_REGISTER || v.form == FORM_MEMORY) && v.reg == cfa->reg &&
	    v.offset == cfa->offset && !__builtin_sub_overflow(v.add, cfa->add, &v.add)) {
		v.form = FORM_CFA;
		v.reg = 0;
		v.offset = 0;
	}
	return v;
}

static bool is_signal_rip(const struct value *where, const struct value *cfa)
{
	int64_t offset = where->add;

	if (where->form == FORM_CFA && cfa->form == FORM_REGISTER)
		return cfa->reg == SO_REG_RSP && !__builtin_add_overflow(offset, cfa->add, &offset) &&
		       offset == SIGNAL_RIP_OFFSET;
	return where->form == FORM_REGISTER && where->reg == SO_REG_RSP && offset == SIGNAL_RIP_OFFSET;
}

static bool fits32(int64_t v)
{
	return v == (int32_t)v;
}

static bool put_cfa(const struct value *cfa, struct so_unwind_rule *rule)
{
	switch (cfa->form) {
	case FORM_REGISTER:
		rule->cfa_kind = SO_CFA_REG;
		rule->cfa_off = (int32_t)cfa->add;
		break;
	case FORM_MEMORY:
		rule->cfa_kind = SO_CFA_DEREF;
		rule->cfa_off = (int32_t)cfa->offset;
		rule->cfa_off2 = (int32_t)cfa->add;
		break;
	case FORM_ELEMENT:
		rule->cfa_kind = SO_CFA_INDEXED;
		rule->cfa_off = (int32_t)cfa->offset;
		rule->cfa_off2 = (int32_t)cfa->add;
		break;
	case FORM_PLT:
		rule->cfa_kind = SO_CFA_PLT;
		rule->cfa_off = (int32_t)cfa->offset;
		rule->cfa_off2 = (int32_t)cfa->add;
		break;
	default:
		return false;
	}
	rule->cfa_reg = SO_CFA_REGS(cfa->reg, cfa->index);
	return fits32(cfa->offset) && fits32(cfa->add);
}

static bool put_return_address(const struct cfi_place *ra, const struct value *where, struct so_unwind_rule *rule)
{
	if (ra->how == CFI_REGISTER && ra->number < SO_NREGS) {
		rule->ra = SO_RA(SO_RA_REG, ra->number);
		return true;
	}
	rule->ra = SO_RA(SO_RA_CFA8, 0);
	return where->form == FORM_CFA && where->add == -8;
}

/* The register's own DWARF number: a save "in itself" is no save. */
static enum so_save_kind save_of(const struct cfi_place *place, uint32_t self, const struct value *cfa, int16_t *offset)
{
	struct value where;

	if (place->how == CFI_UNSET || place->how == CFI_SAME || (place->how == CFI_REGISTER && place->number == self))
		return SO_SAVE_SAME;
	where = location(place, cfa);
	if (where.add != (int16_t)where.add)
		return SO_SAVE_UNDEFINED;
	if (where.form == FORM_CFA) {
		*offset = (int16_t)where.add;
		return SO_SAVE_CFA;
	}
	if (where.form == FORM_REGISTER && where.reg == SO_REG_RBP) {
		*offset = (int16_t)where.add;
		return SO_SAVE_RBP;
	}
	return SO_SAVE_UNDEFINED;
}

/* Otherwise (longjmp and setcontext on their way out) the next frame's CFA could not be found. */
static bool rsp_is_cfa(const struct cfi_place *rsp)
{
	return rsp->how == CFI_UNSET || (rsp->how == CFI_VALUE && rsp->offset == 0);
}

void cfi_rules__translate(const struct cfi_state *state, bool signal_frame, struct so_unwind_rule *out)
{
	const struct cfi_place *ra = &state->columns[CFI_RA];
	struct so_unwind_rule rule = { 0 };
	enum so_save_kind rbp, rbx;
	struct value cfa, where;

	memset(out, 0, sizeof(*out));
	if (ra->how == CFI_UNDEFINED) {
		out->cfa_kind = SO_CFA_END;
		return;
	}
	cfa = cfa_of(&state->cfa);
	where = location(ra, &cfa);
	if (signal_frame && is_signal_rip(&where, &cfa)) {
		out->cfa_kind = SO_CFA_SIGNAL;
		return;
	}
	if (!put_cfa(&cfa, &rule) || !put_return_address(ra, &where, &rule) || !rsp_is_cfa(&state->columns[CFI_RSP])) {
		out->cfa_kind = SO_CFA_UNSUPPORTED;
		return;
	}
	rbp = save_of(&state->columns[CFI_RBP], SO_REG_RBP, &cfa, &rule.rbp_off);
	rbx = save_of(&state->columns[CFI_RBX], SO_REG_RBX, &cfa, &rule.rbx_off);
	rule.saves = SO_SAVES(rbp, rbx);
	*out = rule;
}

/* The upper half of a product depends on all bits of both factors. */
static uint32_t slot_of(const struct cfi_rules *set, const struct so_unwind_rule *rule)
{
	uint64_t word[2];
	unsigned __int128 product;

	memcpy(word, rule, sizeof(word));
	product = (unsigned __int128)(word[0] ^ set->seed[0]) * (word[1] ^ set->seed[1]);
	return (uint32_t)((uint64_t)(product >> 64) ^ (uint64_t)product) & (set->n_slots - 1);
}

static int rehash(struct cfi_rules *set, uint32_t n_slots)
{
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(set->slots);
	set->slots = slots;
	set->n_slots = n_slots;
	for (uint32_t i = 0; i < set->n; i++) {
		uint32_t slot = slot_of(set, &set->rules[i]);

		while (slots[slot])
			slot = (slot + 1) & (n_slots - 1);
		slots[slot] = SO_FIRST_RULE + i;
	}
	return 0;
}

int cfi_rules__init(struct cfi_rules *set)
{
	*set = (struct cfi_rules){ 0 };
	/* Without entropy this early, the fixed numbers only lose the protection. */
	if (getrandom(set->seed, sizeof(set->seed), GRND_NONBLOCK) != sizeof(set->seed)) {
		set->seed[0] = 0x9e3779b97f4a7c15;
		set->seed[1] = 0xd1b54a32d192ed03;
	}
	return rehash(set, 1024);
}

static int add_rule(struct cfi_rules *set, const struct so_unwind_rule *rule)
{
	if (set->n == set->room) {
		uint32_t room = set->room ? 2 * set->room : 256;
		void *p = realloc(set->rules, room * sizeof(*set->rules));

		if (!p)
			return -ENOMEM;
		set->rules = p;
		set->room = room;
	}
	set->rules[set->n++] = *rule;
	return 0;
}

int cfi_rules__number(struct cfi_rules *set, const struct so_unwind_rule *rule, uint32_t *number)
{
	uint32_t slot = slot_of(set, rule);

	for (; set->slots[slot]; slot = (slot + 1) & (set->n_slots - 1)) {
		uint32_t found = set->slots[slot];

		if (!memcmp(&set->rules[found - SO_FIRST_RULE], rule, sizeof(*rule))) {
			*number = found;
			return 0;
		}
	}
	if (set->n == SO_MAX_RULES - SO_FIRST_RULE) {
		*number = SO_RULE_UNAVAILABLE;
		return 0;
	}
	if (add_rule(set, rule))
		return -ENOMEM;
	*number = SO_FIRST_RULE + set->n - 1;
	set->slots[slot] = *number;
	return set->n > set->n_slots / 2 ? rehash(set, 2 * set->n_slots) : 0;
}

void cfi_rules__release(struct cfi_rules *set)
{
	free(set->rules);
	free(set->slots);
	*set = (struct cfi_rules){ 0 };
}
