// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_host.h"

#include <math.h>

static const struct {
	const char *word, *words;
} parts[CUDA_HOST_PART_COUNT] = {
#define X(name, one, many) [CUDA_HOST_##name] = { one, many },
	CUDA_HOST_PARTS(X)
#undef X
};

const char *cuda_host__word(enum cuda_host_part part)
{
	return parts[part].word;
}

const char *cuda_host__words(enum cuda_host_part part)
{
	return parts[part].words;
}

static enum cuda_host_part part_of(enum so_cuda_kind kind)
{
	switch (so_cuda_kind__does(kind)) {
	case SO_CUDA_LAUNCH:
		return CUDA_HOST_LAUNCH;
	case SO_CUDA_SYNC:
		return CUDA_HOST_SYNC;
	case SO_CUDA_COPY:
	case SO_CUDA_BLOCKING_COPY:
		return CUDA_HOST_COPY;
	case SO_CUDA_ALLOC:
	case SO_CUDA_FREE:
		return CUDA_HOST_MEMORY;
	default:
		return CUDA_HOST_OTHER;
	}
}

bool cuda_host__uses(const struct cuda_report *report, const struct so_cuda_device_row *device)
{
	if (device->process_utilisation_percent > 0 || device->process_memory_bytes > 0)
		return true;
	return report->n_devices == 1 && isnan(device->process_utilisation_percent) &&
	       isnan(device->process_memory_bytes);
}

static void take_devices(const struct cuda_report *report, struct cuda_host *host)
{
	double percent = 0;

	for (size_t i = 0; i < report->n_devices; i++) {
		const struct so_cuda_device_row *device = &report->devices[i];

		if (!cuda_host__uses(report, device) || !device->samples || isnan(device->utilisation_percent))
			continue;
		percent += device->utilisation_percent;
		host->n_devices++;
	}
	host->utilisation = cuda_summary__ratio(percent / 100, (double)host->n_devices);
}

void cuda_host__of(const struct cuda_report *report, const struct cuda_summary *summary, struct cuda_host *out)
{
	*out = (struct cuda_host){ .whole_ns = summary->duration_ns * (double)summary->n_processes };
	for (unsigned kind = 0; kind <= SO_CUDA_KIND_COUNT; kind++)
		out->ns[part_of(kind)] += (double)summary->kind_ns[kind];
	out->ns[CUDA_HOST_OUTSIDE] = summary->outside_ns;
	for (unsigned part = 0; part < CUDA_HOST_PART_COUNT; part++)
		if (out->ns[part] > out->ns[out->leading])
			out->leading = part;
	take_devices(report, out);
	out->bottleneck = summary->calls && out->utilisation < CUDA_HOST_BOUND_UTILISATION;
}
