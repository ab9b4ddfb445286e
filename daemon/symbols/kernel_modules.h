/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The modules that are loaded, and where each one lies, from /proc/modules. */
#ifndef STAKEOUT_KERNEL_MODULES_H
#define STAKEOUT_KERNEL_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

#define KERNEL_MODULE_NAME 64 /* bytes: MODULE_NAME_LEN with room for the NUL */

/*
 * From Linux 6.4 on the address is that of the text alone, and the size that of all the module's parts together: it may
 * reach into what lies behind. Before, both are of the one area that holds text and data.
 */
struct kernel_module {
	char name[KERNEL_MODULE_NAME];
	uint64_t address; /* 0: hidden from this process */
	uint64_t bytes;
};

struct kernel_modules {
	struct kernel_module *list;
	size_t n, room;
	uint64_t hash; /* of names, addresses and sizes: another set, another hash; 0: there is no list */
};

/* path: NULL for /proc/modules, which a kernel without modules lacks. -errno, and then *out is untouched. */
int kernel_modules__read(const char *path, struct kernel_modules *out);
/* NULL: not in the list. name: `length` bytes. Borrowed. */
const struct kernel_module *kernel_modules__find(const struct kernel_modules *modules, const char *name, size_t length);
void kernel_modules__release(struct kernel_modules *modules);

static inline void cleanup__kernel_modules(struct kernel_modules *modules)
{
	kernel_modules__release(modules);
}

#endif
