// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_fields.h"

#include <errno.h>
#include <string.h>

#include "stakeout/array.h"

void cuda_fields__clear(struct cuda_fields *fields)
{
	intern__clear(&fields->texts);
	text__clear(&fields->text);
	free(fields->clean);
	fields->clean = NULL;
}

static void no_memory(struct cuda_fields *fields)
{
	if (fields->json.ret)
		return;
	fields->json.ret = arena__error(fields->arena) ?: -ENOMEM;
	if (fields->json.ret == -EFBIG)
		so_err(fields->json.err, -EFBIG, "%s is too large", fields->json.what);
	else
		so_err(fields->json.err, -ENOMEM, "out of memory");
}

const char *cuda_fields__clean(struct cuda_fields *fields, const char *text)
{
	uint32_t number;
	char *copy;
	int ret;

	if (fields->json.ret)
		return "";
	ret = ARRAY_RESERVE(fields->clean, fields->clean_capacity, fields->texts.n_keys + 1);
	ret = ret ?: intern__add(&fields->texts, text, strlen(text), &number);
	if (ret == 0)
		return fields->clean[number];
	fields->text.length = 0;
	if (ret > 0 && !frame_text__words(text, &fields->text)) {
		copy = arena__alloc(fields->arena, fields->text.length + 1);
		if (copy) {
			if (fields->text.length)
				memcpy(copy, fields->text.bytes, fields->text.length);
			copy[fields->text.length] = '\0';
			return fields->clean[number] = copy;
		}
	}
	/* The number is taken, its text is not there: nothing looks it up any more. */
	no_memory(fields);
	return "";
}

const char *cuda_fields__text(struct cuda_fields *fields, const json_t *row, const char *key, const char *absent)
{
	const char *text = json_fields__text(&fields->json, row, key, NULL);

	return text ? cuda_fields__clean(fields, text) : absent;
}

void *cuda_fields__array(struct cuda_fields *fields, size_t n, size_t size)
{
	void *array = fields->json.ret ? NULL : arena__array(fields->arena, n, size);

	if (array)
		memset(array, 0, n * size);
	else
		no_memory(fields);
	return array;
}
