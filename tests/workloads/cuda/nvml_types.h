/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the stand-in for NVML declares anew. Source: NVML API reference, release 12; sizes are asserted. */
#ifndef STANDIN_NVML_TYPES_H
#define STANDIN_NVML_TYPES_H

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum nvmlReturn_enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

/* Percent of the last sample period. */
typedef struct nvmlUtilization_st {
	unsigned int gpu, memory;
} nvmlUtilization_t;

/* Bytes. */
typedef struct nvmlMemory_st {
	unsigned long long total, free, used;
} nvmlMemory_t;

/* timeStamp: µs of the wall clock; utilisations in percent. */
typedef struct nvmlProcessUtilizationSample_st {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

/* As nvmlDeviceGetComputeRunningProcesses_v3 fills it in. */
typedef struct nvmlProcessInfo_st {
	unsigned int pid;
	unsigned long long usedGpuMemory; /* bytes */
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

_Static_assert(sizeof(nvmlUtilization_t) == 8 && sizeof(nvmlMemory_t) == 24, "layout");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32 && sizeof(nvmlProcessInfo_t) == 24, "layout");

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
const char *nvmlErrorString(nvmlReturn_t code);
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int length);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int length);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out,
					     unsigned int *count, unsigned long long last_seen);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *out);

#endif
