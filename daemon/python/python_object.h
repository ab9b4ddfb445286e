/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first bytes of an object of a Python process, copied at once so that its fields belong together. */
#ifndef STAKEOUT_PYTHON_OBJECT_H
#define STAKEOUT_PYTHON_OBJECT_H

#include <string.h>

#include "daemon/os/foreign_memory.h"

#define PYTHON_OBJECT_BYTES     512u         /* all fields of an object that a layout may name lie in it */
#define PYTHON_MAX_USER_ADDRESS (1ull << 47) /* x86-64 */

struct python_object {
	uint8_t bytes[PYTHON_OBJECT_BYTES];
	size_t size;
};

/* size: up to the end of the last field that is wanted. Objects are aligned to their pointers and never at 0. */
static inline bool python_object__read(const struct foreign_memory *memory, uint64_t address, size_t size,
				       struct python_object *object)
{
	if (!address || address % sizeof(void *) || address >= PYTHON_MAX_USER_ADDRESS || size > sizeof(object->bytes))
		return false;
	object->size = size;
	return foreign_memory__read(memory, address, object->bytes, size);
}

static inline uint64_t python_object__u64(const struct python_object *object, size_t at)
{
	uint64_t value;

	memcpy(&value, object->bytes + at, sizeof(value));
	return value;
}

static inline uint32_t python_object__u32(const struct python_object *object, size_t at)
{
	uint32_t value;

	memcpy(&value, object->bytes + at, sizeof(value));
	return value;
}

#endif
