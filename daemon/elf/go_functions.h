/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of a Go program, from the table that its runtime reads for stack traces. It is there in stripped
 * programs too, and says how deep the stack is at each instruction. Layout: Go's src/runtime/symtab.go (pcHeader,
 * _func, pcvalue), of 1.18 and later.
 */
#ifndef STAKEOUT_GO_FUNCTIONS_H
#define STAKEOUT_GO_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_image.h"
#include "stakeout/cleanup.h"

/* A larger table is refused; Kubernetes' programs have some 30 MB. */
#define GO_FUNCTIONS_MAX_BYTES (128u << 20)
#define GO_FUNCTIONS_MAX       (1u << 21)

enum go_function_flags {
	GO_TOP_FRAME = 1 << 0, /* the outermost function of a stack */
	GO_WRITES_SP = 1 << 1, /* sets the stack pointer in a way that `depth` does not describe */
	GO_ASSEMBLY = 1 << 2,
};

struct go_function {
	uint64_t start, end; /* ELF virtual addresses */
	uint32_t name;       /* offset of the NUL-terminated name in the file from go_functions.names_at */
	uint32_t depths;     /* for go_functions__depths() */
	uint8_t flags;       /* enum go_function_flags */
};

struct go_functions {
	uint8_t *table; /* owned */
	size_t size;
	uint64_t names_at, names_size; /* in the file */
	uint64_t text;                 /* address that functions are relative to */
	uint32_t n;
	size_t names, depths, functions; /* offsets in the table */
	size_t flags;                    /* offset in a function's record */
};

/* -ENOENT: not a Go program, or one whose table is not known; -EINVAL: damaged; -ENOMEM. *out is untouched then. */
int go_functions__read(const struct elf_image *image, struct go_functions *out);

/* Function i of n, by rising address. False: its record is damaged. */
bool go_functions__get(const struct go_functions *functions, uint32_t i, struct go_function *out);

/* The name in memory, "" when it is damaged. Borrowed from the table. */
const char *go_functions__name(const struct go_functions *functions, const struct go_function *function);

/*
 * Calls `step` for each piece of the function, by rising address: from `start` on the return address lies `depth` bytes
 * above the stack pointer. A return other than 0 ends the walk and is returned. -EINVAL: damaged.
 */
typedef int (*go_depth_fn)(void *context, uint64_t start, uint32_t depth);
int go_functions__depths(const struct go_functions *functions, const struct go_function *function, go_depth_fn step,
			 void *context);

void go_functions__release(struct go_functions *functions);
CLEANUP_DEFINE_OF(struct go_functions, go_functions, go_functions__release)

#endif
