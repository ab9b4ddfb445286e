// SPDX-License-Identifier: GPL-2.0-or-later
/* The figures of the tables and the findings. What is not known is null. */
#include "cuda/cuda_json.h"

#include <errno.h>
#include <math.h>

#include "cuda/cuda_codes.h"
#include "cuda/cuda_graphs.h"
#include "cuda/cuda_host.h"
#include "stakeout/cuda_names.h"

static json_t *number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

/* Not rows' figures, but sums over them, which are INT64_MAX at most (cuda_stats.h). */
static json_t *count(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static json_t *text(const char *value)
{
	return value && *value ? json_string(value) : json_null();
}

/* The list with one more element, or NULL: one of them is, or no memory. Both are taken over. */
static json_t *with(json_t *array, json_t *element)
{
	if (!json_array_append_new(array, element))
		return array;
	json_decref(array);
	return NULL;
}

/* A list of one object for each row. */
typedef json_t *row_json(const struct cuda_summary *summary, size_t i);

static json_t *list(const struct cuda_summary *summary, size_t n, row_json *row)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < n; i++)
		array = with(array, row(summary, i));
	return array;
}

/* Adds what is a row's own to the figures that all have. */
static json_t *with_figures(const struct cuda_figures *figures, json_t *own)
{
	json_t *both = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "calls", count(figures->calls),
				 "errors", count(figures->errors), "total_ns", count(figures->total_ns), "min_ns",
				 count(figures->min_ns), "max_ns", count(figures->max_ns), "avg_ns",
				 number(figures->average_ns), "median_ns", number(figures->median_ns), "p99_ns",
				 number(figures->p99_ns), "stddev_ns", number(figures->stddev_ns));

	if (!own || !both || json_object_update(both, own)) {
		json_decref(both);
		both = NULL;
	}
	json_decref(own);
	return both;
}

static json_t *api_json(const struct cuda_summary *summary, size_t i)
{
	const struct cuda_api_row *row = &summary->apis[i];
	double share = cuda_summary__ratio((double)row->figures.total_ns, (double)summary->total_ns);

	return with_figures(&row->figures,
			    json_pack("{s:o, s:s, s:o, s:b, s:o, s:o, s:o}", "api", text(row->api), "kind",
				      cuda_names__does_word(row->kind), "library", text(row->library), "estimated",
				      (int)row->estimated, "calls_interval", number(row->interval), "time_share",
				      number(share), "not_ready", count(row->not_ready)));
}

static json_t *dim3_json(const uint32_t dim[3])
{
	return json_pack("[I, I, I]", (json_int_t)dim[0], (json_int_t)dim[1], (json_int_t)dim[2]);
}

static json_t *kernel_json(const struct cuda_summary *summary, size_t i)
{
	const struct cuda_kernel_row *row = &summary->kernels[i];
	double calls = (double)row->figures.calls;
	bool unknown = !row->kernel && !row->graph;
	char address[32];

	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)row->address);
	return with_figures(&row->figures,
			    json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "kernel", text(row->kernel), "graph",
				      row->graph, "unknown_address", text(unknown ? address : NULL), "pid",
				      unknown ? json_integer(row->pid) : json_null(), "grid",
				      row->graph ? json_null() : dim3_json(row->grid), "block",
				      row->graph ? json_null() : dim3_json(row->block), "avg_blocks",
				      row->graph ? json_null() : number((double)row->figures.blocks / calls),
				      "avg_threads",
				      row->graph ? json_null() : number((double)row->figures.threads / calls)));
}

static json_t *stack_json(const struct cuda_stack *stack)
{
	json_t *frames = json_array();

	for (size_t i = 0; frames && i < stack->n_frames; i++)
		frames = with(frames, json_string(stack->frames[i]));
	return frames;
}

static json_t *wait_json(const struct cuda_summary *summary, size_t i)
{
	const struct cuda_line_row *row = &summary->lines[i];
	bool may_be_needless = row->event == SO_CUDA_SYNC || row->event == SO_CUDA_WAIT;
	double total_ns = (double)row->total_ns;

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "event",
			 cuda_names__does_word(row->event), "api", text(row->api), "line", text(row->line), "calls",
			 count(row->calls), "total_ns", count(row->total_ns), "bytes", count(row->bytes), "avg_ns",
			 number(total_ns / (double)row->calls), "share",
			 number(cuda_summary__ratio(total_ns, summary->duration_ns)), "needless",
			 may_be_needless ? count(row->needless) : json_null(), "needless_ns",
			 may_be_needless ? count(row->needless_ns) : json_null(), "stacks", count(row->stacks),
			 "sampled", row->sampled, "stack", stack_json(row->stack));
}

/* Lines where the host waited, or those that make a stream wait. */
static json_t *waits_json(const struct cuda_summary *summary, bool streams)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < summary->n_lines; i++)
		if (streams ? summary->lines[i].event == SO_CUDA_WAIT : summary->lines[i].waited)
			array = with(array, wait_json(summary, i));
	return array;
}

static json_t *graphs_json(const struct cuda_summary *summary)
{
	struct cuda_graphs graphs;

	cuda_graphs__of(summary, &graphs);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "captures", count(graphs.captures),
			 "instantiations", count(graphs.instantiations), "updates", count(graphs.updates), "making_ns",
			 count(graphs.making_ns), "replays", count(graphs.replays), "kernel_launches",
			 count(graphs.launches), "estimated", (int)graphs.estimated, "line", text(graphs.line));
}

static json_t *copy_json(const struct cuda_summary *summary, size_t i)
{
	const struct cuda_copy_row *row = &summary->copies[i];
	double bytes = (double)row->bytes;

	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "direction", text(row->direction), "estimated",
			 (int)row->estimated, "calls", count(row->calls), "total_ns", count(row->total_ns), "bytes",
			 count(row->bytes), "avg_bytes", number(bytes / (double)row->calls), "bytes_per_s",
			 number(cuda_summary__ratio(bytes, summary->duration_ns / 1e9)), "bytes_per_call_s",
			 number(cuda_summary__ratio(bytes, (double)row->total_ns / 1e9)));
}

static json_t *site_json(const struct cuda_summary *summary, size_t i)
{
	const struct cuda_allocation *row = &summary->sites[i];
	double per_s = cuda_summary__ratio((double)row->allocations, summary->duration_ns / 1e9);

	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:I, s:I, s:o}", "line", text(row->line), "host", row->host,
			 "allocations", count(row->allocations), "frees", count(row->frees), "bytes", count(row->bytes),
			 "current_bytes", (json_int_t)row->current_bytes, "peak_bytes", (json_int_t)row->peak_bytes,
			 "allocations_per_s", number(per_s));
}

static json_t *error_json(const struct cuda_summary *summary, size_t i)
{
	const struct cuda_error_row *row = &summary->errors[i];

	return json_pack("{s:o, s:o, s:I, s:o, s:o}", "api", text(row->api), "library", text(row->library), "code",
			 (json_int_t)row->code, "name", text(cuda_codes__name(row->api, row->code)), "count",
			 count(row->count));
}

static json_t *host_json(const struct cuda_report *report, const struct cuda_summary *summary)
{
	json_t *object = json_object();
	struct cuda_host host;
	int failed = 0;

	cuda_host__of(report, summary, &host);
	for (unsigned part = 0; part < CUDA_HOST_PART_COUNT; part++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_ns", cuda_host__word(part));
		failed |= json_object_set_new(object, key, number(host.ns[part]));
	}
	failed |= json_object_set_new(object, "whole_ns", number(host.whole_ns));
	failed |= json_object_set_new(object, "leading", text(cuda_host__word(host.leading)));
	failed |= json_object_set_new(object, "gpu_utilisation", number(host.utilisation));
	failed |= json_object_set_new(object, "bottleneck",
				      isnan(host.utilisation) ? json_null() : json_boolean(host.bottleneck));
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *finding_json(const struct cuda_finding *finding)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "finding", cuda_findings__word(finding->kind),
			 "title", cuda_findings__title(finding->kind), "share", number(finding->share), "line",
			 text(finding->line), "count", count(finding->count), "total_ns", number(finding->total_ns),
			 "measured", text(finding->measured), "try", text(finding->advice));
}

static json_t *findings_json(const struct cuda_findings *findings)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < findings->n; i++)
		array = with(array, finding_json(&findings->list[i]));
	return array;
}

json_t *cuda_json__summary(const struct cuda_report *report, const struct cuda_summary *summary,
			   const struct cuda_findings *findings)
{
	/* A NULL among them makes the whole NULL, and the others are given back. */
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "calls", count(summary->calls), "calls_interval", number(cuda_report__interval(report)),
			 "failed", count(summary->failed), "not_ready", count(summary->not_ready), "total_ns",
			 count(summary->total_ns), "unknown_kernels", count(summary->unknown_kernels),
			 "unknown_launches", count(summary->unknown_launches), "host", host_json(report, summary),
			 "by_api", list(summary, summary->n_apis, api_json), "by_kernel",
			 list(summary, summary->n_kernels, kernel_json), "waits", waits_json(summary, false),
			 "stream_waits", waits_json(summary, true), "graphs", graphs_json(summary), "copies",
			 list(summary, summary->n_copies, copy_json), "allocations",
			 list(summary, summary->n_sites, site_json), "errors",
			 list(summary, summary->n_errors, error_json), "findings", findings_json(findings));
}

int cuda_json__add_summary(json_t *answer, struct so_error *err)
{
	_cleanup_(cuda_report) struct cuda_report *report = NULL;
	_cleanup_(cuda_summary) struct cuda_summary *summary = NULL;
	_cleanup_(cuda_findings) struct cuda_findings *findings = NULL;
	int ret = cuda_report__read(answer, &report, err);

	if (ret)
		return ret;
	ret = cuda_summary__new(report, false, &summary);
	ret = ret ?: cuda_findings__new(report, summary, &findings);
	/* A NULL is refused. */
	if (ret || json_object_set_new(answer, "summary", cuda_json__summary(report, summary, findings)))
		return so_err(err, -ENOMEM, "out of memory");
	return 0;
}
