/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of cuda_summary__new(). Each fills its list of the summary; -ENOMEM. */
#ifndef STAKEOUT_CUDA_SUMMARY_PARTS_H
#define STAKEOUT_CUDA_SUMMARY_PARTS_H

#include "cuda/cuda_summary.h"

/* "" without a library. */
static inline const char *cuda_summary__path(const struct cuda_library *library)
{
	return library ? library->path : "";
}

/* cuda_places.c: what is known by its place in the source, and by error code. */
int cuda_summary__add_lines(struct cuda_summary *summary, const struct cuda_report *report, bool python_only);
int cuda_summary__add_sites(struct cuda_summary *summary, const struct cuda_report *report, bool python_only);
int cuda_summary__add_errors(struct cuda_summary *summary, const struct cuda_report *report);

static inline int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

#endif
