/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/os/proc_maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *data, size_t size, bool executable_only)
{
	__attribute__((cleanup(cleanup__proc_maps))) struct proc_maps maps = { 0 };
	struct so_error err;

	if (proc_maps__parse((const char *)data, size, executable_only, &maps, &err) < 0)
		return;
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *map = &maps.maps[i];

		if (map->start >= map->end || strlen(map->path) > size ||
		    (i > 0 && maps.maps[i - 1].start > map->start) || !proc_maps__find(&maps, map->start))
			__builtin_trap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check(data, size, false);
	check(data, size, true);
	return 0;
}
