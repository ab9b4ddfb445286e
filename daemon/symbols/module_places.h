/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where kernel modules are and have been. The kernel puts one where another was as soon as that is unloaded, so the
 * name of an address holds for a sample only where no other module can have been there when it was taken. What comes
 * and goes between two looks is not seen.
 */
#ifndef STAKEOUT_MODULE_PLACES_H
#define STAKEOUT_MODULE_PLACES_H

#include <stdbool.h>

#include "daemon/symbols/kernel_modules.h"

#define MODULE_PLACES_MAX_GONE 1024 /* beyond these the longest gone is forgotten */

struct module_place {
	struct kernel_module module;
	uint64_t came_ns; /* when it was first seen; 0: there at the first look */
	uint64_t gone_ns; /* when it was first missed; 0: it is there */
};

/* All zero is an empty one. */
struct module_places {
	struct module_place *list;
	size_t n, room, n_gone;
	bool looked;
};

/* What /proc/modules lists now; now_ns: CLOCK_MONOTONIC. What there is no memory for is left out. */
void module_places__look(struct module_places *places, const struct kernel_modules *modules, uint64_t now_ns);
/*
 * Whether, since that time, nothing but the owner of the name can have been at the address. name: as of
 * kallsyms__lookup(), "function [module]".
 */
bool module_places__hold(const struct module_places *places, const char *name, uint64_t address,
			 uint64_t since_ns);
void module_places__release(struct module_places *places);

#endif
