/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What alloc_probes.c and its calibration have in common. */
#ifndef STAKEOUT_ALLOC_PROBES_INTERNAL_H
#define STAKEOUT_ALLOC_PROBES_INTERNAL_H

#include "daemon/kernel/alloc_probes.h"

/* alloc_calibration.c: probes on functions of our own that do nothing, some 10 ms. -errno. */
int alloc_calibration_run(struct alloc_probes *p, struct alloc_prices *out);

#endif
