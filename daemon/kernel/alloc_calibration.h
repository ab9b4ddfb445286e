/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a probe of alloc.bpf.c costs on this machine, measured on functions of our own that do nothing. */
#ifndef STAKEOUT_ALLOC_CALIBRATION_H
#define STAKEOUT_ALLOC_CALIBRATION_H

#include "daemon/kernel/alloc_probes.h"

/* Of one hit, ns of the thread that runs into it: without taking a stack. */
struct alloc_prices {
	double hit_ns, stepped_ns; /* the second: of an instruction that is single-stepped */
};

/* Attaches to this process, for some 10 ms. -errno. */
int alloc_calibration__run(struct alloc_probes *p, struct alloc_prices *out);

#endif
