// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_findings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_advice.h"
#include "cuda/cuda_codes.h"
#include "cuda/cuda_search.h"
#include "cuda/cuda_streams.h"
#include "cuda/cuda_text.h"
#include "stakeout/cuda_abi.h"

/* Of the recording. What takes less is within what two runs of a training differ by anyway. */
#define NOTABLE_SHARE 0.01
/* Failures are listed by call and code; a program that fails in more ways has one cause for them. */
#define MOST_ERRORS 10
/* A program whose calls fail does not do what the other findings are about. */
#define MOSTLY 0.5
/*
 * A copy of so few bytes is of single numbers. (.item() copies one of 1 to 16 bytes; a handful of losses or flags by
 * .tolist() stays below.)
 */
#define FEW_BYTES 1024
/*
 * PCIe 5.0 × 16 moves 63 GB/s in one direction. A call that takes as long as its bytes take at this rate, and longer
 * than an enqueue, may have waited for the transfer: so it is with pageable memory, which the host itself must first
 * copy.
 */
#define LINK_BYTES_PER_NS 63.0
/*
 * A launch costs the host 3 to 10 µs: 10,000 a second are 3 to 10 % of one core, before any framework's work on them.
 */
#define MANY_LAUNCHES_PER_S 10000.0
#define LAUNCH_CPU_SHARE    0.1
/* Ten to thirty times what a launch takes when nothing is in its way. */
#define OUTLIER_NS          100000
#define OUTLIER_COUNT_SHARE 0.001
/*
 * A loop whose memory is pooled (PyTorch's caching allocator) asks the driver for none once it is warm. The least
 * number leaves out what is allocated once, at the beginning.
 */
#define ALLOCATIONS_PER_S 10.0
#define LEAST_ALLOCATIONS 20

static const struct {
	const char *word, *title;
} kinds[CUDA_FINDING_COUNT] = {
#define X(name, one, many) [CUDA_FINDING_##name] = { one, many },
	CUDA_FINDINGS(X)
#undef X
};

const char *cuda_findings__word(enum cuda_finding_kind kind)
{
	return kinds[kind].word;
}

const char *cuda_findings__title(enum cuda_finding_kind kind)
{
	return kinds[kind].title;
}

/* "2000 calls to cudaStreamSynchronize, 200 a second, took 1.84 s, 920 µs each" */
static void say_calls(const struct cuda_search *search, const struct cuda_line_row *row, char *text, size_t size)
{
	char total[CUDA_TEXT_BYTES], each[CUDA_TEXT_BYTES], rate[CUDA_TEXT_BYTES], stacks[CUDA_SEARCH_STACKS_BYTES];

	cuda_search__say_stacks(row, stacks);
	cuda_text__time((double)row->total_ns, total);
	cuda_text__time((double)row->total_ns / (double)row->calls, each);
	cuda_text__rate(cuda_search__per_second(search, (double)row->calls), rate);
	snprintf(text, size, "%s%" PRIu64 " call%s to %s, %s a second, took %s, %s each%s%s", row->sampled ? "~" : "",
		 row->calls, row->calls == 1 ? "" : "s", row->api, rate, total, each, stacks,
		 row->line ? "" : " (no stack tells the source line)");
}

static struct cuda_finding of_row(const struct cuda_search *search, const struct cuda_line_row *row,
				  enum cuda_finding_kind kind, const char *advice)
{
	return (struct cuda_finding){ .kind = kind,
				      .share = cuda_search__share(search, (double)row->total_ns),
				      .line = row->line,
				      .advice = advice,
				      .count = row->calls,
				      .total_ns = (double)row->total_ns };
}

/* Whether most of the waits follow a copy that the same line made. */
static bool is_hidden(const struct cuda_line_row *row)
{
	return row->copies && row->copies >= row->calls / 2;
}

static const char *hidden_advice(const struct cuda_line_row *row)
{
	return row->copied_bytes / row->copies <= FEW_BYTES ? HIDDEN_SCALAR : HIDDEN_OTHER;
}

static int add_sync(struct cuda_search *search, const struct cuda_line_row *row)
{
	char calls[512], bytes[CUDA_TEXT_BYTES];

	say_calls(search, row, calls, sizeof(calls));
	if (!is_hidden(row))
		return cuda_search__add(search, of_row(search, row, CUDA_FINDING_SYNC, EXPLICIT_SYNC), "%s", calls);
	cuda_text__bytes((double)row->copied_bytes / (double)row->copies, bytes);
	return cuda_search__add(search, of_row(search, row, CUDA_FINDING_HIDDEN_SYNC, hidden_advice(row)),
				"%s; the same %s makes %" PRIu64 " asynchronous copies of %s each", calls,
				row->copies_of_function ? "function" : "line", row->copies, bytes);
}

static int add_copy(struct cuda_search *search, const struct cuda_line_row *row)
{
	double each_bytes = (double)row->bytes / (double)row->calls;
	double each_ns = (double)row->total_ns / (double)row->calls;
	char calls[512], bytes[CUDA_TEXT_BYTES], rate[CUDA_TEXT_BYTES];
	enum cuda_finding_kind kind = CUDA_FINDING_BLOCKING_COPY;

	if (row->event != SO_CUDA_BLOCKING_COPY) {
		/* Managed memory is not pageable. */
		if (strstr(row->api, "Prefetch"))
			return 0;
		if (each_ns < CUDA_WAITED_NS || each_ns < each_bytes / LINK_BYTES_PER_NS)
			return 0;
		kind = CUDA_FINDING_SLOW_ASYNC_COPY;
	}
	say_calls(search, row, calls, sizeof(calls));
	cuda_text__bytes(each_bytes, bytes);
	cuda_text__bytes(cuda_summary__ratio((double)row->bytes, (double)row->total_ns / 1e9), rate);
	return cuda_search__add(search, of_row(search, row, kind, PAGEABLE), "%s; %s each, %s a second of call time",
				calls, bytes, rate);
}

typedef int add_row(struct cuda_search *search, const struct cuda_line_row *row);

/* Where no line is known, by API. */
static int search_apis(struct cuda_search *search, enum so_cuda_kind event, add_row *add_one)
{
	size_t before = search->findings->n;
	int ret = 0;

	for (size_t i = 0; !ret && i < search->summary->n_apis && search->findings->n - before < CUDA_SEARCH_LINES;
	     i++) {
		const struct cuda_api_row *api = &search->summary->apis[i];
		struct cuda_line_row row = { .kind = api->kind,
					     .event = event,
					     .api = api->api,
					     .calls = api->figures.calls,
					     .total_ns = api->figures.total_ns,
					     .bytes = api->figures.bytes };

		if (so_cuda_kind__does(api->kind) == event &&
		    cuda_search__share(search, (double)row.total_ns) >= NOTABLE_SHARE)
			ret = add_one(search, &row);
	}
	return ret;
}

static bool has_line(const struct cuda_search *search, enum so_cuda_kind event)
{
	for (size_t i = 0; i < search->summary->n_lines; i++)
		if (search->summary->lines[i].event == event)
			return true;
	return false;
}

static int search_lines(struct cuda_search *search, enum so_cuda_kind event, add_row *add_one)
{
	size_t before = search->findings->n;
	int ret = 0;

	if (!has_line(search, event))
		return search_apis(search, event, add_one);
	for (size_t i = 0; !ret && i < search->summary->n_lines; i++) {
		const struct cuda_line_row *row = &search->summary->lines[i];

		/* By falling time: the others are below the threshold, too. */
		if (!(cuda_search__share(search, (double)row->total_ns) >= NOTABLE_SHARE) ||
		    search->findings->n - before >= CUDA_SEARCH_LINES)
			break;
		if (row->event == event)
			ret = add_one(search, row);
	}
	return ret;
}

static int find_idle(struct cuda_search *search)
{
	struct cuda_finding finding = { .kind = CUDA_FINDING_GPU_IDLE, .advice = FEED_THE_GPU, .total_ns = NAN };
	char utilisation[CUDA_TEXT_BYTES], part[CUDA_TEXT_BYTES];
	struct cuda_host host;

	cuda_host__of(search->report, search->summary, &host);
	if (!host.bottleneck)
		return 0;
	finding.share = 1 - host.utilisation;
	cuda_text__share(host.utilisation, utilisation);
	cuda_text__share(cuda_summary__ratio(host.ns[host.leading], host.whole_ns), part);
	return cuda_search__add(search, finding,
				"utilisation %s of %zu device%s; most of the host's time goes %s, %s%s", utilisation,
				host.n_devices, host.n_devices == 1 ? "" : "s", cuda_host__words(host.leading),
				host.leading == CUDA_HOST_OUTSIDE ? "at least " : "", part);
}

static int find_launches(struct cuda_search *search)
{
	const struct cuda_stats *launches = search->summary->launches;
	const struct cuda_line_row *top = cuda_search__top_line(search, SO_CUDA_LAUNCH);
	double cpu_ns = search->report->cpu_s * 1e9, total_ns = (double)launches->total_ns;
	double rate = cuda_search__per_second(search, (double)launches->calls),
	       cpu_share = cuda_summary__ratio(total_ns, cpu_ns);
	char rate_text[CUDA_TEXT_BYTES], total[CUDA_TEXT_BYTES], share[CUDA_TEXT_BYTES], each[CUDA_TEXT_BYTES];
	struct cuda_finding finding = { .kind = CUDA_FINDING_TINY_LAUNCHES,
					.share = cuda_search__share(search, total_ns),
					.line = top ? top->line : NULL,
					.advice = FEWER_LAUNCHES,
					.count = launches->calls,
					.total_ns = total_ns };

	/* Without the CPU time the recording's time is used. */
	if (isnan(cpu_share))
		cpu_share = finding.share;
	if (!(rate >= MANY_LAUNCHES_PER_S) || !(cpu_share >= LAUNCH_CPU_SHARE))
		return 0;
	cuda_text__rate(rate, rate_text);
	cuda_text__time(total_ns, total);
	cuda_text__time(total_ns / (double)launches->calls, each);
	cuda_text__share(cpu_share, share);
	return cuda_search__add(
		search, finding,
		"%s launches a second, %.0f threads each on average; launching took %s, %s each: %s of the "
		"CPU time",
		rate_text, (double)launches->threads / (double)launches->calls, total, each, share);
}

static int find_outliers(struct cuda_search *search)
{
	const struct cuda_stats *launches = search->summary->launches;
	struct cuda_finding finding = { .kind = CUDA_FINDING_LAUNCH_OUTLIERS, .advice = SLOW_LAUNCH };
	char percent[CUDA_TEXT_BYTES], total[CUDA_TEXT_BYTES], most[CUDA_TEXT_BYTES];
	double count_share;

	finding.count = cuda_stats__from(launches, OUTLIER_NS, &finding.total_ns);
	finding.share = cuda_search__share(search, finding.total_ns);
	count_share = cuda_summary__ratio((double)finding.count, (double)launches->calls);
	if (!finding.count || (!(count_share >= OUTLIER_COUNT_SHARE) && !(finding.share >= NOTABLE_SHARE)))
		return 0;
	cuda_text__share(count_share, percent);
	cuda_text__time(finding.total_ns, total);
	cuda_text__time((double)launches->max_ns, most);
	return cuda_search__add(search, finding,
				"%" PRIu64 " of %" PRIu64 " launches (%s) took over 100 µs, %s in all, the longest %s",
				finding.count, launches->calls, percent, total, most);
}

/*
 * A step of an allocation, or of a release, whose memory another call creates: its time counts, and it is none by
 * itself.
 */
static bool is_step(const char *api)
{
	static const char *const steps[] = { "cuMemAddressReserve", "cuMemMap",         "cuMemSetAccess",
					     "cuMemUnmap",          "cuMemAddressFree", "cuMemRetainAllocationHandle" };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (!strcmp(api, steps[i]))
			return true;
	return false;
}

static int find_allocations(struct cuda_search *search)
{
	const struct cuda_summary *summary = search->summary;
	/* The asynchronous ones take from a pool. */
	const struct cuda_line_row *alloc = cuda_search__top_line(search, SO_CUDA_ALLOC),
				   *release = cuda_search__top_line(search, SO_CUDA_FREE);
	uint64_t allocations = 0, frees = 0, total_ns = 0;
	char rate[CUDA_TEXT_BYTES], total[CUDA_TEXT_BYTES];
	struct cuda_finding finding = { .kind = CUDA_FINDING_ALLOCATIONS, .advice = POOL_MEMORY };

	for (size_t i = 0; i < summary->n_apis; i++) {
		const struct cuda_api_row *row = &summary->apis[i];

		if (row->kind != SO_CUDA_ALLOC && row->kind != SO_CUDA_FREE)
			continue;
		if (is_step(row->api))
			finding.advice = SEGMENT_MEMORY;
		else if (row->kind == SO_CUDA_ALLOC)
			allocations = cuda_stats__sum(allocations, row->figures.calls);
		else
			frees = cuda_stats__sum(frees, row->figures.calls);
		total_ns = cuda_stats__sum(total_ns, row->figures.total_ns);
	}
	finding.count = cuda_stats__sum(allocations, frees);
	finding.total_ns = (double)total_ns;
	finding.share = cuda_search__share(search, finding.total_ns);
	if (finding.count < LEAST_ALLOCATIONS ||
	    !(cuda_search__per_second(search, (double)finding.count) >= ALLOCATIONS_PER_S ||
	      finding.share >= NOTABLE_SHARE))
		return 0;
	if (alloc || release)
		finding.line = !alloc || (release && release->total_ns > alloc->total_ns) ? release->line : alloc->line;
	else if (summary->n_sites)
		finding.line = summary->sites[0].line;
	cuda_text__rate(cuda_search__per_second(search, (double)finding.count), rate);
	cuda_text__time(finding.total_ns, total);
	return cuda_search__add(search, finding, "%" PRIu64 " allocations and %" PRIu64 " frees, %s a second, took %s",
				allocations, frees, rate, total);
}

static uint64_t calls_to(const struct cuda_search *search, const char *api)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < search->summary->n_apis; i++) {
		if (!strcmp(search->summary->apis[i].api, api))
			calls = cuda_stats__sum(calls, search->summary->apis[i].figures.calls);
	}
	return calls;
}

static int find_errors(struct cuda_search *search)
{
	uint64_t calls;
	int ret = 0;

	for (size_t i = 0; !ret && i < search->summary->n_errors && i < MOST_ERRORS; i++) {
		const struct cuda_error_row *row = &search->summary->errors[i];
		const char *name = cuda_codes__name(row->api, row->code);
		struct cuda_finding finding = { .kind = CUDA_FINDING_ERRORS,
						.share = NAN,
						.advice = READ_ERRORS,
						.count = row->count,
						.total_ns = NAN };

		calls = calls_to(search, row->api);
		finding.foremost = calls && (double)row->count >= MOSTLY * (double)calls;
		ret = cuda_search__add(search, finding, "%" PRIu64 " call%s to %s returned %" PRIu32 " (%s)",
				       row->count, row->count == 1 ? "" : "s", row->api, row->code,
				       name ? name : "a code without a known name");
	}
	return ret;
}

static const char *explain(const char *loss)
{
#define X(name, word, why)       \
	if (!strcmp(loss, word)) \
		return why;
	SO_CUDA_LOSSES(X)
#undef X
	if (!strcmp(loss, "lines-lost"))
		return "calls whose lines there was no room for: they are in the other tables";
	if (!strcmp(loss, "lines-forgotten"))
		return "lines (of a thread, call and stack) that were quiet for long: their calls are in the "
		       "other "
		       "tables";
	if (!strcmp(loss, "processes-folded"))
		return "processes that ended long ago: their calls are in the sums, without threads, kernels "
		       "and lines";
	return NULL;
}

/* Nothing is missing but how it was made up. */
static bool is_old(const char *loss)
{
	return !strcmp(loss, "processes-folded") || !strcmp(loss, "lines-forgotten");
}

static const char *advice_on(const char *loss)
{
	if (is_old(loss))
		return FOLDED;
	if (!strcmp(loss, "batch-bytes"))
		return BATCHES;
	return strcmp(loss, "unfinished") ? INCOMPLETE : UNFINISHED;
}

static int find_remarks(struct cuda_search *search)
{
	const struct cuda_report *report = search->report;
	struct cuda_finding finding = { .kind = CUDA_FINDING_ESTIMATED,
					.share = NAN,
					.advice = ESTIMATES,
					.count = search->summary->calls,
					.total_ns = NAN };
	char budget[CUDA_TEXT_BYTES];
	int ret = 0;

	if (report->estimated) {
		cuda_text__share(report->watching.budget_percent / 100, budget);
		ret = cuda_search__add(
			search, finding,
			"some calls were counted in windows alone, to keep the cost of watching within its "
			"budget (%s), and scaled to all of the time",
			budget);
	}
	finding.kind = CUDA_FINDING_LOSSES;
	for (size_t i = 0; !ret && i < report->n_losses; i++) {
		const char *why = explain(report->losses[i].word);

		finding.count = report->losses[i].count;
		finding.advice = advice_on(report->losses[i].word);
		ret = cuda_search__add(search, finding, "%s %" PRIu64 "%s%s", report->losses[i].word, finding.count,
				       why ? ": " : "", why ? why : "");
	}
	return ret;
}

static int rank(const struct cuda_finding *finding)
{
	if (finding->foremost)
		return -1;
	return finding->kind >= CUDA_FINDING_ESTIMATED ? 2 : finding->kind == CUDA_FINDING_ERRORS;
}

static int compare_findings(const void *a, const void *b)
{
	const struct cuda_finding *x = a, *y = b;

	if (rank(x) != rank(y))
		return rank(x) - rank(y);
	if (!isnan(x->share) && !isnan(y->share) && x->share != y->share)
		return x->share < y->share ? 1 : -1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->measured, y->measured);
}

static int find_all(struct cuda_search *search)
{
	int ret = find_idle(search);

	ret = ret ?: search_lines(search, SO_CUDA_SYNC, add_sync);
	ret = ret ?: search_lines(search, SO_CUDA_BLOCKING_COPY, add_copy);
	ret = ret ?: search_lines(search, SO_CUDA_COPY, add_copy);
	ret = ret ?: find_launches(search);
	ret = ret ?: find_outliers(search);
	ret = ret ?: find_allocations(search);
	ret = ret ?: cuda_streams__find(search);
	ret = ret ?: find_errors(search);
	return ret ?: find_remarks(search);
}

int cuda_findings__new(const struct cuda_report *report, const struct cuda_summary *summary, struct cuda_findings **out)
{
	_cleanup_(cuda_findings) struct cuda_findings *findings = calloc(1, sizeof(*findings));
	struct cuda_search search = { report, summary, findings };
	int ret = findings ? find_all(&search) : -ENOMEM;

	if (ret)
		return ret;
	if (findings->n)
		qsort(findings->list, findings->n, sizeof(*findings->list), compare_findings);
	*out = TAKE_PTR(findings);
	return 0;
}

void cuda_findings__free(struct cuda_findings *findings)
{
	if (!findings)
		return;
	for (size_t i = 0; i < findings->n; i++)
		free(findings->list[i].measured);
	free(findings->list);
	free(findings);
}
