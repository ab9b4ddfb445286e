// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_summary_parts.h"

double cuda_summary__ratio(double part, double whole)
{
	return whole > 0 ? part / whole : NAN;
}

/* A run of calls that belong to one row. */
struct run {
	const struct cuda_call *const *calls;
	size_t n;
};

typedef int call_order(const void *a, const void *b);

static void add_run(struct cuda_stats *stats, const struct run *run)
{
	memset(stats, 0, sizeof(*stats));
	for (size_t i = 0; i < run->n; i++)
		cuda_stats__add(stats, run->calls[i]);
}

/* The calls that do this (SO_CUDA_KIND_COUNT: all), sorted. Malloc'ed; NULL: out of memory. */
static const struct cuda_call **sort_calls(const struct cuda_report *report, enum so_cuda_kind action,
					   call_order *order, size_t *n)
{
	const struct cuda_call **calls = calloc(report->n_calls + 1, sizeof(struct cuda_call *));

	*n = 0;
	for (size_t i = 0; calls && i < report->n_calls; i++)
		if (action == SO_CUDA_KIND_COUNT || so_cuda_kind__action(report->calls[i].kind) == action)
			calls[(*n)++] = &report->calls[i];
	if (calls)
		qsort(calls, *n, sizeof(*calls), order);
	return calls;
}

/* The calls from the first one on that are equal in this order. */
static struct run next_run(const struct cuda_call *const *calls, size_t n, call_order *order)
{
	struct run run = { calls, 1 };

	while (run.n < n && !order(&calls[0], &calls[run.n]))
		run.n++;
	return run;
}

static int by_api(const void *a, const void *b)
{
	const struct cuda_call *x = *(const struct cuda_call *const *)a, *y = *(const struct cuda_call *const *)b;

	return strcmp(x->api, y->api) ?: strcmp(cuda_summary__path(x->library), cuda_summary__path(y->library));
}

static int compare_api_names(const void *a, const void *b)
{
	const struct cuda_api_row *x = a, *y = b;

	return strcmp(x->api, y->api) ?: strcmp(x->library, y->library);
}

static int compare_figures(const struct cuda_figures *x, const struct cuda_figures *y)
{
	return compare_numbers(y->total_ns, x->total_ns) ?: compare_numbers(y->calls, x->calls);
}

static int compare_apis(const void *a, const void *b)
{
	const struct cuda_api_row *x = a, *y = b;

	return compare_figures(&x->figures, &y->figures) ?: compare_api_names(a, b);
}

/* Answers that the work is not done are no errors; the rows are sorted by name. */
static void take_not_ready(struct cuda_summary *summary, const struct cuda_report *report)
{
	for (size_t i = 0; i < report->n_errors; i++) {
		const struct cuda_error *error = &report->errors[i];
		struct cuda_api_row key = { .api = error->api, .library = cuda_summary__path(error->library) };
		struct cuda_api_row *row;
		uint64_t n;

		if (error->code != CUDA_NOT_READY || !summary->n_apis)
			continue;
		row = bsearch(&key, summary->apis, summary->n_apis, sizeof(key), compare_api_names);
		if (!row)
			continue;
		n = row->figures.errors - row->not_ready;
		row->not_ready += error->count < n ? error->count : n;
	}
	for (size_t i = 0; i < summary->n_apis; i++)
		summary->not_ready = cuda_stats__sum(summary->not_ready, summary->apis[i].not_ready);
}

static void add_totals(struct cuda_summary *summary, const struct cuda_api_row *row)
{
	const struct cuda_figures *figures = &row->figures;

	summary->calls = cuda_stats__sum(summary->calls, figures->calls);
	summary->failed = cuda_stats__sum(summary->failed, figures->errors);
	summary->total_ns = cuda_stats__sum(summary->total_ns, figures->total_ns);
	summary->kind_calls[row->kind] = cuda_stats__sum(summary->kind_calls[row->kind], figures->calls);
	summary->kind_ns[row->kind] = cuda_stats__sum(summary->kind_ns[row->kind], figures->total_ns);
}

static int add_apis(struct cuda_summary *summary, const struct cuda_report *report, struct cuda_stats *stats)
{
	size_t n;
	_cleanup_free_ const struct cuda_call **calls = sort_calls(report, SO_CUDA_KIND_COUNT, by_api, &n);

	summary->apis = calls ? calloc(n + 1, sizeof(*summary->apis)) : NULL;
	if (!summary->apis)
		return -ENOMEM;
	for (size_t i = 0; i < n;) {
		struct run run = next_run(calls + i, n - i, by_api);
		struct cuda_api_row *row = &summary->apis[summary->n_apis++];

		add_run(stats, &run);
		row->api = calls[i]->api;
		row->library = cuda_summary__path(calls[i]->library);
		row->kind = calls[i]->kind;
		cuda_stats__figures(stats, &row->figures);
		if (row > summary->apis && !strcmp(row->api, row[-1].api))
			row->two_libraries = row[-1].two_libraries = true;
		add_totals(summary, row);
		i += run.n;
	}
	take_not_ready(summary, report);
	summary->failed -= summary->not_ready < summary->failed ? summary->not_ready : summary->failed;
	qsort(summary->apis, summary->n_apis, sizeof(*summary->apis), compare_apis);
	return 0;
}

/* Known kernels by name, then graphs by API, then the unknown by process and address. */
static int by_kernel(const void *a, const void *b)
{
	const struct cuda_call *x = *(const struct cuda_call *const *)a, *y = *(const struct cuda_call *const *)b;

	if (!x->kernel != !y->kernel)
		return x->kernel ? -1 : 1;
	if (x->kernel)
		return strcmp(x->kernel, y->kernel);
	if (!x->kernel_address != !y->kernel_address)
		return x->kernel_address ? 1 : -1;
	if (!x->kernel_address)
		return strcmp(x->api, y->api);
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return compare_numbers(x->kernel_address, y->kernel_address);
}

static int compare_kernels(const void *a, const void *b)
{
	const struct cuda_kernel_row *x = a, *y = b;
	int ret = compare_figures(&x->figures, &y->figures);

	if (ret || !x->kernel || !y->kernel)
		return ret ?: compare_numbers(x->address, y->address);
	return strcmp(x->kernel, y->kernel);
}

static void fill_kernel(struct cuda_kernel_row *row, const struct run *run)
{
	const struct cuda_call *most = run->calls[0];

	for (size_t i = 1; i < run->n; i++)
		if (run->calls[i]->calls > most->calls)
			most = run->calls[i];
	row->kernel = most->kernel;
	row->graph = !most->kernel && !most->kernel_address && strstr(most->api, "Graph");
	row->api = most->api;
	row->address = most->kernel_address;
	row->pid = most->pid;
	memcpy(row->grid, most->grid, sizeof(row->grid));
	memcpy(row->block, most->block, sizeof(row->block));
}

static int add_kernels(struct cuda_summary *summary, const struct cuda_report *report, struct cuda_stats *stats)
{
	size_t n;
	_cleanup_free_ const struct cuda_call **calls = sort_calls(report, SO_CUDA_LAUNCH, by_kernel, &n);

	summary->kernels = calls ? calloc(n + 1, sizeof(*summary->kernels)) : NULL;
	if (!summary->kernels)
		return -ENOMEM;
	for (size_t i = 0; i < n;) {
		struct run run = next_run(calls + i, n - i, by_kernel);
		struct cuda_kernel_row *row = &summary->kernels[summary->n_kernels++];

		add_run(stats, &run);
		fill_kernel(row, &run);
		cuda_stats__figures(stats, &row->figures);
		for (size_t k = 0; !row->graph && k < run.n; k++)
			cuda_stats__add(summary->launches, run.calls[k]);
		if (!row->kernel && !row->graph) {
			summary->unknown_kernels++;
			summary->unknown_launches = cuda_stats__sum(summary->unknown_launches, row->figures.calls);
		}
		i += run.n;
	}
	qsort(summary->kernels, summary->n_kernels, sizeof(*summary->kernels), compare_kernels);
	return 0;
}

static int by_direction(const void *a, const void *b)
{
	const struct cuda_call *x = *(const struct cuda_call *const *)a, *y = *(const struct cuda_call *const *)b;

	return strcmp(x->direction, y->direction);
}

static int compare_copies(const void *a, const void *b)
{
	const struct cuda_copy_row *x = a, *y = b;

	return compare_numbers(y->total_ns, x->total_ns) ?: strcmp(x->direction, y->direction);
}

static int add_copies(struct cuda_summary *summary, const struct cuda_report *report)
{
	size_t n;
	_cleanup_free_ const struct cuda_call **calls = sort_calls(report, SO_CUDA_COPY, by_direction, &n);

	summary->copies = calls ? calloc(n + 1, sizeof(*summary->copies)) : NULL;
	if (!summary->copies)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct cuda_copy_row *row = &summary->copies[summary->n_copies];

		if (i && !strcmp(calls[i]->direction, calls[i - 1]->direction))
			row--;
		else
			summary->n_copies++;
		row->direction = calls[i]->direction;
		row->calls = cuda_stats__sum(row->calls, calls[i]->calls);
		row->total_ns = cuda_stats__sum(row->total_ns, calls[i]->total_ns);
		row->bytes = cuda_stats__sum(row->bytes, calls[i]->bytes);
		row->estimated |= cuda_report__is_api_estimate(report, calls[i]->api);
	}
	qsort(summary->copies, summary->n_copies, sizeof(*summary->copies), compare_copies);
	return 0;
}

static int by_process(const void *a, const void *b)
{
	const struct cuda_call *x = *(const struct cuda_call *const *)a, *y = *(const struct cuda_call *const *)b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int add_outside(struct cuda_summary *summary, const struct cuda_report *report)
{
	size_t n;
	_cleanup_free_ const struct cuda_call **calls = sort_calls(report, SO_CUDA_KIND_COUNT, by_process, &n);
	double outside = 0;

	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; i < n;) {
		struct run run = next_run(calls + i, n - i, by_process);
		double inside = 0;

		for (size_t k = 0; k < run.n; k++)
			inside += (double)run.calls[k]->total_ns;
		outside += fmax(0, summary->duration_ns - inside);
		summary->n_processes++;
		i += run.n;
	}
	summary->outside_ns = isnan(summary->duration_ns) ? NAN : outside;
	return 0;
}

static int add_all(struct cuda_summary *summary, const struct cuda_report *report, bool python_only)
{
	_cleanup_free_ struct cuda_stats *stats = malloc(sizeof(*stats));
	int ret;

	summary->launches = calloc(1, sizeof(*summary->launches));
	if (!stats || !summary->launches)
		return -ENOMEM;
	summary->duration_ns = report->duration_s > 0 ? report->duration_s * 1e9 : NAN;
	ret = add_apis(summary, report, stats);
	ret = ret ?: add_kernels(summary, report, stats);
	ret = ret ?: add_copies(summary, report);
	ret = ret ?: add_outside(summary, report);
	ret = ret ?: cuda_summary__add_lines(summary, report, python_only);
	ret = ret ?: cuda_summary__add_sites(summary, report, python_only);
	return ret ?: cuda_summary__add_errors(summary, report);
}

int cuda_summary__new(const struct cuda_report *report, bool python_only, struct cuda_summary **out)
{
	_cleanup_(cuda_summary) struct cuda_summary *summary = calloc(1, sizeof(*summary));
	int ret = summary ? add_all(summary, report, python_only) : -ENOMEM;

	for (size_t i = 0; !ret && i < summary->n_apis; i++) {
		summary->apis[i].estimated = cuda_report__is_api_estimate(report, summary->apis[i].api);
		summary->apis[i].interval = cuda_report__api_interval(report, summary->apis[i].api);
	}
	for (unsigned kind = 0; !ret && kind <= SO_CUDA_KIND_COUNT; kind++)
		summary->kind_estimated[kind] = cuda_report__is_estimate(report, kind);
	if (!ret)
		*out = TAKE_PTR(summary);
	return ret;
}

uint64_t cuda_summary__calls(const struct cuda_summary *summary, enum so_cuda_kind does)
{
	uint64_t calls = 0;

	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++)
		if (so_cuda_kind__does(kind) == does)
			calls = cuda_stats__sum(calls, summary->kind_calls[kind]);
	return calls;
}

bool cuda_summary__is_estimate(const struct cuda_summary *summary, enum so_cuda_kind does)
{
	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++)
		if (so_cuda_kind__does(kind) == does && summary->kind_estimated[kind])
			return true;
	return false;
}

void cuda_summary__free(struct cuda_summary *summary)
{
	if (!summary)
		return;
	free(summary->apis);
	free(summary->kernels);
	free(summary->lines);
	free(summary->copies);
	free(summary->sites);
	free(summary->errors);
	free(summary->launches);
	free(summary);
}
