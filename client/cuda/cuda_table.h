/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of `stakeout cuda` for people, in their order. Each prints nothing if it has nothing to show; a blank line
 * stands before each table. Whether writing failed is for the caller to ask of `out`.
 */
#ifndef STAKEOUT_CLIENT_CUDA_TABLE_H
#define STAKEOUT_CLIENT_CUDA_TABLE_H

#include "cuda/cuda_findings.h"
#include "cuda/cuda_summary.h"
#include "client/cuda/cuda_view.h"

/* cuda_header.c: the target, how much was counted, at what cost, what was lost, the GPU. */
void cuda_table__header(const struct cuda_report *report, const struct cuda_summary *summary,
			const struct cuda_view *view, FILE *out);

/* cuda_table.c */
void cuda_table__apis(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out);
void cuda_table__kernels(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out);
void cuda_table__waits(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out);
void cuda_table__copies(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out);
void cuda_table__sites(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out);
void cuda_table__findings(const struct cuda_findings *findings, const struct cuda_view *view, FILE *out);

/* cuda_streams.c */
void cuda_table__stream_waits(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out);
void cuda_table__graphs(const struct cuda_summary *summary, FILE *out);

/* cuda_probes.c: every probed instruction. */
void cuda_table__probes(const struct cuda_report *report, const struct cuda_view *view, FILE *out);

#endif
