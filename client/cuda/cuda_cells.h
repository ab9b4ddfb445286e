/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tables of `stakeout cuda` are made of: cells of one width each, and a name behind them. */
#ifndef STAKEOUT_CLIENT_CUDA_CELLS_H
#define STAKEOUT_CLIENT_CUDA_CELLS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "client/cuda/cuda_column.h"
#include "client/cuda/cuda_view.h"
#include "cuda/cuda_text.h"

#define CUDA_LEAST_NAME 32 /* columns, however narrow the terminal */

enum { COUNT_COLUMNS = 11, TIME_COLUMNS = 10, SHARE_COLUMNS = 8, SIZE_COLUMNS = 10, RATE_COLUMNS = 10 };

static inline void count(uint64_t n, unsigned columns, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	cuda_text__count(n, text);
	cuda_column__cell(text, columns, out);
}

static inline void calls_of(uint64_t n, bool estimated, FILE *out)
{
	char text[CUDA_TEXT_BYTES + 1] = "~";

	cuda_text__count(n, text + 1);
	cuda_column__cell(estimated ? text : text + 1, COUNT_COLUMNS, out);
}

static inline void time_of(double ns, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	cuda_text__time(ns, text);
	cuda_column__unit_cell(text, TIME_COLUMNS, out);
}

static inline void size_of(double bytes, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	cuda_text__bytes(bytes, text);
	cuda_column__unit_cell(text, SIZE_COLUMNS, out);
}

static inline void share_of(double share, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	cuda_text__share(share, text);
	cuda_column__cell(text, SHARE_COLUMNS, out);
}

/* The last column, which takes what is left of the terminal. used: columns in front of it */
static inline unsigned name_columns(const struct cuda_view *view, unsigned used)
{
	if (!view->width)
		return 0;
	return view->width > used + CUDA_LEAST_NAME ? view->width - used : CUDA_LEAST_NAME;
}

static inline size_t shown(const struct cuda_view *view, size_t n)
{
	return view->rows && view->rows < n ? view->rows : n;
}

static inline void print_rest(const struct cuda_view *view, size_t n, const char *one, const char *many, FILE *out)
{
	size_t rest = n - shown(view, n);

	if (rest)
		fprintf(out, "and %zu more %s\n", rest, rest == 1 ? one : many);
}

static inline void print_head(const char *title, const char *columns, FILE *out)
{
	fprintf(out, "\n%s\n%s\n", title, columns);
}

#endif
