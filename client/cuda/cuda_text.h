/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Figures and columns of the CUDA tables. A figure has three significant digits and its unit; one that is not known
 * (NAN) or negative reads "-". Texts that come in are valid UTF-8 without control characters (cuda_report.h cleans
 * them).
 */
#ifndef STAKEOUT_CLIENT_CUDA_TEXT_H
#define STAKEOUT_CLIENT_CUDA_TEXT_H

#include <stdint.h>
#include <stdio.h>

#define CUDA_TEXT_BYTES 32

/* "850 ns", "12.3 µs", "1.20 s" */
void cuda_text__time(double ns, char text[CUDA_TEXT_BYTES]);
/* Decimal units: "512 B", "4.19 MB" */
void cuda_text__bytes(double bytes, char text[CUDA_TEXT_BYTES]);
/* share: 1 is 100 %. "12.3 %", "< 0.1 %" */
void cuda_text__share(double share, char text[CUDA_TEXT_BYTES]);
/* Events a second: "12500", "12.5", "0.20" */
void cuda_text__rate(double per_s, char text[CUDA_TEXT_BYTES]);
void cuda_text__count(uint64_t n, char text[CUDA_TEXT_BYTES]);

/* Right-aligned in `columns`, wider if it does not fit. */
void cuda_text__cell(const char *text, unsigned columns, FILE *out);
/* The same for a time or size, whose units stand below one another: one of a single letter gets a blank behind it. */
void cuda_text__unit_cell(const char *text, unsigned columns, FILE *out);
/* A name that is wider than `columns` loses its middle; 0 columns: none does. */
void cuda_text__name(const char *text, unsigned columns, FILE *out);
/*
 * One paragraph, broken between words before the terminal's `columns` (0: never), and a newline. Its first line begins
 * at column `indent`, and so do the others.
 */
void cuda_text__paragraph(const char *text, unsigned indent, unsigned columns, FILE *out);
/* Characters, each of which is taken to fill one column. */
unsigned cuda_text__columns(const char *text, size_t length);

#endif
