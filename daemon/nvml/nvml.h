/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How busy the GPUs are, and how busy chosen processes keep them, by NVIDIA's management library. It belongs to the
 * driver and is loaded when this is opened; a machine without it loses these figures and nothing else.
 *
 * What the figures are (NVML API reference): a device's utilisation is the percentage of the driver's last sample
 * period (1/6 s to 1 s, by product) in which at least one kernel ran, not how much of the GPU these kernels filled. A
 * process's is the driver's figure of the multiprocessors' use.
 *
 * Process IDs are those of the initial PID namespace, as the driver gives them, also to a daemon inside a container.
 *
 * Not thread safe: calls for one struct nvml come one after the other. It has no threads of its own.
 */
#ifndef STAKEOUT_NVML_H
#define STAKEOUT_NVML_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define NVML_MAX_DEVICES   64
#define NVML_MAX_PROCESSES 1024         /* running on one device */
#define NVML_INTERVAL_NS   500000000ull /* between samples, on average at least */
#define NVML_SAMPLES       7200         /* are kept: of one hour */
#define NVML_MAX_SHARE     20           /* sampling takes at most one part in so many of the time */
#define NVML_LIBRARY       "libnvidia-ml.so.1"

struct nvml;

/*
 * GPUs that were refused, a bit for each index: to be kept from one nvml__open() to the next. One for which the helper
 * was lost once it had been refused before is given up, for each further question would take the figures of all others.
 */
struct nvml_refusals {
	uint64_t refused; /* when they were last asked for */
	uint64_t given_up;
};
_Static_assert(NVML_MAX_DEVICES <= 64, "a bit for each GPU");

/*
 * `path`: NULL for NVML_LIBRARY, found as the dynamic linker finds it. Where no program is running on the GPUs and the
 * driver's persistence mode is off, the driver may take seconds to start them.
 *
 * A program that is linked statically has the library loaded and called by a helper (daemon/nvml/nvml_remote.h).
 * `helper`: NULL for that, with the helper beside this program; else a program's path, by which the library is called
 * in any case. `refusals`: borrowed until it is closed, and changed here and by nvml__ask_again().
 *
 * -EBUSY: helpers that were killed have not ended yet; -ENOTSUP: that helper does not start; -ENOENT: no such library;
 * -ELIBBAD: one that cannot be loaded; -ENOSYS: functions are missing in it; -EACCES, -ENODEV (no driver, or no device)
 * or -EIO, by what NVML answers.
 */
int nvml__open(const char *path, const char *helper, struct nvml_refusals *refusals, struct nvml **out,
	       struct so_error *err);

/*
 * Meant to be called every 100 to 500 ms; reads every device once in NVML_INTERVAL_NS. `time_ns`: CLOCK_MONOTONIC. A
 * driver that answers slowly is asked less often (NVML_MAX_SHARE). What fails is reported by nvml__report() and tried
 * again with the next sample, but for what nvml__is_lost() and nvml__lacks_device() are about.
 */
void nvml__sample(struct nvml *nvml, uint64_t time_ns);

/*
 * {"driver", "devices": […], "devices_left_out"}; each device {"index", "name", "uuid", "utilisation_percent",
 * "memory_utilisation_percent", "memory_used_bytes", "memory_total_bytes", "process_utilisation_percent",
 * "process_memory_bytes", "samples", "problem"}. Percentages are means over the samples since `since_ns`
 * (CLOCK_MONOTONIC) that are still kept; the process's are sums over `pids`. Its memory is that of the last sample in
 * which one of `pids` was on the device. What is unknown is null, and "problem" (else null) says why. NULL: no memory.
 */
json_t *nvml__report(const struct nvml *nvml, const pid_t *pids, size_t n, uint64_t since_ns);

/*
 * A device's samples between two moments, for a time line: "INDEX/NAME:" and of each sample how long after the one
 * before (the first: after since_ns), in ns, "+" its utilisation in percent, with commas. *out: malloc'ed; NULL: there
 * are none. Of index 0 … NVML_MAX_DEVICES - 1. -ENOMEM.
 */
int nvml__series(const struct nvml *nvml, unsigned index, uint64_t since_ns, uint64_t until_ns, char **out);

/* Whether it was found that the helper is gone: no sample comes any more. */
bool nvml__is_lost(const struct nvml *nvml);
/* Whether the driver refused access to one of the devices when it was last asked, and that has not been given up. */
bool nvml__lacks_device(const struct nvml *nvml);
/*
 * Asks for the devices that were refused once more; this may take as long as opening. Nothing but nvml__report() and
 * nvml__set_problem() may run beside it, with `lock` held, which is taken here where something changes that is
 * reported, never while the library is called.
 */
void nvml__ask_again(struct nvml *nvml, pthread_mutex_t *lock);

/* Lets go of the library and its helper: nothing but nvml__report() is possible then, and what follows here. */
void nvml__let_go(struct nvml *nvml);
/* What nvml__report() says of every device from now on; "": each one's own problem again. */
void nvml__set_problem(struct nvml *nvml, const char *why);
/* What was read by `old` of the devices that `nvml` has too, by UUID where it is known, goes over to it. */
void nvml__inherit(struct nvml *nvml, struct nvml *old);

/* NULL is fine. */
void nvml__close(struct nvml *nvml);
CLEANUP_DEFINE(struct nvml *, nvml, nvml__close)

#endif
