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
		struct perf_map_names names;

		if (name && strlen(name) > size)
			__builtin_trap();
		/* The newest name, as the last of the file's whole length. */
		perf_map__names_between(map, address, size + 1, size + 1, &names);
		if (!name != !names.n || (name && strcmp(name, names.list[0]) != 0))
			__builtin_trap();
		perf_map__names_between(map, address, size / 3, size / 2, &names);
		if (!name != !names.n)
			__builtin_trap();
	}
	return 0;
}
