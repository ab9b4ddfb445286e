// SPDX-License-Identifier: GPL-2.0-or-later
/* Waits of streams, and graphs. */
#include "client/cuda/cuda_cells.h"
#include "client/cuda/cuda_table.h"
#include "cuda/cuda_graphs.h"

static bool is_stream_wait(const struct cuda_line_row *row)
{
	return row->event == SO_CUDA_WAIT;
}

static void print_stream_wait(const struct cuda_line_row *row, const struct cuda_summary *summary,
			      const struct cuda_view *view, FILE *out)
{
	bool estimated = row->sampled || summary->kind_estimated[row->kind];
	double launches = (double)cuda_summary__calls(summary, SO_CUDA_LAUNCH);
	char text[CUDA_TEXT_BYTES];

	time_of((double)row->total_ns, out);
	calls_of(row->calls, estimated, out);
	cuda_text__rate(cuda_summary__ratio((double)row->calls, launches), text);
	cuda_column__cell(text, RATE_COLUMNS, out);
	calls_of(row->needless, estimated, out);
	fprintf(out, "  %-20s  ", row->api);
	cuda_column__name(row->line, name_columns(view, TIME_COLUMNS + 2 * COUNT_COLUMNS + RATE_COLUMNS + 24), out);
	fputc('\n', out);
}

void cuda_table__stream_waits(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out)
{
	size_t n = 0, left;

	for (size_t i = 0; i < summary->n_lines; i++)
		n += is_stream_wait(&summary->lines[i]);
	if (!n)
		return;
	print_head("Waits of streams by source line (needless: the stream had waited for that event already)",
		   "Total Time  Num Calls  A Launch   Needless  Name                  Line", out);
	left = shown(view, n);
	for (size_t i = 0; left && i < summary->n_lines; i++) {
		if (!is_stream_wait(&summary->lines[i]))
			continue;
		print_stream_wait(&summary->lines[i], summary, view, out);
		left--;
	}
	print_rest(view, n, "line", "lines", out);
}

static void print_count(const char *before, uint64_t n, bool estimated, const char *one, const char *many, FILE *out)
{
	fprintf(out, "%s%s%" PRIu64 " %s", before, estimated ? "~" : "", n, n == 1 ? one : many);
}

static void print_making(const struct cuda_graphs *graphs, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	if (!graphs->captures && !graphs->instantiations && !graphs->updates) {
		fprintf(out, "none made");
		return;
	}
	print_count("", graphs->captures, graphs->estimated, "capture", "captures", out);
	print_count(", ", graphs->instantiations, graphs->estimated, "instantiation", "instantiations", out);
	print_count(", ", graphs->updates, graphs->estimated, "update", "updates", out);
	cuda_text__time((double)graphs->making_ns, text);
	fprintf(out, " in %s", text);
}

void cuda_table__graphs(const struct cuda_summary *summary, FILE *out)
{
	char text[CUDA_TEXT_BYTES];
	struct cuda_graphs graphs;

	cuda_graphs__of(summary, &graphs);
	if (!cuda_graphs__are_any(&graphs))
		return;
	fprintf(out, "\nCUDA graphs: ");
	print_making(&graphs, out);
	print_count("; ", graphs.replays, graphs.estimated, "replay", "replays", out);
	cuda_text__rate(cuda_summary__ratio((double)graphs.replays, summary->duration_ns / 1e9), text);
	fprintf(out, ", %s a second", text);
	if (graphs.captures && graphs.replays) {
		cuda_text__rate(cuda_summary__ratio((double)graphs.replays, (double)graphs.captures), text);
		fprintf(out, ", %s for each capture", text);
	}
	print_count("; ", graphs.launches, summary->kind_estimated[SO_CUDA_LAUNCH], "kernel launch", "kernel launches",
		    out);
	fprintf(out, " outside of replays\n");
}
