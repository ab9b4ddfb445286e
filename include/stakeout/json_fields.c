// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/json_fields.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A real number of this size, or above, has no fraction and may not fit 64 bits. */
#define MOST_COUNT 0x1p63

int json_fields__refuse(struct json_fields *fields, int code, const char *key, const char *why)
{
	char where[96] = "";

	if (fields->ret)
		return fields->ret;
	if (fields->list)
		snprintf(where, sizeof(where), "%s[%zu].", fields->list, fields->index);
	fields->ret = code;
	return so_err(fields->err, code, "%s is not understood: %s%s: %s", fields->what, where, key, why);
}

bool json_fields__row(struct json_fields *fields, const json_t *row, const char *list, size_t index)
{
	if (fields->ret)
		return false;
	fields->list = list;
	fields->index = index;
	return json_is_object(row) || !json_fields__refuse(fields, -EPROTO, "", "an object is expected");
}

json_t *json_fields__member(const struct json_fields *fields, const json_t *row, const char *key)
{
	json_t *value = fields->ret ? NULL : json_object_get(row, key);

	return json_is_null(value) ? NULL : value;
}

uint64_t json_fields__count(struct json_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = json_fields__member(fields, row, key);
	double real = json_real_value(value);

	if (!value)
		return 0;
	if (json_is_integer(value) && json_integer_value(value) >= 0)
		return (uint64_t)json_integer_value(value);
	if (json_is_real(value) && !fields->whole && real >= 0 && real < MOST_COUNT)
		return (uint64_t)llround(real);
	json_fields__refuse(fields, -EPROTO, key, "a count from 0 is expected");
	return 0;
}

int64_t json_fields__integer(struct json_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = json_fields__member(fields, row, key);

	if (value && !json_is_integer(value))
		json_fields__refuse(fields, -EPROTO, key, "a whole number is expected");
	return json_integer_value(value);
}

double json_fields__number(struct json_fields *fields, const json_t *row, const char *key, double most, double absent)
{
	const json_t *value = json_fields__member(fields, row, key);
	double number = value ? json_number_value(value) : absent;

	if (!value || (json_is_number(value) && number >= 0 && number <= most))
		return number;
	json_fields__refuse(fields, -EPROTO, key,
			    most < 1e6 ? "a number in its range is expected" : "a number from 0 is expected");
	return absent;
}

bool json_fields__flag(struct json_fields *fields, const json_t *row, const char *key, bool absent)
{
	const json_t *value = json_fields__member(fields, row, key);

	if (!value)
		return absent;
	if (!json_is_boolean(value))
		json_fields__refuse(fields, -EPROTO, key, "true or false is expected");
	return json_is_true(value);
}

uint64_t json_fields__address(struct json_fields *fields, const json_t *row, const char *key)
{
	const json_t *value = json_fields__member(fields, row, key);
	const char *text = json_string_value(value);
	unsigned long long address;
	char *end;

	if (!value)
		return 0;
	errno = 0;
	if (text && !strncmp(text, "0x", 2) && strspn(text + 2, "0123456789abcdefABCDEF")) {
		address = strtoull(text, &end, 16);
		if (!errno && !*end)
			return address;
	}
	json_fields__refuse(fields, -EPROTO, key, "an address such as \"0x7f12\" is expected");
	return 0;
}

/* A NUL inside would cut what is compared, not only what is shown. */
static const char *whole_text(struct json_fields *fields, const json_t *value)
{
	const char *text = json_string_value(value);

	if (strlen(text) == json_string_length(value))
		return text;
	json_fields__refuse(fields, -EPROTO, "", "a text with a zero byte");
	return NULL;
}

const char *json_fields__text(struct json_fields *fields, const json_t *row, const char *key, const char *absent)
{
	const json_t *value = json_fields__member(fields, row, key);

	if (json_is_string(value))
		return whole_text(fields, value) ?: absent;
	if (value)
		json_fields__refuse(fields, -EPROTO, key, "a text is expected");
	return absent;
}

const char *json_fields__element(struct json_fields *fields, const json_t *element, const char *key)
{
	if (json_is_string(element))
		return whole_text(fields, element);
	json_fields__refuse(fields, -EPROTO, key, "texts are expected");
	return NULL;
}

json_t *json_fields__list(struct json_fields *fields, const json_t *row, const char *key, size_t most)
{
	json_t *value = json_fields__member(fields, row, key);

	if (!value)
		return NULL;
	if (!json_is_array(value))
		json_fields__refuse(fields, -EPROTO, key, "a list is expected");
	else if (json_array_size(value) > most)
		json_fields__refuse(fields, -EFBIG, key, "too many elements");
	return fields->ret ? NULL : value;
}

json_t *json_fields__object(struct json_fields *fields, const json_t *row, const char *key)
{
	json_t *value = json_fields__member(fields, row, key);

	if (!value)
		return NULL;
	if (!json_is_object(value))
		json_fields__refuse(fields, -EPROTO, key, "an object is expected");
	else if (json_object_size(value) > JSON_FIELDS_MAX_MEMBERS)
		json_fields__refuse(fields, -EFBIG, key, "too many members");
	return fields->ret ? NULL : value;
}
