/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A search for findings: what each of its parts needs. */
#ifndef STAKEOUT_CUDA_SEARCH_H
#define STAKEOUT_CUDA_SEARCH_H

#include "cuda/cuda_findings.h"

/* Lines of one kind of finding; the tables have the others. */
#define CUDA_SEARCH_LINES        5
#define CUDA_SEARCH_STACKS_BYTES 64

struct cuda_search {
	const struct cuda_report *report;
	const struct cuda_summary *summary;
	struct cuda_findings *findings;
};

/* measured: the format and what follows. -ENOMEM. */
__attribute__((format(printf, 3, 4))) int cuda_search__add(struct cuda_search *search, struct cuda_finding finding,
							   const char *measured, ...);
/* Of the recording; NAN: its duration is not known. */
double cuda_search__share(const struct cuda_search *search, double ns);
double cuda_search__per_second(const struct cuda_search *search, double n);
/* The line of this kind that took most time; NULL: there is none. */
const struct cuda_line_row *cuda_search__top_line(const struct cuda_search *search, enum so_cuda_kind kind);
/* ", by 3 stacks", where a line's figures rest on few; else "". */
void cuda_search__say_stacks(const struct cuda_line_row *row, char text[CUDA_SEARCH_STACKS_BYTES]);

#endif
