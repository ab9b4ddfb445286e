/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel symbols, from /proc/kallsyms: text symbols only, modules and BPF programs included. */
#ifndef STAKEOUT_KALLSYMS_H
#define STAKEOUT_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct kallsyms;

/* path: NULL for /proc/kallsyms. -EPERM when the kernel hides the addresses (all zero). */
int kallsyms__load(const char *path, struct kallsyms **out, struct so_error *err);
/* The symbol at or before the address, without offset; NULL when there is none. Owned by the table. */
const char *kallsyms__lookup(const struct kallsyms *ks, uint64_t address);
size_t kallsyms__count(const struct kallsyms *ks);
size_t kallsyms__bytes(const struct kallsyms *ks);
void kallsyms__free(struct kallsyms *ks);
CLEANUP_DEFINE(struct kallsyms *, kallsyms, kallsyms__free)

#endif
