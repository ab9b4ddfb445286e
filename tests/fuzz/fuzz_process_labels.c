/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An environment and a control group of anybody's: what comes out are numbers, hexadecimal digits and a pod's
 * characters.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/processes/process_labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *value, size_t room, const char *allowed)
{
	size_t n = strnlen(value, room);

	if (n == room || strspn(value, allowed) != n)
		__builtin_trap();
	for (; n < room; n++) {
		if (value[n])
			__builtin_trap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct process_labels labels = { .rank = "" };
	char *environment = malloc(size ? size : 1), *cgroup = malloc(size + 1);

	if (environment && cgroup) {
		/* Without a NUL behind it, as it is read. */
		memcpy(environment, data, size);
		process_labels__from_environ(environment, size, &labels);
		memcpy(cgroup, data, size);
		cgroup[size] = '\0';
		process_labels__from_cgroup(cgroup, &labels);
		check(labels.rank, sizeof(labels.rank), "0123456789");
		check(labels.local_rank, sizeof(labels.local_rank), "0123456789");
		check(labels.world_size, sizeof(labels.world_size), "0123456789");
		check(labels.container, sizeof(labels.container), "0123456789abcdef");
		check(labels.pod, sizeof(labels.pod), "0123456789abcdef-");
	}
	free(environment);
	free(cgroup);
	return 0;
}
