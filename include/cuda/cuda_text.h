/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Figures about CUDA calls, in words: three significant digits and the unit; one that is not known (NAN) or negative
 * reads "-".
 */
#ifndef STAKEOUT_CLIENT_CUDA_TEXT_H
#define STAKEOUT_CLIENT_CUDA_TEXT_H

#include <stdint.h>

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

#endif
