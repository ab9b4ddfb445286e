// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/stack_insn.h"

#include <errno.h>
#include <stdbool.h>

#include "daemon/unwind/x86_decoder.h"

#if CS_API_MAJOR < 5
#define X86_INS_UD1 X86_INS_UD2B
#endif

struct stack_decoder {
	struct x86_decoder x86;
};

int stack_decoder__new(struct stack_decoder **out)
{
	_cleanup_(stack_decoder) struct stack_decoder *d = calloc(1, sizeof(*d));
	int ret = d ? x86_decoder__open(&d->x86) : -ENOMEM;

	if (!ret)
		*out = TAKE_PTR(d);
	return ret;
}

void stack_decoder__free(struct stack_decoder *d)
{
	if (!d)
		return;
	x86_decoder__close(&d->x86);
	free(d);
}

/* Registers by capstone's number: 1 + enum so_reg, with REG_WHOLE for the name of all 64 bits. */
#define REG_WHOLE 0x80
#define REG_NAMES(reg, q, d, w, b)                                                        \
	[X86_REG_##q] = REG_WHOLE | (1 + SO_REG_##reg), [X86_REG_##d] = 1 + SO_REG_##reg, \
	[X86_REG_##w] = 1 + SO_REG_##reg, [X86_REG_##b] = 1 + SO_REG_##reg

static const uint8_t reg_names[X86_REG_ENDING] = {
	REG_NAMES(RAX, RAX, EAX, AX, AL),      REG_NAMES(RBX, RBX, EBX, BX, BL),
	REG_NAMES(RCX, RCX, ECX, CX, CL),      REG_NAMES(RDX, RDX, EDX, DX, DL),
	REG_NAMES(RSI, RSI, ESI, SI, SIL),     REG_NAMES(RDI, RDI, EDI, DI, DIL),
	REG_NAMES(RBP, RBP, EBP, BP, BPL),     REG_NAMES(RSP, RSP, ESP, SP, SPL),
	REG_NAMES(R8, R8, R8D, R8W, R8B),      REG_NAMES(R9, R9, R9D, R9W, R9B),
	REG_NAMES(R10, R10, R10D, R10W, R10B), REG_NAMES(R11, R11, R11D, R11W, R11B),
	REG_NAMES(R12, R12, R12D, R12W, R12B), REG_NAMES(R13, R13, R13D, R13W, R13B),
	REG_NAMES(R14, R14, R14D, R14W, R14B), REG_NAMES(R15, R15, R15D, R15W, R15B),
	[X86_REG_AH] = 1 + SO_REG_RAX,         [X86_REG_BH] = 1 + SO_REG_RBX,
	[X86_REG_CH] = 1 + SO_REG_RCX,         [X86_REG_DH] = 1 + SO_REG_RDX,
};

/* Any general register, whole or in part; STACK_NO_REG for others. */
static uint8_t any_reg(unsigned name)
{
	uint8_t known = name < X86_REG_ENDING ? reg_names[name] & ~REG_WHOLE : 0;

	return known ? known - 1 : STACK_NO_REG;
}

static uint8_t whole_reg(const cs_x86_op *op)
{
	if (op->type != X86_OP_REG || op->reg >= X86_REG_ENDING || !(reg_names[op->reg] & REG_WHOLE))
		return STACK_NO_REG;
	return any_reg(op->reg);
}

/* A memory operand that is one whole register and a constant: what stack slots look like. */
static bool plain_memory(const cs_x86_op *op, uint8_t *base, int32_t *disp)
{
	if (op->type != X86_OP_MEM || op->mem.disp != (int32_t)op->mem.disp)
		return false;
	if (op->mem.index != X86_REG_INVALID && op->mem.index != X86_REG_RIZ)
		return false;
	if (op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS)
		return false;
	if (op->mem.base >= X86_REG_ENDING || !(reg_names[op->mem.base] & REG_WHOLE))
		return false;
	*base = any_reg(op->mem.base);
	*disp = (int32_t)op->mem.disp;
	return true;
}

/* Instructions that only read their first operand. What is missing here is taken for a write, which costs answers and
 * never makes a wrong one. */
static bool reads_first_operand(unsigned id)
{
	return X86_IS(id, X86_INS_CMP, X86_INS_TEST, X86_INS_BT, X86_INS_PUSH, X86_INS_CALL, X86_INS_NOP, X86_INS_MUL,
		      X86_INS_DIV, X86_INS_IDIV, X86_INS_LDMXCSR, X86_INS_PREFETCHNTA, X86_INS_PREFETCHT0,
		      X86_INS_PREFETCHT1, X86_INS_PREFETCHT2, X86_INS_PREFETCHW);
}

/* Capstone's access flags are not complete for every instruction, so a first operand counts as written whatever they
 * say, and so do both operands of an exchange. */
static bool writes_operand(const cs_insn *insn, unsigned i)
{
	const cs_x86_op *op = &insn->detail->x86.operands[i];

	if (insn->id == X86_INS_IMUL && insn->detail->x86.op_count == 1)
		return false;
	if (op->access & CS_AC_WRITE && !(op->access & CS_AC_READ && reads_first_operand(insn->id)))
		return true;
	if (insn->id == X86_INS_XCHG || insn->id == X86_INS_XADD || insn->id == X86_INS_MULX)
		return i < 2;
	return i == 0 && !reads_first_operand(insn->id);
}

static void decode_any(const cs_insn *insn, struct stack_insn *out)
{
	const cs_x86 *x = &insn->detail->x86;
	uint8_t reg;

	for (unsigned i = 0; i < insn->detail->regs_write_count; i++) {
		reg = any_reg(insn->detail->regs_write[i]);
		if (reg != STACK_NO_REG)
			out->written |= 1u << reg;
	}
	for (unsigned i = 0; i < x->op_count; i++) {
		if (!writes_operand(insn, i))
			continue;
		reg = x->operands[i].type == X86_OP_REG ? any_reg(x->operands[i].reg) : STACK_NO_REG;
		if (reg != STACK_NO_REG)
			out->written |= 1u << reg;
		else if (plain_memory(&x->operands[i], &out->base, &out->disp)) {
			out->op = STACK_OP_STORE;
			out->bytes = x->operands[i].size ? x->operands[i].size : 64;
		}
	}
	/* Capstone does not say so. */
	if (X86_IS(insn->id, X86_INS_CMPXCHG, X86_INS_XLATB))
		out->written |= 1u << SO_REG_RAX;
	if (insn->id == X86_INS_SYSCALL)
		out->written |= 1u << SO_REG_RAX | 1u << SO_REG_RCX | 1u << SO_REG_R11;
	if (out->written & 1u << SO_REG_RSP) {
		out->written &= (uint16_t) ~(1u << SO_REG_RSP);
		out->op = STACK_OP_REALIGN;
	}
}

static void decode_lea(struct stack_insn *out, uint8_t reg, uint8_t base, int64_t disp)
{
	out->op = STACK_OP_LEA;
	out->reg = reg;
	out->base = base;
	out->disp = (int32_t)disp;
}

/* Moves between whole registers and memory that is plain, and sums with a constant. */
static bool decode_move(const cs_insn *insn, struct stack_insn *out)
{
	const cs_x86_op *ops = insn->detail->x86.operands;
	unsigned n = insn->detail->x86.op_count;
	uint8_t to = n ? whole_reg(&ops[0]) : STACK_NO_REG, from = n > 1 ? whole_reg(&ops[1]) : STACK_NO_REG;
	int64_t sum;

	if (n == 2 && insn->id == X86_INS_MOV && from != STACK_NO_REG) {
		if (to != STACK_NO_REG) {
			decode_lea(out, to, from, 0);
			return true;
		}
		if (!plain_memory(&ops[0], &out->base, &out->disp))
			return false;
		out->op = STACK_OP_STORE;
		out->reg = from;
		out->bytes = 8;
		return true;
	}
	if (to == STACK_NO_REG)
		return false;
	if (n == 2 && (insn->id == X86_INS_MOV || insn->id == X86_INS_LEA)) {
		if (!plain_memory(&ops[1], &out->base, &out->disp))
			return false;
		out->op = insn->id == X86_INS_MOV ? STACK_OP_LOAD : STACK_OP_LEA;
		out->reg = to;
		return true;
	}
	if (n == 2 && ops[1].type == X86_OP_IMM && ops[1].imm == (int32_t)ops[1].imm &&
	    (insn->id == X86_INS_ADD || insn->id == X86_INS_SUB))
		sum = insn->id == X86_INS_ADD ? ops[1].imm : -ops[1].imm;
	else if (n == 1 && (insn->id == X86_INS_INC || insn->id == X86_INS_DEC))
		sum = insn->id == X86_INS_INC ? 1 : -1;
	else
		return false;
	if (sum != (int32_t)sum)
		return false;
	decode_lea(out, to, to, sum);
	return true;
}

/* mov and movslq from an array of words or addresses. */
static bool loads_element(const cs_insn *insn)
{
	const cs_x86_op *ops = insn->detail->x86.operands;

	return X86_IS(insn->id, X86_INS_MOV, X86_INS_MOVSXD) && insn->detail->x86.op_count == 2 &&
	       ops[1].type == X86_OP_MEM && ops[1].mem.index != X86_REG_INVALID && ops[1].mem.scale >= 4;
}

static bool has_operand_size_prefix(const cs_insn *insn)
{
	return insn->detail->x86.prefix[2] == 0x66;
}

/* V8 pops its own state into memory. By rsp, which is that after the pop, or an index, the place is given up. */
static void decode_pop_store(const cs_x86_op *to, struct stack_insn *out)
{
	if (any_reg(to->mem.base) == SO_REG_RSP)
		out->flow = STACK_FLOW_STOP;
	else if (plain_memory(to, &out->base, &out->disp))
		out->op = STACK_OP_POP_STORE;
	else if (any_reg(to->mem.base) == SO_REG_RBP)
		out->flow = STACK_FLOW_STOP;
}

/* Pushes, pops and their relatives. */
static bool decode_stack(const cs_insn *insn, struct stack_insn *out)
{
	const cs_x86 *x = &insn->detail->x86;

	out->bytes = has_operand_size_prefix(insn) ? 2 : 8;
	switch (insn->id) {
	case X86_INS_PUSH:
	case X86_INS_PUSHF:
	case X86_INS_PUSHFQ:
		out->op = STACK_OP_PUSH;
		out->reg = x->op_count ? whole_reg(&x->operands[0]) : STACK_NO_REG;
		return true;
	case X86_INS_POP:
	case X86_INS_POPF:
	case X86_INS_POPFQ:
		out->op = STACK_OP_POP;
		if (x->op_count && x->operands[0].type == X86_OP_REG) {
			out->reg = whole_reg(&x->operands[0]);
			if (out->reg == STACK_NO_REG && any_reg(x->operands[0].reg) != STACK_NO_REG)
				out->written = 1u << any_reg(x->operands[0].reg);
		} else if (x->op_count) {
			decode_pop_store(&x->operands[0], out);
		}
		return true;
	case X86_INS_LEAVE:
		out->op = STACK_OP_LEAVE;
		if (has_operand_size_prefix(insn))
			out->flow = STACK_FLOW_STOP;
		return true;
	case X86_INS_ENTER:
		out->op = STACK_OP_ENTER;
		if (x->op_count != 2 || x->operands[1].imm || has_operand_size_prefix(insn))
			out->flow = STACK_FLOW_STOP;
		else
			out->disp = (uint16_t)x->operands[0].imm;
		return true;
	default:
		out->bytes = 0;
		return false;
	}
}

/* Direct transfers; in 64-bit mode processors disagree on what an operand-size prefix does to them. */
static void decode_direct(const cs_insn *insn, enum stack_flow flow, struct stack_insn *out)
{
	const cs_x86 *x = &insn->detail->x86;
	unsigned last = x->op_count ? x->op_count - 1u : 0;

	out->flow = STACK_FLOW_STOP;
	if (has_operand_size_prefix(insn))
		return;
	if (x->op_count && x->operands[last].type == X86_OP_IMM) {
		out->flow = flow;
		out->target = (uint64_t)x->operands[last].imm;
	} else if (flow == STACK_FLOW_CALL) {
		out->flow = flow;
	}
	/* A call to the next instruction reads the program counter: it pushes, and nothing returns. */
	if (out->flow == STACK_FLOW_CALL && out->target == out->address + out->length) {
		out->flow = STACK_FLOW_NEXT;
		out->op = STACK_OP_PUSH;
		out->bytes = 8;
	}
}

static bool decode_flow(csh handle, const cs_insn *insn, struct stack_insn *out)
{
	switch (insn->id) {
	case X86_INS_RET:
		out->flow = has_operand_size_prefix(insn) ? STACK_FLOW_STOP : STACK_FLOW_RETURN;
		return true;
	case X86_INS_JMP:
		decode_direct(insn, STACK_FLOW_JUMP, out);
		out->by_reg = insn->detail->x86.op_count == 1 && insn->detail->x86.operands[0].type == X86_OP_REG;
		return true;
	case X86_INS_CALL:
		decode_direct(insn, STACK_FLOW_CALL, out);
		return true;
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
		out->written = 1u << SO_REG_RCX;
		decode_direct(insn, STACK_FLOW_BRANCH, out);
		return true;
	case X86_INS_XBEGIN:
		out->written = 1u << SO_REG_RAX;
		decode_direct(insn, STACK_FLOW_BRANCH, out);
		return true;
	default:
		break;
	}
	if (X86_IS(insn->id, X86_INS_LCALL, X86_INS_LJMP, X86_INS_RETF, X86_INS_RETFQ, X86_INS_IRET, X86_INS_IRETD,
		   X86_INS_IRETQ, X86_INS_SYSRET, X86_INS_SYSENTER, X86_INS_SYSEXIT, X86_INS_HLT, X86_INS_INT,
		   X86_INS_INT1, X86_INS_INT3, X86_INS_INTO, X86_INS_UD0, X86_INS_UD2, X86_INS_UD1)) {
		out->flow = STACK_FLOW_STOP;
		return true;
	}
	if (!cs_insn_group(handle, insn, X86_GRP_JUMP) && !cs_insn_group(handle, insn, X86_GRP_BRANCH_RELATIVE))
		return false;
	decode_direct(insn, STACK_FLOW_BRANCH, out);
	return true;
}

static int decode_capstone(struct stack_decoder *d, const uint8_t *code, size_t size, struct stack_insn *out)
{
	uint64_t address = out->address;

	if (!cs_disasm_iter(d->x86.handle, &code, &size, &address, d->x86.insn))
		return -EILSEQ;
	out->length = (uint8_t)d->x86.insn->size;
	out->element = loads_element(d->x86.insn);
	if (!decode_flow(d->x86.handle, d->x86.insn, out) && !decode_stack(d->x86.insn, out) &&
	    !decode_move(d->x86.insn, out))
		decode_any(d->x86.insn, out);
	return 0;
}

/* The parts of a VEX or EVEX instruction that say how long it is (Intel SDM volume 2, 2.3 and 2.7). */
struct vector_insn {
	uint8_t map, opcode, modrm;
	size_t length;
	bool stack; /* has an operand in memory at rsp or rbp and a constant */
};

static bool vector_has_imm8(const struct vector_insn *v)
{
	if (v->map == 3)
		return true;
	return v->map == 1 && ((v->opcode >= 0x70 && v->opcode <= 0x73) || v->opcode == 0xc2 ||
			       (v->opcode >= 0xc4 && v->opcode <= 0xc6));
}

static bool measure_vector(const uint8_t *code, size_t size, struct vector_insn *v)
{
	size_t at = code[0] == 0xc5 ? 2 : code[0] == 0xc4 ? 3 : 4; /* the opcode */
	uint8_t mod, rm, base;
	bool extended; /* the base register is r8 or above */

	if (size < at + 1)
		return false;
	v->map = code[0] == 0xc5 ? 1 : code[1] & (code[0] == 0xc4 ? 31 : 15);
	v->opcode = code[at++];
	if (v->map == 0 || v->map == 4 || v->map > 6)
		return false;
	if (v->map == 1 && v->opcode == 0x77) { /* vzeroupper, vzeroall */
		v->length = at;
		return code[0] != 0x62;
	}
	if (size < at + 2)
		return false;
	extended = code[0] != 0xc5 && !(code[1] & 0x20);
	v->modrm = code[at++];
	mod = v->modrm >> 6;
	base = rm = v->modrm & 7;
	v->stack = mod != 3 && !extended && (rm == 5 ? mod != 0 : rm == 4);
	if (mod != 3 && rm == 4) {
		base = code[at] & 7;
		v->stack = v->stack && code[at] >> 3 == 4 && (base == 4 || (base == 5 && mod != 0));
		at++;
	}
	if (mod == 1)
		at += 1;
	else if (mod == 2 || (mod == 0 && base == 5))
		at += 4;
	v->length = at + vector_has_imm8(v);
	return true;
}

/* Those that may write a general register: conversions, extracts, masks, comparisons of strings, BMI. */
static bool vector_writes_general(const struct vector_insn *v)
{
	uint8_t op = v->opcode;

	switch (v->map) {
	case 1:
		return op == 0x2c || op == 0x2d || op == 0x50 || op == 0x78 || op == 0x79 || op == 0x7e || op == 0x93 ||
		       op == 0xc5 || op == 0xd7;
	case 2:
		return op >= 0xe0;
	case 3:
		return (op >= 0x14 && op <= 0x17) || (op >= 0x60 && op <= 0x63) || op >= 0xf0;
	case 5:
		return op == 0x2c || op == 0x2d || op == 0x78 || op == 0x79 || op == 0x7e;
	default:
		return false;
	}
}

/* The register that one of the first kind writes when capstone does not know it: STACK_NO_REG when it is memory. False
 * for the others. */
static bool vector_destination(const uint8_t *code, const struct vector_insn *v, uint8_t *reg)
{
	static const uint8_t low[8] = { SO_REG_RAX, SO_REG_RCX, SO_REG_RDX, SO_REG_RBX,
					SO_REG_RSP, SO_REG_RBP, SO_REG_RSI, SO_REG_RDI };
	uint8_t number = v->modrm >> 3 & 7;
	bool extended = !(code[1] & 0x80);

	if (v->map != 1 && v->map != 5)
		return false;
	if (v->opcode == 0x7e) {
		number = v->modrm & 7;
		extended = code[0] != 0xc5 && !(code[1] & 0x20);
	}
	*reg = extended ? SO_REG_R8 + number : low[number];
	if (v->opcode == 0x7e && v->modrm >> 6 != 3)
		*reg = STACK_NO_REG;
	return true;
}

int stack_decoder__decode(struct stack_decoder *d, const uint8_t *code, size_t size, uint64_t address,
			  struct stack_insn *out)
{
	struct stack_insn insn = { .address = address, .reg = STACK_NO_REG };
	struct vector_insn v = { 0 };
	bool measured = false, general = false;
	uint8_t reg = STACK_NO_REG;
	int err = 0;

	if (!size)
		return -EILSEQ;
	if (size > STACK_INSN_MAX_BYTES)
		size = STACK_INSN_MAX_BYTES;
	if (code[0] == 0xc4 || code[0] == 0xc5 || code[0] == 0x62)
		measured = measure_vector(code, size, &v) && v.length <= size;
	general = measured && vector_writes_general(&v);
	if (!measured || v.stack || general)
		err = decode_capstone(d, code, size, &insn);
	else
		insn.length = (uint8_t)v.length;
	/* Capstone lags behind the vector extensions; how long they are does not depend on knowing them. */
	if (err && measured && (!general || vector_destination(code, &v, &reg))) {
		insn.length = (uint8_t)v.length;
		insn.written = reg != STACK_NO_REG ? 1u << reg : 0;
		if (reg == SO_REG_RSP)
			return -EILSEQ;
		err = 0;
	}
	if (!err)
		*out = insn;
	return err;
}
