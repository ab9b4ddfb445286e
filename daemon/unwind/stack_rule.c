// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/stack_rule.h"

static const struct stack_value unknown = { .kind = STACK_UNKNOWN };

static bool is_reg(struct stack_value v, uint8_t reg)
{
	return v.kind == STACK_REG && v.base == reg;
}

/* Registers that may hold a copy of rsp at the entry. A stack pointer from an argument switches to another stack. */
static bool may_keep_stack(uint8_t base)
{
	return base == SO_REG_RBX || base == SO_REG_RBP || (base >= SO_REG_R10 && base < SO_NREGS);
}

/* `rsp` before a return: whether the return address can lie there. */
static bool plausible_end(const struct stack_state *s, struct stack_value rsp)
{
	if (stack_state__slot(s, rsp)) /* it was pushed on the way: no return but a jump */
		return false;
	switch (rsp.kind) {
	case STACK_REG:
		if (rsp.base != SO_REG_RSP)
			return may_keep_stack(rsp.base);
		/* A function that calls has a return address above the arguments of its calls. */
		return rsp.a >= 0 && rsp.a % 8 == 0 && !(s->called && rsp.a <= s->call_off);
	case STACK_MEM:
		return rsp.base == SO_REG_RSP || rsp.base == SO_REG_RBP;
	default:
		return false;
	}
}

/* Whether the word at the address ends below the return address, as far as the two can be compared. */
static bool below_return(struct stack_value address, struct stack_value cfa)
{
	int32_t distance;

	return !stack_value__distance(address, cfa, &distance) || distance >= 16;
}

static struct stack_value callers_value(struct stack_value v, uint8_t reg, struct stack_value cfa)
{
	struct stack_value address;

	if (is_reg(v, reg) && !v.a)
		return v;
	if (v.kind == STACK_MEM && !v.b)
		address = (struct stack_value){ STACK_REG, v.base, v.a, 0 };
	else if (v.kind == STACK_MEM2)
		address = (struct stack_value){ STACK_MEM, v.base, v.a, v.b };
	else
		return unknown;
	return below_return(address, cfa) ? v : unknown;
}

bool stack_verdict__of_return(const struct stack_state *s, struct stack_verdict *out)
{
	struct stack_value rsp = s->regs[SO_REG_RSP];
	struct stack_verdict v;

	if (!plausible_end(s, rsp))
		return false;
	v.cfa = stack_value__plus(rsp, 8);
	if (v.cfa.kind == STACK_UNKNOWN)
		return false;
	v.rbp = callers_value(s->regs[SO_REG_RBP], SO_REG_RBP, v.cfa);
	v.rbx = callers_value(s->regs[SO_REG_RBX], SO_REG_RBX, v.cfa);
	*out = v;
	return true;
}

bool stack_verdict__of_tail_call(const struct stack_state *s, struct stack_verdict *out)
{
	static const uint8_t restored[] = { SO_REG_RBX, SO_REG_RBP, SO_REG_R12, SO_REG_R13, SO_REG_R14, SO_REG_R15 };
	struct stack_value rsp = s->regs[SO_REG_RSP];

	if (is_reg(rsp, SO_REG_RSP) && rsp.a <= 0)
		return false;
	for (unsigned i = 0; i < sizeof(restored); i++) {
		struct stack_value v = s->regs[restored[i]];

		if (v.kind == STACK_MEM && !v.b && (v.base == SO_REG_RSP || v.base == SO_REG_RBP))
			return stack_verdict__of_return(s, out);
	}
	return false;
}

bool stack_verdict__agree(struct stack_verdict *v, const struct stack_verdict *other)
{
	if (!stack_value__same(v->rbp, other->rbp))
		v->rbp = unknown;
	if (!stack_value__same(v->rbx, other->rbx))
		v->rbx = unknown;
	return stack_value__same(v->cfa, other->cfa);
}

/* Whether a value that is still in memory may be lost by `bytes` written at `address`. */
static bool overwrites(struct stack_value value, struct stack_value address, uint32_t bytes, struct stack_value stored)
{
	if (value.kind != STACK_MEM || value.base != address.base || stack_value__same(value, stored))
		return false;
	return (int64_t)value.a < (int64_t)address.a + bytes && (int64_t)address.a < (int64_t)value.a + 8;
}

static bool below_call(struct stack_value value, struct stack_value rsp)
{
	return value.kind == STACK_MEM && rsp.kind == STACK_REG && value.base == rsp.base && value.a < rsp.a;
}

/*
 * A register is stored, by its value at the entry, in a place that cannot be compared with the one from which `wanted`
 * is loaded later: the entry may lie before the save, and the two may be one place. Not where that place is found
 * through the register itself: it points into this frame already, and is stored to be found by others (V8 does so for
 * the frames of calls into C).
 */
static bool may_be_saved_later(struct stack_value wanted, struct stack_value address, uint8_t reg)
{
	if (wanted.kind == STACK_MEM)
		return wanted.base != address.base && wanted.base != reg;
	return wanted.kind == STACK_MEM2;
}

/* The caller's value is back in its register: what becomes of the place that it was saved in matters no more. */
static bool is_restored(const struct stack_state *s, uint8_t reg, struct stack_value wanted)
{
	return stack_value__same(s->regs[reg], wanted);
}

static bool lost_by_call(const struct stack_state *s, uint8_t reg, struct stack_value wanted)
{
	return below_call(wanted, s->regs[SO_REG_RSP]) && !is_restored(s, reg, wanted);
}

/* What an instruction writes. */
struct written {
	struct stack_value address, value;
	uint32_t bytes;
	bool entry; /* the value is that of a register at the entry */
};

static bool lost_by_store(const struct stack_state *s, uint8_t reg, struct stack_value wanted, const struct written *w)
{
	if (w->entry && w->value.base == reg && may_be_saved_later(wanted, w->address, reg))
		return true;
	return overwrites(wanted, w->address, w->bytes, w->value) && !is_restored(s, reg, wanted);
}

bool stack_verdict__survives(struct stack_verdict *v, const struct stack_state *s, const struct stack_insn *insn)
{
	/* The word that holds the CFA, without the constant that is added to it. */
	struct stack_value cfa = v->cfa;
	struct written w;

	cfa.b = 0;
	if (insn->flow == STACK_FLOW_CALL) {
		if (lost_by_call(s, SO_REG_RBP, v->rbp))
			v->rbp = unknown;
		if (lost_by_call(s, SO_REG_RBX, v->rbx))
			v->rbx = unknown;
		return !below_call(cfa, s->regs[SO_REG_RSP]);
	}
	if (!stack_state__store(s, insn, &w.address, &w.bytes, &w.value))
		return true;
	w.entry = w.value.kind == STACK_REG && !w.value.a;
	if (lost_by_store(s, SO_REG_RBP, v->rbp, &w))
		v->rbp = unknown;
	if (lost_by_store(s, SO_REG_RBX, v->rbx, &w))
		v->rbx = unknown;
	/* The old stack pointer may be in any register; what is stored below rsp comes from a prologue, most likely. */
	if (w.entry && (w.address.base != SO_REG_RSP || w.address.a < 0) &&
	    may_be_saved_later(cfa, w.address, STACK_NO_REG))
		return false;
	return !overwrites(cfa, w.address, w.bytes, w.value);
}

/* `push rbp; mov rbp, rsp`: the saved rbp and the return address lie between. */
#define FRAME_POINTER_TO_CFA 16

/* Where to look for a copy of the stack pointer; the first three are known in every frame. */
static const uint8_t cfa_registers[] = {
	SO_REG_RSP, SO_REG_RBP, SO_REG_RBX, SO_REG_R12, SO_REG_R13, SO_REG_R14, SO_REG_R15, SO_REG_R10,
	SO_REG_R11, SO_REG_RAX, SO_REG_RDX, SO_REG_RCX, SO_REG_RSI, SO_REG_RDI, SO_REG_R8,  SO_REG_R9,
};

/* A register that is `value` but for a constant. */
static bool find_register(const struct stack_state *s, struct stack_value value, uint8_t *reg, int32_t *off)
{
	for (unsigned i = 0; i < sizeof(cfa_registers); i++) {
		*reg = cfa_registers[i];
		if (stack_value__distance(s->regs[*reg], value, off))
			return true;
	}
	return false;
}

/* A word in memory that is `value` but for a constant: one written on the way, or there since the entry. */
static bool find_word(const struct stack_state *s, struct stack_value value, struct so_unwind_rule *rule)
{
	struct stack_value address = { .kind = STACK_REG };

	for (uint32_t i = 0; i < s->n_slots; i++) {
		address.base = s->slots[i].base;
		address.a = s->slots[i].off;
		if (stack_value__distance(s->slots[i].value, value, &rule->cfa_off2) &&
		    find_register(s, address, &rule->cfa_reg, &rule->cfa_off))
			return true;
	}
	if (value.kind != STACK_MEM)
		return false;
	address.base = value.base;
	address.a = value.a;
	rule->cfa_off2 = value.b;
	return find_register(s, address, &rule->cfa_reg, &rule->cfa_off);
}

/* A frame pointer goes before rsp, as in compilers' rules: a callee may take its arguments off the stack. */
static bool has_frame_pointer(const struct stack_verdict *v, const struct stack_state *s)
{
	int32_t off;

	return stack_value__distance(s->regs[SO_REG_RBP], v->cfa, &off) && off == FRAME_POINTER_TO_CFA;
}

static bool find_cfa(const struct stack_verdict *v, const struct stack_state *s, struct so_unwind_rule *rule)
{
	if (has_frame_pointer(v, s)) {
		rule->cfa_kind = SO_CFA_REG;
		rule->cfa_reg = SO_REG_RBP;
		rule->cfa_off = FRAME_POINTER_TO_CFA;
		return true;
	}
	if (find_register(s, v->cfa, &rule->cfa_reg, &rule->cfa_off)) {
		rule->cfa_kind = SO_CFA_REG;
		return rule->cfa_reg != SO_REG_RSP || rule->cfa_off >= 8;
	}
	rule->cfa_kind = SO_CFA_DEREF;
	return find_word(s, v->cfa, rule);
}

/* How the unwinder reaches an address: from the CFA, or from this frame's rbp. */
static bool find_place(const struct stack_verdict *v, const struct stack_state *s, struct stack_value address,
		       enum so_save_kind *kind, int16_t *off)
{
	int32_t distance;

	if (stack_value__distance(v->cfa, address, &distance))
		*kind = SO_SAVE_CFA;
	else if (stack_value__distance(s->regs[SO_REG_RBP], address, &distance))
		*kind = SO_SAVE_RBP;
	else
		return false;
	*off = (int16_t)distance;
	return *off == distance;
}

/* Whether a word that was there at the entry has been popped since. One in the red zone of the entry is still there. */
static bool given_up(const struct stack_state *s, struct stack_value address)
{
	int32_t above;

	if (!stack_value__distance(s->regs[SO_REG_RSP], address, &above) || above >= 0)
		return false;
	return !is_reg(address, SO_REG_RSP) || address.a >= 0 || s->regs[SO_REG_RSP].a > 0;
}

static enum so_save_kind find_save(const struct stack_verdict *v, const struct stack_state *s, uint8_t reg,
				   struct stack_value value, int16_t *off)
{
	struct stack_value address = { .kind = STACK_REG };
	enum so_save_kind kind;

	if (value.kind == STACK_UNKNOWN)
		return SO_SAVE_UNDEFINED;
	if (stack_value__same(s->regs[reg], value))
		return SO_SAVE_SAME;
	for (uint32_t i = 0; i < s->n_slots; i++) {
		address.base = s->slots[i].base;
		address.a = s->slots[i].off;
		if (stack_value__same(s->slots[i].value, value) && find_place(v, s, address, &kind, off))
			return kind;
	}
	if (value.kind == STACK_MEM)
		address = (struct stack_value){ STACK_REG, value.base, value.a, 0 };
	else if (value.kind == STACK_MEM2)
		address = (struct stack_value){ STACK_MEM, value.base, value.a, value.b };
	else
		return SO_SAVE_UNDEFINED;
	/* Popped since, or written over after it was loaded. */
	if (given_up(s, address) || stack_state__slot(s, address))
		return SO_SAVE_UNDEFINED;
	return find_place(v, s, address, &kind, off) ? kind : SO_SAVE_UNDEFINED;
}

bool stack_verdict__rule(const struct stack_verdict *v, const struct stack_state *s, struct so_unwind_rule *out)
{
	struct so_unwind_rule rule = { .ra = SO_RA(SO_RA_CFA8, 0) };
	enum so_save_kind rbp, rbx;

	if (!find_cfa(v, s, &rule))
		return false;
	rbp = find_save(v, s, SO_REG_RBP, v->rbp, &rule.rbp_off);
	rbx = find_save(v, s, SO_REG_RBX, v->rbx, &rule.rbx_off);
	/* A place that was tried and did not fit has left its offset. */
	if (rbp == SO_SAVE_UNDEFINED)
		rule.rbp_off = 0;
	if (rbx == SO_SAVE_UNDEFINED)
		rule.rbx_off = 0;
	rule.saves = SO_SAVES(rbp, rbx);
	*out = rule;
	return true;
}
