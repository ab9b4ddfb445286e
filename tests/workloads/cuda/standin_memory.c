/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Device memory is a range of addresses without memory behind it, cut into places of one alignment unit; an allocation
 * is one place, whatever its size, and `sizes` says by place what is allocated there. Host and managed memory is real.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "standin_state.h"

#ifdef STANDIN_LARGE_PLACES /* no two allocations of less than 1 GiB overlap */
#define PLACES      (1u << 14)
#define PLACE_BYTES (1ull << 30)
#define RUN         64
#else
#define PLACES      (1u << 22)
#define PLACE_BYTES 512 /* what cudaMalloc aligns to */
#define RUN         1024
#endif
#define HOST_ALIGN 256
#define HOST_MAGIC 0x57a4d1b057a4d1b0u

struct host_header {
	uint64_t magic;
	uint64_t bytes;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t base;
static uint64_t *sizes; /* bytes + 1; 0: free */
static uint32_t next_run;

static void *reserve(size_t bytes, int protection)
{
	void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void prepare(void)
{
	base = (uint64_t)(uintptr_t)reserve((size_t)PLACES * PLACE_BYTES, PROT_NONE);
	sizes = reserve(PLACES * sizeof(*sizes), PROT_READ | PROT_WRITE);
}

static bool claim(uint32_t place, size_t bytes)
{
	uint64_t none = 0;

	return __atomic_compare_exchange_n(&sizes[place], &none, (uint64_t)bytes + 1, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static bool find_place(struct standin_thread *thread, size_t bytes, uint32_t *out)
{
	while (thread->freed_count) {
		*out = thread->freed[--thread->freed_count];
		if (claim(*out, bytes))
			return true;
	}
	for (uint32_t tried = 0; tried < PLACES; tried++) {
		if (thread->next == thread->end) {
			thread->next = __atomic_fetch_add(&next_run, RUN, __ATOMIC_RELAXED) % PLACES;
			thread->end = thread->next + RUN;
		}
		*out = thread->next++;
		if (claim(*out, bytes))
			return true;
	}
	return false;
}

static void count(struct standin_memory *memory, bool freed, size_t bytes)
{
	standin_add(freed ? &memory->frees : &memory->allocations, 1);
	standin_add(freed ? &memory->freed_bytes : &memory->allocated_bytes, bytes);
}

CUdeviceptr memory__device_alloc(struct standin_thread *thread, size_t bytes)
{
	uint32_t place;

	pthread_once(&once, prepare);
	if (!base || !sizes || !find_place(thread, bytes, &place))
		return 0;
	count(&thread->device, false, bytes);
	return base + (uint64_t)place * PLACE_BYTES;
}

bool memory__device_free(struct standin_thread *thread, CUdeviceptr ptr, size_t *bytes)
{
	uint64_t offset = ptr - base, size;

	pthread_once(&once, prepare);
	if (!sizes || offset >= (uint64_t)PLACES * PLACE_BYTES)
		return memory__host_free(thread, (void *)(uintptr_t)ptr, bytes);
	if (offset % PLACE_BYTES)
		return false;
	size = __atomic_exchange_n(&sizes[offset / PLACE_BYTES], 0, __ATOMIC_RELAXED);
	if (!size)
		return false;
	if (thread->freed_count < sizeof(thread->freed) / sizeof(*thread->freed))
		thread->freed[thread->freed_count++] = (uint32_t)(offset / PLACE_BYTES);
	*bytes = size - 1;
	count(&thread->device, true, *bytes);
	return true;
}

void *memory__host_alloc(struct standin_thread *thread, size_t bytes)
{
	char *p = NULL;

	if (bytes > SIZE_MAX / 2 || posix_memalign((void **)&p, HOST_ALIGN, HOST_ALIGN + bytes))
		return NULL;
	p += HOST_ALIGN;
	((struct host_header *)p)[-1] = (struct host_header){ HOST_MAGIC, bytes };
	count(&thread->host, false, bytes);
	return p;
}

bool memory__host_free(struct standin_thread *thread, void *ptr, size_t *bytes)
{
	struct host_header *header = (struct host_header *)ptr - 1;

	if ((uintptr_t)ptr % HOST_ALIGN || header->magic != HOST_MAGIC)
		return false;
	*bytes = header->bytes;
	header->magic = 0;
	count(&thread->host, true, *bytes);
	free((char *)ptr - HOST_ALIGN);
	return true;
}

#define REGISTERED 4096

static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	void *ptr; /* NULL: a free entry */
	size_t bytes;
} registered[REGISTERED];

/* Of NULL: a free one. */
static unsigned registered_at(const void *ptr)
{
	unsigned i = 0;

	while (i < REGISTERED && registered[i].ptr != ptr)
		i++;
	return i;
}

bool memory__host_register(struct standin_thread *thread, void *ptr, size_t bytes)
{
	unsigned i;

	pthread_mutex_lock(&registered_lock);
	i = ptr && registered_at(ptr) == REGISTERED ? registered_at(NULL) : REGISTERED;
	if (i < REGISTERED) {
		registered[i].ptr = ptr;
		registered[i].bytes = bytes;
	}
	pthread_mutex_unlock(&registered_lock);
	if (i < REGISTERED)
		count(&thread->host, false, bytes);
	return i < REGISTERED;
}

bool memory__host_unregister(struct standin_thread *thread, void *ptr, size_t *bytes)
{
	unsigned i;

	pthread_mutex_lock(&registered_lock);
	i = registered_at(ptr);
	if (i < REGISTERED) {
		*bytes = registered[i].bytes;
		registered[i].ptr = NULL;
	}
	pthread_mutex_unlock(&registered_lock);
	if (i < REGISTERED)
		count(&thread->host, true, *bytes);
	return i < REGISTERED;
}

#define HANDLES 4096

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle {
	CUmemGenericAllocationHandle handle; /* 0: a free entry */
	unsigned references;
} handles[HANDLES];
static struct mapping {
	CUdeviceptr ptr; /* 0: a free entry */
	size_t bytes;
	CUmemGenericAllocationHandle handle;
} mappings[HANDLES];

static struct handle *handle_of(CUmemGenericAllocationHandle handle)
{
	for (unsigned i = 0; i < HANDLES; i++)
		if (handles[i].handle == handle)
			return &handles[i];
	return NULL;
}

static struct mapping *mapping_at(CUdeviceptr ptr)
{
	for (unsigned i = 0; i < HANDLES; i++)
		if (mappings[i].ptr == ptr)
			return &mappings[i];
	return NULL;
}

static bool drop(struct standin_thread *thread, CUmemGenericAllocationHandle handle)
{
	struct handle *known = handle ? handle_of(handle) : NULL;
	size_t bytes;

	if (!known)
		return false;
	if (--known->references)
		return true;
	known->handle = 0;
	return memory__device_free(thread, handle, &bytes);
}

CUmemGenericAllocationHandle memory__create(struct standin_thread *thread, size_t bytes)
{
	CUmemGenericAllocationHandle handle = memory__device_alloc(thread, bytes);
	struct handle *entry;

	pthread_mutex_lock(&handles_lock);
	entry = handle ? handle_of(0) : NULL;
	if (entry)
		*entry = (struct handle){ handle, 1 };
	pthread_mutex_unlock(&handles_lock);
	return entry ? handle : 0;
}

bool memory__retain(void *ptr, CUmemGenericAllocationHandle *out)
{
	struct mapping *mapping;

	pthread_mutex_lock(&handles_lock);
	mapping = ptr ? mapping_at((CUdeviceptr)(uintptr_t)ptr) : NULL;
	if (mapping) {
		*out = mapping->handle;
		handle_of(mapping->handle)->references++;
	}
	pthread_mutex_unlock(&handles_lock);
	return mapping;
}

bool memory__release(struct standin_thread *thread, CUmemGenericAllocationHandle handle)
{
	bool found;

	pthread_mutex_lock(&handles_lock);
	found = drop(thread, handle);
	pthread_mutex_unlock(&handles_lock);
	return found;
}

bool memory__map(CUdeviceptr ptr, size_t bytes, CUmemGenericAllocationHandle handle)
{
	struct mapping *entry = NULL;
	struct handle *known;

	pthread_mutex_lock(&handles_lock);
	known = handle ? handle_of(handle) : NULL;
	if (known && ptr && !mapping_at(ptr))
		entry = mapping_at(0);
	if (entry) {
		*entry = (struct mapping){ ptr, bytes, handle };
		known->references++;
	}
	pthread_mutex_unlock(&handles_lock);
	return entry;
}

bool memory__unmap(struct standin_thread *thread, CUdeviceptr ptr, size_t bytes)
{
	bool found = false;

	pthread_mutex_lock(&handles_lock);
	for (unsigned i = 0; i < HANDLES; i++) {
		struct mapping *mapping = &mappings[i];

		if (!mapping->ptr || mapping->ptr < ptr || mapping->ptr >= ptr + bytes)
			continue;
		mapping->ptr = 0;
		found = drop(thread, mapping->handle);
	}
	pthread_mutex_unlock(&handles_lock);
	return found;
}
