/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "standin_state.h"

/*
 * A handle is the address of an entry; a kernel and its function have the same index. 0: functions that are not known.
 */
struct entry {
	const void *owner;
	char *name;
	bool is_kernel; /* of a library; not a module's function */
};

static struct entry kernels[STANDIN_KERNELS], functions[STANDIN_KERNELS];
static unsigned count = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned find(const void *owner, const char *name, bool is_kernel)
{
	unsigned i = 1, found = 0;

	pthread_mutex_lock(&lock);
	while (i < count && (functions[i].owner != owner || functions[i].is_kernel != is_kernel ||
			     strcmp(functions[i].name, name) != 0))
		i++;
	if (i < STANDIN_KERNELS) {
		found = i;
		if (i == count) {
			functions[i] = (struct entry){ owner, strdup(name), is_kernel };
			count++;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

CUkernel kernels__kernel(const void *owner, const char *name)
{
	unsigned i = find(owner, name, true);

	return i ? (CUkernel)&kernels[i] : NULL;
}

CUfunction kernels__function(const void *owner, const char *name)
{
	unsigned i = find(owner, name, false);

	return i ? (CUfunction)&functions[i] : NULL;
}

static unsigned index_in(const struct entry *entries, const void *handle)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)entries;

	return offset < sizeof(functions) && offset % sizeof(*entries) == 0
		       ? (unsigned)(offset / sizeof(*entries))
		       : 0;
}

CUfunction kernels__of_kernel(CUkernel kernel)
{
	unsigned i = index_in(kernels, kernel);

	return i ? (CUfunction)&functions[i] : NULL;
}

unsigned kernels__index(CUfunction function)
{
	unsigned i = index_in(functions, function);

	return i ? i : index_in(kernels, function);
}

const char *kernels__name(unsigned index)
{
	return index && functions[index].name ? functions[index].name : "?";
}
