// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/history/cuda_merge_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "stakeout/array.h"

#define MAX_KEYS 16 /* of a row, and one more */

void reading__clear(struct reading *r)
{
	free(r->frames);
	u64_table__release(&r->libraries);
}

void merge_refuse(struct reading *r, int code)
{
	if (!r->fields.ret)
		r->fields.ret = code;
}

bool merge_adds(const struct reading *r)
{
	return !r->fields.ret && r->merge;
}

/* Texts. */

uint32_t merge_word(struct reading *r, const char *text)
{
	struct cuda_merge *m = r->merge;
	uint32_t n;
	int ret;

	if (!text || r->fields.ret)
		return NO_WORD;
	ret = ARRAY_RESERVE(m->texts, m->texts_capacity, m->words.n_keys + 1);
	ret = ret ?: intern__add(&m->words, text, strlen(text) + 1, &n);
	if (ret > 0)
		m->texts[n] = json_string(text);
	if (ret < 0 || !m->texts[n]) {
		merge_refuse(r, -ENOMEM);
		return NO_WORD;
	}
	return n;
}

const char *merge_text(struct reading *r, const char *text)
{
	uint32_t n = merge_word(r, text);

	return n == NO_WORD ? NULL : json_string_value(r->merge->texts[n]);
}

uint32_t merge_frame(struct reading *r, const json_t *frame)
{
	json_int_t at = json_integer_value(frame);
	const char *text;

	if (json_is_integer(frame) && at >= 0 && (uint64_t)at < r->n_frames)
		return r->merge ? r->frames[at] : 0;
	text = json_fields__element(&r->fields, frame, "stack");
	return r->merge ? merge_word(r, text) : 0;
}

uint32_t merge_stack(struct reading *r, const json_t *frames)
{
	const json_t *frame;
	size_t i, n = 0;
	uint32_t number = 0;

	json_array_foreach (frames, i, frame)
		r->stack[n++] = merge_frame(r, frame);
	if (merge_adds(r) && intern__add(&r->merge->stacks, r->stack, n * sizeof(*r->stack), &number) < 0)
		merge_refuse(r, -ENOMEM);
	return number;
}

/* Sums. */

void merge_sum_count(uint64_t *sum, uint64_t more)
{
	/* Both are below 2^63. */
	*sum += more;
	if (*sum > INT64_MAX)
		*sum = INT64_MAX;
}

void merge_sum_signed(int64_t *sum, int64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = more > 0 ? INT64_MAX : INT64_MIN;
}

void merge_sum_real(double *sum, double more)
{
	*sum += more;
	if (!isfinite(*sum))
		*sum = 1e308;
}

void merge_sum_mean(struct mean *mean, double value, double weight)
{
	if (isnan(value))
		return;
	if (weight < 1e-9)
		weight = 1e-9;
	merge_sum_real(&mean->sum, value * weight);
	merge_sum_real(&mean->weight, weight);
}

static void sum_member(const struct so_cuda_member *m, void *to, const void *more)
{
	uint64_t *count = to;

	if (m->sum == SO_CUDA_SUM_LEAST && *(const uint64_t *)more < *count)
		*count = *(const uint64_t *)more;
	if (m->sum == SO_CUDA_SUM_GREATEST && *(const uint64_t *)more > *count)
		*count = *(const uint64_t *)more;
	if (m->sum != SO_CUDA_SUM_SUM)
		return;
	if (m->type == SO_CUDA_TYPE_FLAG)
		*(bool *)to |= *(const bool *)more;
	else if (m->type == SO_CUDA_TYPE_NUMBER || m->type == SO_CUDA_TYPE_SECONDS)
		merge_sum_real(to, *(const double *)more);
	else
		merge_sum_count(to, *(const uint64_t *)more);
}

static const char *text_of(void *r, const char *text)
{
	return merge_text(r, text);
}

static void sum_members(enum so_cuda_row_kind kind, void *row, const void *sum)
{
	for (const struct so_cuda_member *m = so_cuda_rows__of(kind)->members; m->word; m++)
		sum_member(m, (char *)row + m->offset, (const char *)sum + m->offset);
}

void merge_sum_row(struct reading *r, enum so_cuda_row_kind kind, void *row, const void *sum)
{
	so_cuda_row__replace_texts(kind, row, text_of, r);
	sum_members(kind, row, sum);
}

static uint64_t key_of(const struct so_cuda_member *m, const void *at)
{
	const char *const *text = at;

	switch (m->type) {
	case SO_CUDA_TYPE_FLAG:
		return *(const bool *)at;
	case SO_CUDA_TYPE_CODE:
		return *(const uint32_t *)at;
	case SO_CUDA_TYPE_INTEGER:
		return *(const uint64_t *)at;
	default: /* equal texts are one */
		return (uintptr_t)*text;
	}
}

void *merge_add_row(struct reading *r, enum so_cuda_row_kind kind, void *row, uint64_t more)
{
	const struct so_cuda_rows *rows = so_cuda_rows__of(kind);
	struct table *table = &r->merge->tables[kind];
	uint64_t key[MAX_KEYS] = { more };
	size_t n_keys = 1;
	uint32_t n;
	int known;

	so_cuda_row__replace_texts(kind, row, text_of, r);
	if (!r->fields.ret && ARRAY_RESERVE(table->rows, table->capacity, (table_size(table) + 1) * table->row_bytes))
		merge_refuse(r, -ENOMEM);
	if (r->fields.ret)
		return NULL;
	for (const struct so_cuda_member *m = rows->members; m->word; m++)
		if (m->sum == SO_CUDA_SUM_KEY)
			key[n_keys++] = key_of(m, (const char *)row + m->offset);
	known = intern__add(&table->keys, key, n_keys * sizeof(*key), &n);
	if (known < 0 || n >= SO_CUDA_MAX_ROWS) {
		merge_refuse(r, known < 0 ? known : -EFBIG);
		return NULL;
	}
	if (known > 0)
		memset(table_row(table, n), 0, table->row_bytes);
	else
		sum_members(kind, row, table_row(table, n));
	return memcpy(table_row(table, n), row, rows->row_bytes);
}
