// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a profile that keeps times says of CUDA calls: each that took long, and the launches that such a one waited for.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/profile/profile_builder.h"
#include "daemon/targets/cuda_taken.h"
#include "stakeout/cuda_names.h"

/* One kernel of one process; its number in the profile is its place in the list. */
struct kernel {
	uint32_t tgid;
	uint64_t handle;
};

struct call_list {
	struct call_time *calls;
	size_t n;
	struct kernel *kernels;
	size_t n_kernels;
};

static int compare_calls(const void *a, const void *b)
{
	const struct call_time *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->api != y->api)
		return x->api < y->api ? -1 : 1;
	return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static int compare_kernels(const void *a, const void *b)
{
	const struct kernel *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return (x->handle > y->handle) - (x->handle < y->handle);
}

/* A launch has a record by itself, where it took long, and one with each wait for it. */
static void leave_out_repeated(struct call_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++)
		if (!kept || compare_calls(&list->calls[kept - 1], &list->calls[i]))
			list->calls[kept++] = list->calls[i];
	list->n = kept;
}

/* Of the profile's time, in the order of compare_calls(). *missed: others that came too fast. */
static int take_calls(const struct engine_snapshot *s, struct call_list *list, uint64_t *missed)
{
	const struct call_times *all = &s->calls;
	uint32_t unused;

	list->calls = calloc(all->n + 1, sizeof(*list->calls));
	if (!list->calls)
		return -ENOMEM;
	for (size_t i = 0; i < all->n; i++) {
		const struct call_time *call = &all->ring[i];

		if (call->begin_ns + call->ns <= s->begin_ns || call->begin_ns >= s->begin_ns + s->duration_ns ||
		    u64_table__get(&s->hidden, call->tgid, &unused))
			continue;
		*missed += call->missed;
		list->calls[list->n++] = *call;
	}
	qsort(list->calls, list->n, sizeof(*list->calls), compare_calls);
	leave_out_repeated(list);
	return 0;
}

static int take_kernels(struct call_list *list)
{
	size_t kept = 0;

	list->kernels = calloc(list->n + 1, sizeof(*list->kernels));
	if (!list->kernels)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++)
		if (list->calls[i].kernel)
			list->kernels[list->n_kernels++] =
				(struct kernel){ list->calls[i].tgid, list->calls[i].kernel };
	qsort(list->kernels, list->n_kernels, sizeof(*list->kernels), compare_kernels);
	for (size_t i = 0; i < list->n_kernels; i++)
		if (!kept || compare_kernels(&list->kernels[kept - 1], &list->kernels[i]))
			list->kernels[kept++] = list->kernels[i];
	list->n_kernels = kept;
	return 0;
}

/* "NUMBER:NAME" of each kernel; its handle where the name is not known. */
static int add_kernels(struct engine *e, struct profile_builder *b, const struct call_list *list)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < list->n_kernels; i++) {
		_cleanup_free_ char *text = NULL;
		const char *name;
		int length;

		pthread_mutex_lock(&e->lock);
		name = cuda_taken__kernel(e->cuda, list->kernels[i].tgid, list->kernels[i].handle);
		length = name ? asprintf(&text, "%zu:%s", i, name)
			      : asprintf(&text, "%zu:0x%" PRIx64, i, list->kernels[i].handle);
		pthread_mutex_unlock(&e->lock);
		ret = length < 0 ? -ENOMEM : profile_builder__comment(b, "kernel", text);
	}
	return ret;
}

static void write_details(FILE *out, const struct call_list *list, const struct call_time *call)
{
	const struct kernel kernel = { call->tgid, call->kernel }, *known;

	if (call->bytes)
		fprintf(out, "x%" PRIu64, call->bytes);
	if (call->has_stream)
		fprintf(out, "s%" PRIx64, call->stream);
	known = call->kernel ? bsearch(&kernel, list->kernels, list->n_kernels, sizeof(kernel), compare_kernels) : NULL;
	if (known)
		fprintf(out, "k%zu", (size_t)(known - list->kernels));
	if (call->awaited_begin_ns && call->awaited_begin_ns < call->begin_ns)
		fprintf(out, "w%u.%" PRIu64, call->awaited_tid, call->begin_ns - call->awaited_begin_ns);
}

/* A thread's calls of one API. */
static int add_calls_of_api(struct profile_builder *b, const struct call_list *list, const struct call_time *calls,
			    size_t n, uint64_t begin_ns)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	uint64_t before = begin_ns;

	if (!out)
		return -ENOMEM;
	fprintf(out, "%u/%u/%s:", calls[0].tgid, calls[0].tid, cuda_names__api(calls[0].api));
	for (size_t i = 0; i < n; i++) {
		uint64_t end = calls[i].begin_ns + calls[i].ns;
		uint64_t begin = calls[i].begin_ns > before ? calls[i].begin_ns : before;

		fprintf(out, "%s%" PRIu64 "+%" PRIu64, i ? "," : "", begin - before, end > begin ? end - begin : 0);
		write_details(out, list, &calls[i]);
		before = begin;
	}
	return fclose(out) ? -ENOMEM : profile_builder__comment(b, "calls", text);
}

/* What a time line lacks is said as well: calls that were not timed, that were too many, and the oldest. */
static int add_missing(struct profile_builder *b, const struct engine_snapshot *s, uint64_t missed)
{
	int ret = missed ? profile_builder__number(b, "calls_missed", NULL, missed) : 0;

	if (!ret && s->calls.gone_ns > s->begin_ns)
		ret = profile_builder__number(b, "calls_since_ns", NULL, s->calls.gone_ns - s->begin_ns);
	if (!ret && s->calls.partial_ns > s->begin_ns)
		ret = profile_builder__number(b, "calls_partial", NULL, 1);
	return ret;
}

/* Of what it launches still: those of one that has ended are known. */
static void learn_names(struct engine *e, const struct engine_snapshot *s)
{
	pthread_mutex_lock(&e->lock);
	if (s->held && s->held->info.state == TARGET_SAMPLING)
		cuda_taken__learn_names(e->cuda, s->held);
	pthread_mutex_unlock(&e->lock);
}

int engine_add_calls(struct engine *e, struct profile_builder *b, const struct engine_snapshot *s)
{
	struct call_list list = { .n = 0 };
	uint64_t missed = 0;
	int ret = take_calls(s, &list, &missed);

	if (list.n)
		learn_names(e, s);
	ret = ret ?: take_kernels(&list);
	ret = ret ?: add_missing(b, s, missed);
	ret = ret ?: add_kernels(e, b, &list);
	for (size_t i = 0, end; !ret && i < list.n; i = end) {
		const struct call_time *first = &list.calls[i];

		for (end = i + 1;
		     end < list.n && list.calls[end].tid == first->tid && list.calls[end].api == first->api;)
			end++;
		ret = add_calls_of_api(b, &list, first, end - i, s->begin_ns);
	}
	free(list.calls);
	free(list.kernels);
	return ret;
}
