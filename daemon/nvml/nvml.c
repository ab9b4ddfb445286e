/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/nvml/nvml.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/nvml/nvml_library.h"
#include "daemon/nvml/nvml_remote.h"
#include "daemon/nvml/helper/protocol.h"

#define NVML_PROBLEM_BYTES  512
#define MAX_PROCESS_SAMPLES 4096  /* that one call may return */
#define MAX_HISTORY         32768 /* figures of processes that are kept of a device */

enum { HAS_UTILISATION = 1, HAS_PROCESSES = 2 };

struct sample {
	uint64_t time_ns;
	uint8_t has, gpu, memory; /* percent */
};

/* What one process had in one sample. */
struct process_figure {
	uint64_t sample; /* its number */
	uint32_t pid;
	uint32_t sm; /* percent */
};

struct process_memory {
	uint64_t sample; /* the last one that saw it */
	uint64_t bytes;  /* NVML_NOT_AVAILABLE */
	uint32_t pid;
};

/* The last answers that were no answers, 0 when all is well. */
struct failures {
	int handle, utilisation, memory, process_samples, processes;
};

struct device {
	nvml_device handle;
	char name[NVML_TEXT_BYTES], uuid[NVML_TEXT_BYTES]; /* "": unknown */
	struct failures failed;
	struct failures reported; /* those that `problem` describes */
	char problem[NVML_PROBLEM_BYTES];
	bool given_up; /* it stays refused, without being asked for */
	struct nvml_memory memory;
	bool has_memory, has_processes; /* of the last sample */
	struct sample *samples;         /* number i at i % NVML_SAMPLES */
	uint64_t n_samples;
	struct process_figure *history; /* likewise */
	uint64_t n_history;
	struct process_memory *processes;
	size_t n_processes;
	uint64_t last_seen_us; /* CLOCK_REALTIME: newer figures of processes are asked for */
};

struct nvml {
	struct nvml_library call;
	bool remote; /* called in the helper */
	bool initialised;
	bool lost;                        /* the helper is gone */
	char problem[NVML_PROBLEM_BYTES]; /* instead of the devices' own; "": none */
	struct nvml_refusals *refusals;
	char driver[NVML_TEXT_BYTES];
	unsigned n, left_out; /* devices */
	struct device devices[NVML_MAX_DEVICES];
	uint64_t next_ns; /* of the next sample */
	uint64_t took_ns; /* the last one */
	struct nvml_process_sample *process_samples;
	char *process_infos; /* NVML_MAX_PROCESSES of the largest kind */
};

/* Ends a text of NVML's and leaves only what is ASCII: it becomes JSON. */
static void tidy(char text[NVML_TEXT_BYTES])
{
	text[NVML_TEXT_BYTES - 1] = '\0';
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
			*p = '?';
}

/* In words, which are NVML's own: made when they change, for a report may come while the library must not be called. */
static void tell(const struct nvml *nvml, struct device *device)
{
	const struct {
		int code;
		const char *what;
	} failures[] = {
		{ device->failed.handle, "device" },
		{ device->failed.utilisation, "utilisation" },
		{ device->failed.memory, "memory" },
		{ device->failed.process_samples, "processes' utilisation" },
		{ device->failed.processes, "processes' memory" },
	};
	char *text = device->problem, buffer[32];
	size_t at = 0;

	if (memcmp(&device->reported, &device->failed, sizeof(device->reported)) == 0)
		return;
	device->reported = device->failed;
	text[0] = '\0';
	for (unsigned i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		if (!failures[i].code || at >= sizeof(device->problem))
			continue;
		at += (size_t)snprintf(text + at, sizeof(device->problem) - at, "%s%s: %s", at ? "; " : "",
				       failures[i].what, nvml_library__words(&nvml->call, failures[i].code, buffer));
	}
}

/* What opens a device, and who it is then. */
struct identity {
	int failed;
	bool given_up;
	nvml_device handle;
	char name[NVML_TEXT_BYTES], uuid[NVML_TEXT_BYTES];
	char problem[NVML_PROBLEM_BYTES];
};

static bool helper_is_gone(const struct nvml *nvml)
{
	return nvml->remote && nvml_remote__is_gone();
}

static void refuse(const struct nvml *nvml, int code, struct identity *id)
{
	char buffer[32];

	id->failed = code;
	snprintf(id->problem, sizeof(id->problem), "device: %s", nvml_library__words(&nvml->call, code, buffer));
}

static void ask_library(const struct nvml *nvml, unsigned index, struct identity *id)
{
	int code = nvml->call.handle(index, &id->handle);

	if (code) {
		refuse(nvml, code, id);
		return;
	}
	if (!nvml->call.name || nvml->call.name(id->handle, id->name, NVML_TEXT_BYTES))
		id->name[0] = '\0';
	if (!nvml->call.uuid || nvml->call.uuid(id->handle, id->uuid, NVML_TEXT_BYTES))
		id->uuid[0] = '\0';
	tidy(id->name);
	tidy(id->uuid);
}

static void give_up(struct identity *id)
{
	id->failed = NVML_REMOTE_GONE;
	id->given_up = true;
	snprintf(id->problem, sizeof(id->problem),
		 "device: " NVML_HELPER
		 " did not outlive the question for it: not asked for again until stakeoutd restarts");
}

/* In words already, as the library's are. The loss of the helper is put down to the GPU it was asked for then. */
static struct identity ask_identity(const struct nvml *nvml, unsigned index)
{
	struct nvml_refusals *refusals = nvml->refusals;
	uint64_t bit = 1ull << index;
	struct identity id = { 0 };
	bool was_gone = helper_is_gone(nvml);

	if (refusals->given_up & bit) {
		give_up(&id);
		return id;
	}
	ask_library(nvml, index, &id);
	if (was_gone)
		return id;
	if (helper_is_gone(nvml)) {
		refuse(nvml, NVML_REMOTE_GONE, &id);
		if (refusals->refused & bit) {
			refusals->given_up |= bit;
			give_up(&id);
		}
	}
	if (id.failed)
		refusals->refused |= bit;
	else
		refusals->refused &= ~bit;
	return id;
}

/* Nothing else has failed of a device that was refused. */
static void identify(struct device *device, const struct identity *id)
{
	device->failed.handle = device->reported.handle = id->failed;
	device->given_up = id->given_up;
	device->handle = id->handle;
	memcpy(device->name, id->name, NVML_TEXT_BYTES);
	memcpy(device->uuid, id->uuid, NVML_TEXT_BYTES);
	memcpy(device->problem, id->problem, NVML_PROBLEM_BYTES);
}

static int open_device(struct nvml *nvml, unsigned index)
{
	struct device *device = &nvml->devices[index];
	struct identity id;

	device->samples = calloc(NVML_SAMPLES, sizeof(*device->samples));
	device->history = calloc(MAX_HISTORY, sizeof(*device->history));
	device->processes = calloc(NVML_MAX_PROCESSES, sizeof(*device->processes));
	if (!device->samples || !device->history || !device->processes)
		return -ENOMEM;
	device->last_seen_us = clock__read_ns(CLOCK_REALTIME) / 1000;
	id = ask_identity(nvml, index);
	identify(device, &id);
	return 0;
}

static int open_devices(struct nvml *nvml, struct so_error *err)
{
	unsigned count = 0, opened = 0;
	int code = nvml->call.count(&count);

	if (code)
		return nvml_library__refused(&nvml->call, code, "does not list the GPUs", err);
	if (count == 0)
		return so_err(err, -ENODEV, "NVML lists no GPU");
	nvml->n = count < NVML_MAX_DEVICES ? count : NVML_MAX_DEVICES;
	nvml->left_out = count - nvml->n;
	for (unsigned i = 0; i < nvml->n; i++) {
		if (open_device(nvml, i) < 0)
			return so_err(err, -ENOMEM, "no memory for the figures of %u GPUs", nvml->n);
		opened += !nvml->devices[i].failed.handle;
	}
	if (!opened && nvml->devices[0].given_up)
		return so_err(err, -EIO, "NVML gives access to no GPU: %s", nvml->devices[0].problem);
	if (!opened)
		return nvml_library__refused(&nvml->call, nvml->devices[0].failed.handle, "gives access to no GPU",
					     err);
	return 0;
}

/* By the helper where one is named, or where this program can load no library. */
static int load(struct nvml *nvml, const char *path, const char *helper, struct so_error *err)
{
	int ret = helper ? -ENOTSUP : nvml_library__load(&nvml->call, path, err);

	if (ret != -ENOTSUP)
		return ret;
	ret = nvml_remote__load(&nvml->call, helper, path, err);
	nvml->remote = ret == 0;
	return ret;
}

int nvml__open(const char *path, const char *helper, struct nvml_refusals *refusals, struct nvml **out,
	       struct so_error *err)
{
	_cleanup_(nvml) struct nvml *nvml = calloc(1, sizeof(*nvml));
	int ret, code;

	if (!path)
		path = NVML_LIBRARY;
	if (!nvml)
		return so_err(err, -ENOMEM, "no memory for %s", path);
	nvml->refusals = refusals;
	nvml->process_samples = calloc(MAX_PROCESS_SAMPLES, sizeof(*nvml->process_samples));
	nvml->process_infos = malloc(NVML_MAX_PROCESSES * NVML_PROCESS_INFO_MAX_BYTES);
	if (!nvml->process_samples || !nvml->process_infos)
		return so_err(err, -ENOMEM, "no memory for %s", path);
	ret = load(nvml, path, helper, err);
	if (ret < 0)
		return ret;
	code = nvml->call.init();
	if (code)
		return nvml_library__refused(&nvml->call, code, "does not start", err);
	nvml->initialised = true;
	if (!nvml->call.driver_version || nvml->call.driver_version(nvml->driver, NVML_TEXT_BYTES))
		nvml->driver[0] = '\0';
	tidy(nvml->driver);
	ret = open_devices(nvml, err);
	if (ret < 0)
		return ret;
	*out = TAKE_PTR(nvml);
	return 0;
}

static void add_figure(struct device *device, uint32_t pid, uint32_t sm)
{
	device->history[device->n_history++ % MAX_HISTORY] =
		(struct process_figure){ .sample = device->n_samples, .pid = pid, .sm = sm };
}

/*
 * The driver answers "not found" both when it has no new sample yet, which says nothing, and when no process was at
 * work. The device says which: where it was idle, so were its processes. Figures of processes come with times of the
 * real-time clock, which may have been set back since. Entries that hold no figure (no PID, more than 100 %, a time
 * that was not asked for) do occur.
 */
static bool sample_processes(struct nvml *nvml, struct device *device, bool idle)
{
	uint64_t now_us = clock__read_ns(CLOCK_REALTIME) / 1000, newest;
	unsigned n = MAX_PROCESS_SAMPLES;
	int code;

	device->failed.process_samples = NVML_FUNCTION_NOT_FOUND;
	if (!nvml->call.process_samples)
		return false;
	if (device->last_seen_us > now_us)
		device->last_seen_us = now_us;
	code = nvml->call.process_samples(device->handle, nvml->process_samples, &n, device->last_seen_us);
	device->failed.process_samples = code == NVML_NOT_FOUND || code == NVML_NO_DATA ? 0 : code;
	if (code)
		return !device->failed.process_samples && idle;
	if (n > MAX_PROCESS_SAMPLES) {
		device->failed.process_samples = NVML_INSUFFICIENT_SIZE;
		return false;
	}
	newest = device->last_seen_us;
	for (unsigned i = 0; i < n; i++) {
		const struct nvml_process_sample *sample = &nvml->process_samples[i];

		if (sample->pid == 0 || sample->sm > 100 || sample->time_us <= device->last_seen_us ||
		    sample->time_us > now_us + 1000000)
			continue;
		add_figure(device, sample->pid, sample->sm);
		if (sample->time_us > newest)
			newest = sample->time_us;
	}
	if (newest == device->last_seen_us)
		return idle;
	device->last_seen_us = newest;
	return true;
}

/* The place of the process; when the table is full, that of the one not seen for longest. */
static struct process_memory *find_process(struct device *device, uint32_t pid)
{
	struct process_memory *oldest = device->processes;

	for (size_t i = 0; i < device->n_processes; i++) {
		struct process_memory *process = &device->processes[i];

		if (process->pid == pid)
			return process;
		if (process->sample < oldest->sample)
			oldest = process;
	}
	return device->n_processes < NVML_MAX_PROCESSES ? &device->processes[device->n_processes++] : oldest;
}

static bool sample_process_memory(struct nvml *nvml, struct device *device)
{
	unsigned n = NVML_MAX_PROCESSES;
	struct nvml_process_info info;
	size_t size;

	device->failed.processes = NVML_FUNCTION_NOT_FOUND;
	if (!nvml->call.processes)
		return false;
	memset(nvml->process_infos, NVML_UNTOUCHED, NVML_MAX_PROCESSES * NVML_PROCESS_INFO_MAX_BYTES);
	device->failed.processes = nvml->call.processes(device->handle, &n, nvml->process_infos);
	if (!device->failed.processes && n > NVML_MAX_PROCESSES)
		device->failed.processes = NVML_INSUFFICIENT_SIZE;
	if (device->failed.processes)
		return false;
	size = nvml_library__process_info_size(nvml->process_infos, n);
	for (unsigned i = 0; i < n; i++) {
		struct process_memory *process;

		memcpy(&info, nvml->process_infos + i * size, sizeof(info));
		process = find_process(device, info.pid);
		/* With MIG a process is there once for each instance that it uses. */
		if (process->pid == info.pid && process->sample == device->n_samples &&
		    process->bytes != NVML_NOT_AVAILABLE && info.bytes != NVML_NOT_AVAILABLE)
			process->bytes += info.bytes;
		else
			*process = (struct process_memory){ device->n_samples, info.bytes, info.pid };
	}
	return true;
}

static uint8_t percent(unsigned value)
{
	return value > 100 ? 100 : (uint8_t)value;
}

static void sample_device(struct nvml *nvml, struct device *device, uint64_t time_ns)
{
	struct sample *sample = &device->samples[device->n_samples % NVML_SAMPLES];
	struct nvml_utilisation utilisation = { 0 };
	bool processes;

	if (device->failed.handle)
		return;
	*sample = (struct sample){ .time_ns = time_ns };
	device->failed.utilisation = nvml->call.utilisation(device->handle, &utilisation);
	if (!device->failed.utilisation) {
		sample->has = HAS_UTILISATION;
		sample->gpu = percent(utilisation.gpu);
		sample->memory = percent(utilisation.memory);
	}
	processes = sample_processes(nvml, device, sample->has && sample->gpu == 0);
	sample->has |= processes ? HAS_PROCESSES : 0;
	device->failed.memory =
		nvml->call.memory ? nvml->call.memory(device->handle, &device->memory) : NVML_FUNCTION_NOT_FOUND;
	device->has_memory = !device->failed.memory;
	device->has_processes = sample_process_memory(nvml, device);
	device->n_samples++;
	nvml->lost |= device->failed.utilisation == NVML_REMOTE_GONE;
	tell(nvml, device);
}

void nvml__sample(struct nvml *nvml, uint64_t time_ns)
{
	uint64_t begin_ns, took_ns, pause_ns = NVML_INTERVAL_NS;

	if (time_ns < nvml->next_ns)
		return;
	begin_ns = clock__now_ns();
	for (unsigned i = 0; i < nvml->n; i++)
		sample_device(nvml, &nvml->devices[i], time_ns);
	took_ns = clock__now_ns() - begin_ns;
	/* The shorter of two: once it may have been this process that had to wait for a CPU. */
	if ((took_ns < nvml->took_ns ? took_ns : nvml->took_ns) > pause_ns / NVML_MAX_SHARE)
		pause_ns = (took_ns < nvml->took_ns ? took_ns : nvml->took_ns) * NVML_MAX_SHARE;
	nvml->took_ns = took_ns;
	/* From when it was due: a caller that comes a little early or late each time leaves none out. */
	nvml->next_ns += pause_ns;
	if (nvml->next_ns <= time_ns)
		nvml->next_ns = time_ns + pause_ns;
}

static bool among(const pid_t *pids, size_t n, uint32_t pid)
{
	for (size_t i = 0; i < n; i++)
		if ((uint32_t)pids[i] == pid)
			return true;
	return false;
}

/* To a tenth. */
static json_t *mean(uint64_t sum, uint64_t n)
{
	return n ? json_real(round((double)sum / (double)n * 10) / 10) : json_null();
}

/* Number of the first sample since then that is still kept; n_samples when there is none. */
static uint64_t first_since(const struct device *device, uint64_t since_ns)
{
	uint64_t first = device->n_samples;

	while (first > 0 && device->n_samples - first < NVML_SAMPLES &&
	       device->samples[(first - 1) % NVML_SAMPLES].time_ns >= since_ns)
		first--;
	return first;
}

static json_t *process_utilisation(const struct device *device, const pid_t *pids, size_t n, uint64_t first)
{
	uint64_t oldest = device->n_history > MAX_HISTORY ? device->n_history - MAX_HISTORY : 0;
	uint64_t sum = 0, samples = 0;

	/* The sample in which the oldest figure was made may have had others, which are gone. */
	if (oldest && device->history[oldest % MAX_HISTORY].sample >= first)
		first = device->history[oldest % MAX_HISTORY].sample + 1;
	for (uint64_t i = device->n_history; i > oldest; i--) {
		const struct process_figure *figure = &device->history[(i - 1) % MAX_HISTORY];

		if (figure->sample < first)
			break;
		if (among(pids, n, figure->pid))
			sum += figure->sm;
	}
	for (uint64_t i = first; i < device->n_samples; i++)
		samples += !!(device->samples[i % NVML_SAMPLES].has & HAS_PROCESSES);
	return mean(sum, samples);
}

static json_t *process_memory(const struct device *device, const pid_t *pids, size_t n, uint64_t first)
{
	uint64_t sum = 0, last = 0;
	bool seen = false, unknown = false;

	for (size_t i = 0; i < device->n_processes; i++) {
		const struct process_memory *process = &device->processes[i];

		if (process->sample < first || !among(pids, n, process->pid) || (seen && process->sample < last))
			continue;
		if (!seen || process->sample > last) {
			last = process->sample;
			sum = 0;
			unknown = false;
		}
		seen = true;
		unknown |= process->bytes == NVML_NOT_AVAILABLE;
		sum += process->bytes;
	}
	if (unknown || (!seen && !device->has_processes) || sum > INT64_MAX)
		return json_null();
	return json_integer((json_int_t)sum);
}

static json_t *bytes(bool known, unsigned long long value)
{
	return known && value <= INT64_MAX ? json_integer((json_int_t)value) : json_null();
}

static json_t *report_device(const struct nvml *nvml, unsigned index, const pid_t *pids, size_t n, uint64_t since_ns)
{
	const struct device *device = &nvml->devices[index];
	const char *problem = nvml->problem[0] ? nvml->problem : device->problem;
	uint64_t first = first_since(device, since_ns), gpu = 0, memory = 0, samples = 0;

	for (uint64_t i = first; i < device->n_samples; i++) {
		const struct sample *sample = &device->samples[i % NVML_SAMPLES];

		if (!(sample->has & HAS_UTILISATION))
			continue;
		gpu += sample->gpu;
		memory += sample->memory;
		samples++;
	}
	return json_pack("{s:i, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "index", (int)index, "name",
			 device->name[0] ? device->name : NULL, "uuid", device->uuid[0] ? device->uuid : NULL,
			 "utilisation_percent", mean(gpu, samples), "memory_utilisation_percent", mean(memory, samples),
			 "memory_used_bytes", bytes(device->has_memory, device->memory.used), "memory_total_bytes",
			 bytes(device->has_memory, device->memory.total), "process_utilisation_percent",
			 process_utilisation(device, pids, n, first), "process_memory_bytes",
			 process_memory(device, pids, n, first), "samples", (json_int_t)samples, "problem",
			 problem[0] ? json_string(problem) : json_null());
}

json_t *nvml__report(const struct nvml *nvml, const pid_t *pids, size_t n, uint64_t since_ns)
{
	json_t *devices = json_array();

	for (unsigned i = 0; devices && i < nvml->n; i++) {
		if (json_array_append_new(devices, report_device(nvml, i, pids, n, since_ns)) < 0) {
			json_decref(devices);
			return NULL;
		}
	}
	return json_pack("{s:s?, s:o, s:i}", "driver", nvml->driver[0] ? nvml->driver : NULL, "devices", devices,
			 "devices_left_out", (int)nvml->left_out);
}

int nvml__series(const struct nvml *nvml, unsigned index, uint64_t since_ns, uint64_t until_ns, char **out)
{
	const struct device *device = &nvml->devices[index < nvml->n ? index : 0];
	uint64_t before = since_ns;
	size_t length;
	FILE *text;

	*out = NULL;
	if (index >= nvml->n)
		return 0;
	text = open_memstream(out, &length);
	if (!text)
		return -ENOMEM;
	fprintf(text, "%u/%s:", index, device->name);
	for (uint64_t i = first_since(device, since_ns); i < device->n_samples; i++) {
		const struct sample *sample = &device->samples[i % NVML_SAMPLES];

		if (!(sample->has & HAS_UTILISATION) || sample->time_ns > until_ns)
			continue;
		fprintf(text, "%s%" PRIu64 "+%u", before == since_ns ? "" : ",", sample->time_ns - before, sample->gpu);
		before = sample->time_ns;
	}
	if (fclose(text)) {
		free(*out);
		*out = NULL;
		return -ENOMEM;
	}
	if (before == since_ns) {
		free(*out);
		*out = NULL;
	}
	return 0;
}

bool nvml__is_lost(const struct nvml *nvml)
{
	return nvml->lost;
}

bool nvml__lacks_device(const struct nvml *nvml)
{
	for (unsigned i = 0; i < nvml->n; i++)
		if (nvml->devices[i].failed.handle && !nvml->devices[i].given_up)
			return true;
	return false;
}

/* No sample comes any more that would tell of it. Nobody is called for these words. */
static void lose_helper(struct nvml *nvml)
{
	char buffer[32];

	nvml->lost = true;
	nvml__set_problem(nvml, nvml_library__words(&nvml->call, NVML_REMOTE_GONE, buffer));
}

void nvml__ask_again(struct nvml *nvml, pthread_mutex_t *lock)
{
	for (unsigned i = 0; i < nvml->n && !nvml->lost; i++) {
		struct identity id;

		if (!nvml->devices[i].failed.handle || nvml->devices[i].given_up)
			continue;
		id = ask_identity(nvml, i);
		pthread_mutex_lock(lock);
		identify(&nvml->devices[i], &id);
		if (helper_is_gone(nvml))
			lose_helper(nvml);
		pthread_mutex_unlock(lock);
	}
}

void nvml__let_go(struct nvml *nvml)
{
	if (nvml->initialised)
		nvml->call.shutdown();
	if (nvml->remote)
		nvml_remote__unload();
	nvml_library__unload(&nvml->call);
	nvml->initialised = nvml->remote = false;
	nvml->lost = true;
}

void nvml__set_problem(struct nvml *nvml, const char *why)
{
	snprintf(nvml->problem, sizeof(nvml->problem), "%s", why);
}

static struct device *same_device(struct nvml *nvml, const struct device *as, unsigned index)
{
	for (unsigned i = 0; as->uuid[0] && i < nvml->n; i++)
		if (strcmp(nvml->devices[i].uuid, as->uuid) == 0)
			return &nvml->devices[i];
	return index < nvml->n && (!as->uuid[0] || !nvml->devices[index].uuid[0]) ? &nvml->devices[index] : NULL;
}

/* The two change places in what was read, so that each has arrays of its own. */
static void exchange_figures(struct device *device, struct device *old)
{
	struct device was = *device;

	device->samples = old->samples;
	device->n_samples = old->n_samples;
	device->history = old->history;
	device->n_history = old->n_history;
	device->processes = old->processes;
	device->n_processes = old->n_processes;
	device->last_seen_us = old->last_seen_us;
	old->samples = was.samples;
	old->n_samples = 0;
	old->history = was.history;
	old->n_history = 0;
	old->processes = was.processes;
	old->n_processes = 0;
}

void nvml__inherit(struct nvml *nvml, struct nvml *old)
{
	for (unsigned i = 0; i < nvml->n; i++) {
		struct device *from = same_device(old, &nvml->devices[i], i);

		if (from)
			exchange_figures(&nvml->devices[i], from);
	}
}

void nvml__close(struct nvml *nvml)
{
	if (!nvml)
		return;
	nvml__let_go(nvml);
	for (unsigned i = 0; i < nvml->n; i++) {
		free(nvml->devices[i].samples);
		free(nvml->devices[i].history);
		free(nvml->devices[i].processes);
	}
	free(nvml->process_samples);
	free(nvml->process_infos);
	free(nvml);
}
