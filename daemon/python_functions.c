// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/intern.h"

/* Of names: whoever makes up functions without end gets no more than this. */
#define MAX_BYTES (64u << 20)

struct python_functions {
	struct intern keys; /* first line, name, NUL, file name */
	struct python_function **list;
	size_t n, capacity;
	unsigned char *key;
	size_t key_capacity;
};

int python_functions__new(struct python_functions **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

/* One block, so that it is freed as one. */
static struct python_function *new_function(const char *name, const char *filename, int first_line)
{
	size_t name_bytes = strlen(name) + 1, filename_bytes = strlen(filename) + 1;
	struct python_function *f = malloc(sizeof(*f) + name_bytes + filename_bytes);
	char *text = (char *)(f + 1);

	if (!f)
		return NULL;
	memcpy(text, name, name_bytes);
	memcpy(text + name_bytes, filename, filename_bytes);
	*f = (struct python_function){ .name = text, .filename = text + name_bytes, .first_line = first_line };
	return f;
}

static int add(struct python_functions *functions, const char *name, const char *filename, int first_line)
{
	struct python_function *f;

	if (ARRAY_RESERVE(functions->list, functions->capacity, functions->n + 1))
		return -ENOMEM;
	f = new_function(name, filename, first_line);
	if (!f)
		return -ENOMEM;
	functions->list[functions->n++] = f;
	return 0;
}

const struct python_function *python_functions__get(struct python_functions *functions, const char *name,
						    const char *filename, int first_line)
{
	size_t name_bytes = strlen(name) + 1, filename_bytes = strlen(filename);
	size_t bytes = sizeof(first_line) + name_bytes + filename_bytes;
	uint32_t number;

	if (functions->keys.bytes_used > MAX_BYTES)
		return NULL;
	if (ARRAY_RESERVE(functions->key, functions->key_capacity, bytes))
		return NULL;
	memcpy(functions->key, &first_line, sizeof(first_line));
	memcpy(functions->key + sizeof(first_line), name, name_bytes);
	memcpy(functions->key + sizeof(first_line) + name_bytes, filename, filename_bytes);
	if (intern__add(&functions->keys, functions->key, bytes, &number) < 0)
		return NULL;
	/* A key whose function could not be made is the last one: it is made now. */
	if (number == functions->n && add(functions, name, filename, first_line))
		return NULL;
	return number < functions->n ? functions->list[number] : NULL;
}

size_t python_functions__count(const struct python_functions *functions)
{
	return functions->n;
}

void python_functions__free(struct python_functions *functions)
{
	if (!functions)
		return;
	for (size_t i = 0; i < functions->n; i++)
		free(functions->list[i]);
	free(functions->list);
	free(functions->key);
	intern__clear(&functions->keys);
	free(functions);
}
