// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stakeout/array.h"

/* A real number of this size, or above, has no fraction and may not fit 64 bits. */
#define MOST_COUNT 0x1p63

void cuda_fields__clear(struct cuda_fields *fields)
{
	intern__clear(&fields->texts);
	text__clear(&fields->text);
	free(fields->clean);
	fields->clean = NULL;
}

int cuda_fields__refuse(struct cuda_fields *fields, int code, const char *key, const char *what)
{
	if (fields->rc)
		return fields->rc;
	fields->rc = code;
	return so_err(fields->err, code, "the daemon's answer about CUDA calls is not understood: %s%s: %s",
		      fields->where, key, what);
}

static void no_memory(struct cuda_fields *fields)
{
	if (fields->rc)
		return;
	fields->rc = arena__error(fields->arena) ?: -ENOMEM;
	if (fields->rc == -EFBIG)
		so_err(fields->err, -EFBIG, "the daemon's answer about CUDA calls is too large");
	else
		so_err(fields->err, -ENOMEM, "out of memory");
}

bool cuda_fields__row(struct cuda_fields *fields, const json_t *row, const char *list, size_t index)
{
	if (fields->rc)
		return false;
	if (list)
		snprintf(fields->where, sizeof(fields->where), "%s[%zu].", list, index);
	else
		fields->where[0] = '\0';
	if (json_is_object(row))
		return true;
	cuda_fields__refuse(fields, -EPROTO, "", "an object is expected");
	return false;
}

/* NULL: absent, or nothing is read any more. */
static const json_t *member(const struct cuda_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = fields->rc ? NULL : json_object_get(row, key);

	return json_is_null(value) ? NULL : value;
}

uint64_t cuda_fields__count(struct cuda_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = member(fields, row, key);

	if (!value)
		return 0;
	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return (uint64_t)json_integer_value(value);
	if (json_is_real(value) && json_real_value(value) >= 0 && json_real_value(value) < MOST_COUNT)
		return (uint64_t)llround(json_real_value(value));
	cuda_fields__refuse(fields, -EPROTO, key, "a count from 0 is expected");
	return 0;
}

int64_t cuda_fields__integer(struct cuda_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = member(fields, row, key);

	if (json_is_integer(value))
		return json_integer_value(value);
	if (value)
		cuda_fields__refuse(fields, -EPROTO, key, "a whole number is expected");
	return 0;
}

double cuda_fields__number(struct cuda_fields *fields, const json_t *row, const char *key, double most, double absent)
{
	const json_t *value = member(fields, row, key);
	double number = value ? json_number_value(value) : absent;

	if (!value || (json_is_number(value) && number >= 0 && number <= most))
		return number;
	cuda_fields__refuse(fields, -EPROTO, key,
			    most < 1e6 ? "a number in its range is expected" : "a number from 0 is expected");
	return absent;
}

bool cuda_fields__flag(struct cuda_fields *fields, const json_t *row, const char *key, bool absent)
{
	const json_t *value = member(fields, row, key);

	if (json_is_boolean(value))
		return json_boolean_value(value);
	if (value)
		cuda_fields__refuse(fields, -EPROTO, key, "true or false is expected");
	return absent;
}

bool cuda_fields__address(struct cuda_fields *fields, const json_t *row, const char *key, uint64_t *out)
{
	const json_t *value = member(fields, row, key);
	const char *text = json_string_value(value);
	unsigned long long address;
	char *end;

	if (!value)
		return false;
	errno = 0;
	if (text && !strncmp(text, "0x", 2) && strspn(text + 2, "0123456789abcdefABCDEF")) {
		address = strtoull(text, &end, 16);
		if (!errno && !*end) {
			*out = address;
			return true;
		}
	}
	cuda_fields__refuse(fields, -EPROTO, key, "an address such as \"0x7f12\" is expected");
	return false;
}

const char *cuda_fields__clean(struct cuda_fields *fields, const char *text, size_t length)
{
	uint32_t number;
	char *copy;
	int r;

	if (fields->rc)
		return "";
	/* A NUL inside would cut what is compared, not only what is shown. */
	if (strlen(text) != length) {
		cuda_fields__refuse(fields, -EPROTO, "", "a text with a zero byte");
		return "";
	}
	r = ARRAY_RESERVE(fields->clean, fields->clean_capacity, fields->texts.n_keys + 1);
	r = r ?: intern__add(&fields->texts, text, length, &number);
	if (r == 0)
		return fields->clean[number];
	fields->text.length = 0;
	if (r > 0 && !frame_text__words(text, &fields->text)) {
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
	const json_t *value = member(fields, row, key);

	if (json_is_string(value))
		return cuda_fields__clean(fields, json_string_value(value), json_string_length(value));
	if (value)
		cuda_fields__refuse(fields, -EPROTO, key, "a text is expected");
	return absent;
}

const json_t *cuda_fields__list(struct cuda_fields *fields, const json_t *row, const char *key, size_t most, size_t *n)
{
	const json_t *value = member(fields, row, key);

	*n = 0;
	if (!value)
		return NULL;
	if (!json_is_array(value)) {
		cuda_fields__refuse(fields, -EPROTO, key, "a list is expected");
		return NULL;
	}
	if (json_array_size(value) > most) {
		cuda_fields__refuse(fields, -EFBIG, key, "too many elements");
		return NULL;
	}
	*n = json_array_size(value);
	return value;
}

const json_t *cuda_fields__object(struct cuda_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = member(fields, row, key);

	if (!value || json_is_object(value))
		return value;
	cuda_fields__refuse(fields, -EPROTO, key, "an object is expected");
	return NULL;
}

void *cuda_fields__array(struct cuda_fields *fields, size_t n, size_t size)
{
	void *array = fields->rc ? NULL : arena__array(fields->arena, n, size);

	if (array)
		memset(array, 0, n * size);
	else
		no_memory(fields);
	return array;
}
