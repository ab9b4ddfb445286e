/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stand-in for libnvidia-ml.so.1 that answers what the test wrote into nvml_fake. Its parameters are those of the
 * NVML API reference. FAKE_OLD leaves out what old drivers do not have, FAKE_BARE all that may be missing. FAKE_HANGS:
 * by itself two devices, of which the second is refused FAKE_HANGS times, then hangs.
 */
#include "tests/unit/nvml_fake.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	SUCCESS = 0,
	INVALID_ARGUMENT = 2,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	UNINITIALIZED = 1
};

#ifdef FAKE_HANGS
struct nvml_fake nvml_fake = { .devices = 2, .info_bytes = 24, .device = { [1] = { .hangs = true } } };
static unsigned refusals = FAKE_HANGS;
#else
struct nvml_fake nvml_fake;
static unsigned refusals;
#endif

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *version, unsigned length);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length);
int nvmlDeviceGetUtilizationRates(void *device, unsigned values[2]);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long values[3]);
int nvmlDeviceGetProcessUtilization(void *device, void *samples, unsigned *count, unsigned long long since_us);
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *infos);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos);

int nvmlInit_v2(void)
{
	if (nvml_fake.init == SUCCESS)
		nvml_fake.starts++;
	return nvml_fake.init;
}

int nvmlShutdown(void)
{
	nvml_fake.shutdowns++;
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = nvml_fake.devices;
	return nvml_fake.count;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	if (index >= FAKE_DEVICES)
		return INVALID_ARGUMENT;
	if (nvml_fake.device[index].hangs && refusals > 0) {
		refusals--;
		return NO_PERMISSION;
	}
	while (nvml_fake.device[index].hangs)
		usleep(1000);
	if (nvml_fake.device[index].handle == SUCCESS)
		*device = &nvml_fake.device[index];
	return nvml_fake.device[index].handle;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned values[2])
{
	struct fake_device *d = device;

	nvml_fake.calls++;
	if (nvml_fake.slow_us)
		usleep(nvml_fake.slow_us);
	if (d->utilisation == SUCCESS) {
		values[0] = d->gpu_percent;
		values[1] = d->memory_percent;
	}
	return d->utilisation;
}

#ifndef FAKE_BARE
static int list_processes(struct fake_device *d, unsigned *count, char *infos, size_t info_bytes)
{
	if (d->processes != SUCCESS)
		return d->processes;
	if (*count < d->n_processes) {
		*count = d->n_processes;
		return INSUFFICIENT_SIZE;
	}
	for (unsigned i = 0; i < d->n_processes; i++) {
		const struct fake_process *process = &d->process[i];
		unsigned instances[2] = { process->instance, 0xffffffff };
		unsigned long long protected_bytes = 0;
		char *info = infos + i * info_bytes;

		memcpy(info, &process->pid, 4);
		memcpy(info + 8, &process->bytes, 8);
		if (info_bytes > 16)
			memcpy(info + 16, instances, 8);
		if (info_bytes > 24)
			memcpy(info + 24, &protected_bytes, 8);
	}
	*count = d->reported_processes ? d->reported_processes : d->n_processes;
	return SUCCESS;
}

const char *nvmlErrorString(int code)
{
	switch (code) {
	case 3:
		return "Not Supported";
	case 4:
		return "Insufficient Permissions";
	case 9:
		return "Driver Not Loaded";
	case 15:
		return "GPU is lost";
	case 18:
		return "Driver/library version mismatch";
	}
	return NULL;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "550.54");
	return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
	struct fake_device *d = device;

	memset(name, 'x', length);
	if (nvml_fake.name)
		memcpy(name, nvml_fake.name, strlen(nvml_fake.name) + 1);
	return d->name;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{
	snprintf(uuid, length, "GPU-%td", (struct fake_device *)device - nvml_fake.device);
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long values[3])
{
	struct fake_device *d = device;

	values[0] = 1000;
	values[1] = 700;
	values[2] = 300;
	return d->memory;
}

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *infos)
{
	return list_processes(device, count, infos, 16);
}

#ifndef FAKE_OLD
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	return list_processes(device, count, infos, nvml_fake.info_bytes);
}

int nvmlDeviceGetProcessUtilization(void *device, void *samples, unsigned *count, unsigned long long since_us)
{
	struct sample {
		unsigned pid;
		unsigned long long time_us;
		unsigned percent[4];
	} *out = samples;
	struct fake_device *d = device;
	struct timespec now;
	unsigned long long now_us;

	d->asked_since_us = since_us;
	if (d->samples != SUCCESS)
		return d->samples;
	if (d->n_samples == 0)
		return NOT_FOUND;
	if (*count < d->n_samples)
		return INSUFFICIENT_SIZE;
	clock_gettime(CLOCK_REALTIME, &now);
	now_us = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
	if (now_us <= since_us)
		now_us = since_us + 1;
	for (unsigned i = 0; i < d->n_samples; i++)
		out[i] = (struct sample){ d->sample[i].pid,
					  now_us - (unsigned long long)d->sample[i].age_us,
					  { d->sample[i].sm, 1, 2, 3 } };
	*count = d->reported_samples ? d->reported_samples : d->n_samples;
	return SUCCESS;
}
#endif
#endif
