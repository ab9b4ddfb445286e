/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A target's CUDA calls a second, and how long threads waited in them: the difference of two answers of the daemon. */
#ifndef STAKEOUT_CLIENT_TOP_CUDA_H
#define STAKEOUT_CLIENT_TOP_CUDA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/render/frame_text.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/intern.h"

struct top_cuda_api {
	uint64_t calls, total_ns; /* as the last answer has it */
	double rate, waits_ns;    /* calls and waiting a second, between the last two */
};

/* All zero is an empty one. */
struct top_cuda {
	struct intern apis; /* names, cleaned */
	struct top_cuda_api *list;
	size_t capacity;
	double at_s;   /* of the last answer */
	bool compared; /* with one before */
};

/* now_s: when it was asked for, by whatever clock. -EPROTO, -EFBIG: no such answer, in words; -ENOMEM. */
int top_cuda__take(struct top_cuda *cuda, const json_t *answer, double now_s, struct so_error *err);
/* "CUDA 1034 calls/s, waits 35.1 %: cudaLaunchKernel 1000/s, ..."; nothing before two answers. -ENOMEM. */
int top_cuda__text(const struct top_cuda *cuda, struct text *text);
void top_cuda__clear(struct top_cuda *cuda);

#endif
