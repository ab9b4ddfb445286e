/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NVIDIA's management library as daemon/nvml/nvml.c calls it: loaded at run time, with the types, layouts and numbers
 * of NVML declared here after the NVML API reference and the nvml.h of CUDA 12.2, so that a build needs nothing of
 * NVIDIA's.
 */
#ifndef STAKEOUT_NVML_LIBRARY_H
#define STAKEOUT_NVML_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/error.h"

/* nvmlReturn_t */
#define NVML_SUCCESS            0
#define NVML_NO_PERMISSION      4
#define NVML_NOT_FOUND          6
#define NVML_INSUFFICIENT_SIZE  7
#define NVML_DRIVER_NOT_LOADED  9
#define NVML_FUNCTION_NOT_FOUND 13
#define NVML_NO_DATA            21

#define NVML_NOT_AVAILABLE UINT64_MAX /* NVML_VALUE_NOT_AVAILABLE, in a field of 64 bits */
#define NVML_TEXT_BYTES    96 /* enough for a name, a UUID and the driver's version, each by NVML's own constant */

typedef void *nvml_device; /* nvmlDevice_t */

/* nvmlUtilization_t: percent */
struct nvml_utilisation {
	unsigned gpu, memory;
};

/* nvmlMemory_t: bytes */
struct nvml_memory {
	unsigned long long total, free, used;
};

/* nvmlProcessUtilizationSample_t: one a process that was at work since the time asked for */
struct nvml_process_sample {
	unsigned pid;
	unsigned long long time_us; /* CLOCK_REALTIME */
	unsigned sm, memory, encoder, decoder;
};

_Static_assert(sizeof(struct nvml_process_sample) == 32, "nvmlProcessUtilizationSample_t");

/*
 * How nvmlProcessInfo_v1_t (16 bytes), _v2_t (24) and what came after it (32) begin. Which of them a function fills in
 * does not follow from its name: _v3 wrote 32 bytes in drivers 535.43 to 535.86 and writes 24 in others. So the size is
 * found in what was written.
 */
struct nvml_process_info {
	unsigned pid;
	unsigned long long bytes;
};

#define NVML_PROCESS_INFO_MAX_BYTES 32
#define NVML_UNTOUCHED              0xa5

/* The functions called: X(member, may be missing, types of its arguments, name) */
#define NVML_FUNCTIONS(X)                                                                                     \
	X(init, false, (void), "nvmlInit_v2")                                                                 \
	X(shutdown, false, (void), "nvmlShutdown")                                                            \
	X(driver_version, true, (char *, unsigned), "nvmlSystemGetDriverVersion")                             \
	X(count, false, (unsigned *), "nvmlDeviceGetCount_v2")                                                \
	X(handle, false, (unsigned, nvml_device *), "nvmlDeviceGetHandleByIndex_v2")                          \
	X(name, true, (nvml_device, char *, unsigned), "nvmlDeviceGetName")                                   \
	X(uuid, true, (nvml_device, char *, unsigned), "nvmlDeviceGetUUID")                                   \
	X(utilisation, false, (nvml_device, struct nvml_utilisation *), "nvmlDeviceGetUtilizationRates")      \
	X(memory, true, (nvml_device, struct nvml_memory *), "nvmlDeviceGetMemoryInfo")                       \
	X(process_samples, true, (nvml_device, struct nvml_process_sample *, unsigned *, unsigned long long), \
	  "nvmlDeviceGetProcessUtilization")                                                                  \
	X(processes_v3, true, (nvml_device, unsigned *, void *), "nvmlDeviceGetComputeRunningProcesses_v3")   \
	X(processes_v2, true, (nvml_device, unsigned *, void *), "nvmlDeviceGetComputeRunningProcesses_v2")   \
	X(processes, true, (nvml_device, unsigned *, void *), "nvmlDeviceGetComputeRunningProcesses")

struct nvml_library {
	void *dl; /* dlopen()'s */
	const char *(*error_string)(int);
#define X(member, optional, arguments, symbol) int(*member) arguments;
	NVML_FUNCTIONS(X)
#undef X
};

/*
 * Loads the library and finds its functions; nothing of it is called yet. The newest of the functions that list
 * processes becomes `processes`. Errors: as nvml__open() before NVML is asked. *library is empty on failure.
 */
int nvml_library__load(struct nvml_library *library, const char *path, struct so_error *err);
void nvml_library__unload(struct nvml_library *library);

/* NVML's words for an nvmlReturn_t; in `buffer` where it has none. */
const char *nvml_library__words(const struct nvml_library *library, int code, char buffer[32]);
/* The negative errno that fits an nvmlReturn_t, and a message: "NVML " what: words. */
int nvml_library__refused(const struct nvml_library *library, int code, const char *what, struct so_error *err);

/* Bytes of one of the n >= 1 entries that NVML wrote over NVML_UNTOUCHED, which had room for n of the largest kind. */
size_t nvml_library__process_info_size(const void *infos, unsigned n);

#endif
