/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout memory --gpu` says: of each device, and of the lines that have its memory. As text and as JSON. */
#ifndef STAKEOUT_CLIENT_GPU_REPORT_H
#define STAKEOUT_CLIENT_GPU_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "client/memory/growth.h"
#include "client/memory/memory_lines.h"

/* A device as one process has it; bytes but for the counts. */
struct gpu_device {
	long pid;
	char name[16];
	bool gone; /* the process has ended: it has nothing in use */
	double allocated, reserved, peak_allocated, peak_reserved;
	double seen;          /* in use, of what was allocated while it was watched */
	double without_stack; /* of that, what no stack was taken of */
	double allocations, frees, left_out, replaced;
	double refused, refused_bytes, refused_allocated, refused_reserved; /* how often; and at the last one */
};

/* Of what was allocated while it was watched. */
struct gpu_line {
	struct memory_line line; /* of what is in use; its text is borrowed */
	double peak;             /* bytes: the sum of its stacks' peaks, so at most that much */
	double allocations;      /* blocks */
	double refused;          /* bytes */
	double then;             /* bytes in use when memory was refused last */
};

struct gpu_report {
	struct profile *in_use;
	struct growth growth; /* of the least that was allocated in each twentieth of the time; file: reserved */
	struct memory_lines *lines, *peaks, *refused, *then; /* then: in use when memory was refused last */
	struct gpu_line *by_use;                             /* those that have most in use first */
	size_t n_by_use;
	struct gpu_device *devices;
	size_t n_devices;
	double cost_percent; /* negative: not known */
	double stacks, skipped, lost, hidden;
	double hidden_processes; /* that have memory, which the user may not look into: none of it is shown */
	double strange, full;    /* calls that handed over no sizes; calls of devices that there was no room for */
	bool linked;             /* some process had probes */
	bool ended;              /* the process had: what it had in use then is shown */
	long pid;
};

/*
 * Whether a process of the target could be watched: what the profile says of it. -ENOTSUP: none, in words; -EINVAL: it
 * is no such profile.
 */
int gpu_report__check(const uint8_t *bytes, size_t length, struct so_error *err);
/* From pprof as GET /v1/targets/ID/gpu-memory gives it. Errors as above; -ENOMEM. To be cleared in any case. */
int gpu_report__read(const uint8_t *bytes, size_t length, struct gpu_report *out, struct so_error *err);
void gpu_report__clear(struct gpu_report *report);
CLEANUP_DEFINE_OF(struct gpu_report, gpu_report, gpu_report__clear)

/* The line that is named for the growth; NULL: there is none. */
const struct memory_line *gpu_report__culprit(const struct gpu_report *report);
/* top: rows of the table of lines. */
void gpu_report__print(const struct gpu_report *report, unsigned top, FILE *out);
/* New reference; NULL: no memory. */
json_t *gpu_report__json(const struct gpu_report *report);

/*
 * For growth__read(): of a series "MS:LOW:RESERVED:0:0,…" with the least of each of twenty parts of it, as what
 * programs take for a step and give back would hide what stays. *out: malloc'ed. -EINVAL: it is no such series;
 * -ENOMEM.
 */
int gpu_report__lows(const char *series, char **out);

#endif
