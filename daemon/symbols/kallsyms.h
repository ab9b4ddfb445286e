/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernel symbols, from /proc/kallsyms: text symbols only, modules and BPF programs included. The table says what was
 * there when it was read; daemon/symbols/kernel_symbols.h keeps one that is not out of date.
 */
#ifndef STAKEOUT_KALLSYMS_H
#define STAKEOUT_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/symbols/kernel_modules.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct kallsyms;

/*
 * With one reference. path: NULL for /proc/kallsyms. modules: how far the modules reach, listed before; not needed
 * afterwards.
 * -EPERM when the kernel hides the addresses (all zero).
 */
int kallsyms__load(const char *path, const struct kernel_modules *modules, struct kallsyms **out,
		   struct so_error *err);
/*
 * The symbol at or before the address, without offset; NULL when there is none. A symbol reaches to the next one, but
 * not beyond
 * - the end of the kernel's text (_etext, _einittext), where that is listed;
 * - the end of its module, where /proc/modules tells it;
 * - 1 MiB of a BPF program, 4 KiB of ftrace's and kprobes' trampolines and of what lies elsewhere.
 * Owned by the table.
 */
const char *kallsyms__lookup(const struct kallsyms *ks, uint64_t address);
/* NULL stays NULL. References are taken and given back by any thread. */
struct kallsyms *kallsyms__ref(struct kallsyms *ks);
void kallsyms__unref(struct kallsyms *ks);
CLEANUP_DEFINE(struct kallsyms *, kallsyms, kallsyms__unref)

#endif
