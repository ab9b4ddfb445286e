// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/golden/cfi_walk.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

#include "stakeout/abi.h"
#include "stakeout/cleanup.h"

#define MAX_DEPTH 16

static const uint32_t callee_saved = 1u << SO_REG_RBX | 1u << SO_REG_RBP | 1u << SO_REG_R12 | 1u << SO_REG_R13 |
				     1u << SO_REG_R14 | 1u << SO_REG_R15;

/* An expression's value; `address` when it is the place of the value and not the value. */
struct result {
	uint64_t value;
	bool address;
};

struct machine {
	const struct cfi_walk *w;
	uint64_t cfa;
	uint64_t stack[MAX_DEPTH];
	unsigned n;
};

static bool push(struct machine *m, uint64_t value)
{
	if (m->n == MAX_DEPTH)
		return false;
	m->stack[m->n++] = value;
	return true;
}

static bool push_register(struct machine *m, uint64_t reg, uint64_t offset)
{
	return reg < TRACEE_REGS && m->w->known & 1u << reg && push(m, m->w->regs[reg] + offset);
}

static bool binary(struct machine *m, uint8_t atom)
{
	uint64_t b, *a;

	if (m->n < 2)
		return false;
	b = m->stack[--m->n];
	a = &m->stack[m->n - 1];
	switch (atom) {
	case DW_OP_plus:
		*a += b;
		return true;
	case DW_OP_minus:
		*a -= b;
		return true;
	case DW_OP_and:
		*a &= b;
		return true;
	case DW_OP_or:
		*a |= b;
		return true;
	case DW_OP_shl:
		*a = b < 64 ? *a << b : 0;
		return true;
	case DW_OP_mul:
		*a *= b;
		return true;
	case DW_OP_ge:
		*a = (int64_t)*a >= (int64_t)b;
		return true;
	default:
		return false;
	}
}

static bool execute(struct machine *m, const Dwarf_Op *op, struct result *r)
{
	uint8_t atom = op->atom;

	if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
		return push(m, atom - DW_OP_lit0);
	if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
		return push_register(m, atom - DW_OP_breg0, op->number);
	if (atom >= DW_OP_const1u && atom <= DW_OP_consts)
		return push(m, op->number);
	switch (atom) {
	case DW_OP_bregx:
		return push_register(m, op->number, op->number2);
	case DW_OP_call_frame_cfa:
		return push(m, m->cfa);
	case DW_OP_plus_uconst:
		if (!m->n)
			return false;
		m->stack[m->n - 1] += op->number;
		return true;
	case DW_OP_deref:
		return m->n && m->w->read(m->w->context, m->stack[m->n - 1], &m->stack[m->n - 1]);
	case DW_OP_regx:
		r->address = false;
		return push_register(m, op->number, 0);
	case DW_OP_stack_value:
		r->address = false;
		return true;
	default:
		return binary(m, atom);
	}
}

static bool evaluate(const struct cfi_walk *w, uint64_t cfa, const Dwarf_Op *ops, size_t n, struct result *out)
{
	struct machine m = { .w = w, .cfa = cfa };
	struct result r = { .address = true };

	for (size_t i = 0; i < n; i++) {
		if (ops[i].atom >= DW_OP_reg0 && ops[i].atom <= DW_OP_reg31) {
			r.address = false;
			if (!push_register(&m, ops[i].atom - DW_OP_reg0, 0))
				return false;
		} else if (!execute(&m, &ops[i], &r)) {
			return false;
		}
	}
	if (!m.n)
		return false;
	r.value = m.stack[m.n - 1];
	*out = r;
	return true;
}

/* The caller's value of a register. False: it is lost. */
static bool restore(const struct cfi_walk *w, Dwarf_Frame *frame, uint64_t cfa, int reg, uint64_t *value)
{
	struct result r;
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return false;
	if (!n && ops && !(callee_saved & 1u << reg))
		return false;
	if (!n) {
		*value = w->regs[reg];
		return w->known & 1u << reg;
	}
	if (!evaluate(w, cfa, ops, n, &r))
		return false;
	*value = r.value;
	return !r.address || w->read(w->context, r.value, value);
}

static bool is_outermost(Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	return !dwarf_frame_register(frame, TRACEE_PC, mem, &ops, &n) && !n && ops;
}

static Dwarf_Frame *frame_of(struct cfi_walk *w)
{
	uint64_t at = w->regs[TRACEE_PC] - !w->exact;
	Dwfl_Module *mod = dwfl_addrmodule(w->dwfl, at);
	Dwarf_Frame *frame;
	Dwarf_Addr bias;
	Dwarf_CFI *cfi = mod ? dwfl_module_eh_cfi(mod, &bias) : NULL;

	return cfi && !dwarf_cfi_addrframe(cfi, at - bias, &frame) ? frame : NULL;
}

enum cfi_step cfi_walk__step(struct cfi_walk *w)
{
	_cleanup_free_ Dwarf_Frame *frame = frame_of(w);
	struct cfi_walk caller = *w;
	struct result cfa;
	Dwarf_Op *ops;
	bool signal;
	size_t n;

	if (!frame)
		return CFI_UNKNOWN;
	if (is_outermost(frame))
		return CFI_OUTERMOST;
	if (dwarf_frame_info(frame, NULL, NULL, &signal) != TRACEE_PC || dwarf_frame_cfa(frame, &ops, &n) ||
	    !evaluate(w, 0, ops, n, &cfa))
		return CFI_UNKNOWN;
	caller.known = 0;
	for (int reg = 0; reg < TRACEE_REGS; reg++) {
		if (restore(w, frame, cfa.value, reg, &caller.regs[reg]))
			caller.known |= 1u << reg;
	}
	if (!(caller.known & 1u << TRACEE_PC))
		return CFI_UNKNOWN;
	caller.exact = signal;
	caller.leaped = !signal && caller.regs[SO_REG_RSP] != cfa.value;
	*w = caller;
	return CFI_CALLER;
}
