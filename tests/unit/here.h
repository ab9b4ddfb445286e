/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An address of this program of which is known in which line of which inlined functions it lies. */
#ifndef STAKEOUT_TEST_HERE_H
#define STAKEOUT_TEST_HERE_H

#include <link.h>
#include <stdint.h>

enum { HERE_INNERMOST_LINE = __LINE__ + 5 };
static inline __attribute__((always_inline)) uintptr_t here__innermost(void)
{
	uintptr_t address;

	__asm__ volatile("1: lea 1b(%%rip), %0" : "=r"(address));
	return address;
}

enum { HERE_MIDDLE_LINE = __LINE__ + 3 };
static inline __attribute__((always_inline)) uintptr_t here__middle(void)
{
	return here__innermost();
}

enum { HERE_OUTER_LINE = __LINE__ + 3 };
static __attribute__((noinline)) uintptr_t here__outer(void)
{
	uintptr_t address = here__middle();

	__asm__ volatile("" : : : "memory");
	return address;
}

/* A function whose entry is within another one's, as those of C++'s lambdas are. */
enum { HERE_NESTED_LINE = __LINE__ + 5 };
static __attribute__((noinline, unused)) uintptr_t here__around(void)
{
	__attribute__((noinline)) uintptr_t nested(void)
	{
		uintptr_t address = here__middle();

		__asm__ volatile("nop" : : : "memory"); /* or it would be here__outer() */
		return address;
	}

	return nested();
}

/* The address as the ELF file has it. */
static inline uint64_t here__vaddr(uintptr_t address)
{
	return address - _r_debug.r_map->l_addr;
}

#endif
