/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A screen of `stakeout top`, as text. */
#ifndef STAKEOUT_CLIENT_TOP_DRAW_H
#define STAKEOUT_CLIENT_TOP_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/top/top_cuda.h"
#include "client/top/top_rows.h"
#include "client/top/top_sums.h"
#include "client/top/top_view.h"

#define TOP_CUDA_LINES 3

struct top_screen {
	const struct top_sums *sums;
	const char *title; /* what is watched; foreign text */
	const char *note;  /* what is missing, or why there is nothing; foreign text; NULL: nothing is */
	double watched_s;  /* of one target; NAN: there are several */
	const struct top_cuda *cuda[TOP_CUDA_LINES];
	unsigned n_cuda;
	unsigned width, height; /* in columns and rows; height 0: all rows */
	bool terminal;          /* with control sequences for one */
};

/* The rows that fit below the header. */
size_t top_draw__page(const struct top_screen *screen);
/* Clamps the view's scrolling. Errors of writing are the file's. */
void top_draw(const struct top_screen *screen, const struct top_rows *rows, struct top_view *view, FILE *out);

#endif
