/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NVML for as long as the daemon runs: opened when first needed, and tried again where that failed, where the helper is
 * gone, or where a GPU was refused, at most once in NVML_WATCH_AGAIN_NS and on a thread of its own. What was read
 * before stays. Thread-safe.
 *
 * While an attempt runs nothing is sampled: the helper serves one caller, and where the library itself hangs over one
 * GPU, a question for another might wait for it, with the daemon's locks held.
 */
#ifndef STAKEOUT_NVML_WATCH_H
#define STAKEOUT_NVML_WATCH_H

#include "daemon/nvml/nvml.h"

#define NVML_WATCH_AGAIN_NS   60000000000ull
#define NVML_WATCH_LATE_NS    35000000000ull /* an attempt that takes longer is said as the problem */
#define NVML_WATCH_TEXT_BYTES 256

struct nvml_watch;

/*
 * Nothing is opened yet. path, helper: as nvml__open(); borrowed. For tests there are STAKEOUT_NVML in the daemon's
 * environment, which is that path, and STAKEOUT_NVML_AGAIN_S, seconds instead of NVML_WATCH_AGAIN_NS. -ENOMEM.
 */
int nvml_watch__new(const char *path, const char *helper, struct nvml_watch **out);
/* Opens NVML, which may take as long as nvml__open(), where it was not tried before. now_ns: CLOCK_MONOTONIC. */
void nvml_watch__open(struct nvml_watch *watch, uint64_t now_ns);
/* As nvml__sample(); begins another attempt when one is due, and does not wait for it. */
void nvml_watch__tick(struct nvml_watch *watch, uint64_t now_ns);
/* As nvml__report(); NULL also where NVML could not be opened so far: then `problem` says why. */
json_t *nvml_watch__report(struct nvml_watch *watch, const pid_t *pids, size_t n, uint64_t since_ns,
			   char problem[NVML_WATCH_TEXT_BYTES]);
/* As nvml__series(). */
int nvml_watch__series(struct nvml_watch *watch, unsigned index, uint64_t since_ns, uint64_t until_ns, char **out);
/* Does not wait either: an attempt that runs frees the rest when it ends. NULL is fine. */
void nvml_watch__free(struct nvml_watch *watch);

#endif
