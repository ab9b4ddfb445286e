// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_streams.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda_graphs.h"
#include "cuda/cuda_text.h"
#include "stakeout/cuda_abi.h"

/* One wait for every second launch orders single kernels; a pipeline of two streams waits once for many. */
#define WAITS_PER_LAUNCH  0.5
#define LEAST_WAITS_PER_S 100.0
/*
 * A loop that waits for nothing does so in each round: rounds of a tenth of a second, and a few of them. What a program
 * does at its beginning or end is less.
 */
#define LEAST_NEEDLESS       20
#define LEAST_NEEDLESS_PER_S 10.0
/* A wait that is needed now and then is needed. */
#define MOSTLY_NEEDLESS 0.5
/*
 * To capture and instantiate a graph costs several times what its kernels' launches do, and a replay saves most of
 * these. Programs that capture for each of their shapes do it a few times and replay hundreds of times.
 */
#define LEAST_GRAPHS      5
#define REPLAYS_PER_GRAPH 10

static const char NOTHING_TO_WAIT_FOR[] = "nothing was queued, or another wait before had waited for all of it: a "
					  "second torch.cuda.synchronize(), or one "
					  "behind `.item()`. Leave it out. If it is the only one, the GPU had run out "
					  "of work by then: queue the next step's "
					  "before waiting";
static const char WAIT_ONCE[] = "a stream's work is in order, so one wait for an event holds for all that follows: "
				"wait once behind each record "
				"(a wait_event() or wait_stream() in a loop belongs in front of it)";
static const char FEWER_WAITS[] =
	"work in one stream is in order by itself: keep dependent kernels in one stream, and wait once for an event "
	"behind "
	"many kernels (look for wait_stream(), record_stream() and changing streams in a loop)";
static const char CAPTURE_ONCE[] = "capture once for each shape and replay it: copy new inputs into the captured "
				   "buffers (tensor.copy_()), pad to a few "
				   "shapes, and look for shapes, addresses or options that change. cudaGraphExecUpdate "
				   "renews a graph for less than "
				   "cudaGraphInstantiate";

static int by_needless_time(const void *a, const void *b)
{
	const struct cuda_line_row *x = *(const struct cuda_line_row *const *)a,
				   *y = *(const struct cuda_line_row *const *)b;

	if (x->needless_ns != y->needless_ns)
		return x->needless_ns < y->needless_ns ? 1 : -1;
	return x < y ? -1 : x > y;
}

/*
 * A copy to pageable memory has waited already when the same line (`.item()`) waits for it: there is nothing to leave
 * out.
 */
static bool is_of_copy(const struct cuda_line_row *row)
{
	return row->copies && !row->copies_of_function && row->copies >= row->calls / 2;
}

static bool is_needless(const struct cuda_search *search, const struct cuda_line_row *row)
{
	if (is_of_copy(row) || row->needless < LEAST_NEEDLESS ||
	    !(cuda_search__per_second(search, (double)row->needless) >= LEAST_NEEDLESS_PER_S))
		return false;
	return row->event == SO_CUDA_WAIT || (double)row->needless >= MOSTLY_NEEDLESS * (double)row->calls;
}

static int add_needless(struct cuda_search *search, const struct cuda_line_row *row)
{
	bool stream = row->event == SO_CUDA_WAIT;
	double ns = (double)row->needless_ns;
	char stacks[CUDA_SEARCH_STACKS_BYTES], rate[CUDA_TEXT_BYTES], total[CUDA_TEXT_BYTES], each[CUDA_TEXT_BYTES],
		idle[CUDA_TEXT_BYTES], why[128];
	struct cuda_finding finding = { .kind = stream ? CUDA_FINDING_REPEATED_WAITS : CUDA_FINDING_IDLE_SYNC,
					.share = cuda_search__share(search, ns),
					.line = row->line,
					.advice = stream ? WAIT_ONCE : NOTHING_TO_WAIT_FOR,
					.count = row->needless,
					.total_ns = ns };

	cuda_search__say_stacks(row, stacks);
	cuda_text__rate(cuda_search__per_second(search, (double)row->needless), rate);
	cuda_text__time(ns, total);
	cuda_text__time(ns / (double)row->needless, each);
	cuda_text__time(SO_CUDA_IDLE_NS, idle);
	if (stream)
		snprintf(why, sizeof(why),
			 "the stream had waited for the event already, and it was not recorded since");
	else
		snprintf(why, sizeof(why), "they returned within %s", idle);
	return cuda_search__add(
		search, finding,
		"%s%" PRIu64 " of %" PRIu64 " calls to %s, %s a second, waited for nothing: %s; they took %s, %s "
		"each%s",
		row->sampled ? "~" : "", row->needless, row->calls, row->api, rate, why, total, each, stacks);
}

static int find_needless(struct cuda_search *search, enum so_cuda_kind event)
{
	const struct cuda_summary *summary = search->summary;
	const struct cuda_line_row **rows = calloc(summary->n_lines + 1, sizeof(*rows));
	size_t n = 0;
	int ret = rows ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < summary->n_lines; i++)
		if (summary->lines[i].event == event && is_needless(search, &summary->lines[i]))
			rows[n++] = &summary->lines[i];
	if (n)
		qsort(rows, n, sizeof(*rows), by_needless_time);
	for (size_t i = 0; !ret && i < n && i < CUDA_SEARCH_LINES; i++)
		ret = add_needless(search, rows[i]);
	free(rows);
	return ret;
}

static int find_stream_waits(struct cuda_search *search)
{
	const struct cuda_summary *summary = search->summary;
	const struct cuda_line_row *top = cuda_search__top_line(search, SO_CUDA_WAIT);
	uint64_t waits = summary->kind_calls[SO_CUDA_WAIT], launches = cuda_summary__calls(summary, SO_CUDA_LAUNCH);
	char rate[CUDA_TEXT_BYTES], total[CUDA_TEXT_BYTES];
	struct cuda_finding finding = { .kind = CUDA_FINDING_STREAM_WAITS,
					.line = top ? top->line : NULL,
					.advice = FEWER_WAITS,
					.count = waits,
					.total_ns = (double)summary->kind_ns[SO_CUDA_WAIT] };

	finding.share = cuda_search__share(search, finding.total_ns);
	if (!(cuda_search__per_second(search, (double)waits) >= LEAST_WAITS_PER_S) ||
	    (double)waits < WAITS_PER_LAUNCH * (double)launches)
		return 0;
	cuda_text__rate(cuda_search__per_second(search, (double)waits), rate);
	cuda_text__time(finding.total_ns, total);
	return cuda_search__add(search, finding,
				"%" PRIu64 " times a stream was made to wait for an event, %s a second, beside %" PRIu64
				" launches; making the calls took %s",
				waits, rate, launches, total);
}

static int find_graphs(struct cuda_search *search)
{
	struct cuda_graphs graphs;
	char total[CUDA_TEXT_BYTES], rate[CUDA_TEXT_BYTES];
	struct cuda_finding finding = { .kind = CUDA_FINDING_GRAPHS_ANEW, .advice = CAPTURE_ONCE };

	cuda_graphs__of(search->summary, &graphs);
	finding.line = graphs.line;
	finding.count = graphs.captures > graphs.instantiations ? graphs.captures : graphs.instantiations;
	finding.total_ns = (double)graphs.making_ns;
	finding.share = cuda_search__share(search, finding.total_ns);
	/* Without a replay it is the program's beginning, which captures its shapes. */
	if (finding.count < LEAST_GRAPHS || !graphs.replays || graphs.replays / REPLAYS_PER_GRAPH >= finding.count)
		return 0;
	cuda_text__time(finding.total_ns, total);
	cuda_text__rate(cuda_search__per_second(search, (double)finding.count), rate);
	return cuda_search__add(
		search, finding,
		"%" PRIu64 " captures and %" PRIu64 " instantiations for %" PRIu64
		" replays, %s a second; making the graphs took %s, without the launches that were captured",
		graphs.captures, graphs.instantiations, graphs.replays, rate, total);
}

int cuda_streams__find(struct cuda_search *search)
{
	int ret = find_needless(search, SO_CUDA_SYNC);

	ret = ret ?: find_needless(search, SO_CUDA_WAIT);
	ret = ret ?: find_stream_waits(search);
	return ret ?: find_graphs(search);
}
