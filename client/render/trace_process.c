// SPDX-License-Identifier: GPL-2.0-or-later
/* What a whole process has on a time line. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/render/json_text.h"
#include "client/render/trace_internal.h"

#define LEAST_BIN_NS 100000000ll /* of the counters: a hundred milliseconds, */
#define MOST_BINS    1000        /* or longer, so that they are no more than this */

/* "rank 3: train.py (PID 1234)" */
static int name_process(struct tracer *t, const struct segment *segments, size_t n)
{
	const struct profile_sample *best = &t->profile->samples[segments[0].sample];
	_cleanup_(text) struct text *name = &(struct text){ .length = 0 };
	char pid[48], rank[48] = "";
	int ret;

	for (size_t i = 0; i < n && best->tid != best->pid; i++)
		if (t->profile->samples[segments[i].sample].tid == best->pid)
			best = &t->profile->samples[segments[i].sample];
	if (best->rank && *best->rank)
		snprintf(rank, sizeof(rank), "rank %.16s: ", best->rank);
	snprintf(pid, sizeof(pid), " (PID %" PRId64 ")", best->pid);
	ret = frame_text__between(rank, *best->comm ? best->comm : "?", pid, name);
	if (ret)
		return ret;
	trace__begin_event(t);
	fprintf(t->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRId64 ",\"args\":{\"name\":", t->pid);
	json_text__write(t->out, name->bytes, name->length);
	fputs("}}", t->out);
	if (best->rank && *best->rank) {
		trace__begin_event(t);
		fprintf(t->out,
			"{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%" PRId64
			",\"args\":{\"sort_index\":%d}}",
			t->pid, atoi(best->rank));
	}
	return 0;
}

struct bins {
	int64_t width_ns;
	size_t n;
	double *running, *waiting; /* ns in each */
	bool any_waits;
};

static void add_to_bins(const struct bins *bins, double *values, int64_t begin_ns, int64_t end_ns)
{
	for (size_t i = begin_ns > 0 ? (size_t)(begin_ns / bins->width_ns) : 0; i < bins->n; i++) {
		int64_t from = (int64_t)i * bins->width_ns, to = from + bins->width_ns;

		if (from >= end_ns)
			return;
		values[i] += (double)((to < end_ns ? to : end_ns) - (from > begin_ns ? from : begin_ns));
	}
}

static void write_counter(struct tracer *t, const char *name, const struct bins *bins, const double *values)
{
	double before = -1;

	for (size_t i = 0; i < bins->n; i++) {
		double threads = round(100 * values[i] / (double)bins->width_ns) / 100;

		if (threads == before)
			continue;
		before = threads;
		trace__begin_event(t);
		fprintf(t->out,
			"{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%" PRId64 ",\"ts\":%.1f,\"args\":{\"threads\":%.2f}}",
			name, t->pid, (double)(t->offset_ns + (int64_t)i * bins->width_ns) / 1e3, threads);
	}
}

/* How many threads ran, and how many waited for the GIL. A sample that ran is weighted by its CPU time. */
static int write_counters(struct tracer *t, const struct segment *segments, size_t n)
{
	int64_t whole = t->profile->duration_ns;
	struct bins bins = { .width_ns = whole / MOST_BINS > LEAST_BIN_NS ? whole / MOST_BINS : LEAST_BIN_NS };

	if (whole <= 0 || whole >= TRACE_MOST_NS)
		return 0;
	bins.n = (size_t)(whole / bins.width_ns) + 1;
	bins.running = calloc(bins.n, sizeof(*bins.running));
	bins.waiting = calloc(bins.n, sizeof(*bins.waiting));
	for (size_t i = 0; bins.running && bins.waiting && i < n; i++) {
		const struct profile_sample *sample = &t->profile->samples[segments[i].sample];
		bool waits = sample->state && !strcmp(sample->state, "gil");

		if (profile_sample__is_moment(sample))
			add_to_bins(&bins, bins.running, sample->time_ns - sample->value_ns, sample->time_ns);
		else if (waits)
			add_to_bins(&bins, bins.waiting, sample->time_ns, sample->time_ns + sample->value_ns);
		bins.any_waits |= waits;
	}
	if (bins.running && bins.waiting) {
		write_counter(t, "running", &bins, bins.running);
		if (bins.any_waits)
			write_counter(t, "waiting for the GIL", &bins, bins.waiting);
	}
	free(bins.running);
	free(bins.waiting);
	return bins.running && bins.waiting ? 0 : -ENOMEM;
}

static int compare_times(const void *a, const void *b, void *context)
{
	const struct profile_sample *samples = context, *x = &samples[*(const size_t *)a],
				    *y = &samples[*(const size_t *)b];

	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static int write_holder(struct tracer *t, const struct profile_sample *sample, int64_t begin_ns, int64_t end_ns)
{
	_cleanup_(text) struct text *name = &(struct text){ .length = 0 };
	char tid[48];
	int ret;

	snprintf(tid, sizeof(tid), " (%" PRId64 ")", sample->tid);
	ret = frame_text__between("", sample->thread && *sample->thread ? sample->thread : sample->comm, tid, name);
	if (ret)
		return ret;
	trace__begin_slice(t, name->bytes, name->length, begin_ns, end_ns);
	fputc('}', t->out);
	return 0;
}

/* From the middle between two samples to the next such, as long as it is the same thread that is seen with it. */
static int write_gil(struct tracer *t, size_t *held, size_t n)
{
	const struct profile_sample *samples = t->profile->samples;
	int64_t most = TRACE_KNOWN_PERIODS * t->profile->period_ns, begin = samples[held[0]].time_ns;
	int ret = 0;

	t->tid = TRACE_GIL_TRACK;
	trace__name_track(t, "GIL, by samples of who holds it", strlen("GIL, by samples of who holds it"));
	for (size_t i = 0; !ret && i < n; i++) {
		const struct profile_sample *here = &samples[held[i]], *next = i + 1 < n ? &samples[held[i + 1]] : NULL;
		bool near = next && next->time_ns - here->time_ns < most;
		int64_t end = near ? here->time_ns + (next->time_ns - here->time_ns) / 2 : here->time_ns;

		if (near && next->tid == here->tid)
			continue;
		if (end > begin)
			ret = write_holder(t, here, begin, end);
		begin = near ? end : next ? next->time_ns : end;
	}
	return ret;
}

int trace__write_process(struct tracer *t, const struct segment *segments, size_t n)
{
	_cleanup_free_ size_t *held = calloc(n, sizeof(*held));
	size_t n_held = 0;
	int ret = held ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++) {
		const struct profile_sample *sample = &t->profile->samples[segments[i].sample];

		if (sample->gil == PROFILE_GIL_HELD && profile_sample__is_moment(sample))
			held[n_held++] = segments[i].sample;
	}
	ret = ret ?: name_process(t, segments, n);
	ret = ret ?: write_counters(t, segments, n);
	if (ret || !n_held)
		return ret;
	qsort_r(held, n_held, sizeof(*held), compare_times, t->profile->samples);
	return write_gil(t, held, n_held);
}
