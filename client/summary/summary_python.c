// SPDX-License-Identifier: GPL-2.0-or-later
/* What the summary says of Python: the interpreter, how many of its stacks are whole, and the GIL. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/summary_parts.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"

#define TOP_THREADS 5

/* Python samples of a whole profile, or of one thread. */
struct gil_share {
	int64_t samples, held;
	int64_t disabled; /* of the samples, those without a GIL to be held */
	int64_t held_ns;  /* CPU time */
};

static void gil_share__add(struct gil_share *share, const struct profile_sample *sample)
{
	share->samples += sample->count;
	share->disabled += sample->gil == PROFILE_GIL_DISABLED ? sample->count : 0;
	if (sample->gil != PROFILE_GIL_HELD)
		return;
	share->held += sample->count;
	share->held_ns += sample->value_ns;
}

/* "Python 3.11, 3.12: " */
static int print_versions(const json_t *versions, FILE *out)
{
	const json_t *version;
	size_t i;
	int ret = 0;

	fprintf(out, "Python");
	json_array_foreach (versions, i, version) {
		if (ret || !json_is_string(version))
			continue;
		fprintf(out, i ? ", " : " ");
		ret = summary__print_foreign(json_string_value(version), out);
	}
	fprintf(out, ": ");
	return ret;
}

/* Frames that are in their place but have no name. */
static void print_unnamed(const json_t *python, FILE *out)
{
	double stale = 0, unreadable = 0;

	figures__number(python, "stale_frames", &stale);
	figures__number(python, "unreadable_frames", &unreadable);
	if (!(stale + unreadable > 0))
		return;
	fprintf(out, "   frames without name %.0f:", stale + unreadable);
	if (stale > 0)
		fprintf(out, " stale %.0f%s", stale, unreadable > 0 ? "," : "");
	if (unreadable > 0)
		fprintf(out, " unreadable %.0f", unreadable);
}

static int print_quality(const json_t *python, FILE *out)
{
	double samples = -1, complete = -1, truncated;
	int ret = print_versions(json_object_get(python, "versions"), out);

	if (ret < 0)
		return ret;
	if (figures__number(python, "samples", &samples) && samples == 0) {
		fprintf(out, "no samples of Python threads\n");
		return 0;
	}
	figures__number(python, "complete", &complete);
	figures__print_complete(complete, samples, out);
	if (samples > 0)
		fprintf(out, " of %.0f samples", samples);
	fprintf(out, "   ");
	ret = figures__print_causes("truncated", json_object_get(python, "truncated"), &truncated, out);
	print_unnamed(python, out);
	fputc('\n', out);
	return ret;
}

static int print_problem(const json_t *python, FILE *out)
{
	const char *problem = json_string_value(json_object_get(python, "problem"));
	int ret;

	if (!problem)
		return 0;
	fprintf(out, "Python: ");
	ret = summary__print_foreign(problem, out);
	fputc('\n', out);
	return ret;
}

static void print_gil(const struct profile *profile, const json_t *stats, FILE *out)
{
	double seconds = (double)profile->duration_ns / 1e9;
	struct gil_share all = { 0 };
	double low, high;

	for (size_t i = 0; i < profile->n_samples; i++)
		if (profile->samples[i].gil != PROFILE_GIL_NONE)
			gil_share__add(&all, &profile->samples[i]);
	if (!all.samples)
		return;
	if (all.disabled)
		fprintf(out, "no GIL (free-threaded) in %.1f %% of Python samples\n",
			100 * (double)all.disabled / (double)all.samples);
	if (all.disabled == all.samples)
		return;
	share_interval(profile, all.held, all.samples, &low, &high);
	fprintf(out, "GIL held in %.1f %% [%.1f, %.1f] of Python samples", 100 * (double)all.held / (double)all.samples,
		100 * low, 100 * high);
	figures__number(stats, "duration_s", &seconds);
	if (seconds > 0 && (all.held_ns || !all.held))
		fprintf(out, ": %.2f CPU s in %.1f s", (double)all.held_ns / 1e9, seconds);
	fputc('\n', out);
}

int summary__python(const struct profile *profile, const json_t *stats, const json_t *figures, FILE *out)
{
	const json_t *python = json_object_get(figures, "python");
	int ret = 0;

	if (json_array_size(json_object_get(python, "versions")))
		ret = print_quality(python, out);
	ret = ret ?: print_problem(python, out);
	if (!ret)
		print_gil(profile, stats, out);
	return ret;
}

struct thread {
	struct gil_share share;
	const struct profile_sample *name; /* a sample that bears it */
};

struct threads {
	struct intern ids; /* pid, tid */
	struct thread *list;
	size_t capacity;
};

static void threads__clear(struct threads *threads)
{
	intern__clear(&threads->ids);
	free(threads->list);
}
CLEANUP_DEFINE(struct threads *, threads, threads__clear)

static int add_thread_sample(struct threads *threads, const struct profile_sample *sample)
{
	const int64_t id[2] = { sample->pid, sample->tid };
	uint32_t number;
	int ret;

	if (ARRAY_RESERVE(threads->list, threads->capacity, threads->ids.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&threads->ids, id, sizeof(id), &number);
	if (ret < 0)
		return ret;
	if (ret)
		threads->list[number] = (struct thread){ .name = sample };
	gil_share__add(&threads->list[number].share, sample);
	/* A thread may change its name. */
	if (sample->count > threads->list[number].name->count)
		threads->list[number].name = sample;
	return 0;
}

static int compare_threads(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	if (x->share.samples != y->share.samples)
		return x->share.samples < y->share.samples ? 1 : -1;
	if (x->name->pid != y->name->pid)
		return x->name->pid < y->name->pid ? -1 : 1;
	return (x->name->tid > y->name->tid) - (x->name->tid < y->name->tid);
}

static int print_thread(const struct profile *profile, const struct thread *thread, int64_t total, FILE *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	const struct gil_share *share = &thread->share;
	char interval[32];
	int ret = frame_text__thread(thread->name, true, text);

	ret = ret ?: frame_text__thread_name(thread->name, ' ', text);
	if (ret < 0)
		return ret;
	fprintf(out, "%5.1f %%  ", 100 * (double)share->samples / (double)total);
	if (share->disabled == share->samples) {
		fprintf(out, "  no GIL  %-15s  ", "");
	} else {
		summary__interval(profile, share->held, share->samples, interval);
		fprintf(out, "%6.1f %%  %-15s  ", 100 * (double)share->held / (double)share->samples, interval);
	}
	summary__print_name(text->bytes, text->length, out);
	ret = summary__print_labels("  ", thread->name->rank, NULL, out);
	fputc('\n', out);
	return ret;
}

int summary__python_threads(const struct profile *profile, int64_t total, FILE *out)
{
	_cleanup_(threads) struct threads *threads = &(struct threads){ .capacity = 0 };
	size_t n;
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		if (profile->samples[i].count && profile->samples[i].gil != PROFILE_GIL_NONE)
			ret = add_thread_sample(threads, &profile->samples[i]);
	n = threads->ids.n_keys;
	if (ret < 0 || n < 2)
		return ret;
	qsort(threads->list, n, sizeof(*threads->list), compare_threads);
	fprintf(out, "   %s  GIL held  [95 %% interval]  Python thread\n", profile->wall ? "wall" : " CPU");
	for (size_t i = 0; !ret && i < n && i < TOP_THREADS; i++)
		ret = print_thread(profile, &threads->list[i], total, out);
	if (n > TOP_THREADS)
		fprintf(out, "and %zu more thread%s\n", n - TOP_THREADS, plural((int64_t)(n - TOP_THREADS)));
	return ret;
}
