/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of the stand-in driver. */
#ifndef STANDIN_STATE_H
#define STANDIN_STATE_H

#include <stdio.h>

#include "cuda_types.h"
#include "standin_core.h"

/* standin_script.c: the rules of STANDIN_CUDA. A script that cannot be read: a line on stderr, and the process ends. */
struct standin_script {
	struct standin_rule rules[SO_CUDA_API_COUNT];
	bool spin;
};

void script__read(struct standin_script *script, const char *text);
const char *script__api_name(unsigned api);

/* standin_truth.c */
struct standin_totals {
	struct standin_slot slots[STANDIN_IMAGES][SO_CUDA_API_COUNT];
	struct standin_thread threads;
};

void totals__add_local(struct standin_totals *totals, const struct standin_local *local);
void totals__add_thread(struct standin_totals *totals, const struct standin_thread *thread);
void totals__print(const struct standin_totals *totals, const char *const *images, unsigned image_count,
		   FILE *f);

/* standin_memory.c: addresses. A size of 0 is given an address too. NULL: no room. */
CUdeviceptr memory__device_alloc(struct standin_thread *thread, size_t bytes);
void *memory__host_alloc(struct standin_thread *thread, size_t bytes);
/* The size that was released, by *bytes; false: nothing is allocated there. Takes device and managed addresses. */
bool memory__device_free(struct standin_thread *thread, CUdeviceptr ptr, size_t *bytes);
bool memory__host_free(struct standin_thread *thread, void *ptr, size_t *bytes);
/* Memory without an address: it is there as long as it has references or is mapped. 0: no room. */
CUmemGenericAllocationHandle memory__create(struct standin_thread *thread, size_t bytes);
bool memory__retain(void *ptr, CUmemGenericAllocationHandle *out); /* false: nothing is mapped there */
bool memory__release(struct standin_thread *thread, CUmemGenericAllocationHandle handle);
bool memory__map(CUdeviceptr ptr, size_t bytes, CUmemGenericAllocationHandle handle);
bool memory__unmap(struct standin_thread *thread, CUdeviceptr ptr, size_t bytes);
/* Memory that is somebody else's. false: registered already, or not; or too many. */
bool memory__host_register(struct standin_thread *thread, void *ptr, size_t bytes);
bool memory__host_unregister(struct standin_thread *thread, void *ptr, size_t *bytes);

/* standin_kernels.c: functions of modules and kernels of libraries, known by name. */
CUkernel kernels__kernel(const void *owner, const char *name); /* NULL: too many */
CUfunction kernels__function(const void *owner, const char *name);
CUfunction kernels__of_kernel(CUkernel kernel); /* NULL: no such kernel */
unsigned kernels__index(CUfunction function);   /* 0: unknown; takes a CUkernel too, as the driver does */
const char *kernels__name(unsigned index);

/* standin_driver_more.c: streams, events, graphs, modules are never looked into; each is another address. */
void *driver__handle(void);

#endif
