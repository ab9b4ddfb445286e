// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/cfi_program.h"

#include <dwarf.h>
#include <errno.h>

#include "daemon/unwind/cfi_reader.h"
#include "stakeout/abi.h"

/* In elfutils' dwarf.h this number has its other name, of other machines. */
#define CFA_MIPS_ADVANCE_LOC8 0x1d

/* Compilers nest one deep, hand-written code a few. */
#define MAX_REMEMBERED 32

struct machine {
	const struct cfi_program *program;
	const struct cfi_cie *cie;
	const struct cfi_state *initial; /* NULL while the CIE's own instructions run */
	struct cfi_reader code;
	uint64_t pc;
	struct cfi_state state;
	unsigned n_remembered;
	struct cfi_state remembered[MAX_REMEMBERED];
	cfi_row_fn row;
	void *context;
};

/* Operands of the instructions that are not packed into one byte's upper bits. */
enum operand {
	NO,
	U1, /* fixed width, bytes */
	U2 = 2,
	U4 = 4,
	U8 = 8,
	ULEB,
	SLEB,
	BLOCK, /* ULEB size, then as many bytes */
	ADDRESS,
};

static const struct {
	bool known;
	uint8_t operand[2];
} instructions[64] = {
	[DW_CFA_nop] = { true, { NO, NO } },
	[DW_CFA_set_loc] = { true, { ADDRESS, NO } },
	[DW_CFA_advance_loc1] = { true, { U1, NO } },
	[DW_CFA_advance_loc2] = { true, { U2, NO } },
	[DW_CFA_advance_loc4] = { true, { U4, NO } },
	[DW_CFA_offset_extended] = { true, { ULEB, ULEB } },
	[DW_CFA_restore_extended] = { true, { ULEB, NO } },
	[DW_CFA_undefined] = { true, { ULEB, NO } },
	[DW_CFA_same_value] = { true, { ULEB, NO } },
	[DW_CFA_register] = { true, { ULEB, ULEB } },
	[DW_CFA_remember_state] = { true, { NO, NO } },
	[DW_CFA_restore_state] = { true, { NO, NO } },
	[DW_CFA_def_cfa] = { true, { ULEB, ULEB } },
	[DW_CFA_def_cfa_register] = { true, { ULEB, NO } },
	[DW_CFA_def_cfa_offset] = { true, { ULEB, NO } },
	[DW_CFA_def_cfa_expression] = { true, { BLOCK, NO } },
	[DW_CFA_expression] = { true, { ULEB, BLOCK } },
	[DW_CFA_offset_extended_sf] = { true, { ULEB, SLEB } },
	[DW_CFA_def_cfa_sf] = { true, { ULEB, SLEB } },
	[DW_CFA_def_cfa_offset_sf] = { true, { SLEB, NO } },
	[DW_CFA_val_offset] = { true, { ULEB, ULEB } },
	[DW_CFA_val_offset_sf] = { true, { ULEB, SLEB } },
	[DW_CFA_val_expression] = { true, { ULEB, BLOCK } },
	[CFA_MIPS_ADVANCE_LOC8] = { true, { U8, NO } },
	[DW_CFA_GNU_args_size] = { true, { ULEB, NO } },
	[DW_CFA_GNU_negative_offset_extended] = { true, { ULEB, ULEB } },
};

/* The operands as numbers; of a block its size, with the bytes aside. */
struct operands {
	uint64_t v[2];
	const uint8_t *block;
};

static bool read_operand(struct machine *m, enum operand kind, uint64_t *v, const uint8_t **block)
{
	struct cfi_reader *code = &m->code;

	switch (kind) {
	case NO:
		return true;
	case ULEB:
		return cfi_reader__uleb(code, v);
	case SLEB:
		return cfi_reader__sleb(code, (int64_t *)v);
	case BLOCK:
		if (!cfi_reader__uleb(code, v))
			return false;
		*block = code->at;
		return *v <= UINT32_MAX && cfi_reader__skip(code, *v);
	case ADDRESS:
		return cfi_reader__pointer(code, m->cie->pointer_encoding,
					   m->program->code_vaddr + (uint64_t)(code->at - m->program->code), 0, v);
	default:
		return cfi_reader__fixed(code, kind, v);
	}
}

static struct cfi_place *column(struct machine *m, uint64_t number)
{
	if (number == SO_REG_RBX)
		return &m->state.columns[CFI_RBX];
	if (number == SO_REG_RBP)
		return &m->state.columns[CFI_RBP];
	if (number == SO_REG_RSP)
		return &m->state.columns[CFI_RSP];
	return number == m->cie->ra_column ? &m->state.columns[CFI_RA] : NULL;
}

static int set_column(struct machine *m, uint64_t number, struct cfi_place place)
{
	struct cfi_place *p = column(m, number);

	if (p)
		*p = place;
	return 0;
}

static int set_column_how(struct machine *m, uint64_t number, enum cfi_how how)
{
	return set_column(m, number, (struct cfi_place){ .how = how });
}

static int set_column_offset(struct machine *m, uint64_t number, enum cfi_how how, int64_t factored)
{
	struct cfi_place place = { .how = how };

	if (__builtin_mul_overflow(factored, m->cie->data_align, &place.offset))
		return -EINVAL;
	return set_column(m, number, place);
}

static int set_column_block(struct machine *m, const struct operands *o, enum cfi_how how)
{
	return set_column(m, o->v[0],
			  (struct cfi_place){ .how = how, .number = (uint32_t)o->v[1], .expression = o->block });
}

static int restore_column(struct machine *m, uint64_t number)
{
	struct cfi_place *p = column(m, number);

	if (!m->initial)
		return -EINVAL;
	if (p)
		*p = m->initial->columns[p - m->state.columns];
	return 0;
}

static int set_cfa_register(struct machine *m, uint64_t reg)
{
	if (m->state.cfa.how == CFI_UNSET)
		return -EINVAL;
	m->state.cfa.how = CFI_REGISTER;
	m->state.cfa.reg = reg > UINT32_MAX ? UINT32_MAX : (uint32_t)reg;
	return 0;
}

/* Does not end the reign of an expression: only naming a register does. */
static int set_cfa_offset(struct machine *m, int64_t offset)
{
	if (m->state.cfa.how == CFI_UNSET)
		return -EINVAL;
	m->state.cfa.offset = offset;
	return 0;
}

static int set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->state.cfa.how = CFI_REGISTER;
	m->state.cfa.offset = offset;
	return set_cfa_register(m, reg);
}

static int set_cfa_expression(struct machine *m, const struct operands *o)
{
	m->state.cfa.how = CFI_EXPRESSION;
	m->state.cfa.expression =
		(struct cfi_place){ .how = CFI_EXPRESSION, .number = (uint32_t)o->v[0], .expression = o->block };
	return 0;
}

static int set_cfa_factored(struct machine *m, const uint64_t *reg, int64_t factored)
{
	int64_t offset;

	if (__builtin_mul_overflow(factored, m->cie->data_align, &offset))
		return -EINVAL;
	return reg ? set_cfa(m, *reg, offset) : set_cfa_offset(m, offset);
}

static int remember(struct machine *m)
{
	if (m->n_remembered == MAX_REMEMBERED)
		return -EINVAL;
	m->remembered[m->n_remembered++] = m->state;
	return 0;
}

static int recall(struct machine *m)
{
	if (!m->n_remembered)
		return -EINVAL;
	m->state = m->remembered[--m->n_remembered];
	return 0;
}

/* Reports the row that ends here. 1: the program has passed its last address. */
static int move_to(struct machine *m, uint64_t pc)
{
	int ret;

	if (!m->initial || pc < m->pc)
		return -EINVAL;
	if (pc == m->pc)
		return 0;
	ret = m->row(m->context, m->pc, &m->state);
	if (ret)
		return ret;
	m->pc = pc;
	return pc >= m->program->end;
}

static int advance(struct machine *m, uint64_t delta)
{
	uint64_t pc;

	if (__builtin_mul_overflow(delta, m->cie->code_align, &delta) || __builtin_add_overflow(m->pc, delta, &pc))
		return -EINVAL;
	return move_to(m, pc);
}

static int execute(struct machine *m, uint8_t opcode, const struct operands *o)
{
	switch (opcode) {
	case DW_CFA_set_loc:
		return move_to(m, o->v[0]);
	case DW_CFA_advance_loc1:
	case DW_CFA_advance_loc2:
	case DW_CFA_advance_loc4:
	case CFA_MIPS_ADVANCE_LOC8:
		return advance(m, o->v[0]);
	case DW_CFA_remember_state:
		return remember(m);
	case DW_CFA_restore_state:
		return recall(m);
	case DW_CFA_def_cfa:
		return set_cfa(m, o->v[0], (int64_t)o->v[1]);
	case DW_CFA_def_cfa_sf:
		return set_cfa_factored(m, &o->v[0], (int64_t)o->v[1]);
	case DW_CFA_def_cfa_register:
		return set_cfa_register(m, o->v[0]);
	case DW_CFA_def_cfa_offset:
		return set_cfa_offset(m, (int64_t)o->v[0]);
	case DW_CFA_def_cfa_offset_sf:
		return set_cfa_factored(m, NULL, (int64_t)o->v[0]);
	case DW_CFA_def_cfa_expression:
		return set_cfa_expression(m, o);
	case DW_CFA_undefined:
		return set_column_how(m, o->v[0], CFI_UNDEFINED);
	case DW_CFA_same_value:
		return set_column_how(m, o->v[0], CFI_SAME);
	case DW_CFA_restore_extended:
		return restore_column(m, o->v[0]);
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
		return set_column_offset(m, o->v[0], CFI_OFFSET, (int64_t)o->v[1]);
	case DW_CFA_GNU_negative_offset_extended:
		return o->v[1] > INT64_MAX ? -EINVAL : set_column_offset(m, o->v[0], CFI_OFFSET, -(int64_t)o->v[1]);
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		return set_column_offset(m, o->v[0], CFI_VALUE, (int64_t)o->v[1]);
	case DW_CFA_register:
		return set_column(
			m, o->v[0],
			(struct cfi_place){ .how = CFI_REGISTER,
					    .number = o->v[1] > UINT32_MAX ? UINT32_MAX : (uint32_t)o->v[1] });
	case DW_CFA_expression:
		return set_column_block(m, o, CFI_EXPRESSION);
	case DW_CFA_val_expression:
		return set_column_block(m, o, CFI_VALUE_EXPRESSION);
	default: /* nop, and the argument-area size, which only exception handling needs */
		return 0;
	}
}

static int execute_long(struct machine *m, uint8_t opcode)
{
	struct operands o = { 0 };

	if (!instructions[opcode].known || !read_operand(m, instructions[opcode].operand[0], &o.v[0], &o.block) ||
	    !read_operand(m, instructions[opcode].operand[1], &o.v[1], &o.block))
		return -EINVAL;
	return execute(m, opcode, &o);
}

static int run(struct machine *m)
{
	int ret = 0;

	while (!ret && m->code.at < m->code.end) {
		uint8_t byte = *m->code.at++, low = byte & 0x3f;
		uint64_t factored;

		switch (byte & 0xc0) {
		case DW_CFA_advance_loc:
			ret = advance(m, low);
			break;
		case DW_CFA_offset:
			ret = cfi_reader__uleb(&m->code, &factored)
				      ? set_column_offset(m, low, CFI_OFFSET, (int64_t)factored)
				      : -EINVAL;
			break;
		case DW_CFA_restore:
			ret = restore_column(m, low);
			break;
		default:
			ret = execute_long(m, low);
		}
	}
	return ret;
}

int cfi_program__run(const struct cfi_program *program, const struct cfi_cie *cie, cfi_row_fn row, void *context)
{
	struct machine m;
	int ret;

	m.program = program; /* not an initialiser: that would clear the remembered states for every function */
	m.cie = cie;
	m.initial = &cie->initial;
	m.code = (struct cfi_reader){ program->code, program->code + program->size };
	m.pc = program->start;
	m.state = cie->initial;
	m.n_remembered = 0;
	m.row = row;
	m.context = context;
	ret = run(&m);
	if (ret > 0)
		return 0;
	return ret ? ret : row(context, m.pc, &m.state);
}

int cfi_program__run_initial(struct cfi_cie *cie, const uint8_t *code, size_t size)
{
	struct cfi_program program = { .code = code, .size = size };
	struct machine m = { .program = &program, .cie = cie, .code = { code, code + size } };
	int ret = run(&m);

	if (ret)
		return ret;
	cie->initial = m.state;
	return 0;
}
