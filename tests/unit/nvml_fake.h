/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tests/unit/nvml_fake.c, which stands in for NVIDIA's library, answers. The library exports it as `nvml_fake`. */
#ifndef STAKEOUT_NVML_FAKE_H
#define STAKEOUT_NVML_FAKE_H

#include <stdbool.h>

#define FAKE_DEVICES   70
#define FAKE_PROCESSES 8

struct fake_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned instance;
};

struct fake_sample {
	unsigned pid;
	long long age_us; /* before now; < 0: in the future */
	unsigned sm;
};

struct fake_device {
	int handle, name, utilisation, memory, processes, samples; /* nvmlReturn_t of each function */
	unsigned gpu_percent, memory_percent;
	struct fake_process process[FAKE_PROCESSES];
	unsigned n_processes;
	struct fake_sample sample[FAKE_PROCESSES];
	unsigned n_samples;
	unsigned reported_processes, reported_samples; /* not 0: the count that is answered */
	unsigned long long asked_since_us;             /* the last question's */
	volatile bool hangs; /* as long as this is set, who asks for the device waits */
};

struct nvml_fake {
	int init, count; /* nvmlReturn_t */
	unsigned devices;
	unsigned info_bytes; /* of one process's information: 16, 24 or 32 */
	const char *name;
	unsigned slow_us; /* each nvmlDeviceGetUtilizationRates() */
	int starts, shutdowns, calls;
	struct fake_device device[FAKE_DEVICES];
};

#endif
