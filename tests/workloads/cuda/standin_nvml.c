/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stand-in for libnvidia-ml.so.1. STANDIN_NVML, read anew in every call, sets words with commas between them; @FILE:
 * those are in the file, which may change.
 *   count=1        devices
 *   gpu=0 mem=0    utilisation, percent
 *   used=0 total=81920        memory, MiB
 *   pid=N[/N…]     processes on the first device; absent: the caller
 *   proc=0[/N…]    their utilisation in the same order, percent; procused=0[/N…]: their memory, MiB
 *   fail=CALL[:CODE]  init, shutdown, driver, count, handle, name, uuid, utilization, memory, procutil or processes
 *   fails;
 *                     CODE absent: 9, no driver, for init, 999 for others
 * A word that is not known ends the process with status 2.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml_types.h"
#include "standin_core.h"

#define MAX_PROCESSES 16
#define MIB           (1024ull * 1024)

struct script {
	unsigned count, gpu, mem;
	unsigned long long used_mib, total_mib;
	unsigned pids[MAX_PROCESSES], busy[MAX_PROCESSES], used[MAX_PROCESSES], processes;
	const char *fail;
	unsigned fail_code;
	char text[4096];
};

static unsigned users; /* nvmlInit_v2 counts them */

static void list(const char *value, unsigned *out, unsigned *count)
{
	unsigned n = 0;

	for (const char *p = value; p && n < MAX_PROCESSES; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		out[n++] = (unsigned)strtoul(p, NULL, 10);
	if (count)
		*count = n;
}

static void read_word(struct script *script, const char *key, char *value)
{
	unsigned n = (unsigned)strtoul(value, NULL, 10);

	if (strcmp(key, "count") == 0) {
		script->count = n;
	} else if (strcmp(key, "gpu") == 0) {
		script->gpu = n;
	} else if (strcmp(key, "mem") == 0) {
		script->mem = n;
	} else if (strcmp(key, "used") == 0) {
		script->used_mib = n;
	} else if (strcmp(key, "total") == 0) {
		script->total_mib = n;
	} else if (strcmp(key, "pid") == 0) {
		list(value, script->pids, &script->processes);
	} else if (strcmp(key, "proc") == 0) {
		list(value, script->busy, NULL);
	} else if (strcmp(key, "procused") == 0) {
		list(value, script->used, NULL);
	} else if (strcmp(key, "fail") == 0) {
		script->fail = strsep(&value, ":");
		script->fail_code = value                               ? (unsigned)strtoul(value, NULL, 10)
				    : strcmp(script->fail, "init") == 0 ? NVML_ERROR_DRIVER_NOT_LOADED
									: NVML_ERROR_UNKNOWN;
	} else {
		fprintf(stderr, "STANDIN_NVML: %s: not known\n", key);
		_exit(2);
	}
}

static void read_script(struct script *script)
{
	const char *text = getenv("STANDIN_NVML");
	char *rest = script->text, *word;

	*script = (struct script){
		.count = 1, .total_mib = 81920, .processes = 1, .pids = { (unsigned)getpid() }
	};
	if (text && *text == '@') {
		FILE *f = fopen(text + 1, "r");
		size_t n = f ? fread(script->text, 1, sizeof(script->text) - 1, f) : 0;

		script->text[n] = '\0';
		script->text[strcspn(script->text, "\n")] = '\0';
		if (f)
			fclose(f);
	} else if (text) {
		snprintf(script->text, sizeof(script->text), "%s", text);
	}
	while ((word = strsep(&rest, ","))) {
		char *key = strsep(&word, "=");

		if (*key)
			read_word(script, key, word ? word : (char[]){ "" });
	}
}

/* Where the call goes no further, returns its code from the calling function. */
#define BEGIN(call, arguments)                             \
	struct script script;                              \
	STANDIN_PROLOGUE;                                  \
	read_script(&script);                              \
	if (!__atomic_load_n(&users, __ATOMIC_RELAXED))    \
		return NVML_ERROR_UNINITIALIZED;           \
	if (script.fail && strcmp(script.fail, call) == 0) \
		return (nvmlReturn_t)script.fail_code;     \
	if (!(arguments))                                  \
	return NVML_ERROR_INVALID_ARGUMENT

static bool known(const struct script *script, nvmlDevice_t device)
{
	return (uintptr_t)device >= 1 && (uintptr_t)device <= script->count;
}

static nvmlReturn_t give(char *out, unsigned length, const char *text)
{
	if (strlen(text) + 1 > length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

STANDIN_ENTRY nvmlReturn_t nvmlInit_v2(void)
{
	struct script script;

	STANDIN_PROLOGUE;
	read_script(&script);
	if (script.fail && strcmp(script.fail, "init") == 0)
		return (nvmlReturn_t)script.fail_code;
	__atomic_add_fetch(&users, 1, __ATOMIC_RELAXED);
	return NVML_SUCCESS;
}

STANDIN_ENTRY nvmlReturn_t nvmlShutdown(void)
{
	BEGIN("shutdown", true);
	__atomic_sub_fetch(&users, 1, __ATOMIC_RELAXED);
	return NVML_SUCCESS;
}

STANDIN_ENTRY const char *nvmlErrorString(nvmlReturn_t code)
{
	STANDIN_PROLOGUE;
	return code == NVML_SUCCESS                   ? "Success"
	       : code == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded"
						      : "Error";
}

STANDIN_ENTRY nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int length)
{
	BEGIN("driver", out);
	return give(out, length, "575.57.08");
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out)
{
	BEGIN("count", out);
	*out = script.count;
	return NVML_SUCCESS;
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out)
{
	BEGIN("handle", out && index < script.count);
	*out = (nvmlDevice_t)(uintptr_t)(index + 1);
	return NVML_SUCCESS;
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int length)
{
	BEGIN("name", out && known(&script, device));
	return give(out, length, "Stand-in GPU");
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int length)
{
	char text[64];

	BEGIN("uuid", out && known(&script, device));
	snprintf(text, sizeof(text), "GPU-00000000-0000-0000-0000-%012u", (unsigned)(uintptr_t)device);
	return give(out, length, text);
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
	BEGIN("utilization", out && known(&script, device));
	*out = (nvmlUtilization_t){ script.gpu, script.mem };
	return NVML_SUCCESS;
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
	BEGIN("memory", out && known(&script, device));
	*out = (nvmlMemory_t){ script.total_mib * MIB, (script.total_mib - script.used_mib) * MIB,
			       script.used_mib * MIB };
	return NVML_SUCCESS;
}

/* A sample for each process on the first device, taken now. */
STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
							   nvmlProcessUtilizationSample_t *out,
							   unsigned int *count, unsigned long long last_seen)
{
	unsigned room, processes;
	unsigned long long now_us;
	struct timespec t;

	BEGIN("procutil", count && known(&script, device));
	clock_gettime(CLOCK_REALTIME, &t);
	now_us = (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000;
	processes = (uintptr_t)device == 1 ? script.processes : 0;
	room = *count;
	*count = processes;
	if (!processes || last_seen >= now_us)
		return NVML_ERROR_NOT_FOUND;
	if (!out || room < processes)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < processes; i++)
		out[i] = (nvmlProcessUtilizationSample_t){ .pid = script.pids[i],
							   .timeStamp = now_us,
							   .smUtil = script.busy[i],
							   .memUtil = script.mem };
	return NVML_SUCCESS;
}

STANDIN_ENTRY nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
								   nvmlProcessInfo_t *out)
{
	unsigned room, processes;

	BEGIN("processes", count && known(&script, device));
	processes = (uintptr_t)device == 1 ? script.processes : 0;
	room = *count;
	*count = processes;
	if (room < processes || (processes && !out))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < processes; i++)
		out[i] = (nvmlProcessInfo_t){ script.pids[i], script.used[i] * MIB, UINT32_MAX, UINT32_MAX };
	return NVML_SUCCESS;
}
