// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/call_arguments.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/unwind/stack_insn.h"

#define MAX_STARTS 16u /* places tried for one call */

struct call_arguments {
	const struct elf_file *elf;
	struct stack_decoder *decoder;
	uint64_t left; /* instructions */
};

int call_arguments__new(const struct elf_file *elf, uint64_t max_instructions, struct call_arguments **out)
{
	_cleanup_(call_arguments) struct call_arguments *a = calloc(1, sizeof(*a));
	int ret = a ? stack_decoder__new(&a->decoder) : -ENOMEM;

	if (ret < 0)
		return ret;
	a->elf = elf;
	a->left = max_instructions;
	*out = TAKE_PTR(a);
	return 0;
}

void call_arguments__free(struct call_arguments *a)
{
	if (!a)
		return;
	stack_decoder__free(a->decoder);
	free(a);
}

static bool in_segment(const struct elf_file *elf, uint64_t vaddr)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		if (vaddr - elf->segments[i].vaddr < elf->segments[i].memsz)
			return true;
	}
	return false;
}

/* enum so_reg by the number in an instruction. */
static const uint8_t reg_of_number[16] = {
	SO_REG_RAX, SO_REG_RCX, SO_REG_RDX, SO_REG_RBX, SO_REG_RSP, SO_REG_RBP, SO_REG_RSI, SO_REG_RDI,
	SO_REG_R8,  SO_REG_R9,  SO_REG_R10, SO_REG_R11, SO_REG_R12, SO_REG_R13, SO_REG_R14, SO_REG_R15,
};

/* An instruction that gives a register a value that is tracked here; its length, or 0. */
static size_t read_load(const struct call_arguments *a, const uint8_t *code, size_t size, uint64_t vaddr, uint8_t *reg,
			struct call_value *value)
{
	int32_t displacement;
	uint32_t constant;

	/* lea, mov DISP(%rip),%REG */
	if (size >= 7 && (code[0] & 0xfb) == 0x48 && (code[1] == 0x8d || code[1] == 0x8b) && (code[2] & 0xc7) == 0x05) {
		memcpy(&displacement, code + 3, sizeof(displacement));
		*reg = reg_of_number[(code[2] >> 3 & 7) | (code[0] & 4) << 1];
		*value = (struct call_value){ code[1] == 0x8d ? CALL_VALUE_ADDRESS : CALL_VALUE_LOADED,
					      vaddr + 7 + (uint64_t)(int64_t)displacement };
		return in_segment(a->elf, value->address) ? 7 : 0;
	}
	/* mov $CONSTANT,%REG, of 32 bits: the others become 0. An address only where the program's place is fixed. */
	if (size >= 5 && (code[0] & 0xf8) == 0xb8 && a->elf->type == ET_EXEC) {
		memcpy(&constant, code + 1, sizeof(constant));
		*reg = reg_of_number[code[0] & 7];
		*value = (struct call_value){ CALL_VALUE_ADDRESS, constant };
		return in_segment(a->elf, value->address) ? 5 : 0;
	}
	return 0;
}

/* mov %FROM,%TO, of 64 bits; its length, or 0. */
static size_t read_copy(const uint8_t *code, size_t size, uint8_t *to, uint8_t *from)
{
	uint8_t reg, rm;

	if (size < 3 || (code[0] & 0xfa) != 0x48 || (code[1] != 0x89 && code[1] != 0x8b) || (code[2] & 0xc0) != 0xc0)
		return 0;
	reg = reg_of_number[(code[2] >> 3 & 7) | (code[0] & 4) << 1];
	rm = reg_of_number[(code[2] & 7) | (code[0] & 1) << 3];
	*to = code[1] == 0x89 ? rm : reg;
	*from = code[1] == 0x89 ? reg : rm;
	return 3;
}

/*
 * What else compilers put there, without the disassembler, which takes ten times as long: pushes of constants and
 * registers, xor and mov of 32 bits, a change of rsp, a store relative to rip. Its length, or 0.
 */
static size_t read_usual(const uint8_t *code, size_t size, struct call_value values[SO_NREGS])
{
	unsigned rex = (code[0] & 0xf0) == 0x40 ? code[0] : 0;
	size_t at = rex ? 1 : 0, left = size - at;
	const uint8_t *op = code + at;

	if (left >= 1 && (op[0] & 0xf8) == 0x50)
		return at + 1;
	if (left >= 2 && op[0] == 0x6a)
		return at + 2;
	if (left >= 2 && op[0] == 0x31 && (op[1] & 0xc0) == 0xc0) {
		values[reg_of_number[(op[1] & 7) | (rex & 1) << 3]].kind = CALL_VALUE_UNKNOWN;
		return at + 2;
	}
	if (left >= 5 && (op[0] & 0xf8) == 0xb8 && !(rex & 8)) {
		values[reg_of_number[(op[0] & 7) | (rex & 1) << 3]].kind = CALL_VALUE_UNKNOWN;
		return at + 5;
	}
	if (left >= 3 && rex == 0x48 && op[0] == 0x83 && (op[1] == 0xc4 || op[1] == 0xec))
		return at + 3;
	if (left >= 6 && (rex & 0xf8) == 0x48 && op[0] == 0x89 && (op[1] & 0xc7) == 0x05)
		return at + 6;
	return 0;
}

/* Forgets the registers that any other instruction writes. 0: it does not go on to the next, or is not known. */
static size_t read_other(struct call_arguments *a, const uint8_t *code, size_t size, uint64_t vaddr,
			 struct call_value values[SO_NREGS])
{
	struct stack_insn insn;
	uint16_t written;

	if (stack_decoder__decode(a->decoder, code, size, vaddr, &insn) < 0 || insn.flow != STACK_FLOW_NEXT)
		return 0;
	written = insn.written;
	if (insn.reg < SO_NREGS && (insn.op == STACK_OP_LEA || insn.op == STACK_OP_LOAD || insn.op == STACK_OP_POP))
		written |= (uint16_t)(1u << insn.reg);
	if (insn.op == STACK_OP_LEAVE || insn.op == STACK_OP_ENTER)
		written |= 1u << SO_REG_RBP;
	for (unsigned i = 0; written && i < SO_NREGS; i++) {
		if (written & 1u << i)
			values[i].kind = CALL_VALUE_UNKNOWN;
	}
	return insn.length;
}

/* Follows the code to its end, where an instruction must end too. */
static bool follow(struct call_arguments *a, const uint8_t *code, size_t size, uint64_t vaddr,
		   struct call_value values[SO_NREGS])
{
	memset(values, 0, SO_NREGS * sizeof(*values));
	for (size_t at = 0, n; at < size; at += n) {
		struct call_value value;
		uint8_t to, from;

		if (a->left == 0)
			return false;
		a->left--;
		if ((n = read_load(a, code + at, size - at, vaddr + at, &to, &value)) > 0)
			values[to] = value;
		else if ((n = read_copy(code + at, size - at, &to, &from)) > 0)
			values[to] = values[from];
		else if ((n = read_usual(code + at, size - at, values)) == 0)
			n = read_other(a, code + at, size - at, vaddr + at, values);
		if (n == 0)
			return false;
	}
	return true;
}

static bool has_all(const struct call_value values[SO_NREGS], uint16_t wanted)
{
	for (unsigned i = 0; i < SO_NREGS; i++) {
		if (wanted & 1u << i && values[i].kind == CALL_VALUE_UNKNOWN)
			return false;
	}
	return true;
}

/*
 * Where instructions begin is known of none of the bytes: some only look like a load, as parts of a displacement do. So
 * the farthest load is tried first, since what is loaded in truth comes later and wins, and wrong beginnings soon fall
 * into step with the code, if they do not fail.
 */
bool call_arguments__find(struct call_arguments *a, const uint8_t *code, size_t size, uint64_t vaddr, uint16_t wanted,
			  struct call_value values[SO_NREGS])
{
	struct call_value value;
	unsigned starts = 0;
	uint8_t reg;

	for (size_t at = 0; at < size && starts < MAX_STARTS; at++) {
		uint64_t from = vaddr - (size - at);

		if (!read_load(a, code + at, size - at, from, &reg, &value))
			continue;
		starts++;
		if (follow(a, code + at, size - at, from, values) && has_all(values, wanted))
			return true;
	}
	return false;
}
