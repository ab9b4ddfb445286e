// SPDX-License-Identifier: GPL-2.0-or-later
/* The head of `stakeout cuda`: what was watched, what that cost, what is missing, and how busy the GPU was. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_table.h"
#include "client/cuda/cuda_column.h"
#include "cuda/cuda_text.h"
#include "client/render/lines_missing.h"
#include "client/render/render.h"
#include "stakeout/cleanup.h"
#include "stakeout/cuda_abi.h"
#include "stakeout/cuda_names.h"

/* A call that is still going on after so long is worth a line. */
#define LONG_CALL_NS 1000000000u

static void print_target(const struct cuda_report *report, const struct cuda_summary *summary, FILE *out)
{
	fprintf(out, "Process %" PRId64, report->pid);
	if (*report->comm)
		fprintf(out, " (%s)", report->comm);
	fprintf(out, ": %s%" PRIu64 " CUDA call%s in ", report->estimated ? "~" : "", summary->calls,
		plural((int64_t)summary->calls));
	if (report->duration_s > 0)
		fprintf(out, "%.1f s", report->duration_s);
	else
		fprintf(out, "a time " NOT_MEASURED);
	if (report->cpu_s > 0)
		fprintf(out, " (%.*f CPU s)", report->cpu_s < 100 ? 2 : 0, report->cpu_s);
	fprintf(out, ", %" PRIu64 " failed\n", summary->failed);
}

/*
 * "a step (of 292): 826 calls; 680 launch, 12.3 ms; 1 sync, 4.50 ms; 3 copy, 62.0 µs". Steps of Python are told only
 * once the function was seen, so it goes by how many there are a second.
 */
static void print_steps(const struct cuda_report *report, const struct cuda_summary *summary, FILE *out)
{
	double ns[SO_CUDA_KIND_COUNT] = { 0 }, steps, calls;
	char time[CUDA_TEXT_BYTES];

	if (report->steps < 2 || !(report->steps_s > 0))
		return;
	steps = (double)(report->steps - 1) / report->steps_s * report->duration_s;
	fprintf(out, "a step (of %" PRIu64 "): %.4g calls", report->steps, (double)summary->calls / steps);
	for (enum so_cuda_kind kind = 0; kind < SO_CUDA_KIND_COUNT; kind++)
		ns[so_cuda_kind__does(kind)] += (double)summary->kind_ns[kind];
	for (enum so_cuda_kind does = 0; does < SO_CUDA_KIND_COUNT; does++) {
		calls = (double)cuda_summary__calls(summary, does);
		if (!(calls > 0))
			continue;
		cuda_text__time(ns[does] / steps, time);
		fprintf(out, "; %.3g %s, %s", calls / steps, cuda_names__does_word(does), time);
	}
	fputc('\n', out);
}

/* Of the kinds that were called. */
static void print_stack_periods(const struct cuda_watching *watching, const struct cuda_summary *summary, FILE *out)
{
	const char *before = "source lines: from the stack of one ";
	char time[CUDA_TEXT_BYTES];
	uint64_t time_ns = 0;

	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++) {
		if (watching->stack_period[kind] < 2 || !summary->kind_calls[kind])
			continue;
		fprintf(out, "%s%s in %" PRIu64, before, cuda_names__kind_word(kind), watching->stack_period[kind]);
		before = ", one ";
		if (watching->stack_time_ns[kind] > time_ns)
			time_ns = watching->stack_time_ns[kind];
	}
	cuda_text__time((double)time_ns, time);
	if (time_ns)
		fprintf(out, "; more of long calls, and all of %s or more", time);
	if (before[0] == ',')
		fputc('\n', out);
}

/* Whole percents, but one digit behind the point of less than one. */
static void print_percent(double percent, FILE *out)
{
	fprintf(out, "%.*f %%", percent < 1, percent < 0.1 ? 0.1 : percent);
}

/* Which calls are not each timed, by rung. */
static void print_rungs(const struct cuda_watching *watching, FILE *out)
{
	static const struct {
		const char *rung, *words;
	} rungs[] = { { "counted", "counted, some of them timed" },
		      { "windowed", "in windows alone" },
		      { "not-watched", "not watched, for want of budget" } };

	for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++) {
		const char *before = ": ";

		for (size_t k = 0; k < watching->n_rungs; k++) {
			if (strcmp(watching->rungs[k].rung, rungs[i].rung))
				continue;
			fprintf(out, "%s%s%s", before[0] == ':' ? rungs[i].words : "", before, watching->rungs[k].unit);
			before = ", ";
		}
		if (before[0] == ',')
			fputc('\n', out);
	}
}

static void print_within(double interval, uint64_t calls, FILE *out)
{
	double percent = calls ? 100 * interval / (double)calls : NAN;

	if (isnan(percent) || percent >= 100) {
		fprintf(out, "uncertain");
	} else {
		fprintf(out, "within ");
		print_percent(percent, out);
	}
}

static void print_intervals(const struct cuda_report *report, const struct cuda_summary *summary, FILE *out)
{
	const char *before = "by API: ";

	fprintf(out, "counts with ~ are estimates, of %.0f windows; all calls: ", report->estimate.windows);
	print_within(cuda_report__interval(report), summary->calls, out);
	fprintf(out, " (95 %%)\n");
	if (report->estimate.windows < 2)
		fprintf(out, "too few windows to know how near they are\n");
	else if (isnan(cuda_report__interval(report)))
		fprintf(out, "they are lower bounds: the probes took most of the time in windows\n");
	for (size_t i = 0; report->apis_known && i < summary->n_apis; i++) {
		const struct cuda_api_row *row = &summary->apis[i];

		if (!row->estimated)
			continue;
		fprintf(out, "%s%s ", before, row->api);
		print_within(row->interval, row->figures.calls, out);
		before = ", ";
	}
	if (before[0] == ',')
		fputc('\n', out);
}

static void print_cost(const struct cuda_report *report, const struct cuda_summary *summary, FILE *out)
{
	const struct cuda_watching *watching = &report->watching;
	char each[CUDA_TEXT_BYTES], missing[LINES_MISSING_TEXT_BYTES];

	cuda_text__time(watching->cost_ns_per_call, each);
	fprintf(out, "cost: ");
	if (isnan(watching->overhead_percent))
		fprintf(out, NOT_MEASURED);
	else
		fprintf(out, "%.2f %% of the target's time", watching->overhead_percent);
	if (!isnan(watching->budget_percent))
		fprintf(out, " (budget %.3g %%)", watching->budget_percent);
	if (!isnan(watching->cost_ns_per_call))
		fprintf(out, ", %s a call", each);
	if (*watching->state)
		fprintf(out, "; state %s", watching->state);
	fputc('\n', out);
	print_rungs(watching, out);
	print_stack_periods(watching, summary, out);
	if (report->lines_missing)
		fprintf(out, "%s\n", lines_missing__text(report->lines_missing, missing));
	if (report->estimated)
		print_intervals(report, summary, out);
}

/* What is said of a file, "PATH: …"; of something else NULL. */
static const char *said_of_file(const char *problem)
{
	const char *said = strstr(problem, ": ");

	return said && (*problem == '/' || strstr(problem, ".so")) ? said : NULL;
}

/* Of several files in one line, by their names: PyTorch has nine with a runtime of their own. */
static void print_problem(const struct cuda_report *report, size_t i, const struct cuda_view *view, FILE *out)
{
	const char *problem = *report->problems[i] ? report->problems[i] : "-", *said = said_of_file(problem);
	_cleanup_free_ char *text = NULL;
	size_t length, others = 0;
	FILE *memory;

	for (size_t j = 0; said && j < report->n_problems; j++) {
		const char *other = j == i ? NULL : said_of_file(report->problems[j]);

		if (!other || strcmp(other, said) != 0)
			continue;
		if (j < i)
			return;
		others++;
	}
	fprintf(out, "problem: ");
	memory = others ? open_memstream(&text, &length) : NULL;
	for (size_t j = i; memory && j < report->n_problems; j++) {
		const char *path = report->problems[j], *end = said_of_file(path), *name = path;

		if (!end || strcmp(end, said) != 0)
			continue;
		for (const char *c = path; c < end; c++)
			name = *c == '/' ? c + 1 : name;
		fprintf(memory, "%s%.*s", j > i ? ", " : "", (int)(end - name), name);
	}
	if (memory) {
		fputs(said, memory);
		if (fclose(memory)) {
			free(text);
			text = NULL;
		}
	}
	cuda_column__paragraph(text ?: problem, 9, view->width, out);
}

static void print_missing(const struct cuda_report *report, const struct cuda_view *view, FILE *out)
{
	for (size_t i = 0; i < report->n_losses; i++)
		fprintf(out, "%s %s %" PRIu64 "%s", i ? "," : "lost:", report->losses[i].word, report->losses[i].count,
			i + 1 == report->n_losses ? "\n" : "");
	for (size_t i = 0; i < report->n_problems; i++)
		print_problem(report, i, view, out);
	for (size_t i = 0; i < report->n_in_progress; i++) {
		const struct so_cuda_in_progress_row *call = &report->in_progress[i];
		char since[CUDA_TEXT_BYTES];

		cuda_text__time((double)call->since_ns, since);
		if (call->since_ns >= LONG_CALL_NS)
			fprintf(out, "not returned yet, so not counted: %s in thread %" PRId64 ", for %s so far\n",
				call->api, call->tid, since);
	}
}

static void print_device(const struct cuda_report *report, const struct so_cuda_device_row *device, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	fprintf(out, "GPU %" PRId64 " %s: ", device->index, *device->name ? device->name : "(no name)");
	if (!device->samples || isnan(device->utilisation_percent))
		fprintf(out, "utilisation " NOT_MEASURED);
	else
		fprintf(out, "utilisation %.1f %%", device->utilisation_percent);
	if (!isnan(device->process_utilisation_percent))
		fprintf(out, " (this process %.1f %%)", device->process_utilisation_percent);
	if (!isnan(device->memory_used_bytes)) {
		cuda_text__bytes(device->memory_used_bytes, text);
		fprintf(out, ", memory %s", text);
	}
	if (!isnan(device->memory_used_bytes) && !isnan(device->memory_total_bytes)) {
		cuda_text__bytes(device->memory_total_bytes, text);
		fprintf(out, " of %s", text);
	}
	if (!isnan(device->process_memory_bytes)) {
		cuda_text__bytes(device->process_memory_bytes, text);
		fprintf(out, " (this process %s)", text);
	}
	fputc('\n', out);
}

static void print_bottleneck(const struct cuda_host *host, FILE *out)
{
	char utilisation[CUDA_TEXT_BYTES], share[CUDA_TEXT_BYTES];
	const char *before = "the rest of its time: ";

	cuda_text__share(host->utilisation, utilisation);
	cuda_text__share(cuda_summary__ratio(host->ns[host->leading], host->whole_ns), share);
	fprintf(out, "the host is the bottleneck, GPU utilisation %s: most of the host's time goes %s, %s%s\n",
		utilisation, cuda_host__words(host->leading), host->leading == CUDA_HOST_OUTSIDE ? "at least " : "",
		share);
	for (unsigned part = 0; part < CUDA_HOST_PART_COUNT; part++) {
		if (part == host->leading || !(host->ns[part] > 0))
			continue;
		cuda_text__share(cuda_summary__ratio(host->ns[part], host->whole_ns), share);
		fprintf(out, "%s%s %s", before, cuda_host__word(part), share);
		before = ", ";
	}
	if (before[0] == ',')
		fputc('\n', out);
}

static void print_gpu(const struct cuda_report *report, const struct cuda_summary *summary, FILE *out)
{
	struct cuda_host host;

	if (!report->driver) {
		fprintf(out, "GPU: " NOT_MEASURED "%s%s\n", *report->gpu_problem ? ": " : "", report->gpu_problem);
		return;
	}
	cuda_host__of(report, summary, &host);
	for (size_t i = 0; i < report->n_devices; i++)
		if (!host.n_devices || cuda_host__uses(report, &report->devices[i]))
			print_device(report, &report->devices[i], out);
	if (!report->n_devices)
		fprintf(out, "GPU: none\n");
	if (host.bottleneck)
		print_bottleneck(&host, out);
}

/* What "not available" means, and what to do. */
static void print_absent(const struct cuda_report *report, FILE *out)
{
	fprintf(out,
		"Process %" PRId64 "%s%s%s: CUDA is not loaded in this process.\n"
		"Neither libcuda nor libcudart is mapped, and no program file that holds the runtime: it has "
		"made no CUDA "
		"call.\n"
		"Is it the process that computes (a launcher such as torchrun, or a shell, has children that "
		"do)? Or has it "
		"not come to its\n"
		"first CUDA call? Watching goes on while it is attached: ask again then.\n",
		report->pid, *report->comm ? " (" : "", report->comm, *report->comm ? ")" : "");
}

void cuda_table__header(const struct cuda_report *report, const struct cuda_summary *summary,
			const struct cuda_view *view, FILE *out)
{
	if (!report->available) {
		print_absent(report, out);
		print_missing(report, view, out);
		return;
	}
	print_target(report, summary, out);
	print_steps(report, summary, out);
	print_cost(report, summary, out);
	print_missing(report, view, out);
	print_gpu(report, summary, out);
	if (!summary->calls)
		fprintf(out, "No CUDA call returned meanwhile: the process computed on the CPU, waited, or is "
			     "in a long "
			     "call.\n");
}
