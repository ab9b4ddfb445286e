/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NVIDIA's library in a process of its own, for a daemon that is linked statically: the helper stakeout-nvml (helper/)
 * loads it and makes the calls. A helper that ends, says something else than an answer, or does not answer within
 * NVML_CALL_LIMIT_S (loading and init: NVML_LOAD_LIMIT_S) is killed; from then on every call fails with
 * NVML_REMOTE_GONE until the library is unloaded and loaded again. NVML's functions know no context, so there is one
 * helper in a process. Not thread safe.
 */
#ifndef STAKEOUT_NVML_REMOTE_H
#define STAKEOUT_NVML_REMOTE_H

#include <stdbool.h>

#include "daemon/nvml/nvml_library.h"
#include "stakeout/error.h"

#define NVML_REMOTE_GONE 0x5000 /* beside the codes of nvmlReturn_t, which end at 999 */

/*
 * Starts `helper` (NULL: stakeout-nvml in the directory of this program) and has it load `path`; sets *library's
 * functions, those that are missing to NULL. Errors as nvml_library__load(), and -EBUSY: one runs already, or two that
 * were killed hang in the driver still; -ENOTSUP: no helper, or it does not start; -EIO: it ended or does not answer.
 * *library is untouched on failure.
 */
int nvml_remote__load(struct nvml_library *library, const char *helper, const char *path, struct so_error *err);

/* Whether there is no helper that could be called, of itself or by nvml_remote__unload(). */
bool nvml_remote__is_gone(void);
/* Ends the helper. */
void nvml_remote__unload(void);

#endif
