/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/symbols/perf_map.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(perf_map) struct perf_map *map = NULL;

	if (perf_map__parse((const char *)data, size, &map) < 0)
		return 0;
	if (map->n > size)
		__builtin_trap();
	for (uint64_t address = 0; address < 0x400; address++) {
		const char *name = perf_map__lookup(map, address);

		if (name && strlen(name) > size)
			__builtin_trap();
	}
	return 0;
}
