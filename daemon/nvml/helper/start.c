/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The entry point, in place of crt1.o's, which asks for the __libc_start_main of glibc 2.34. x86-64 psABI, "Process
 * Initialization": argc at %rsp, argv above it, %rdx a function for atexit. __libc_start_main(main, argc, argv, init,
 * fini, rtld_fini, stack_end), of which init and fini may be NULL; the program has no constructors.
 */
__asm__(".symver __libc_start_main,__libc_start_main@GLIBC_2.2.5\n"
	".text\n"
	".globl _start\n"
	".type _start,@function\n"
	"_start:\n"
	"	endbr64\n"
	"	xorl %ebp, %ebp\n"
	"	movq %rdx, %r9\n"
	"	popq %rsi\n"
	"	movq %rsp, %rdx\n"
	"	andq $-16, %rsp\n"
	"	pushq %rax\n"
	"	pushq %rsp\n"
	"	xorl %r8d, %r8d\n"
	"	xorl %ecx, %ecx\n"
	"	leaq main(%rip), %rdi\n"
	"	call *__libc_start_main@GOTPCREL(%rip)\n"
	"	hlt\n"
	".size _start,.-_start\n");
