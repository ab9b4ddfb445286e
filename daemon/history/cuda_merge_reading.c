// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/history/cuda_merge_reading.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "stakeout/array.h"

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

const char *merge_address(struct reading *r, const json_t *row, const char *key)
{
	json_fields__address(&r->fields, row, key);
	return json_string_value(json_fields__member(&r->fields, row, key));
}

/* Adding. */

bool merge_adds(const struct reading *r)
{
	return !r->fields.ret && r->merge;
}

uint32_t merge_word(struct reading *r, const char *found)
{
	uint32_t n;

	if (!found || r->fields.ret)
		return NO_WORD;
	if (intern__add(&r->merge->words, found, strlen(found) + 1, &n) < 0) {
		merge_refuse(r, -ENOMEM);
		return NO_WORD;
	}
	return n;
}

void *merge_row(struct reading *r, struct table *table, const void *key, size_t length, bool *new)
{
	uint32_t n;
	int known;

	if (r->fields.ret)
		return NULL;
	if (ARRAY_RESERVE(table->rows, table->capacity, (table_size(table) + 1) * table->row_bytes)) {
		merge_refuse(r, -ENOMEM);
		return NULL;
	}
	known = intern__add(&table->keys, key, length, &n);
	if (known > 0)
		memset(table_row(table, n), 0, table->row_bytes);
	if (known < 0 || n >= CUDA_MERGE_MAX_ROWS) {
		merge_refuse(r, known < 0 ? known : -EFBIG);
		return NULL;
	}
	if (new)
		*new = known > 0;
	return table_row(table, n);
}

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
	if (value < 0)
		return;
	if (weight < 1e-9)
		weight = 1e-9;
	merge_sum_real(&mean->sum, value * weight);
	merge_sum_real(&mean->weight, weight);
}

/* Stacks: texts, or places in "frames". */

uint32_t merge_frame(struct reading *r, const json_t *value)
{
	json_int_t at = json_integer_value(value);
	const char *text;

	if (json_is_integer(value) && at >= 0 && (uint64_t)at < r->n_frames)
		return r->merge ? r->frames[at] : 0;
	text = json_fields__element(&r->fields, value, "stack");
	return r->merge ? merge_word(r, text) : 0;
}

uint32_t merge_stack(struct reading *r, const json_t *row)
{
	const json_t *found = json_fields__list(&r->fields, row, "stack", CUDA_MERGE_MAX_FRAMES), *value;
	size_t i, n = 0;
	uint32_t number = 0;

	if (r->fields.ret)
		return 0;
	json_array_foreach (found, i, value)
		r->stack[n++] = merge_frame(r, value);
	if (merge_adds(r) && intern__add(&r->merge->stacks, r->stack, n * sizeof(*r->stack), &number) < 0)
		merge_refuse(r, -ENOMEM);
	return number;
}
