/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's symbols as they are now. Modules and BPF programs come and go while the daemon runs, so the table is
 * read anew:
 * - when the set of loaded modules is another one, which each kernel_symbols__get() looks for, but not within
 *   KERNEL_SYMBOLS_AGAIN_NS of a reading: until then names of modules that have gone are no names;
 * - when an address is asked for that lies in nothing known, or in code of which /proc/modules says nothing (a BPF
 *   program, a trampoline), and the table is older than KERNEL_SYMBOLS_DOUBT_NS.
 * Thread-safe, and a table that is in use stays as it is until it is given back.
 */
#ifndef STAKEOUT_KERNEL_SYMBOLS_H
#define STAKEOUT_KERNEL_SYMBOLS_H

#include "daemon/symbols/kallsyms.h"

#define KERNEL_SYMBOLS_AGAIN_NS 10000000000ull /* at least, from one reading to the next */
#define KERNEL_SYMBOLS_DOUBT_NS 60000000000ull /* how long a name holds that may have become another */
#define KERNEL_SYMBOLS_LOOK_NS  1000000000ull  /* from one kernel_symbols__look() to the next */

struct kernel_symbols;

/* Nothing is read yet. Paths: NULL for /proc/kallsyms and /proc/modules; borrowed. -ENOMEM. */
int kernel_symbols__new(const char *kallsyms, const char *modules, struct kernel_symbols **out);
/*
 * The table, with a reference, which the caller gives back; NULL: none to be had. now_ns: CLOCK_MONOTONIC. Takes as
 * long as kallsyms__load() where that is due, otherwise as the reading of /proc/modules, or no time.
 */
struct kallsyms *kernel_symbols__get(struct kernel_symbols *symbols, uint64_t now_ns);
/*
 * Sees modules come and go (daemon/symbols/module_places.h), where no profile is built for long. Reads /proc/modules,
 * or does nothing where that was done within KERNEL_SYMBOLS_LOOK_NS; never waits.
 */
void kernel_symbols__look(struct kernel_symbols *symbols, uint64_t now_ns);
/*
 * As kallsyms__lookup() in *table, which is exchanged for a newer one first where the name might be out of date; *table
 * is one that kernel_symbols__get() gave, or NULL. The name is *table's. NULL also where another module was at the
 * address since since_ns: from when on what is named was sampled, by CLOCK_MONOTONIC.
 */
const char *kernel_symbols__lookup(struct kernel_symbols *symbols, struct kallsyms **table, uint64_t address,
				   uint64_t since_ns, uint64_t now_ns);
/* Tables that are still in use stay. */
void kernel_symbols__free(struct kernel_symbols *symbols);
CLEANUP_DEFINE(struct kernel_symbols *, kernel_symbols, kernel_symbols__free)

#endif
