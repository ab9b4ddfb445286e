// SPDX-License-Identifier: GPL-2.0-or-later
/* Instructions as the assembler writes them: their lengths, and what they do to the stack and to registers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/unwind/stack_insn.h"

static int make_decoder(void **state)
{
	return stack_decoder__new((struct stack_decoder **)state);
}

static int free_decoder(void **state)
{
	stack_decoder__free(*state);
	return 0;
}

/* After each instruction its end is noted in vector_ends. */
#define V(text) text "\n.pushsection .rodata.vector_ends,\"a\"\n.long 9f - vector_code\n.popsection\n9:\n"
/* clang-format off */
__asm__(".pushsection .rodata.vector_ends,\"a\"\nvector_ends:\n.popsection\n"
	".pushsection .rodata\n.intel_syntax noprefix\nvector_code:\n"
	V("vzeroupper")
	V("vzeroall")
	V("vaddps ymm0, ymm1, ymm2")
	V("vaddps ymm0, ymm1, [rsp]")
	V("vaddps ymm8, ymm9, [r12]")
	V("vaddps ymm8, ymm9, [r13]")
	V("vaddps ymm0, ymm1, [rbp]")
	V("vaddps ymm0, ymm1, [rip+0x1234]")
	V("vaddps ymm0, ymm1, [rax+rbx*4+0x12345]")
	V("vaddps ymm0, ymm1, [rbx*8+0x12345]")
	V("vfmadd231ps ymm3, ymm4, [rdi+rsi*4+0x20]")
	V("vpshufd xmm1, xmm2, 0x1b")
	V("vpsrldq xmm1, xmm2, 4")
	V("vpsllq ymm1, ymm2, 4")
	V("vpinsrw xmm1, xmm2, eax, 3")
	V("vshufps ymm1, ymm2, ymm3, 0x44")
	V("vcmpps ymm1, ymm2, ymm3, 1")
	V("vperm2f128 ymm1, ymm2, ymm3, 0x20")
	V("vextractf128 [rax], ymm2, 1")
	V("vblendvps ymm1, ymm2, ymm3, ymm4")
	V("vmovups [rsp+0x40], ymm5")
	V("vmovups [rsp+0x400], zmm5")
	V("vmovups zmm5, [rsp+0x40]")
	V("vmovups zmm5{k1}{z}, [rax+0x41]")
	V("vaddps zmm0, zmm1, dword ptr [rax+0x40]{1to16}")
	V("vaddps zmm0, zmm1, zmm2, {rn-sae}")
	V("vfmadd231pd zmm31, zmm30, qword ptr [r15+r14*8-8]{1to8}")
	V("vpternlogd zmm1, zmm2, zmm3, 0x96")
	V("vpdpbusd zmm1, zmm2, zmm3")
	V("vpdpwssd ymm1, ymm2, [r9]")
	V("vdpbf16ps zmm1, zmm2, zmm3")
	V("vcvtneps2bf16 ymm1, zmm2")
	V("vpgatherdd zmm1{k1}, [rax+zmm2*4]")
	V("vpscatterdd [rax+zmm2*4+0x100]{k1}, zmm1")
	V("vpcmpd k1, zmm2, zmm3, 4")
	V("vpermi2ps zmm1, zmm2, [rbp-0x40]")
	V("vaddph zmm1, zmm2, zmm3")
	V("vfmadd231ph zmm1, zmm2, [rdx+0x80]")
	V("vcvtph2psx zmm1, ymm2")
	V("kmovw k1, k2")
	V("kmovq k1, [rsp+8]")
	V("kmovw k1, eax")
	V("kmovq rax, k1")
	V("kortestw k1, k1")
	V("vmovd eax, xmm1")
	V("vmovq rcx, xmm1")
	V("vmovmskps eax, ymm1")
	V("vpmovmskb eax, ymm1")
	V("vpextrq rax, xmm1, 1")
	V("vcvttss2si rax, xmm1")
	V("mulx rax, rdx, rcx")
	V("rorx rax, rcx, 7")
	V("shlx rax, rcx, rdx")
	V("andn rax, rcx, rdx")
	V("vpmadd52luq zmm1, zmm2, zmm3")
	V("vgf2p8affineqb zmm1, zmm2, zmm3, 5")
	V("vaesenc zmm1, zmm2, [rsp+0x40]")
	V("vpclmulqdq zmm1, zmm2, zmm3, 0x11")
	V("tilezero tmm1")
	V("tileloadd tmm1, [rax+rbx*1]")
	V("tilestored [rsp+rbx*1], tmm1")
	V("tdpbssd tmm1, tmm2, tmm3")
	V("tdpbf16ps tmm1, tmm2, tmm3")
	V("tilerelease")
	V("ldtilecfg [rsp+0x40]")
	"vector_end: .att_syntax\n.popsection\n"
	".pushsection .rodata.vector_ends,\"a\"\nvector_ends_end:\n.popsection\n");
/* clang-format on */
extern const uint8_t vector_code[], vector_end[];
extern const uint32_t vector_ends[], vector_ends_end[];

static void test_vector_lengths(void **state)
{
	const size_t size = (size_t)(vector_end - vector_code), n = (size_t)(vector_ends_end - vector_ends);
	struct stack_insn insn;
	size_t at = 0;

	assert_true(n > 50);
	for (size_t i = 0; i < n; i++) {
		if (stack_decoder__decode(*state, vector_code + at, size - at, 0x1000 + at, &insn))
			fail_msg("instruction %zu was not decoded", i);
		if (at + insn.length != vector_ends[i])
			fail_msg("instruction %zu is %u bytes long, was taken for %u", i,
				 (unsigned)(vector_ends[i] - at), insn.length);
		assert_int_equal(insn.address, 0x1000 + at);
		assert_int_equal(insn.flow, STACK_FLOW_NEXT);
		assert_int_equal(insn.written & (1u << SO_REG_RSP | 1u << SO_REG_RBP | 1u << SO_REG_RBX), 0);
		assert_int_not_equal(insn.op, STACK_OP_REALIGN);
		/* Cut off anywhere, it is no instruction. */
		for (size_t size_left = 0; size_left < insn.length; size_left++)
			assert_int_equal(stack_decoder__decode(*state, vector_code + at, size_left, 0, &insn),
					 -EILSEQ);
		at = vector_ends[i];
	}
	assert_int_equal(at, size);
}

#define DECODE(...)                                                                                       \
	({                                                                                                \
		const uint8_t _code[] = { __VA_ARGS__ };                                                  \
		struct stack_insn _insn;                                                                  \
		assert_int_equal(stack_decoder__decode(*state, _code, sizeof(_code), 0x1000, &_insn), 0); \
		assert_int_equal(_insn.length, sizeof(_code));                                            \
		_insn;                                                                                    \
	})

static void test_moves(void **state)
{
	struct stack_insn i = DECODE(0x48, 0x83, 0xec, 0x80); /* sub $-128,%rsp */

	assert_int_equal(i.op, STACK_OP_LEA);
	assert_int_equal(i.reg, SO_REG_RSP);
	assert_int_equal(i.base, SO_REG_RSP);
	assert_int_equal(i.disp, 128);
	i = DECODE(0x48, 0x8d, 0xa4, 0x24, 0, 1, 0, 0); /* lea 0x100(%rsp),%rsp */
	assert_int_equal(i.op, STACK_OP_LEA);
	assert_int_equal(i.disp, 256);
	i = DECODE(0x48, 0x8b, 0x5c, 0x24, 0x10); /* mov 0x10(%rsp),%rbx */
	assert_int_equal(i.op, STACK_OP_LOAD);
	assert_int_equal(i.reg, SO_REG_RBX);
	assert_int_equal(i.base, SO_REG_RSP);
	assert_int_equal(i.disp, 16);
	i = DECODE(0x64, 0x48, 0x8b, 0x5c, 0x24, 0x10); /* mov %fs:0x10(%rsp),%rbx */
	assert_int_equal(i.op, STACK_OP_NONE);
	assert_int_equal(i.written, 1u << SO_REG_RBX);
	i = DECODE(0x48, 0x89, 0x6d, 0xf0); /* mov %rbp,-0x10(%rbp) */
	assert_int_equal(i.op, STACK_OP_STORE);
	assert_int_equal(i.reg, SO_REG_RBP);
	assert_int_equal(i.bytes, 8);
	i = DECODE(0x89, 0x6d, 0xf0); /* mov %ebp,-0x10(%rbp) */
	assert_int_equal(i.op, STACK_OP_STORE);
	assert_int_equal(i.reg, STACK_NO_REG);
	assert_int_equal(i.bytes, 4);
	i = DECODE(0x89, 0xdd); /* mov %ebx,%ebp */
	assert_int_equal(i.written, 1u << SO_REG_RBP);
	i = DECODE(0x39, 0xdd); /* cmp %ebx,%ebp */
	assert_int_equal(i.written, 0);
	i = DECODE(0x48, 0xf7, 0xf3); /* div %rbx */
	assert_int_equal(i.written, 1u << SO_REG_RAX | 1u << SO_REG_RDX);
	i = DECODE(0x0f, 0xa2); /* cpuid */
	assert_int_equal(i.written, 1u << SO_REG_RAX | 1u << SO_REG_RBX | 1u << SO_REG_RCX | 1u << SO_REG_RDX);
	i = DECODE(0x48, 0x0f, 0xb1, 0xcb); /* cmpxchg %rcx,%rbx */
	assert_int_equal(i.written, 1u << SO_REG_RAX | 1u << SO_REG_RBX);
	i = DECODE(0xd7); /* xlat */
	assert_int_equal(i.written, 1u << SO_REG_RAX);
	i = DECODE(0x48, 0x83, 0xe4, 0xc0); /* and $-64,%rsp */
	assert_int_equal(i.op, STACK_OP_REALIGN);
	i = DECODE(0x48, 0x0f, 0x44, 0xe0); /* cmove %rax,%rsp */
	assert_int_equal(i.op, STACK_OP_REALIGN);
	i = DECODE(0xbc, 1, 0, 0, 0); /* mov $1,%esp */
	assert_int_equal(i.op, STACK_OP_REALIGN);
	i = DECODE(0x48, 0x87, 0xe3); /* xchg %rsp,%rbx */
	assert_int_equal(i.op, STACK_OP_REALIGN);
	assert_int_equal(i.written, 1u << SO_REG_RBX);
}

static void test_flow(void **state)
{
	struct stack_insn i = DECODE(0x74, 0x10); /* je */

	assert_int_equal(i.flow, STACK_FLOW_BRANCH);
	assert_int_equal(i.target, 0x1012);
	i = DECODE(0xe9, 0xfb, 0xff, 0xff, 0xff); /* jmp to itself */
	assert_int_equal(i.flow, STACK_FLOW_JUMP);
	assert_int_equal(i.target, 0x1000);
	i = DECODE(0x66, 0x74, 0x10); /* a branch with a prefix on which processors disagree */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0xe2, 0xfe); /* loop */
	assert_int_equal(i.flow, STACK_FLOW_BRANCH);
	assert_int_equal(i.written, 1u << SO_REG_RCX);
	i = DECODE(0xe3, 0xfe); /* jrcxz */
	assert_int_equal(i.flow, STACK_FLOW_BRANCH);
	i = DECODE(0xff, 0xe0); /* jmp *%rax */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0x3e, 0xff, 0xe0); /* notrack jmp *%rax */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0xff, 0xd0); /* call *%rax */
	assert_int_equal(i.flow, STACK_FLOW_CALL);
	i = DECODE(0xe8, 0, 0, 0, 0); /* call to the next instruction */
	assert_int_equal(i.flow, STACK_FLOW_NEXT);
	assert_int_equal(i.op, STACK_OP_PUSH);
	i = DECODE(0xc3);
	assert_int_equal(i.flow, STACK_FLOW_RETURN);
	i = DECODE(0xf3, 0xc3); /* rep ret */
	assert_int_equal(i.flow, STACK_FLOW_RETURN);
	i = DECODE(0xf2, 0xc3); /* bnd ret */
	assert_int_equal(i.flow, STACK_FLOW_RETURN);
	i = DECODE(0xc2, 8, 0); /* ret $8 */
	assert_int_equal(i.flow, STACK_FLOW_RETURN);
	i = DECODE(0xcb); /* lret */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0x0f, 0x0b); /* ud2 */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0xf3, 0x0f, 0x1e, 0xfa); /* endbr64 */
	assert_int_equal(i.flow, STACK_FLOW_NEXT);
	assert_int_equal(i.op, STACK_OP_NONE);
}

static void test_stack(void **state)
{
	struct stack_insn i = DECODE(0x41, 0x54); /* push %r12 */

	assert_int_equal(i.op, STACK_OP_PUSH);
	assert_int_equal(i.reg, SO_REG_R12);
	assert_int_equal(i.bytes, 8);
	i = DECODE(0x66, 0x50); /* push %ax */
	assert_int_equal(i.bytes, 2);
	assert_int_equal(i.reg, STACK_NO_REG);
	i = DECODE(0x6a, 0xff); /* push $-1 */
	assert_int_equal(i.bytes, 8);
	i = DECODE(0xff, 0x30); /* push (%rax) */
	assert_int_equal(i.op, STACK_OP_PUSH);
	assert_int_equal(i.bytes, 8);
	i = DECODE(0x9c); /* pushfq */
	assert_int_equal(i.op, STACK_OP_PUSH);
	assert_int_equal(i.bytes, 8);
	i = DECODE(0x66, 0x9d); /* popf */
	assert_int_equal(i.op, STACK_OP_POP);
	assert_int_equal(i.bytes, 2);
	i = DECODE(0x5c); /* pop %rsp */
	assert_int_equal(i.op, STACK_OP_POP);
	assert_int_equal(i.reg, SO_REG_RSP);
	i = DECODE(0x66, 0x5b); /* pop %bx */
	assert_int_equal(i.bytes, 2);
	assert_int_equal(i.written, 1u << SO_REG_RBX);
	i = DECODE(0x8f, 0x40, 0x10); /* pop 0x10(%rax) */
	assert_int_equal(i.op, STACK_OP_POP_STORE);
	assert_int_equal(i.flow, STACK_FLOW_NEXT);
	assert_int_equal(i.base, SO_REG_RAX);
	assert_int_equal(i.disp, 0x10);
	assert_int_equal(i.bytes, 8);
	i = DECODE(0x8f, 0x04, 0xc8); /* pop (%rax,%rcx,8) */
	assert_int_equal(i.op, STACK_OP_POP);
	assert_int_equal(i.flow, STACK_FLOW_NEXT);
	i = DECODE(0x8f, 0x04, 0x24); /* pop (%rsp) */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0x8f, 0x44, 0xcd, 0x08); /* pop 0x8(%rbp,%rcx,8) */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
	i = DECODE(0xc9); /* leave */
	assert_int_equal(i.op, STACK_OP_LEAVE);
	i = DECODE(0xc8, 0xf0, 0xff, 0); /* enter $0xfff0,$0 */
	assert_int_equal(i.op, STACK_OP_ENTER);
	assert_int_equal(i.disp, 0xfff0);
	i = DECODE(0xc8, 0x10, 0, 1); /* enter $16,$1 */
	assert_int_equal(i.flow, STACK_FLOW_STOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vector_lengths),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_flow),
		cmocka_unit_test(test_stack),
	};

	return cmocka_run_group_tests(tests, make_decoder, free_decoder);
}
