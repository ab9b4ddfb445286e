/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether an ELF file holds a CPython interpreter (libpython, a python executable with it linked in, a program that
 * embeds it), which version, and where its parts are. By symbols where there are any (.dynsym is enough), else by the
 * section .PyRuntime (3.10 and later).
 */
#ifndef STAKEOUT_PYTHON_IMAGE_H
#define STAKEOUT_PYTHON_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/elf/elf_file.h"
#include "daemon/symbols/debug_files.h"
#include "daemon/symbols/function_parts.h"
#include "stakeout/error.h"

#define PYTHON_IMAGE_MAX_LOOPS 8

/* Thread-local variables of the interpreter, as its own functions read them (3.15). */
struct python_thread_locals {
	enum {
		PYTHON_LOCALS_UNKNOWN,
		PYTHON_LOCALS_OF_THREAD, /* distances from the thread's descriptor: of a program itself */
		PYTHON_LOCALS_OF_MODULE, /* distances from the begin of its thread-local memory: of a library */
	} kind;
	int32_t own;     /* the state that belongs to the thread, whether it holds the interpreter or not */
	int32_t current; /* the same, while it does; else NULL */
};

struct python_image {
	uint64_t runtime; /* ELF virtual address of _PyRuntime */
	/* Py_Version, as 0x030b07f0; only the upper two bytes where the file does not say more. */
	uint32_t version;
	/*
	 * The interpreter's loop, _PyEval_EvalFrameDefault and its parts that the compiler put elsewhere (.cold):
	 * ranges [low, high) of ELF virtual addresses. The other parts have names in .symtab only: where neither the
	 * file nor a separate debug file has one, they are found by the branches that lead to them. n_loops 0: stripped
	 * of all names.
	 */
	struct function_part loops[PYTHON_IMAGE_MAX_LOOPS];
	unsigned n_loops;
	struct python_thread_locals locals;
};

/*
 * Loops of CPython 3.8 to 3.13, as measured, have 34 to 56 KB. Where 3.14 was built to jump from function to function,
 * what has the loop's name only begins these.
 */
#define PYTHON_IMAGE_LEAST_LOOP 8192u

/* Whether the loop that is known fetches all instructions. */
static inline bool python_image__has_whole_loop(const struct python_image *image)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < image->n_loops; i++)
		bytes += image->loops[i].high - image->loops[i].low;
	return bytes >= PYTHON_IMAGE_LEAST_LOOP;
}

/*
 * Whether the low half of an address lies in the interpreter's loop. bias: process address minus ELF virtual address.
 */
static inline bool python_image__is_loop(const struct python_image *image, uint64_t bias, uint32_t low_half)
{
	for (unsigned i = 0; i < image->n_loops; i++)
		if (low_half - (uint32_t)(image->loops[i].low + bias) < image->loops[i].high - image->loops[i].low)
			return true;
	return false;
}

/*
 * path: what the process calls the file; its name helps with versions before 3.11, which do not hold their version as a
 * symbol. debug_root: where separate debug files are looked up, or NULL. -ENOENT: no interpreter in this file; that
 * takes some 15 us however large it is, but for programs with a .symtab, which is read. -ENOTSUP: one that is not
 * supported, and err names it ("CPython 3.7.16", "CPython 3.15.0a2 (pre-release)", "PyPy"). -EINVAL: damaged. -ENOMEM.
 */
int python_image__read(int fd, const char *path, const struct debug_root *debug_root, struct python_image *out,
		       struct so_error *err);

#endif
