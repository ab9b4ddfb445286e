/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a CUDA probe costs on this machine, measured on functions of our own that do nothing. */
#ifndef STAKEOUT_CUDA_CALIBRATION_H
#define STAKEOUT_CUDA_CALIBRATION_H

#include "daemon/cuda/cuda_probes.h"

/* Attaches to this process for some 100 ms. -errno when the kernel refuses that kind of probe. */
int cuda_calibration__run(struct cuda_probes *probes, struct cuda_probe_cost *out);

/* Places in a file, and a cookie for each. */
struct cuda_places {
	const uint64_t *offsets, *cookies;
	uint32_t n;
};

/* cuda_probes.c's: probes in the file at fd; light, and *out: as in cuda_probes__attach(). */
int cuda_probes__attach_places(struct cuda_probes *probes, pid_t pid, int fd, const struct cuda_places *places,
			       bool light, struct cuda_link **out);

#endif
