/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Coroutines by turns, each on a stack of its own that begins in another way: with a context to go on with, with none
 * (makecontext), and made by hand with a return address of 0. Usage: coroutines [seconds]
 */
#include <ucontext.h>

#include "work.h"

#define STACK_WORDS 8192
#define ROUNDS      200000

static ucontext_t scheduler, linked, unlinked;
static uint64_t stacks[3][STACK_WORDS] __attribute__((aligned(16))), sum;
static void *own_sp, *scheduler_sp;

FRAME uint64_t linked_work(uint64_t x)
{
	return work__mix(x, ROUNDS) + 1;
}

FRAME uint64_t unlinked_work(uint64_t x)
{
	return work__mix(x, ROUNDS) + 2;
}

FRAME uint64_t own_work(uint64_t x)
{
	return work__mix(x, ROUNDS) + 3;
}

FRAME void linked_main(void)
{
	for (;;) {
		sum += linked_work(sum);
		swapcontext(&linked, &scheduler);
	}
}

FRAME void unlinked_main(void)
{
	for (;;) {
		sum += unlinked_work(sum);
		swapcontext(&unlinked, &scheduler);
	}
}

/* Leaves the stack pointer at *from and goes on with `to`. */
void switch_stack(void **from, void *to);
__asm__(".pushsection .text\n.type switch_stack, @function\nswitch_stack:\n.cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\npush %rbp\n.cfi_adjust_cfa_offset 8\n"
	"push %r12\n.cfi_adjust_cfa_offset 8\npush %r13\n.cfi_adjust_cfa_offset 8\n"
	"push %r14\n.cfi_adjust_cfa_offset 8\npush %r15\n.cfi_adjust_cfa_offset 8\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\n.cfi_adjust_cfa_offset -8\npop %r14\n.cfi_adjust_cfa_offset -8\n"
	"pop %r13\n.cfi_adjust_cfa_offset -8\npop %r12\n.cfi_adjust_cfa_offset -8\n"
	"pop %rbp\n.cfi_adjust_cfa_offset -8\npop %rbx\n.cfi_adjust_cfa_offset -8\n"
	"ret\n.cfi_endproc\n.size switch_stack, .-switch_stack\n.popsection\n");

FRAME void own_main(void)
{
	for (;;) {
		sum += own_work(sum);
		switch_stack(&own_sp, scheduler_sp);
	}
}

static void make(ucontext_t *context, uint64_t *stack, ucontext_t *next, void (*function)(void))
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = STACK_WORDS * sizeof(*stack);
	context->uc_link = next;
	makecontext(context, function, 0);
}

/* Six registers, the function to return to, and its own return address. */
static void make_own(uint64_t *stack)
{
	stack[STACK_WORDS - 1] = 0;
	stack[STACK_WORDS - 2] = (uint64_t)own_main;
	own_sp = &stack[STACK_WORDS - 8];
}

FRAME void schedule(void)
{
	swapcontext(&scheduler, &linked);
	swapcontext(&scheduler, &unlinked);
	switch_stack(&scheduler_sp, own_sp);
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);

	make(&linked, stacks[0], &scheduler, linked_main);
	make(&unlinked, stacks[1], NULL, unlinked_main);
	make_own(stacks[2]);
	work__ready();
	while (work__now_s() < deadline)
		schedule();
	return work__done(0);
}
