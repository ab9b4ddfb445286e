// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/cuda_document.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_API_BYTES 128
#define MAX_SECONDS   1e15

const struct so_cuda_rows *so_cuda_rows__of(enum so_cuda_row_kind kind)
{
	switch (kind) {
#define MEMBER(type, member, word, sum) { word, SO_CUDA_TYPE_##type, SO_CUDA_SUM_##sum, offsetof(row, member) },
#define X(KIND, kind, list)                                                                              \
	case SO_CUDA_ROW_##KIND: {                                                                       \
		typedef struct so_cuda_##kind##_row row;                                                 \
		static const struct so_cuda_member members[] = { SO_CUDA_##KIND##_ROW(MEMBER){ NULL } }; \
		static const struct so_cuda_rows rows = { list, sizeof(row), members };                  \
		return &rows;                                                                            \
	}
		SO_CUDA_ROWS(X)
#undef X
#undef MEMBER
	case SO_CUDA_ROW_KINDS:
		break;
	}
	return NULL;
}

/* Reading. */

/* Other code may rely on its being short and ASCII. */
static const char *read_api(struct json_fields *fields, const json_t *json, const char *word)
{
	const char *api = json_fields__text(fields, json, word, "");
	size_t n = strlen(api);

	if (n <= MAX_API_BYTES && n == strspn(api, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
		return api;
	json_fields__refuse(fields, -EPROTO, word, "a function's name is expected");
	return "";
}

static uint32_t read_code(struct json_fields *fields, const json_t *json, const char *word)
{
	uint64_t code = json_fields__count(fields, json, word);

	if (code > UINT32_MAX)
		json_fields__refuse(fields, -EPROTO, word, "a 32-bit code is expected");
	return (uint32_t)code;
}

static void read_dim3(struct json_fields *fields, const json_t *json, const char *word, uint32_t *out)
{
	const json_t *list = json_fields__list(fields, json, word, 3), *value;
	size_t i;

	memset(out, 0, sizeof(so_cuda_dim3));
	json_array_foreach (list, i, value) {
		json_int_t n = json_integer_value(value);

		if (!json_is_integer(value) || json_array_size(list) != 3 || n < 0 || n > UINT32_MAX)
			json_fields__refuse(fields, -EPROTO, word, "three counts are expected");
		out[i] = (uint32_t)n;
	}
}

static double read_number(struct json_fields *fields, const struct so_cuda_member *m, const json_t *json)
{
	bool seconds = m->type == SO_CUDA_TYPE_SECONDS || m->type == SO_CUDA_TYPE_STORED_SECONDS;
	bool zero = m->type == SO_CUDA_TYPE_SECONDS || m->type == SO_CUDA_TYPE_NUMBER;
	double most = m->type == SO_CUDA_TYPE_PERCENT ? 100 : seconds ? MAX_SECONDS : HUGE_VAL;

	return json_fields__number(fields, json, m->word, most, zero ? 0 : NAN);
}

static json_t *read_list(struct json_fields *fields, const struct so_cuda_member *m, const json_t *json)
{
	size_t most = m->type == SO_CUDA_TYPE_STACK       ? SO_CUDA_MAX_FRAMES
		      : m->type == SO_CUDA_TYPE_HISTOGRAM ? SO_CUDA_MAX_BUCKETS
							  : SO_CUDA_MAX_ROWS;

	return json_fields__list(fields, json, m->word, most);
}

static void read_member(struct json_fields *fields, const struct so_cuda_member *m, const json_t *json, void *at)
{
	switch (m->type) {
	case SO_CUDA_TYPE_TEXT:
	case SO_CUDA_TYPE_NAME:
		*(const char **)at = json_fields__text(fields, json, m->word, m->type == SO_CUDA_TYPE_TEXT ? "" : NULL);
		break;
	case SO_CUDA_TYPE_API:
		*(const char **)at = read_api(fields, json, m->word);
		break;
	case SO_CUDA_TYPE_FLAG:
		*(bool *)at = json_fields__flag(fields, json, m->word, false);
		break;
	case SO_CUDA_TYPE_INTEGER:
		*(int64_t *)at = json_fields__integer(fields, json, m->word);
		break;
	case SO_CUDA_TYPE_COUNT:
	case SO_CUDA_TYPE_STORED_COUNT:
		*(uint64_t *)at = json_fields__count(fields, json, m->word);
		break;
	case SO_CUDA_TYPE_CODE:
		*(uint32_t *)at = read_code(fields, json, m->word);
		break;
	case SO_CUDA_TYPE_NUMBER:
	case SO_CUDA_TYPE_SECONDS:
	case SO_CUDA_TYPE_KNOWN:
	case SO_CUDA_TYPE_PERCENT:
	case SO_CUDA_TYPE_STORED_SECONDS:
		*(double *)at = read_number(fields, m, json);
		break;
	case SO_CUDA_TYPE_ADDRESS:
	case SO_CUDA_TYPE_HANDLE:
		*(uint64_t *)at = json_fields__address(fields, json, m->word);
		break;
	case SO_CUDA_TYPE_DIM3:
		read_dim3(fields, json, m->word, at);
		break;
	case SO_CUDA_TYPE_STACK:
	case SO_CUDA_TYPE_HISTOGRAM:
	case SO_CUDA_TYPE_ROWS:
		*(json_t **)at = read_list(fields, m, json);
		break;
	case SO_CUDA_TYPE_OBJECT:
		*(json_t **)at = json_fields__object(fields, json, m->word);
		break;
	}
}

static void check_call(struct json_fields *fields, const struct so_cuda_call_row *call)
{
	if (!*call->api)
		json_fields__refuse(fields, -EPROTO, "api", "a function's name is expected");
	if (call->min_ns > call->max_ns)
		json_fields__refuse(fields, -EPROTO, "min_ns", "above max_ns");
	if (call->errors > call->calls)
		json_fields__refuse(fields, -EPROTO, "errors", "more than calls");
}

bool so_cuda_row__read(struct json_fields *fields, enum so_cuda_row_kind kind, const json_t *json, void *row)
{
	for (const struct so_cuda_member *m = so_cuda_rows__of(kind)->members; m->word; m++)
		read_member(fields, m, json, (char *)row + m->offset);
	if (kind == SO_CUDA_ROW_CALL)
		check_call(fields, row);
	return !fields->ret;
}

void so_cuda_row__replace_texts(enum so_cuda_row_kind kind, void *row,
				const char *(*replace)(void *data, const char *text), void *data)
{
	for (const struct so_cuda_member *m = so_cuda_rows__of(kind)->members; m->word; m++) {
		const char **text = (const char **)((char *)row + m->offset);

		if ((m->type == SO_CUDA_TYPE_TEXT || m->type == SO_CUDA_TYPE_NAME || m->type == SO_CUDA_TYPE_API) &&
		    *text)
			*text = replace(data, *text);
	}
}

/* Writing. */

static json_t *count(uint64_t value)
{
	return json_integer(value <= INT64_MAX ? (json_int_t)value : INT64_MAX);
}

static json_t *number(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *text(const char *value)
{
	return value ? json_string(value) : json_null();
}

static json_t *address(uint64_t value)
{
	char digits[19];

	snprintf(digits, sizeof(digits), "0x%" PRIx64, value);
	return json_string(digits);
}

static json_t *write_member(const struct so_cuda_member *m, const void *at)
{
	const uint32_t *dim3 = at;

	switch (m->type) {
	case SO_CUDA_TYPE_TEXT:
	case SO_CUDA_TYPE_NAME:
	case SO_CUDA_TYPE_API:
		return text(*(const char *const *)at);
	case SO_CUDA_TYPE_FLAG:
		return json_boolean(*(const bool *)at);
	case SO_CUDA_TYPE_INTEGER:
		return json_integer(*(const int64_t *)at);
	case SO_CUDA_TYPE_COUNT:
	case SO_CUDA_TYPE_STORED_COUNT:
		return count(*(const uint64_t *)at);
	case SO_CUDA_TYPE_CODE:
		return count(*(const uint32_t *)at);
	case SO_CUDA_TYPE_NUMBER:
	case SO_CUDA_TYPE_SECONDS:
	case SO_CUDA_TYPE_KNOWN:
	case SO_CUDA_TYPE_PERCENT:
	case SO_CUDA_TYPE_STORED_SECONDS:
		return number(*(const double *)at);
	case SO_CUDA_TYPE_ADDRESS:
		return address(*(const uint64_t *)at);
	case SO_CUDA_TYPE_HANDLE:
		return *(const uint64_t *)at ? address(*(const uint64_t *)at) : json_null();
	case SO_CUDA_TYPE_DIM3:
		return json_pack("[I, I, I]", (json_int_t)dim3[0], (json_int_t)dim3[1], (json_int_t)dim3[2]);
	case SO_CUDA_TYPE_STACK:
	case SO_CUDA_TYPE_HISTOGRAM:
	case SO_CUDA_TYPE_ROWS:
	case SO_CUDA_TYPE_OBJECT:
		return *(json_t *const *)at;
	}
	return NULL;
}

json_t *so_cuda_row__write(enum so_cuda_row_kind kind, const void *row, bool stored)
{
	json_t *json = json_object();
	int ret = 0;

	/* To the end: each reference is taken over. */
	for (const struct so_cuda_member *m = so_cuda_rows__of(kind)->members; m->word; m++) {
		if (stored || m->type < SO_CUDA_TYPE_STORED_COUNT)
			ret |= json_object_set_new_nocheck(json, m->word,
							   write_member(m, (const char *)row + m->offset));
	}
	if (!ret)
		return json;
	json_decref(json);
	return NULL;
}

/* Histograms. */

/* false: it is none of latency.h's. */
static bool read_bucket(const json_t *triple, struct cuda_bucket *out)
{
	json_int_t lower = json_integer_value(json_array_get(triple, 0)),
		   width = json_integer_value(json_array_get(triple, 1)),
		   count = json_integer_value(json_array_get(triple, 2));
	uint32_t octave, bucket;

	for (size_t i = 0; i < 3; i++)
		if (!json_is_integer(json_array_get(triple, i)))
			return false;
	if (json_array_size(triple) != 3 || lower < 0 || width < 0 || count < 0)
		return false;
	octave = latency_octave((uint64_t)lower);
	bucket = latency_bucket((uint64_t)lower, octave);
	*out = (struct cuda_bucket){ octave * LATENCY_BUCKETS + bucket, (uint64_t)count };
	return latency_lower(octave, bucket) == (uint64_t)lower && latency_width(octave) == (uint64_t)width;
}

bool so_cuda_buckets__read(struct json_fields *fields, const json_t *histogram, struct cuda_bucket *out)
{
	const json_t *triple;
	size_t i;

	json_array_foreach (histogram, i, triple) {
		if (!fields->ret && read_bucket(triple, &out[i]) && (!i || out[i].index > out[i - 1].index))
			continue;
		json_fields__refuse(fields, -EPROTO, "histogram",
				    "rising [lower_ns, width_ns, count] of this version are expected");
		return false;
	}
	return !fields->ret;
}

json_t *so_cuda_bucket__write(const struct cuda_bucket *b)
{
	uint32_t octave = b->index / LATENCY_BUCKETS, bucket = b->index % LATENCY_BUCKETS;

	return json_pack("[I, I, I]", (json_int_t)latency_lower(octave, bucket), (json_int_t)latency_width(octave),
			 b->count <= INT64_MAX ? (json_int_t)b->count : INT64_MAX);
}
