// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_search.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "stakeout/array.h"

/* Of fewer stacks a line's share of its calls is known to a third at best (95 %): then their number is printed. */
#define FEW_STACKS 30

int cuda_search__add(struct cuda_search *search, struct cuda_finding finding, const char *measured, ...)
{
	struct cuda_findings *findings = search->findings;
	va_list ap;
	int n;

	if (ARRAY_RESERVE(findings->list, findings->capacity, findings->n + 1))
		return -ENOMEM;
	va_start(ap, measured);
	n = vasprintf(&finding.measured, measured, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	findings->list[findings->n++] = finding;
	return 0;
}

double cuda_search__share(const struct cuda_search *search, double ns)
{
	return cuda_summary__ratio(ns, search->summary->duration_ns);
}

double cuda_search__per_second(const struct cuda_search *search, double n)
{
	return cuda_summary__ratio(n, search->summary->duration_ns / 1e9);
}

void cuda_search__say_stacks(const struct cuda_line_row *row, char text[CUDA_SEARCH_STACKS_BYTES])
{
	text[0] = '\0';
	if (row->sampled && row->stacks && row->stacks < FEW_STACKS)
		snprintf(text, CUDA_SEARCH_STACKS_BYTES, ", by %" PRIu64 " stack%s", row->stacks,
			 row->stacks == 1 ? "" : "s");
}

const struct cuda_line_row *cuda_search__top_line(const struct cuda_search *search, enum so_cuda_kind kind)
{
	for (size_t i = 0; i < search->summary->n_lines; i++)
		if (search->summary->lines[i].kind == kind)
			return &search->summary->lines[i];
	return NULL;
}
