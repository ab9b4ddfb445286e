/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a CUDA probe costs on this machine, measured on functions of our own that do nothing. */
#ifndef STAKEOUT_CUDA_CALIBRATION_H
#define STAKEOUT_CUDA_CALIBRATION_H

#include "daemon/cuda_probes.h"

/* Attaches to this process for some 100 ms. -errno when the kernel refuses that kind of probe. */
int cuda_calibration__run(struct cuda_probes *probes, struct cuda_probe_cost *out);

/* cuda_probes.c's: probes at file offsets of the file at fd. */
int cuda_probes__attach_offsets(struct cuda_probes *probes, pid_t pid, int fd, const uint64_t *offsets,
				const uint64_t *cookies, uint32_t count, struct cuda_link **out);

#endif
