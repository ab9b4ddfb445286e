// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/stack_state.h"

#include <string.h>

/* Registers that a call may change (System V psABI x86-64, figure 3.4). */
#define CALLER_SAVED                                                                                    \
	(1u << SO_REG_RAX | 1u << SO_REG_RDX | 1u << SO_REG_RCX | 1u << SO_REG_RSI | 1u << SO_REG_RDI | \
	 1u << SO_REG_R8 | 1u << SO_REG_R9 | 1u << SO_REG_R10 | 1u << SO_REG_R11)

static const struct stack_value unknown = { .kind = STACK_UNKNOWN };

static void forget(struct stack_state *s, uint32_t registers)
{
	for (unsigned r = 0; r < SO_NREGS; r++)
		if (registers & 1u << r)
			s->regs[r] = unknown;
}

void stack_state__start(struct stack_state *s, bool after_call)
{
	memset(s, 0, sizeof(*s));
	for (unsigned r = 0; r < SO_NREGS; r++)
		s->regs[r] = (struct stack_value){ .kind = STACK_REG, .base = (uint8_t)r };
	if (after_call) {
		forget(s, CALLER_SAVED);
		s->called = true;
	}
}

struct stack_value stack_value__plus(struct stack_value x, int64_t add)
{
	int32_t *constant = x.kind == STACK_REG ? &x.a : &x.b;

	if (!add)
		return x;
	if (x.kind == STACK_UNKNOWN || x.kind == STACK_MEM2)
		return unknown;
	return __builtin_add_overflow(*constant, add, constant) ? unknown : x;
}

bool stack_value__distance(struct stack_value from, struct stack_value to, int32_t *distance)
{
	if (from.kind != to.kind || from.base != to.base)
		return false;
	if (from.kind == STACK_REG)
		return !__builtin_sub_overflow(to.a, from.a, distance);
	if (from.kind == STACK_MEM && from.a == to.a)
		return !__builtin_sub_overflow(to.b, from.b, distance);
	return false;
}

/* Whether eight bytes at x and `bytes` at y share any. */
static bool overlap(int32_t x, int32_t y, uint32_t bytes)
{
	return (int64_t)x < (int64_t)y + bytes && (int64_t)y < (int64_t)x + 8;
}

const struct stack_slot *stack_state__slot(const struct stack_state *s, struct stack_value address)
{
	if (address.kind != STACK_REG)
		return NULL;
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].base == address.base && s->slots[i].off == address.a)
			return &s->slots[i];
	return NULL;
}

static void drop_slot(struct stack_state *s, uint32_t i)
{
	s->slots[i] = s->slots[--s->n_slots];
}

static void store(struct stack_state *s, struct stack_value address, uint32_t bytes, struct stack_value value)
{
	if (address.kind != STACK_REG)
		return;
	for (uint32_t i = 0; i < s->n_slots;) {
		if (s->slots[i].base == address.base && overlap(s->slots[i].off, address.a, bytes))
			drop_slot(s, i);
		else
			i++;
	}
	if (value.kind == STACK_UNKNOWN || bytes != 8 || s->n_slots == STACK_MAX_SLOTS)
		return;
	s->slots[s->n_slots++] = (struct stack_slot){ .base = address.base, .off = address.a, .value = value };
}

/* What memory holds: what was stored on the way, else at the entry. A STACK_MEM's user looks for unseen stores. */
static struct stack_value load(const struct stack_state *s, struct stack_value address)
{
	const struct stack_slot *slot = stack_state__slot(s, address);

	if (slot)
		return slot->value;
	if (address.kind == STACK_MEM)
		return (struct stack_value){ STACK_MEM2, address.base, address.a, address.b };
	if (address.kind != STACK_REG || address.base >= STACK_FIRST_FRESH)
		return unknown;
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].base == address.base && overlap(s->slots[i].off, address.a, 8))
			return unknown;
	if (address.base == SO_REG_RSP && address.a < -STACK_RED_ZONE)
		return unknown;
	return (struct stack_value){ STACK_MEM, address.base, address.a, 0 };
}

static void pop(struct stack_state *s, uint8_t reg, uint32_t bytes)
{
	struct stack_value *rsp = &s->regs[SO_REG_RSP], value = bytes == 8 ? load(s, *rsp) : unknown;

	*rsp = stack_value__plus(*rsp, bytes);
	if (reg != STACK_NO_REG)
		s->regs[reg] = value;
}

/* The callee may change what lies below rsp. */
static void call(struct stack_state *s, bool returns)
{
	struct stack_value rsp = s->regs[SO_REG_RSP];

	forget(s, CALLER_SAVED);
	if (rsp.kind != STACK_REG)
		return;
	for (uint32_t i = 0; i < s->n_slots;) {
		if (s->slots[i].base == rsp.base && s->slots[i].off < rsp.a)
			drop_slot(s, i);
		else
			i++;
	}
	if (!returns && rsp.base == SO_REG_RSP && (!s->called || rsp.a > s->call_off)) {
		s->called = true;
		s->call_off = rsp.a;
	}
}

static bool value_uses(struct stack_value v, uint8_t base)
{
	return v.kind != STACK_UNKNOWN && v.base == base;
}

static void realign(struct stack_state *s, int fresh)
{
	uint8_t base = (uint8_t)(STACK_FIRST_FRESH + fresh);

	s->regs[SO_REG_RSP] = unknown;
	if (fresh < 0 || fresh >= STACK_N_FRESH)
		return;
	/* What an earlier turn of a loop has left under this name is something else now. */
	for (unsigned r = 0; r < SO_NREGS; r++)
		if (value_uses(s->regs[r], base))
			s->regs[r] = unknown;
	for (uint32_t i = 0; i < s->n_slots;) {
		if (s->slots[i].base == base || value_uses(s->slots[i].value, base))
			drop_slot(s, i);
		else
			i++;
	}
	s->regs[SO_REG_RSP] = (struct stack_value){ .kind = STACK_REG, .base = base };
}

bool stack_state__store(const struct stack_state *s, const struct stack_insn *insn, struct stack_value *address,
			uint32_t *bytes, struct stack_value *value)
{
	*value = insn->reg != STACK_NO_REG ? s->regs[insn->reg] : unknown;
	*bytes = insn->bytes;
	switch (insn->op) {
	case STACK_OP_POP_STORE:
		*value = unknown;
		*address = stack_value__plus(s->regs[insn->base], insn->disp);
		break;
	case STACK_OP_STORE:
		*address = stack_value__plus(s->regs[insn->base], insn->disp);
		break;
	case STACK_OP_PUSH:
		*address = stack_value__plus(s->regs[SO_REG_RSP], -(int64_t)insn->bytes);
		break;
	case STACK_OP_ENTER:
		*address = stack_value__plus(s->regs[SO_REG_RSP], -8);
		*value = s->regs[SO_REG_RBP];
		*bytes = 8;
		break;
	default:
		return false;
	}
	if (*bytes != 8)
		*value = unknown;
	return address->kind == STACK_REG;
}

/* Slots that rsp has moved over are nobody's now. Those that were below it before are in the red zone, and stay. */
static void release(struct stack_state *s, struct stack_value before)
{
	struct stack_value now = s->regs[SO_REG_RSP];

	if (before.kind != STACK_REG || now.kind != STACK_REG || before.base != now.base)
		return;
	for (uint32_t i = 0; i < s->n_slots;) {
		const struct stack_slot *slot = &s->slots[i];

		if (slot->base == now.base && slot->off >= before.a && slot->off < now.a)
			drop_slot(s, i);
		else
			i++;
	}
}

static void execute(struct stack_state *s, const struct stack_insn *insn, int fresh)
{
	struct stack_value *rsp = &s->regs[SO_REG_RSP], address, value;
	uint32_t bytes;

	if (stack_state__store(s, insn, &address, &bytes, &value))
		store(s, address, bytes, value);
	switch (insn->op) {
	case STACK_OP_LEA:
		s->regs[insn->reg] = stack_value__plus(s->regs[insn->base], insn->disp);
		break;
	case STACK_OP_LOAD:
		s->regs[insn->reg] = load(s, stack_value__plus(s->regs[insn->base], insn->disp));
		break;
	case STACK_OP_PUSH:
		*rsp = stack_value__plus(*rsp, -(int64_t)insn->bytes);
		break;
	case STACK_OP_POP:
	case STACK_OP_POP_STORE:
		pop(s, insn->reg, insn->bytes);
		break;
	case STACK_OP_LEAVE:
		*rsp = s->regs[SO_REG_RBP];
		pop(s, SO_REG_RBP, 8);
		break;
	case STACK_OP_ENTER:
		*rsp = stack_value__plus(*rsp, -8);
		s->regs[SO_REG_RBP] = *rsp;
		*rsp = stack_value__plus(*rsp, -(int64_t)insn->disp);
		break;
	case STACK_OP_REALIGN:
		realign(s, fresh);
		break;
	default:
		break;
	}
}

void stack_state__apply(struct stack_state *s, const struct stack_insn *insn, int fresh)
{
	struct stack_value rsp = s->regs[SO_REG_RSP];

	execute(s, insn, fresh);
	release(s, rsp);
	forget(s, insn->written);
	if (insn->flow == STACK_FLOW_CALL)
		call(s, insn->returns);
}

bool stack_state__join(struct stack_state *s, const struct stack_state *other)
{
	bool changed = false;

	for (unsigned r = 0; r < SO_NREGS; r++) {
		if (s->regs[r].kind != STACK_UNKNOWN && !stack_value__same(s->regs[r], other->regs[r])) {
			s->regs[r] = unknown;
			changed = true;
		}
	}
	for (uint32_t i = 0; i < s->n_slots;) {
		const struct stack_slot *slot = stack_state__slot(
			other, (struct stack_value){ STACK_REG, s->slots[i].base, s->slots[i].off, 0 });

		if (slot && stack_value__same(slot->value, s->slots[i].value)) {
			i++;
			continue;
		}
		drop_slot(s, i);
		changed = true;
	}
	if (other->called && (!s->called || other->call_off > s->call_off)) {
		s->called = true;
		s->call_off = other->call_off;
		changed = true;
	}
	return changed;
}
