/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout cuda` shows of the daemon's answer. */
#ifndef STAKEOUT_CLIENT_CUDA_VIEW_H
#define STAKEOUT_CLIENT_CUDA_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "stakeout/error.h"

struct cuda_view {
	bool json;        /* the answer, with a member "summary" of the figures computed from it; all rows */
	bool probes;      /* which instructions are probed, instead of the tables; not in JSON, which has both */
	bool python_only; /* lines and stacks: only Python frames; a line that has none becomes PROFILE_NATIVE */
	bool stacks;      /* below each wait the outer and inner end of its stack */
	size_t rows;      /* of each table; 0: all */
	unsigned width;   /* of the terminal, in columns; 0: nothing is cut or broken */
};

/*
 * answer: GET /v1/targets/ID/cuda; not changed. What is written is valid UTF-8 without control characters other than
 * the newline, whatever the answer holds; JSON is ASCII. Nothing is written if the answer is refused: -EPROTO (not such
 * an answer), -EFBIG (too large). -EIO when writing fails, -ENOMEM; err has the words.
 */
int cuda_report__render(json_t *answer, const struct cuda_view *view, FILE *out, struct so_error *err);

#endif
