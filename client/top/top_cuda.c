// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_report.h"
#include "stakeout/array.h"

#define NAMED_APIS 4

static bool waits(enum so_cuda_kind kind)
{
	enum so_cuda_kind does = so_cuda_kind__does(kind);

	return does == SO_CUDA_SYNC || kind == SO_CUDA_BLOCKING_COPY;
}

/* Of one answer, by number of the API: what it has now. */
struct sums {
	uint64_t calls, total_ns;
	bool waits;
};

static int find_api(struct top_cuda *cuda, const char *name, uint32_t *number)
{
	int ret;

	if (ARRAY_RESERVE(cuda->list, cuda->capacity, cuda->apis.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&cuda->apis, name, strlen(name), number);
	if (ret > 0)
		cuda->list[*number] = (struct top_cuda_api){ .calls = 0 };
	return ret < 0 ? ret : 0;
}

static int add_up(struct top_cuda *cuda, const struct cuda_report *report, struct sums **sums, size_t *capacity)
{
	uint32_t number;
	int ret;

	for (size_t i = 0; i < report->n_calls; i++) {
		const struct cuda_call *call = &report->calls[i];

		ret = find_api(cuda, call->api, &number);
		if (ret)
			return ret;
		while (*capacity < cuda->apis.n_keys) {
			size_t before = *capacity;

			if (ARRAY_RESERVE(*sums, *capacity, cuda->apis.n_keys))
				return -ENOMEM;
			memset(*sums + before, 0, (*capacity - before) * sizeof(**sums));
		}
		(*sums)[number].calls += call->calls;
		(*sums)[number].total_ns += call->total_ns;
		(*sums)[number].waits |= waits(call->kind);
	}
	return 0;
}

/* An answer with less than the one before is of a target that was attached anew. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void compare(struct top_cuda *cuda, const struct sums *sums, size_t n, double seconds)
{
	static const struct sums none = { .calls = 0 };

	for (size_t i = 0; i < cuda->apis.n_keys; i++) {
		struct top_cuda_api *api = &cuda->list[i];
		const struct sums *now = i < n ? &sums[i] : &none;

		api->rate = seconds > 0 ? (double)grown(now->calls, api->calls) / seconds : 0;
		api->waits_ns = seconds > 0 && now->waits ? (double)grown(now->total_ns, api->total_ns) / seconds : 0;
		api->calls = now->calls;
		api->total_ns = now->total_ns;
	}
}

int top_cuda__take(struct top_cuda *cuda, const json_t *answer, double now_s, struct so_error *err)
{
	_cleanup_(cuda_report) struct cuda_report *report = NULL;
	_cleanup_free_ struct sums *sums = NULL;
	size_t capacity = 0;
	int ret = cuda_report__read(answer, &report, err);

	if (ret)
		return ret;
	ret = add_up(cuda, report, &sums, &capacity);
	if (ret)
		return so_err(err, ret, "out of memory");
	compare(cuda, sums, capacity, cuda->at_s > 0 ? now_s - cuda->at_s : 0);
	cuda->compared = cuda->at_s > 0;
	cuda->at_s = now_s;
	return 0;
}

static int by_rate(const void *a, const void *b, void *context)
{
	const struct top_cuda *cuda = context;
	const struct top_cuda_api *x = &cuda->list[*(const size_t *)a], *y = &cuda->list[*(const size_t *)b];

	if (x->waits_ns != y->waits_ns)
		return x->waits_ns < y->waits_ns ? 1 : -1;
	if (x->rate != y->rate)
		return x->rate < y->rate ? 1 : -1;
	return (*(const size_t *)a > *(const size_t *)b) - (*(const size_t *)a < *(const size_t *)b);
}

static int add_api(const struct top_cuda *cuda, size_t number, const char *before, struct text *text)
{
	char name[128], figures[96];
	int n = (int)intern__length(&cuda->apis, number), ret;

	snprintf(name, sizeof(name), "%.*s", n, (const char *)intern__key(&cuda->apis, number));
	ret = frame_text__between(before, name, "", text);
	snprintf(figures, sizeof(figures), " %.0f/s", cuda->list[number].rate);
	if (cuda->list[number].waits_ns > 0)
		snprintf(figures + strlen(figures), sizeof(figures) - strlen(figures), " %.1f %%",
			 cuda->list[number].waits_ns / 1e7);
	return ret ?: frame_text__between(figures, "", "", text);
}

int top_cuda__text(const struct top_cuda *cuda, struct text *text)
{
	_cleanup_free_ size_t *order = calloc(cuda->apis.n_keys + 1, sizeof(*order));
	double rate = 0, waits_ns = 0;
	char head[96];
	int ret;

	if (!order)
		return -ENOMEM;
	if (!cuda->compared)
		return 0;
	for (size_t i = 0; i < cuda->apis.n_keys; i++) {
		order[i] = i;
		rate += cuda->list[i].rate;
		waits_ns += cuda->list[i].waits_ns;
	}
	if (cuda->apis.n_keys)
		qsort_r(order, cuda->apis.n_keys, sizeof(*order), by_rate, (void *)cuda);
	snprintf(head, sizeof(head), "CUDA %.0f calls/s, waits %.1f %%", rate, waits_ns / 1e7);
	ret = frame_text__between(head, "", "", text);
	for (size_t i = 0; !ret && i < cuda->apis.n_keys && i < NAMED_APIS && cuda->list[order[i]].rate > 0; i++)
		ret = add_api(cuda, order[i], i ? ", " : ": ", text);
	return ret;
}

void top_cuda__clear(struct top_cuda *cuda)
{
	intern__clear(&cuda->apis);
	free(cuda->list);
	*cuda = (struct top_cuda){ .capacity = 0 };
}
