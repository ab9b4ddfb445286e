/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands out in a report: each with the figures it rests on, its source line where one is known, and what to try.
 * The thresholds and why they are where they are stand in cuda_findings.c and cuda_streams.c.
 */
#ifndef STAKEOUT_CUDA_FINDINGS_H
#define STAKEOUT_CUDA_FINDINGS_H

#include "cuda/cuda_host.h"
#include "cuda/cuda_summary.h"

/* X(enumerator, word in JSON, title) */
#define CUDA_FINDINGS(X)                                                               \
	X(GPU_IDLE, "gpu-under-used", "the GPU is under-used")                         \
	X(HIDDEN_SYNC, "hidden-sync", "hidden synchronisation")                        \
	X(SYNC, "sync", "the host waits for the GPU")                                  \
	X(BLOCKING_COPY, "blocking-copy", "blocking copy")                             \
	X(SLOW_ASYNC_COPY, "slow-async-copy", "asynchronous copy that holds the host") \
	X(TINY_LAUNCHES, "many-launches", "many small launches")                       \
	X(LAUNCH_OUTLIERS, "launch-outliers", "slow launches")                         \
	X(ALLOCATIONS, "allocations", "memory allocated all the time")                 \
	X(STREAM_WAITS, "stream-waits", "repeated stream waits")                       \
	X(IDLE_SYNC, "idle-sync", "synchronisation that waits for nothing")            \
	X(REPEATED_WAITS, "repeated-waits", "stream waits again for the same")         \
	X(GRAPHS_ANEW, "graphs-anew", "graphs made again and again")                   \
	X(ERRORS, "errors", "failed calls")                                            \
	X(ESTIMATED, "estimated", "counts are estimates")                              \
	X(LOSSES, "losses", "not everything was counted")

enum cuda_finding_kind {
#define X(name, word, title) CUDA_FINDING_##name,
	CUDA_FINDINGS(X)
#undef X
		CUDA_FINDING_COUNT,
};

struct cuda_finding {
	enum cuda_finding_kind kind;
	double share;       /* of the recording's time; NAN: it is no matter of time */
	const char *line;   /* the report's; NULL: none, or not known */
	char *measured;     /* the figures, in words */
	const char *advice; /* static */
	uint64_t count;     /* of the events it speaks of */
	double total_ns;    /* NAN: no matter of time */
	bool foremost;      /* before all others */
};

struct cuda_findings {
	struct cuda_finding
		*list; /* failures of half of an API's calls, those of time by falling share, failures, remarks */
	size_t n, capacity;
};

/* -ENOMEM. The report and the summary must outlive it. */
int cuda_findings__new(const struct cuda_report *report, const struct cuda_summary *summary,
		       struct cuda_findings **out);
void cuda_findings__free(struct cuda_findings *findings);
CLEANUP_DEFINE(struct cuda_findings *, cuda_findings, cuda_findings__free)

const char *cuda_findings__word(enum cuda_finding_kind kind);
const char *cuda_findings__title(enum cuda_finding_kind kind);

#endif
