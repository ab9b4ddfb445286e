// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A document is read twice: the first time only to check it (struct reading without a merger), so that one that is
 * refused leaves nothing behind.
 */
#include <errno.h>
#include <string.h>

#include "daemon/history/cuda_merge_internal.h"
#include "stakeout/cuda_names.h"

const char *const cuda_merge_states[CUDA_MERGE_STATES] = { "full", "fewer-stacks", "counted", "windowed",
							   "not-watched" };

/* A document's counts by word into `sums`, each what join() makes of both. */
static void add_words(struct reading *r, const json_t *found, json_t *sums, uint64_t (*join)(uint64_t, uint64_t))
{
	const char *name;
	json_t *value;

	if (r->fields.ret)
		return;
	json_object_foreach ((json_t *)found, name, value) {
		uint64_t n = json_fields__count(&r->fields, found, name), before;

		if (!merge_adds(r))
			continue;
		before = (uint64_t)json_integer_value(json_object_get(sums, name));
		if (json_object_set_new_nocheck(sums, name, json_integer((json_int_t)join(before, n))))
			merge_refuse(r, -ENOMEM);
		if (json_object_size(sums) > CUDA_MERGE_MAX_TEXTS)
			merge_refuse(r, -EFBIG);
	}
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
	merge_sum_count(&a, b);
	return a;
}

static uint64_t greater_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void add_problems(struct reading *r, const json_t *document)
{
	const json_t *found = json_fields__list(&r->fields, document, "problems", CUDA_MERGE_MAX_TEXTS), *value;
	uint32_t n;
	size_t i;

	if (r->fields.ret)
		return;
	json_array_foreach (found, i, value) {
		const char *problem = json_fields__element(&r->fields, value, "problems");

		if (merge_adds(r) && intern__add(&r->merge->problems, problem, strlen(problem) + 1, &n) < 0)
			merge_refuse(r, -ENOMEM);
		if (r->merge && r->merge->problems.n_keys > CUDA_MERGE_MAX_TEXTS)
			merge_refuse(r, -EFBIG);
	}
}

static unsigned state_of(const char *found)
{
	unsigned state = 0;

	/* An older daemon's. */
	if (found && !strcmp(found, "duty-cycle"))
		found = "windowed";
	for (unsigned i = 0; found && i < CUDA_MERGE_STATES; i++)
		if (!strcmp(found, cuda_merge_states[i]))
			state = i;
	return state;
}

/* The lowest of each. */
static void add_rungs(struct reading *r, const json_t *found)
{
	const char *name;
	json_t *value;

	if (r->fields.ret)
		return;
	json_object_foreach ((json_t *)found, name, value) {
		const char *rung = json_fields__text(&r->fields, found, name, NULL);
		json_t *sums = r->merge ? r->merge->rungs : NULL;

		if (!merge_adds(r) || state_of(rung) < state_of(json_string_value(json_object_get(sums, name))))
			continue;
		if (json_object_set_new_nocheck(sums, name, json_string(cuda_merge_states[state_of(rung)])))
			merge_refuse(r, -ENOMEM);
		if (json_object_size(sums) > CUDA_MERGE_MAX_TEXTS)
			merge_refuse(r, -EFBIG);
	}
}

static void add_probes(struct reading *r, const json_t *document)
{
	const json_t *probes = json_fields__object(&r->fields, document, "probes");
	struct cuda_merge *m = r->merge;
	struct so_cuda_probes_row row;

	if (!probes || !so_cuda_row__read(&r->fields, SO_CUDA_ROW_PROBES, probes, &row))
		return;
	add_rungs(r, row.rungs_json);
	add_words(r, row.stack_period_json, m ? m->periods : NULL, greater_of);
	add_words(r, row.stack_time_ns_json, m ? m->stack_times : NULL, greater_of);
	if (!merge_adds(r))
		return;
	m->has_probes = true;
	m->state = (unsigned)greater_of(m->state, state_of(row.state));
	merge_sum_mean(&m->overhead, row.overhead_percent, r->duration_s);
	merge_sum_row(r, SO_CUDA_ROW_PROBES, &row, &m->probes);
	m->probes = row;
}

static void add_gpu(struct reading *r, const json_t *document)
{
	const json_t *gpu = json_fields__object(&r->fields, document, "gpu");
	const char *problem = json_fields__text(&r->fields, document, "gpu_problem", NULL),
		   *driver = json_fields__text(&r->fields, gpu, "driver", NULL);
	int64_t left_out = json_fields__integer(&r->fields, gpu, "devices_left_out");

	merge_devices(r, gpu);
	if (!merge_adds(r))
		return;
	if (problem)
		r->merge->gpu_problem = merge_text(r, problem);
	if (!gpu)
		return;
	r->merge->gpu = true;
	r->merge->driver = merge_text(r, driver ?: "");
	r->merge->devices_left_out = left_out;
}

#define MOST_ESTIMATED 1e30

static void add_estimate(struct reading *r, const json_t *found, unsigned at)
{
	struct so_cuda_estimate estimate = {
#define X(member, word) .member = json_fields__number(&r->fields, found, word, MOST_ESTIMATED, 0),
		SO_CUDA_ESTIMATE_SUMS(X)
#undef X
	}, *sum;

	if (!merge_adds(r))
		return;
	sum = &r->merge->estimates.of[at];
#define X(member, word) merge_sum_real(&sum->member, estimate.member);
	SO_CUDA_ESTIMATE_SUMS(X)
#undef X
}

static void add_estimates(struct reading *r, const json_t *document, bool estimated)
{
	const json_t *found = json_fields__object(&r->fields, document, "estimate"),
		     *apis = json_fields__object(&r->fields, found, "by_api");
	bool known = apis || json_is_null(json_object_get(document, "estimate")) || !estimated;
	const char *name;
	json_t *value;

	add_estimate(r, found, CUDA_ESTIMATE_ALL);
	if (r->fields.ret)
		return;
	json_object_foreach ((json_t *)apis, name, value) {
		const json_t *sums = json_fields__object(&r->fields, apis, name);
		unsigned api = cuda_names__api_of(name);

		if (api < SO_CUDA_API_COUNT)
			add_estimate(r, sums, api);
		else
			known = false;
	}
	/* An older daemon's, or with an API of a newer one. */
	if (merge_adds(r) && !known)
		r->merge->intervals_unknown = true;
}

static void add_head(struct reading *r, const json_t *document)
{
	json_t *running = json_object_get(document, "in_progress");
	struct cuda_merge *m = r->merge;
	struct so_cuda_head_row row;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_HEAD, document, &row))
		return;
	r->duration_s = row.duration_s;
	add_estimates(r, document, row.estimated);
	if (!merge_adds(r))
		return;
	merge_sum_row(r, SO_CUDA_ROW_HEAD, &row, &m->head);
	m->head = row;
	json_decref(m->in_progress);
	m->in_progress = json_is_array(running) ? json_deep_copy(running) : json_array();
	if (!m->in_progress)
		merge_refuse(r, -ENOMEM);
}

static void read_frames(struct reading *r, const json_t *document)
{
	const json_t *found = json_fields__list(&r->fields, document, "frames", SIZE_MAX), *value;
	size_t i;

	if (r->fields.ret)
		return;
	if (r->merge && json_array_size(found)) {
		r->frames = calloc(json_array_size(found), sizeof(*r->frames));
		if (!r->frames)
			merge_refuse(r, -ENOMEM);
	}
	json_array_foreach (found, i, value) {
		/* A place in the list would be one in what is not read yet: n_frames is still 0. */
		uint32_t number = merge_frame(r, value);

		if (merge_adds(r))
			r->frames[i] = number;
	}
	r->n_frames = json_array_size(found);
}

static void read_document(struct reading *r, const json_t *document)
{
	if (!json_is_object(document))
		merge_refuse(r, -EBADMSG);
	read_frames(r, document);
	add_head(r, document);
	merge_rows(r, document);
	add_words(r, json_fields__object(&r->fields, document, "lost"), r->merge ? r->merge->lost : NULL, sum_of);
	add_problems(r, document);
	add_probes(r, document);
	add_gpu(r, document);
}

int cuda_merge__check(const json_t *document)
{
	__attribute__((cleanup(reading__clear))) struct reading r = { .fields.whole = true };

	read_document(&r, document);
	return r.fields.ret ? -EBADMSG : 0;
}

/* What has been added since the last look is less than a document's own size, but for constant factors. */
static bool is_too_large(const struct cuda_merge *m)
{
	size_t bytes =
		m->words.bytes_capacity + m->stacks.bytes_capacity + m->problems.bytes_capacity + m->buckets_bytes;

	for (unsigned kind = 0; kind < SO_CUDA_ROW_KINDS; kind++) {
		const struct table *table = &m->tables[kind];

		bytes +=
			table->capacity + table->keys.bytes_capacity + table->keys.n_slots * sizeof(struct intern_slot);
	}
	return bytes > CUDA_MERGE_MAX_BYTES;
}

int cuda_merge__add(struct cuda_merge *m, const json_t *document)
{
	__attribute__((cleanup(reading__clear))) struct reading r = { .merge = m, .fields.whole = true };
	int ret = cuda_merge__check(document);

	if (ret)
		return ret;
	m->n_documents++;
	read_document(&r, document);
	return r.fields.ret ?: is_too_large(m) ? -EFBIG : 0;
}

uint64_t cuda_merge__documents(const struct cuda_merge *m)
{
	return m->n_documents;
}

struct cuda_merge *cuda_merge__new(void)
{
	_cleanup_(cuda_merge) struct cuda_merge *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->tables[SO_CUDA_ROW_LIBRARY].row_bytes = sizeof(struct so_cuda_library_row);
	m->tables[SO_CUDA_ROW_CALL].row_bytes = sizeof(struct call_row);
	m->tables[SO_CUDA_ROW_ERROR].row_bytes = sizeof(struct so_cuda_error_row);
	m->tables[SO_CUDA_ROW_LINE].row_bytes = sizeof(struct line_row);
	m->tables[SO_CUDA_ROW_ALLOCATION].row_bytes = sizeof(struct site_row);
	m->tables[SO_CUDA_ROW_DEVICE].row_bytes = sizeof(struct device_row);
	m->head.comm = "";
	m->lost = json_object();
	m->rungs = json_object();
	m->periods = json_object();
	m->stack_times = json_object();
	m->in_progress = json_array();
	return m->lost && m->rungs && m->periods && m->stack_times && m->in_progress ? TAKE_PTR(m) : NULL;
}

void cuda_merge__free(struct cuda_merge *m)
{
	const struct table *calls;

	if (!m)
		return;
	calls = &m->tables[SO_CUDA_ROW_CALL];
	for (size_t i = 0; i < table_size(calls); i++)
		free(((struct call_row *)table_row(calls, i))->buckets);
	for (unsigned kind = 0; kind < SO_CUDA_ROW_KINDS; kind++) {
		intern__clear(&m->tables[kind].keys);
		free(m->tables[kind].rows);
	}
	for (size_t i = 0; i < m->words.n_keys; i++)
		json_decref(m->texts[i]);
	free(m->texts);
	intern__clear(&m->words);
	intern__clear(&m->stacks);
	intern__clear(&m->problems);
	json_decref(m->lost);
	json_decref(m->rungs);
	json_decref(m->periods);
	json_decref(m->stack_times);
	json_decref(m->in_progress);
	free(m);
}
