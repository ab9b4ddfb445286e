// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/probe_site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/unwind/x86_decoder.h"

#define MAX_INSN_BYTES 15
#define MAX_SKIP_BYTES 64u /* how far from the entry a site is looked for */

struct probe_decoder {
	struct x86_decoder x86;
};

/* X(enumerator, text): why the site is where it is */
#define REASONS(X)                                                                                            \
	X(ENTRY, "the first instruction, which is emulated")                                                  \
	X(LATER, "the first emulated instruction; until there rsp, arguments and memory are the caller's")    \
	X(THUNK, "the function jumps elsewhere at once: an alias or a thunk")                                 \
	X(LONG_NOP, "a long nop: emulated since Linux 6.16, single-stepped before")                           \
	X(LOOP, "the function branches back to its entry, so that one call may count more than once")         \
	X(STEPPED_ARGUMENT, "single-stepped: rsp or an argument changes before an emulated instruction")      \
	X(STEPPED_MEMORY, "single-stepped: memory is written before an emulated instruction")                 \
	X(STEPPED_FLOW, "single-stepped: no emulated instruction before the function goes elsewhere")         \
	X(STEPPED_POINTER, "single-stepped: the function jumps through a pointer at once: a thunk")           \
	X(STEPPED_TARGET, "single-stepped: a branch may lead back between entry and emulated instruction")    \
	X(STEPPED_UNKNOWN, "single-stepped: an instruction of unknown effect before an emulated instruction") \
	X(STEPPED_FAR, "single-stepped: no emulated instruction near the entry")

enum reason {
#define X(name, text) REASON_##name,
	REASONS(X)
#undef X
};

static const char *const reasons[] = {
#define X(name, text) text,
	REASONS(X)
#undef X
};

int probe_decoder__new(struct probe_decoder **out)
{
	_cleanup_(probe_decoder) struct probe_decoder *d = calloc(1, sizeof(*d));
	int ret = d ? x86_decoder__open(&d->x86) : -ENOMEM;

	if (!ret)
		*out = TAKE_PTR(d);
	return ret;
}

void probe_decoder__free(struct probe_decoder *d)
{
	if (!d)
		return;
	x86_decoder__close(&d->x86);
	free(d);
}

/* What stands before an instruction's opcode. */
struct prefixes {
	size_t n; /* bytes */
	bool operand_size, repne, repeated;
	bool refused; /* lock and the segments other than fs and gs */
	uint8_t rex;
};

static struct prefixes read_prefixes(const uint8_t *code, size_t size)
{
	struct prefixes p = { 0 };

	for (; p.n < size; p.n++) {
		switch (code[p.n]) {
		case 0x66:
			p.operand_size = true;
			continue;
		case 0xf2:
			p.repne = true;
			continue;
		case 0xf3:
			p.repeated = true;
			continue;
		case 0x64:
		case 0x65:
		case 0x67:
			continue;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0xf0:
			p.refused = true;
			continue;
		}
		break;
	}
	if (p.n < size && (code[p.n] & 0xf0) == 0x40)
		p.rex = code[p.n++];
	return p;
}

/* Where the branch, jump or call whose opcode is at `at` leads, as an offset like `at`. */
static bool branch_target(const uint8_t *code, size_t size, size_t at, int64_t *target)
{
	size_t opcode = 1, wide = 4;
	int32_t displacement;

	if (code[at] == 0xeb || (code[at] & 0xf0) == 0x70 || (code[at] & 0xfc) == 0xe0)
		wide = 1;
	else if (size - at > 1 &&
		 ((code[at] == 0x0f && (code[at + 1] & 0xf0) == 0x80) || (code[at] == 0xc7 && code[at + 1] == 0xf8)))
		opcode = 2;
	else if (code[at] != 0xe8 && code[at] != 0xe9)
		return false;
	if (size - at < opcode + wide)
		return false;
	if (wide == 1)
		displacement = (int8_t)code[at + 1];
	else
		memcpy(&displacement, code + at + opcode, sizeof(displacement));
	*target = (int64_t)(at + opcode + wide) + displacement;
	return true;
}

static bool is_endbr64(const uint8_t *code, size_t size)
{
	return size >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0;
}

/* The opcodes that the kernel does not know how to execute out of line, and the first bytes of VEX and EVEX. */
static bool is_refused_opcode(uint8_t op)
{
	static const uint8_t refused[] = { 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f,
					   0x60, 0x61, 0x62, 0x6c, 0x6d, 0x6e, 0x6f, 0x82, 0x9a, 0xc4, 0xc5,
					   0xcc, 0xcd, 0xce, 0xcf, 0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7,
					   0xea, 0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb };

	return memchr(refused, op, sizeof(refused)) != NULL;
}

static bool is_direct_branch(const uint8_t *code, size_t size)
{
	if (code[0] == 0xeb || code[0] == 0xe8 || code[0] == 0xe9 || (code[0] & 0xf0) == 0x70)
		return true;
	return size > 1 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
}

/*
 * Whether no probe may be put there: what the kernel refuses, and what it accepts and then emulates as something
 * else, because it looks at the opcode alone (seen with 6.18): `xchg %r8,%rax`, 0x90 with a REX prefix, is taken for
 * a nop, and vzeroupper, 0x77 behind a VEX prefix, for a conditional jump. 0x90 with 0x66 is refused before 6.2
 * (cefa72129e45).
 */
static bool is_refused(const uint8_t *code, size_t length)
{
	struct prefixes p = read_prefixes(code, length);
	const uint8_t *op = code + p.n;
	size_t left = length - p.n;

	if (left == 0 || p.refused || (p.n > 0 && op[0] == 0x90))
		return true;
	if (p.operand_size && is_direct_branch(op, left))
		return true;
	if (op[0] == 0x8e && left > 1 && (op[1] >> 3 & 7) == 2) /* mov to ss masks exceptions */
		return true;
	return is_refused_opcode(op[0]);
}

static bool is_push(const uint8_t *code, size_t length)
{
	return (length == 1 && (code[0] & 0xf8) == 0x50) ||
	       (length == 2 && code[0] == 0x41 && (code[1] & 0xf8) == 0x50);
}

static bool is_emulated(const uint8_t *code, size_t length)
{
	struct prefixes p = read_prefixes(code, length);

	if (is_push(code, length) || (length == 1 && code[0] == 0x90))
		return true;
	return p.n < length && p.n == (size_t)p.repne && is_direct_branch(code + p.n, length - p.n);
}

/* The nops that the kernel's own assembler uses, by their length: these alone are emulated since 6.16. */
static bool is_long_nop(const uint8_t *code, size_t length)
{
	static const char *const nops[] = { NULL,
					    NULL,
					    NULL,
					    "\x0f\x1f\x00",
					    "\x0f\x1f\x40\x00",
					    "\x0f\x1f\x44\x00\x00",
					    "\x66\x0f\x1f\x44\x00\x00",
					    "\x0f\x1f\x80\x00\x00\x00\x00",
					    "\x0f\x1f\x84\x00\x00\x00\x00\x00" };

	return length < sizeof(nops) / sizeof(nops[0]) && nops[length] && !memcmp(code, nops[length], length);
}

/* Registers that say nothing of a call's arguments and of its stack. */
static bool is_free_register(unsigned reg)
{
	return X86_IS(reg, X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH, X86_REG_RBX, X86_REG_EBX,
		      X86_REG_BX, X86_REG_BL, X86_REG_BH, X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL,
		      X86_REG_R10, X86_REG_R11, X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15, X86_REG_R10D,
		      X86_REG_R11D, X86_REG_R12D, X86_REG_R13D, X86_REG_R14D, X86_REG_R15D) ||
	       (reg >= X86_REG_XMM0 && reg <= X86_REG_XMM15);
}

/* Of which argument such a register is, from 1 on; 0: none. */
static unsigned argument_of(unsigned reg)
{
	static const unsigned registers[][3] = {
		{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI }, { X86_REG_RSI, X86_REG_ESI, X86_REG_SI },
		{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX }, { X86_REG_RCX, X86_REG_ECX, X86_REG_CX },
		{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W }, { X86_REG_R9, X86_REG_R9D, X86_REG_R9W },
	};

	for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++)
		if (reg == registers[i][0] || reg == registers[i][1] || reg == registers[i][2])
			return i + 1;
	return 0;
}

/* Instructions that change nothing but their first operand and the flags. */
static bool writes_first_operand_only(unsigned id)
{
	return X86_IS(id, X86_INS_MOV, X86_INS_MOVABS, X86_INS_MOVZX, X86_INS_MOVSX, X86_INS_MOVSXD, X86_INS_LEA,
		      X86_INS_XOR, X86_INS_AND, X86_INS_OR, X86_INS_ADD, X86_INS_SUB, X86_INS_NOT, X86_INS_NEG,
		      X86_INS_SHL, X86_INS_SHR, X86_INS_SAR, X86_INS_PXOR, X86_INS_XORPS, X86_INS_MOVAPS,
		      X86_INS_MOVUPS, X86_INS_MOVDQA, X86_INS_MOVDQU, X86_INS_MOVD, X86_INS_MOVQ);
}

/* What an instruction that is known leaves as it was. */
enum effect { EFFECT_NONE, EFFECT_ARGUMENT, EFFECT_MEMORY, EFFECT_FLOW, EFFECT_UNKNOWN };

/* arguments: as struct probe_code has it. */
static enum effect effect_of(csh handle, const cs_insn *insn, unsigned arguments)
{
	const cs_x86 *x = &insn->detail->x86;

	if (insn->id == X86_INS_CMP || insn->id == X86_INS_TEST || insn->id == X86_INS_NOP)
		return EFFECT_NONE;
	if (cs_insn_group(handle, insn, X86_GRP_JUMP) || cs_insn_group(handle, insn, X86_GRP_CALL) ||
	    cs_insn_group(handle, insn, X86_GRP_RET) || cs_insn_group(handle, insn, X86_GRP_BRANCH_RELATIVE))
		return EFFECT_FLOW;
	if (insn->id == X86_INS_PUSH || insn->id == X86_INS_POP || insn->id == X86_INS_LEAVE)
		return EFFECT_ARGUMENT;
	if (!writes_first_operand_only(insn->id) || x->op_count == 0)
		return EFFECT_UNKNOWN;
	if (x->operands[0].type == X86_OP_MEM)
		return EFFECT_MEMORY;
	if (x->operands[0].type != X86_OP_REG)
		return EFFECT_UNKNOWN;
	if (arguments && argument_of(x->operands[0].reg) > arguments)
		return EFFECT_NONE;
	return is_free_register(x->operands[0].reg) ? EFFECT_NONE : EFFECT_ARGUMENT;
}

/* Whether a branch leads to [low, high] when its opcode is taken to be at every byte: misses none that is direct. */
static bool any_byte_leads_to(const struct probe_code *code, int64_t low, int64_t high, bool calls_too)
{
	int64_t target;

	for (size_t at = 0; at < code->size; at++)
		if (branch_target(code->bytes, code->size, at, &target) && target >= low && target <= high &&
		    (calls_too || code->bytes[at] != 0xe8))
			return true;
	return false;
}

static size_t decode(struct probe_decoder *d, const struct probe_code *code, size_t at)
{
	const uint8_t *bytes = code->bytes + at;
	size_t size = code->size - at;
	uint64_t address = code->address + at;

	if (size > MAX_INSN_BYTES)
		size = MAX_INSN_BYTES;
	if (is_endbr64(bytes, size))
		return 4;
	return cs_disasm_iter(d->x86.handle, &bytes, &size, &address, d->x86.insn) ? d->x86.insn->size : 0;
}

/* Whether a branch of the function leads to [low, high]. What the fast scan suspects is decoded if it can be. */
static bool is_branched_to(struct probe_decoder *d, const struct probe_code *code, int64_t low, int64_t high,
			   bool calls_too)
{
	if (!any_byte_leads_to(code, low, high, calls_too))
		return false;
	for (size_t at = 0, length; at < code->size; at += length) {
		int64_t target;
		size_t opcode;

		length = decode(d, code, at);
		if (length == 0)
			return true;
		opcode = at + read_prefixes(code->bytes + at, length).n;
		if (opcode < at + length && branch_target(code->bytes, code->size, opcode, &target) && target >= low &&
		    target <= high && (calls_too || code->bytes[opcode] != 0xe8))
			return true;
	}
	return false;
}

/*
 * `jmp` through a register or memory (0xff /4). Not one through a pointer at a fixed place (ModRM 0x25, by rip): it has
 * one destination, as a thunk's, where a table of labels has an index.
 */
static bool is_indirect_jump(const struct probe_code *code, size_t at)
{
	return at + 1 < code->size && code->bytes[at] == 0xff && (code->bytes[at + 1] >> 3 & 7) == 4 &&
	       code->bytes[at + 1] != 0x25;
}

/* Such a one taken to be at any byte; what that suspects is decoded if it can be. */
static bool may_jump_indirectly(struct probe_decoder *d, const struct probe_code *code)
{
	bool suspected = false;

	for (size_t at = 0; !suspected && at < code->size; at++)
		suspected = is_indirect_jump(code, at);
	for (size_t at = 0, length; suspected && at < code->size; at += length) {
		length = decode(d, code, at);
		if (length == 0 || is_indirect_jump(code, at + read_prefixes(code->bytes + at, length).n))
			return true;
	}
	return false;
}

/* Whether the instruction there is passed once a call. A push is no unseen branch's target: the stack would grow. */
static bool is_passed_once(struct probe_decoder *d, const struct probe_code *code, size_t at, size_t length)
{
	if (at == 0 || code->repeats)
		return true;
	if (is_branched_to(d, code, 1, (int64_t)at, true))
		return false;
	return is_push(code->bytes + at, length) || (code->whole && !may_jump_indirectly(d, code));
}

static void describe(struct probe_decoder *d, const struct probe_code *code, size_t at, enum reason why, bool emulated,
		     struct probe_site *out)
{
	*out = (struct probe_site){ .offset = (uint32_t)at,
				    .emulated = emulated,
				    .long_nop = !emulated && is_long_nop(code->bytes + at, decode(d, code, at)),
				    .why = reasons[why] };
	if (is_endbr64(code->bytes + at, code->size - at))
		snprintf(out->instruction, sizeof(out->instruction), "endbr64");
	else if (decode(d, code, at))
		snprintf(out->instruction, sizeof(out->instruction), "%.20s%s%.24s", d->x86.insn->mnemonic,
			 d->x86.insn->op_str[0] ? " " : "", d->x86.insn->op_str);
}

static enum reason reason_emulated(const struct probe_code *code, size_t at)
{
	uint8_t op = code->bytes[at == 0 && code->bytes[0] == 0xf2 && code->size > 1 ? 1 : at];

	if (op == 0xe9 || op == 0xeb)
		return REASON_THUNK;
	return at == 0 ? REASON_ENTRY : REASON_LATER;
}

static enum reason reason_stepped(const struct probe_code *code, size_t at, enum effect effect)
{
	size_t entry = is_endbr64(code->bytes, code->size) ? 4 : 0;
	struct prefixes p = read_prefixes(code->bytes + entry, code->size - entry);
	const uint8_t *op = code->bytes + entry + p.n;

	switch (effect) {
	case EFFECT_ARGUMENT:
		return REASON_STEPPED_ARGUMENT;
	case EFFECT_MEMORY:
		return REASON_STEPPED_MEMORY;
	case EFFECT_FLOW:
		return at == entry && op + 1 < code->bytes + code->size && op[0] == 0xff && (op[1] >> 3 & 7) == 4
			       ? REASON_STEPPED_POINTER
			       : REASON_STEPPED_FLOW;
	default:
		return REASON_STEPPED_UNKNOWN;
	}
}

/* Where to put a probe that is single-stepped, found on the way to one that is emulated. */
struct fallback {
	bool found, is_nop;
	size_t at;
};

static void consider_fallback(struct probe_decoder *d, const struct probe_code *code, size_t at, size_t length,
			      struct fallback *fallback)
{
	bool is_nop = is_long_nop(code->bytes + at, length);

	if (is_refused(code->bytes + at, length) || (fallback->found && (!is_nop || fallback->is_nop)) ||
	    !is_passed_once(d, code, at, length))
		return;
	*fallback = (struct fallback){ true, is_nop, at };
}

int probe_site__choose(struct probe_decoder *d, const struct probe_code *code, struct probe_site *out)
{
	enum reason stopped = REASON_STEPPED_FAR;
	struct fallback fallback = { 0 };
	bool loops = is_branched_to(d, code, 0, 0, false);
	size_t at = 0, length;

	for (; at < MAX_SKIP_BYTES && at < code->size; at += length) {
		enum effect effect = EFFECT_NONE;

		length = decode(d, code, at);
		if (length == 0) {
			stopped = REASON_STEPPED_UNKNOWN;
			break;
		}
		/* The instruction that was just decoded is overwritten by what follows. */
		if (!is_endbr64(code->bytes + at, length) && !is_long_nop(code->bytes + at, length))
			effect = effect_of(d->x86.handle, d->x86.insn, code->arguments);
		if (is_emulated(code->bytes + at, length)) {
			if (is_passed_once(d, code, at, length)) {
				describe(d, code, at, loops ? REASON_LOOP : reason_emulated(code, at), true, out);
				return 0;
			}
			stopped = REASON_STEPPED_TARGET;
			break;
		}
		consider_fallback(d, code, at, length, &fallback);
		if (effect != EFFECT_NONE) {
			stopped = reason_stepped(code, at, effect);
			break;
		}
	}
	if (!fallback.found)
		return at == 0 && !(code->size && decode(d, code, 0)) ? -EILSEQ : -ENOTSUP;
	if (fallback.is_nop)
		stopped = REASON_LONG_NOP;
	describe(d, code, fallback.at, loops ? REASON_LOOP : stopped, false, out);
	return 0;
}
