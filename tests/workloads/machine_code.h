/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64 machine code as a just-in-time compiler would write it: a loop of `rounds` steps (the argument, in
 * edi) whose result is in rax. No unwind information describes it.
 */
#ifndef STAKEOUT_TESTS_MACHINE_CODE_H
#define STAKEOUT_TESTS_MACHINE_CODE_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define CODE_LOOP                                                                   \
	0x31, 0xc0,                                 /* xor %eax,%eax            */  \
		0x48, 0x69, 0xc0, 0x01, 0x10, 0, 0, /* 1: imul $0x1001,%rax,%rax */ \
		0x48, 0x83, 0xc0, 0x07,             /* add $7,%rax              */  \
		0xff, 0xcf,                         /* dec %edi                 */  \
		0x75, 0xf1                          /* jnz 1b                   */

/* Keeps a frame pointer. */
static const uint8_t code_fp[] = {
	0x55,                  /* push %rbp      */
	0x48,      0x89, 0xe5, /* mov %rsp,%rbp  */
	CODE_LOOP,             /*                */
	0x5d,                  /* pop %rbp       */
	0xc3,                  /* ret            */
};

/* Uses rbp for a number that is no address. */
static const uint8_t code_nofp[] = {
	0x55,                  /* push %rbp      */
	0xbd,      1, 0, 0, 0, /* mov $1,%ebp    */
	CODE_LOOP,             /*                */
	0x5d,                  /* pop %rbp       */
	0xc3,                  /* ret            */
};

/* Sets rbp to 0, as the outermost frame of a frame-pointer chain has it. */
static const uint8_t code_root[] = {
	0x55,            /* push %rbp      */
	0x31,      0xed, /* xor %ebp,%ebp  */
	CODE_LOOP,       /*                */
	0x5d,            /* pop %rbp       */
	0xc3,            /* ret            */
};

/* The last two as code whose end nobody can see: it returns by a jump through a register. */
static const uint8_t code_opaque_nofp[] = {
	0x55,                  /* push %rbp      */
	0xbd,      1, 0, 0, 0, /* mov $1,%ebp    */
	CODE_LOOP,             /*                */
	0x5d,                  /* pop %rbp       */
	0x59,                  /* pop %rcx       */
	0xff,      0xe1,       /* jmp *%rcx      */
};

static const uint8_t code_opaque_root[] = {
	0x55,            /* push %rbp      */
	0x31,      0xed, /* xor %ebp,%ebp  */
	CODE_LOOP,       /*                */
	0x5d,            /* pop %rbp       */
	0x59,            /* pop %rcx       */
	0xff,      0xe1, /* jmp *%rcx      */
};

typedef uint64_t (*machine_code)(unsigned rounds);

#define CODE_PAGE_BYTES 4096

/* Writes the code into a fresh anonymous page and makes it executable. NULL on failure. */
static inline machine_code machine_code__map(const uint8_t *code, size_t bytes)
{
	void *page = mmap(NULL, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	machine_code run;

	if (page == MAP_FAILED)
		return NULL;
	memcpy(page, code, bytes);
	if (mprotect(page, CODE_PAGE_BYTES, PROT_READ | PROT_EXEC)) {
		munmap(page, CODE_PAGE_BYTES);
		return NULL;
	}
	memcpy(&run, &page, sizeof(run));
	return run;
}

static inline int machine_code__writable(machine_code run)
{
	void *page;

	memcpy(&page, &run, sizeof(page));
	return mprotect(page, CODE_PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static inline void machine_code__unmap(machine_code run)
{
	void *page;

	memcpy(&page, &run, sizeof(page));
	munmap(page, CODE_PAGE_BYTES);
}

#endif
