/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The member "summary" of `stakeout cuda --json`, and of the daemon's answer where it is asked for. */
#ifndef STAKEOUT_CUDA_JSON_H
#define STAKEOUT_CUDA_JSON_H

#include <jansson.h>

#include "cuda/cuda_findings.h"
#include "cuda/cuda_report.h"
#include "cuda/cuda_summary.h"
#include "stakeout/error.h"

/* New reference; NULL: out of memory. */
json_t *cuda_json__summary(const struct cuda_report *report, const struct cuda_summary *summary,
			   const struct cuda_findings *findings);

/* Adds it to an answer about CUDA calls. cuda_report__read()'s errors; the answer is as it was then. */
int cuda_json__add_summary(json_t *answer, struct so_error *err);

#endif
