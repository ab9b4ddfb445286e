/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernels by host function, as nvcc's host code registers them when a program starts. The driver hears of one when it
 * is first needed, as with lazy loading: its kernel of the library by name, then that kernel's function.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_state.h"

#ifdef STANDIN_LARGE_PLACES
#define PLACES_BITS 18
#else
#define PLACES_BITS 13
#endif
#define PLACES \
	(1u << PLACES_BITS) /* a power of two, of which half are used at most: each kernel has two keys */

struct registered {
	char *name;
	void **library;
	cudaKernel_t kernel;
	CUfunction function;
};

struct place {
	const void *key;
	struct registered *value;
};

static struct place places[PLACES];
static unsigned used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The key's place, or the empty one that it would have. Readers take no lock: a value is written before its key. */
static struct place *place_of(const void *key)
{
	size_t i = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> (64 - PLACES_BITS);

	for (;; i++) {
		struct place *place = &places[i % PLACES];
		const void *there = __atomic_load_n(&place->key, __ATOMIC_ACQUIRE);

		if (!there || there == key)
			return place;
	}
}

static void put(const void *key, struct registered *value)
{
	struct place *place = place_of(key);

	if (!place->key && used == PLACES / 2)
		abort();
	used += !place->key;
	place->value = value;
	__atomic_store_n(&place->key, key, __ATOMIC_RELEASE);
}

static struct registered *get(const void *key)
{
	return key ? place_of(key)->value : NULL;
}

static CUfunction resolve(struct registered *one)
{
	CUfunction function;

	pthread_mutex_lock(&lock);
	if (!one->function &&
	    runtime_driver.cuLibraryGetKernel(&one->kernel, (CUlibrary)one->library, one->name) == 0 &&
	    runtime_driver.cuKernelGetFunction(&function, one->kernel) == 0) {
		put(one->kernel, one);
		__atomic_store_n(&one->function, function, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return one->function;
}

CUfunction runtime__function(const void *func)
{
	struct registered *one = get(func);
	CUfunction function = one ? __atomic_load_n(&one->function, __ATOMIC_ACQUIRE) : (CUfunction)func;

	return function ? function : resolve(one);
}

STANDIN_ENTRY void **__cudaRegisterFatBinary(void *fat_cubin)
{
	STANDIN_PROLOGUE;
	return calloc(1, sizeof(void *));
}

STANDIN_ENTRY void __cudaRegisterFatBinaryEnd(void **handle)
{
	STANDIN_PROLOGUE;
}

STANDIN_ENTRY void __cudaUnregisterFatBinary(void **handle)
{
	STANDIN_PROLOGUE;
}

STANDIN_ENTRY void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
					  const char *device_name, int thread_limit, uint3 *tid, uint3 *bid,
					  dim3 *block, dim3 *grid, int *warp_size)
{
	struct registered *one = calloc(1, sizeof(*one));

	STANDIN_PROLOGUE;
	if (!one || !(one->name = strdup(device_name)))
		abort();
	one->library = handle;
	pthread_mutex_lock(&lock);
	put(host_function, one);
	pthread_mutex_unlock(&lock);
}

STANDIN_ENTRY cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host_function)
{
	struct registered *one = get(host_function);

	STANDIN_PROLOGUE;
	if (!runtime__load())
		return cudaErrorInsufficientDriver;
	if (!one || !resolve(one))
		return cudaErrorInvalidDeviceFunction;
	*out = one->kernel;
	return cudaSuccess;
}
