/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions as assembly programmers, JIT compilers and compilers write them, for test_stack_effect.c. Each SAMPLE(name,
 * text) defines the bytes sample_NAME to sample_NAME_end, position independent. The RUN ones can be called as
 * uint64_t f(uint64_t) and end.
 */
#ifndef STAKEOUT_TESTS_STACK_CODE_SAMPLES_H
#define STAKEOUT_TESTS_STACK_CODE_SAMPLES_H

#include <stdint.h>

#define SAMPLE(name, text)                                                                       \
	__asm__(".pushsection .rodata\n.intel_syntax noprefix\n.balign 16\n.globl sample_" #name \
		", sample_" #name "_end\nsample_" #name ":\n" text "\nsample_" #name             \
		"_end:\n.att_syntax\n.popsection\n");                                            \
	extern const uint8_t sample_##name[], sample_##name##_end[];

/* X(name): all that can be run. */
/* clang-format off */
#define RUN_SAMPLES(X) \
	X(leaf) X(pushes) X(moves) X(frame_pointer) X(frame_pointer_lea) X(variable_frame) X(entered) \
	X(realign_rbx) X(realign_stored) X(realign_r10) X(realign_variable) X(flags) X(red_zone) X(calls) \
	X(read_pc) X(early_return) X(vectors) X(second_half) X(returns_argument) X(shrink_wrapped) X(spills) \
	X(exchange) X(restored_early)
/* clang-format on */

SAMPLE(leaf, "mov rax, rdi\n"
	     "1: dec rax\n"
	     "cmp rax, 3\n"
	     "ja 1b\n"
	     "ret\n")

/* oneDNN's kernels: everything pushed, rbp and rbx used as numbers. */
SAMPLE(pushes, "push rbx\n"
	       "at_pushes_1:\n"
	       "push rbp\n"
	       "push r12\n"
	       "push r13\n"
	       "sub rsp, 0xa0\n"
	       "at_pushes_body:\n"
	       "mov rbp, rdi\n"
	       "xor ebx, ebx\n"
	       "at_pushes_loop:\n"
	       "1: add rbx, rbp\n"
	       "sub rbp, 1\n"
	       "jnz 1b\n"
	       "mov rax, rbx\n"
	       "add rsp, 0xa0\n"
	       "pop r13\n"
	       "pop r12\n"
	       "at_pushes_pop:\n"
	       "pop rbp\n"
	       "pop rbx\n"
	       "at_pushes_ret:\n"
	       "ret\n")
extern const uint8_t at_pushes_1[];
extern const uint8_t at_pushes_body[];
extern const uint8_t at_pushes_loop[];
extern const uint8_t at_pushes_pop[];
extern const uint8_t at_pushes_ret[];

/* OpenBLAS: saved by moves into a frame. */
SAMPLE(moves, "sub rsp, 0x60\n"
	      "mov [rsp], rbx\n"
	      "mov [rsp+8], rbp\n"
	      "mov [rsp+16], r12\n"
	      "at_moves_body:\n"
	      "lea rbp, [rdi+rdi]\n"
	      "lea rbx, [rdi+1]\n"
	      "lea rax, [rbx+rbp]\n"
	      "mov rbx, [rsp]\n"
	      "mov rbp, [rsp+8]\n"
	      "mov r12, [rsp+16]\n"
	      "add rsp, 0x60\n"
	      "ret\n")
extern const uint8_t at_moves_body[];

SAMPLE(frame_pointer, "push rbp\n"
		      "mov rbp, rsp\n"
		      "push rbx\n"
		      "sub rsp, 0x28\n"
		      "at_frame_pointer_body:\n"
		      "mov ebx, edi\n"
		      "mov rax, rbx\n"
		      "mov rbx, [rbp-8]\n"
		      "leave\n"
		      "ret\n")
extern const uint8_t at_frame_pointer_body[];

SAMPLE(frame_pointer_lea, "push rbp\n"
			  "mov rbp, rsp\n"
			  "push r12\n"
			  "push rbx\n"
			  "sub rsp, 0x20\n"
			  "mov rbx, rdi\n"
			  "mov rax, rbx\n"
			  "lea rsp, [rbp-16]\n"
			  "pop rbx\n"
			  "pop r12\n"
			  "pop rbp\n"
			  "ret\n")

SAMPLE(variable_frame, "push rbp\n"
		       "mov rbp, rsp\n"
		       "push rbx\n"
		       "mov ebx, edi\n"
		       "and ebx, 15\n"
		       "shl rbx, 4\n"
		       "sub rsp, rbx\n"
		       "at_variable_frame_body:\n"
		       "lea rax, [rsp]\n"
		       "mov [rax-8], rdi\n"
		       "mov rax, rdi\n"
		       "mov rbx, [rbp-8]\n"
		       "mov rsp, rbp\n"
		       "pop rbp\n"
		       "ret\n")
extern const uint8_t at_variable_frame_body[];

SAMPLE(entered, "enter 0x30, 0\n"
		"mov [rbp-8], rbx\n"
		"mov rbx, rdi\n"
		"mov rax, rbx\n"
		"mov rbx, [rbp-8]\n"
		"leave\n"
		"ret\n")

/* OpenBLAS's Haswell kernels: rsp kept in rbx while the stack is aligned. */
SAMPLE(realign_rbx, "sub rsp, 0x60\n"
		    "mov [rsp], rbx\n"
		    "mov [rsp+8], rbp\n"
		    "mov rbx, rsp\n"
		    "sub rsp, 0x1000\n"
		    "and rsp, -0x1000\n"
		    "at_realign_rbx_body:\n"
		    "mov rbp, rdi\n"
		    "mov [rsp+0x20], rbp\n"
		    "mov rax, [rsp+0x20]\n"
		    "mov rsp, rbx\n"
		    "mov rbx, [rsp]\n"
		    "mov rbp, [rsp+8]\n"
		    "add rsp, 0x60\n"
		    "ret\n")
extern const uint8_t at_realign_rbx_body[];

/* OpenSSL's multi-block code: the old rsp stored in the aligned frame. */
SAMPLE(realign_stored, "mov rax, rsp\n"
		       "push rbx\n"
		       "push rbp\n"
		       "sub rsp, 0x120\n"
		       "and rsp, -256\n"
		       "mov [rsp+0x110], rax\n"
		       "at_realign_stored_body:\n"
		       "lea rbx, [rdi+1]\n"
		       "lea rbp, [rdi+2]\n"
		       "1: dec rbp\n"
		       "jnz 1b\n"
		       "mov rax, [rsp+0x110]\n"
		       "mov rbp, [rax-16]\n"
		       "mov rbx, [rax-8]\n"
		       "lea rsp, [rax]\n"
		       "mov rax, rdi\n"
		       "ret\n")
extern const uint8_t at_realign_stored_body[];

/* GCC's functions with an aligned frame. */
SAMPLE(realign_r10, "lea r10, [rsp+8]\n"
		    "and rsp, -64\n"
		    "push qword ptr [r10-8]\n"
		    "push rbp\n"
		    "mov rbp, rsp\n"
		    "push r10\n"
		    "push rbx\n"
		    "sub rsp, 0x60\n"
		    "at_realign_r10_body:\n"
		    "mov rbx, rdi\n"
		    "mov rax, rbx\n"
		    "xor r10d, r10d\n"
		    "add rsp, 0x60\n"
		    "pop rbx\n"
		    "pop r10\n"
		    "pop rbp\n"
		    "lea rsp, [r10-8]\n"
		    "ret\n")
extern const uint8_t at_realign_r10_body[];

SAMPLE(realign_variable, "lea r10, [rsp+8]\n"
			 "and rsp, -32\n"
			 "push qword ptr [r10-8]\n"
			 "push rbp\n"
			 "mov rbp, rsp\n"
			 "push r10\n"
			 "push rbx\n"
			 "mov rbx, rdi\n"
			 "and rbx, 15\n"
			 "shl rbx, 5\n"
			 "sub rsp, rbx\n"
			 "mov rax, rdi\n"
			 "lea rsp, [rbp-16]\n"
			 "pop rbx\n"
			 "pop r10\n"
			 "pop rbp\n"
			 "lea rsp, [r10-8]\n"
			 "ret\n")

SAMPLE(flags, "pushfq\n"
	      "push 7\n"
	      "push ax\n"
	      "push 0x12345\n"
	      "pop rax\n"
	      "pop cx\n"
	      "pop rcx\n"
	      "add rax, rcx\n"
	      "popfq\n"
	      "ret\n")

SAMPLE(red_zone, "mov [rsp-8], rbx\n"
		 "mov [rsp-16], rbp\n"
		 "at_red_zone_body:\n"
		 "mov rbx, rdi\n"
		 "mov rbp, rbx\n"
		 "mov rax, rbp\n"
		 "mov rbx, [rsp-8]\n"
		 "mov rbp, [rsp-16]\n"
		 "ret\n")
extern const uint8_t at_red_zone_body[];

SAMPLE(calls, "push rbx\n"
	      "mov rbx, rdi\n"
	      "call 1f\n"
	      "at_calls_after:\n"
	      "add rax, rbx\n"
	      "pop rbx\n"
	      "ret\n"
	      ".balign 16\n"
	      "1: push rbp\n"
	      "xor ebp, ebp\n"
	      "sub rsp, 16\n"
	      "mov rax, rbp\n"
	      "add rsp, 16\n"
	      "pop rbp\n"
	      "ret\n")
extern const uint8_t at_calls_after[];

SAMPLE(read_pc, "push rbx\n"
		"call 1f\n"
		"1: pop rbx\n"
		"mov rax, rbx\n"
		"pop rbx\n"
		"ret\n")

SAMPLE(early_return, "push rbx\n"
		     "test rdi, 1\n"
		     "jz 1f\n"
		     "mov rbx, rdi\n"
		     "mov rax, rbx\n"
		     "pop rbx\n"
		     "ret\n"
		     "1: push rbp\n"
		     "lea rbp, [rdi+2]\n"
		     "mov rax, rbp\n"
		     "pop rbp\n"
		     "pop rbx\n"
		     "ret\n")

SAMPLE(vectors, "push rbp\n"
		"sub rsp, 0x80\n"
		"mov ebp, 3\n"
		"movups [rsp], xmm0\n"
		"movups xmm0, [rsp]\n"
		"1: dec ebp\n"
		"paddd xmm1, xmm1\n"
		"jnz 1b\n"
		"add rsp, 0x80\n"
		"pop rbp\n"
		"ret\n")

/* A jump into the second half of an instruction: the bytes of the mov hold "nop; nop; pop rbx; ret". */
SAMPLE(second_half, "push rbx\n"
		    "xor ebx, ebx\n"
		    "mov rax, rdi\n"
		    "jmp 1f+2\n"
		    "1: .byte 0x48, 0xb8, 0x90, 0x90, 0x5b, 0xc3, 0, 0, 0, 0\n"
		    "ret\n")

SAMPLE(returns_argument, "mov rax, rdi\n"
			 "ret 0\n")

SAMPLE(shrink_wrapped, "cmp rdi, 1\n"
		       "jbe 2f\n"
		       "push rbx\n"
		       "mov rbx, rdi\n"
		       "mov rax, rbx\n"
		       "pop rbx\n"
		       "push rbp\n"
		       "mov rbp, rax\n"
		       "mov rax, rbp\n"
		       "pop rbp\n"
		       "2: ret\n")

/* More stores to the stack than slots are remembered. */
SAMPLE(spills, "push rbx\n"
	       "push rbp\n"
	       "sub rsp, 0x200\n"
	       ".set off, 0\n"
	       ".rept 60\n"
	       "mov [rsp+off], rdi\n"
	       ".set off, off + 8\n"
	       ".endr\n"
	       "mov rbx, [rsp+16]\n"
	       "mov rbp, [rsp+24]\n"
	       "mov rax, rbx\n"
	       "add rsp, 0x200\n"
	       "pop rbp\n"
	       "pop rbx\n"
	       "ret\n")

SAMPLE(exchange, "push rbx\n"
		 "push rbp\n"
		 "xchg rbx, rbp\n"
		 "xadd rbx, rbp\n"
		 "cpuid\n"
		 "mov rax, rdi\n"
		 "pop rbp\n"
		 "pop rbx\n"
		 "ret\n")

/* Below: code that is only read. */

SAMPLE(returns_differ, "test rdi, rdi\n"
		       "jz 1f\n"
		       "pop rbx\n"
		       "ret\n"
		       "1: pop rbx\n"
		       "pop rbp\n"
		       "ret\n")

SAMPLE(jump_table, "push rbx\n"
		   "test rdi, rdi\n"
		   "jz 1f\n"
		   "jmp [rax+rdi*8]\n"
		   "1: pop rbx\n"
		   "ret\n"
		   "at_jump_table_only:\n"
		   "pop rbx\n"
		   "jmp rax\n")
extern const uint8_t at_jump_table_only[];

/* glibc's __start_context, boost.context's finish behind its trampoline, and what looks like them. */
SAMPLE(begins, ".nops 8\n"
	       "mov rsp, rbx\n"
	       "mov rdi, [rsp]\n"
	       "test rdi, rdi\n"
	       "jz 1f\n"
	       "call at_begins_callee\n"
	       "mov rdi, rax\n"
	       "1: call at_begins_callee\n"
	       "hlt\n"
	       ".nops 8\n"
	       "push rbp\n"
	       "jmp rbx\n"
	       "at_begins_finish:\n"
	       "xor rdi, rdi\n"
	       "call at_begins_callee\n"
	       "hlt\n"
	       ".nops 8\n"
	       "at_begins_returns:\n"
	       "test rdi, rdi\n"
	       "jz 1f\n"
	       "hlt\n"
	       "1: ret\n"
	       ".nops 8\n"
	       "at_begins_leaves:\n"
	       "jz at_begins_callee\n"
	       "jmp rax\n"
	       "call at_begins_callee\n"
	       "at_begins_behind_call:\n"
	       "hlt\n"
	       "call [rax+8]\n"
	       "at_begins_behind_pointer:\n"
	       "hlt\n"
	       ".fill 160, 1, 0xcc\n"
	       "at_begins_callee: ud2\n")
extern const uint8_t at_begins_finish[], at_begins_returns[], at_begins_leaves[], at_begins_behind_call[],
	at_begins_behind_pointer[];

/* Of a table of distances the first case lies behind the jump, as often as not. */
SAMPLE(switch_case, "lea r11, [rip+8]\n"
		    "movsxd rcx, dword ptr [r11+rdi*4]\n"
		    "push rbx\n"
		    "add rcx, r11\n"
		    "jmp rcx\n"
		    "pop rbx\n"
		    "ret\n"
		    "at_switch_case_none:\n"
		    "add rcx, r11\n"
		    "jmp rcx\n"
		    "ret\n")
extern const uint8_t at_switch_case_none[];

SAMPLE(endless, "1: inc rax\n"
		"jmp 1b\n")

SAMPLE(traps, "ud2\n"
	      "at_traps_int3:\n"
	      "int3\n"
	      "at_traps_hlt:\n"
	      "hlt\n"
	      "ret\n")
extern const uint8_t at_traps_int3[];
extern const uint8_t at_traps_hlt[];

/* Behind a call that does not return lies another function. */
SAMPLE(no_return, "sub rsp, 8\n"
		  "at_no_return_call:\n"
		  "call no_return_callee\n"
		  "at_no_return_next:\n"
		  "push rbx\n"
		  "pop rbx\n"
		  "ret\n"
		  "no_return_callee: ud2\n")
extern const uint8_t at_no_return_call[];
extern const uint8_t at_no_return_next[];

/* One that is seen to return may be called without a frame, as hand-written code does it, and be aligned behind. */
SAMPLE(helper_call, "call 1f\n"
		    "at_helper_call_after:\n"
		    ".nops 3\n"
		    "call 1f\n"
		    "inc eax\n"
		    "ret\n"
		    ".p2align 4\n"
		    "1: dec ecx\n"
		    "jz 2f\n"
		    "jmp 1b\n"
		    "2: ret\n")
extern const uint8_t at_helper_call_after[];

/*
 * V8's entry into JavaScript: what it keeps of its own state goes to the stack and comes back by pops into memory. rdi
 * points to that state.
 */
SAMPLE(pops_to_memory, "push rbp\n"
		       "mov rbp, rsp\n"
		       "push rbx\n"
		       "push [rdi]\n"
		       "push [rdi+8]\n"
		       "at_pops_to_memory_body:\n"
		       "pop [rdi+8]\n"
		       "at_pops_to_memory_second:\n"
		       "pop [rdi+r12*8]\n"
		       "pop rbx\n"
		       "pop rbp\n"
		       "ret\n")
extern const uint8_t at_pops_to_memory_body[];
extern const uint8_t at_pops_to_memory_second[];

/* Into its own frame, where rbx was saved; and at an address that the pop itself changes. */
SAMPLE(pops_over_saved, "push rbp\n"
			"mov rbp, rsp\n"
			"push rbx\n"
			"push rcx\n"
			"push rcx\n"
			"at_pops_over_saved_body:\n"
			"pop [rbp-8]\n"
			"pop rcx\n"
			"pop rbx\n"
			"pop rbp\n"
			"ret\n"
			"at_pops_over_saved_rsp:\n"
			"pop [rsp+8]\n"
			"ret\n"
			"at_pops_over_saved_index:\n"
			"pop [rbp+rcx*8]\n"
			"ret\n")
extern const uint8_t at_pops_over_saved_body[];
extern const uint8_t at_pops_over_saved_rsp[];
extern const uint8_t at_pops_over_saved_index[];

/* V8's calls into C: where the frame lies is told to others first. */
SAMPLE(tells_frame, "push rbp\n"
		    "mov rbp, rsp\n"
		    "sub rsp, 0x20\n"
		    "at_tells_frame_body:\n"
		    "mov [r13+0x68], rbp\n"
		    "call rax\n"
		    "at_tells_frame_after:\n"
		    "mov rsp, rbp\n"
		    "pop rbp\n"
		    "ret 0x18\n")
extern const uint8_t at_tells_frame_body[];
extern const uint8_t at_tells_frame_after[];

/* V8's optimised code ends in calls to the deoptimiser, which do not return; the next function begins right behind. */
SAMPLE(next_function, "push rbp\n"
		      "mov rbp, rsp\n"
		      "push rbx\n"
		      "at_next_function_body:\n"
		      "test rcx, rcx\n"
		      "jz 1f\n"
		      "mov rbx, [rbp-8]\n"
		      "mov rsp, rbp\n"
		      "pop rbp\n"
		      "ret\n"
		      "1: call next_function_deoptimise\n"
		      "push rbp\n"
		      "mov rbp, rsp\n"
		      "push rbx\n"
		      "mov rsp, rbp\n"
		      "pop rbp\n"
		      "ret\n"
		      "next_function_deoptimise: int3\n")
extern const uint8_t at_next_function_body[];

/* Alignment behind the call says that it does not return, too; nops that align nothing do not. */
SAMPLE(padded_call, "sub rsp, 8\n"
		    "call padded_call_callee\n"
		    ".nops 7\n"
		    "add rsp, 40\n"
		    "ret\n"
		    "at_padded_call_other:\n"
		    "sub rsp, 8\n"
		    "call padded_call_callee\n"
		    ".nops 3\n"
		    "add rsp, 40\n"
		    "ret\n"
		    "padded_call_callee: ud2\n")
extern const uint8_t at_padded_call_other[];

SAMPLE(tail_call, "push rbx\n"
		  "at_tail_call_body:\n"
		  "mov rbx, rdi\n"
		  "pop rbx\n"
		  "jmp tail_call_out\n"
		  "at_tail_call_bare:\n"
		  "add rsp, 8\n"
		  "jmp tail_call_out\n"
		  "at_tail_call_end:\n"
		  "nop\n"
		  "tail_call_out: ret\n")
extern const uint8_t at_tail_call_body[];
extern const uint8_t at_tail_call_bare[];
extern const uint8_t at_tail_call_end[];

SAMPLE(not_restored, "mov rbx, rdi\n"
		     "xor ebp, ebp\n"
		     "ret\n")

SAMPLE(overwritten, "mov qword ptr [rsp+8], 0\n"
		    "mov [rsp], rdi\n"
		    "pop rbp\n"
		    "pop rbx\n"
		    "ret\n")

/* CPython's JIT: saved registers are restored before the end, and their places are used again. */
SAMPLE(restored_early, "push rbx\n"
		       "push rbp\n"
		       "mov rbx, rdi\n"
		       "mov ebp, 7\n"
		       "at_restored_early_body:\n"
		       "lea rax, [rbx+rbp]\n"
		       "pop rbp\n"
		       "mov rbx, [rsp]\n"
		       "mov [rsp], rax\n"
		       "push rdi\n"
		       "push rsi\n"
		       "at_restored_early_again:\n"
		       "pop rsi\n"
		       "pop rdi\n"
		       "pop rax\n"
		       "ret\n")
extern const uint8_t at_restored_early_body[];
extern const uint8_t at_restored_early_again[];

SAMPLE(restored_before_call, "pop rbx\n"
			     "call restored_before_call_other\n"
			     "add rsp, 8\n"
			     "restored_before_call_other: ret\n")

/* Restored early, but only to be kept in a register that no rule can name. */
SAMPLE(kept_elsewhere, "at_kept_elsewhere_body:\n"
		       "pop rbx\n"
		       "push rdi\n"
		       "mov rax, rbx\n"
		       "mov ebx, 5\n"
		       "at_kept_elsewhere_rax:\n"
		       "add rdi, rbx\n"
		       "mov rbx, rax\n"
		       "pop rdi\n"
		       "ret\n")
extern const uint8_t at_kept_elsewhere_body[];
extern const uint8_t at_kept_elsewhere_rax[];

SAMPLE(other_stack, "mov [rdi], rsp\n"
		    "mov rsp, rsi\n"
		    "pop rbx\n"
		    "ret\n"
		    "at_other_stack_load:\n"
		    "mov rsp, [rsi+8]\n"
		    "pop rbx\n"
		    "ret\n")
extern const uint8_t at_other_stack_load[];

SAMPLE(push_return, "push rdi\n"
		    "ret\n"
		    "at_push_return_below:\n"
		    "sub rsp, 8\n"
		    "ret\n"
		    "at_push_return_odd:\n"
		    "pop ax\n"
		    "ret\n")
extern const uint8_t at_push_return_below[];
extern const uint8_t at_push_return_odd[];

SAMPLE(lost_stack_pointer, "and rsp, -64\n"
			   "ret\n")

SAMPLE(callee_pops, "pop rbx\n"
		    "ret 24\n")

/* What has been popped or lies below a call is no place to find a register. */
SAMPLE(call_below, "mov [rsp-8], rbx\n"
		   "call call_below_end\n"
		   "mov rbx, [rsp-8]\n"
		   "add rsp, 24\n"
		   "call_below_end: ret\n")

#endif
