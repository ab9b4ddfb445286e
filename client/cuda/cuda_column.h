/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Columns of the CUDA tables. Texts that come in are valid UTF-8 without control characters (cuda_report.h cleans
 * them).
 */
#ifndef STAKEOUT_CLIENT_CUDA_COLUMN_H
#define STAKEOUT_CLIENT_CUDA_COLUMN_H

#include <stddef.h>
#include <stdio.h>

/* Right-aligned in `columns`, wider if it does not fit. */
void cuda_column__cell(const char *text, unsigned columns, FILE *out);
/* The same for a time or size, whose units stand below one another: one of a single letter gets a blank behind it. */
void cuda_column__unit_cell(const char *text, unsigned columns, FILE *out);
/* A name that is wider than `columns` loses its middle; 0 columns: none does. */
void cuda_column__name(const char *text, unsigned columns, FILE *out);
/*
 * One paragraph, broken between words before the terminal's `columns` (0: never), and a newline. Its first line begins
 * at column `indent`, and so do the others.
 */
void cuda_column__paragraph(const char *text, unsigned indent, unsigned columns, FILE *out);
/* Characters, each of which is taken to fill one column. */
unsigned cuda_column__width(const char *text, size_t length);

#endif
