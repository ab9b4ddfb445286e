// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_graphs.h"

#include <string.h>

/* The calls of runtime and driver are cudaNAME and cuNAME, and more where NAME goes on. */
static bool is_call(const char *api, const char *name)
{
	size_t prefix = !strncmp(api, "cuda", 4) ? 4 : 2;

	return !strncmp(api, "cu", 2) && !strncmp(api + prefix, name, strlen(name));
}

static void add(uint64_t *sum, const struct cuda_api_row *row)
{
	*sum = cuda_stats__sum(*sum, row->figures.calls - row->figures.errors);
}

static const char *line_of(const struct cuda_summary *summary, const char *name)
{
	const struct cuda_line_row *most = NULL;

	for (size_t i = 0; i < summary->n_lines; i++) {
		const struct cuda_line_row *row = &summary->lines[i];

		if (row->kind == SO_CUDA_CAPTURE && is_call(row->api, name) && (!most || row->calls > most->calls))
			most = row;
	}
	return most ? most->line : NULL;
}

void cuda_graphs__of(const struct cuda_summary *summary, struct cuda_graphs *out)
{
	*out = (struct cuda_graphs){ .making_ns = summary->kind_ns[SO_CUDA_CAPTURE],
				     .launches = summary->kind_calls[SO_CUDA_LAUNCH],
				     .estimated = summary->kind_estimated[SO_CUDA_CAPTURE] ||
						  summary->kind_estimated[SO_CUDA_GRAPH_LAUNCH] };
	for (size_t i = 0; i < summary->n_apis; i++) {
		const struct cuda_api_row *row = &summary->apis[i];

		if (row->kind == SO_CUDA_GRAPH_LAUNCH)
			add(&out->replays, row);
		else if (is_call(row->api, "StreamBeginCapture"))
			add(&out->captures, row);
		else if (is_call(row->api, "GraphInstantiate"))
			add(&out->instantiations, row);
		else if (is_call(row->api, "GraphExecUpdate"))
			add(&out->updates, row);
	}
	out->line = line_of(summary, "StreamBeginCapture");
	if (!out->line)
		out->line = line_of(summary, "Graph");
}
