// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "client/cuda/cuda_cells.h"
#include "client/cuda/cuda_kernel_text.h"

#define PIPE_NAME    140 /* where there is no terminal: names beyond that are folded */
#define OUTER_FRAMES 2
#define INNER_FRAMES 3

static void print_times(const struct cuda_figures *figures, FILE *out)
{
	time_of(figures->average_ns, out);
	time_of(figures->median_ns, out);
	time_of(figures->p99_ns, out);
}

static void print_api(const struct cuda_api_row *row, const struct cuda_summary *summary, const struct cuda_view *view,
		      FILE *out)
{
	const struct cuda_figures *figures = &row->figures;
	unsigned columns = name_columns(view, SHARE_COLUMNS + 7 * TIME_COLUMNS + COUNT_COLUMNS + 8 + 2);

	share_of(cuda_summary__ratio((double)figures->total_ns, (double)summary->total_ns), out);
	time_of((double)figures->total_ns, out);
	calls_of(figures->calls, row->estimated, out);
	print_times(figures, out);
	time_of((double)figures->min_ns, out);
	time_of((double)figures->max_ns, out);
	time_of(figures->stddev_ns, out);
	count(figures->errors - row->not_ready, 8, out);
	fprintf(out, "  %s", row->api);
	if (row->two_libraries) {
		/* Whatever the width, libraries differ in their ends. */
		unsigned used = (unsigned)strlen(row->api) + 3;

		fprintf(out, " (");
		cuda_column__name(*row->library ? row->library : "library not known",
				  columns && columns > used + CUDA_LEAST_NAME ? columns - used
				  : columns                                   ? CUDA_LEAST_NAME
									      : 0,
				  out);
		fputc(')', out);
	}
	fputc('\n', out);
}

void cuda_table__apis(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out)
{
	if (!summary->n_apis)
		return;
	print_head("Calls by API (time on the host, from call to return)",
		   "  Time %  Total Time  Num Calls       Avg       Med       P99       Min       Max    "
		   "StdDev  Errors  Name",
		   out);
	for (size_t i = 0; i < shown(view, summary->n_apis); i++)
		print_api(&summary->apis[i], summary, view, out);
	print_rest(view, summary->n_apis, "API", "APIs", out);
	if (summary->not_ready)
		fprintf(out, "not counted as errors: %" PRIu64 " answers \"not ready\" (%d) of queries\n",
			summary->not_ready, CUDA_NOT_READY);
}

/* "(1024,1,1)" */
static void print_dim3(const uint32_t dim[3], FILE *out)
{
	char text[64];

	snprintf(text, sizeof(text), "(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")", dim[0], dim[1], dim[2]);
	cuda_column__cell(text, 16, out);
}

/* Returns whether its name is shorter than it was. */
static bool print_kernel(const struct cuda_kernel_row *row, const struct cuda_summary *summary,
			 const struct cuda_view *view, FILE *out)
{
	unsigned columns = name_columns(view, 3 * COUNT_COLUMNS + 4 * TIME_COLUMNS + 2 * 16 + 2);
	const struct cuda_figures *figures = &row->figures;
	_cleanup_free_ char *text = NULL;
	bool shortened = false;
	double calls = (double)figures->calls;
	char name[64];

	calls_of(figures->calls, summary->kind_estimated[row->graph ? SO_CUDA_GRAPH_LAUNCH : SO_CUDA_LAUNCH], out);
	print_times(figures, out);
	time_of((double)figures->max_ns, out);
	if (row->graph) {
		for (unsigned i = 0; i < 2; i++)
			cuda_column__cell("-", 16, out);
		for (unsigned i = 0; i < 2; i++)
			cuda_column__cell("-", COUNT_COLUMNS, out);
	} else {
		print_dim3(row->grid, out);
		print_dim3(row->block, out);
		count((uint64_t)((double)figures->blocks / calls + 0.5), COUNT_COLUMNS, out);
		count((uint64_t)((double)figures->threads / calls + 0.5), COUNT_COLUMNS, out);
	}
	fprintf(out, "  ");
	if (row->graph)
		snprintf(name, sizeof(name), "graph (%.40s)", row->api);
	else if (!row->kernel)
		snprintf(name, sizeof(name), "unknown kernel 0x%" PRIx64, row->address);
	if (row->kernel)
		text = cuda_kernel_text__of(row->kernel, columns ? columns : PIPE_NAME, &shortened);
	cuda_column__name(text ? text : row->kernel ? row->kernel : name, columns, out);
	fputc('\n', out);
	return shortened;
}

void cuda_table__kernels(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out)
{
	uint64_t kernels = summary->unknown_kernels, launches = summary->unknown_launches;
	bool shortened = false;

	if (!summary->n_kernels)
		return;
	print_head("Launches by kernel (time on the host to launch it, not its execution; grid and block of "
		   "the last launch)",
		   "  Num Calls       Avg       Med       P99       Max            Grid           Block  Avg "
		   "Blocks Avg Threads  Name",
		   out);
	for (size_t i = 0; i < shown(view, summary->n_kernels); i++)
		shortened |= print_kernel(&summary->kernels[i], summary, view, out);
	print_rest(view, summary->n_kernels, "kernel", "kernels", out);
	if (shortened)
		fprintf(out, "names are shortened: namespaces and parameters, and of long ones template "
			     "arguments; --json has all of them\n");
	if (kernels)
		fprintf(out,
			"%" PRIu64 " launch%s of %" PRIu64
			" kernel%s whose name%s not known, because neither a symbol nor a registration "
			"seen while watching tells %s\n",
			launches, launches == 1 ? "" : "es", kernels, kernels == 1 ? "" : "s",
			kernels == 1 ? " is" : "s are", kernels == 1 ? "it" : "them");
}

/* main (train.py:90) > … > step (train.py:42): both ends of the stack, and of it only Python if there is any. */
static void print_stack(const struct cuda_stack *stack, bool python_only, unsigned columns, FILE *out)
{
	size_t n = 0, at = 0;
	bool left_out = false, begun = false;

	for (size_t i = 0; i < stack->n_frames; i++)
		n += cuda_places__is_python(stack->frames[i]);
	if (!n && python_only)
		return;
	python_only |= n > 0;
	n = n ? n : stack->n_frames;
	for (size_t i = 0; i < stack->n_frames; i++) {
		if (python_only && !cuda_places__is_python(stack->frames[i]))
			continue;
		if (at++ >= OUTER_FRAMES && at + INNER_FRAMES <= n) {
			left_out = true;
			continue;
		}
		fputs(!begun ? "          " : left_out ? " > … > " : " > ", out);
		left_out = false;
		begun = true;
		cuda_column__name(stack->frames[i], columns, out);
	}
	if (begun)
		fputc('\n', out);
}

static void print_wait(const struct cuda_line_row *row, const struct cuda_summary *summary,
		       const struct cuda_view *view, FILE *out)
{
	share_of(cuda_summary__ratio((double)row->total_ns, summary->duration_ns), out);
	time_of((double)row->total_ns, out);
	calls_of(row->calls, row->sampled || summary->kind_estimated[row->kind], out);
	time_of((double)row->total_ns / (double)row->calls, out);
	if (row->event == SO_CUDA_SYNC)
		calls_of(row->needless, row->sampled || summary->kind_estimated[row->kind], out);
	else
		cuda_column__cell("-", COUNT_COLUMNS, out);
	fprintf(out, "  %-24s", row->api);
	fprintf(out, "  ");
	cuda_column__name(row->line, name_columns(view, SHARE_COLUMNS + 2 * TIME_COLUMNS + 2 * COUNT_COLUMNS + 28),
			  out);
	fputc('\n', out);
	if (view->stacks)
		print_stack(row->stack, view->python_only, view->width ? CUDA_LEAST_NAME + 8 : 0, out);
}

void cuda_table__waits(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out)
{
	size_t left = shown(view, summary->n_waits);
	bool sampled = false;

	if (!summary->n_waits)
		return;
	print_head("Waits of the host by source line (share of the recording)",
		   "   Share  Total Time  Num Calls       Avg   Needless  Name                      Line", out);
	for (size_t i = 0; left && i < summary->n_lines; i++) {
		if (!summary->lines[i].waited)
			continue;
		print_wait(&summary->lines[i], summary, view, out);
		sampled |= summary->lines[i].sampled;
		left--;
	}
	print_rest(view, summary->n_waits, "line", "lines", out);
	if (sampled)
		fprintf(out, "~ scaled up from the stacks of some of the calls\n");
}

void cuda_table__copies(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out)
{
	if (!summary->n_copies)
		return;
	print_head("Copies by direction (bytes a second of the recording, and of the time in the calls)",
		   "  Num Calls     Bytes  Avg Size Call Time  B/s Rec.  B/s Call  Direction", out);
	for (size_t i = 0; i < shown(view, summary->n_copies); i++) {
		const struct cuda_copy_row *row = &summary->copies[i];
		double bytes = (double)row->bytes;

		calls_of(row->calls, row->estimated, out);
		size_of(bytes, out);
		size_of(bytes / (double)row->calls, out);
		time_of((double)row->total_ns, out);
		size_of(cuda_summary__ratio(bytes, summary->duration_ns / 1e9), out);
		size_of(cuda_summary__ratio(bytes, (double)row->total_ns / 1e9), out);
		fprintf(out, "  %s\n", *row->direction ? row->direction : "unknown");
	}
	print_rest(view, summary->n_copies, "direction", "directions", out);
}

/* Below 0: memory was freed that had been allocated before the recording began. */
static void signed_size(int64_t bytes, FILE *out)
{
	char text[CUDA_TEXT_BYTES + 1] = "-";

	cuda_text__bytes(fabs((double)bytes), text + 1);
	cuda_column__unit_cell(bytes < 0 ? text : text + 1, SIZE_COLUMNS, out);
}

void cuda_table__sites(const struct cuda_summary *summary, const struct cuda_view *view, FILE *out)
{
	unsigned columns = name_columns(view, 2 * COUNT_COLUMNS + 3 * SIZE_COLUMNS + RATE_COLUMNS + 2);
	bool allocs = cuda_summary__is_estimate(summary, SO_CUDA_ALLOC);
	char rate[CUDA_TEXT_BYTES];

	if (!summary->n_sites)
		return;
	print_head("Memory by source line, since the recording began",
		   "     Allocs      Frees     Bytes   Current      Peak  Allocs/s  Line", out);
	for (size_t i = 0; i < shown(view, summary->n_sites); i++) {
		const struct cuda_allocation *row = &summary->sites[i];

		calls_of(row->allocations, allocs, out);
		calls_of(row->frees, allocs || cuda_summary__is_estimate(summary, SO_CUDA_FREE), out);
		size_of((double)row->bytes, out);
		signed_size(row->current_bytes, out);
		signed_size(row->peak_bytes, out);
		cuda_text__rate(cuda_summary__ratio((double)row->allocations, summary->duration_ns / 1e9), rate);
		cuda_column__cell(rate, RATE_COLUMNS, out);
		fprintf(out, "  ");
		cuda_column__name(row->line, columns, out);
		fprintf(out, "%s\n", row->host ? " (host memory)" : "");
	}
	print_rest(view, summary->n_sites, "line", "lines", out);
}

/* Advice that an earlier finding gave already is not repeated. */
static void print_advice(const struct cuda_findings *findings, size_t i, unsigned columns, FILE *out)
{
	const char *advice = findings->list[i].advice;

	fprintf(out, "        try: ");
	for (size_t k = 0; k < i; k++)
		if (findings->list[k].advice == advice) {
			fprintf(out, "as for %zu\n", k + 1);
			return;
		}
	cuda_column__paragraph(advice, 13, columns, out);
}

static void print_finding(const struct cuda_findings *findings, size_t i, const struct cuda_view *view, FILE *out)
{
	const struct cuda_finding *finding = &findings->list[i];
	const char *title = cuda_findings__title(finding->kind);
	unsigned columns = view->width;
	char share[CUDA_TEXT_BYTES];

	cuda_text__share(finding->share, share);
	fprintf(out, "%2zu. ", i + 1);
	cuda_column__cell(share, SHARE_COLUMNS - 1, out);
	fprintf(out, "  %s", title);
	if (finding->line) {
		fprintf(out, ": ");
		cuda_column__name(finding->line, name_columns(view, 15 + (unsigned)strlen(title)), out);
	}
	fprintf(out, "\n             ");
	cuda_column__paragraph(finding->measured, 13, columns, out);
	print_advice(findings, i, columns, out);
}

void cuda_table__findings(const struct cuda_findings *findings, const struct cuda_view *view, FILE *out)
{
	if (!findings->n) {
		fprintf(out, "\nFindings: nothing stands out.\n");
		return;
	}
	fprintf(out, "\nFindings, by their share of the recording\n");
	for (size_t i = 0; i < findings->n; i++)
		print_finding(findings, i, view, out);
}
