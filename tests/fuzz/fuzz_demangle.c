/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/demangle.h"
#include "stakeout/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *name = malloc(size + 1), *found = NULL;

	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = '\0';
	found = demangle(name);
	if (!found || strlen(found) > 4096)
		__builtin_trap();
	return 0;
}
