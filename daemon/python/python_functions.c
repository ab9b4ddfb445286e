// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/intern.h"

static _Atomic unsigned all_tables;
static _Atomic uint64_t all_bytes;

struct python_functions {
	_Atomic unsigned refs;
	size_t bytes;       /* of functions and keys */
	struct intern keys; /* first line, name, NUL, file name */
	struct python_function **list;
	size_t n, capacity;
	unsigned char *key;
	size_t key_capacity;
};

int python_functions__new(struct python_functions **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->refs = 1;
	all_tables++;
	return 0;
}

static void use_bytes(struct python_functions *functions, size_t bytes)
{
	functions->bytes += bytes;
	all_bytes += bytes;
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
	use_bytes(functions, sizeof(*f) + strlen(name) + strlen(filename) + 2);
	return 0;
}

const struct python_function *python_functions__get(struct python_functions *functions, const char *name,
						    const char *filename, int first_line)
{
	size_t name_bytes = strlen(name) + 1, filename_bytes = strlen(filename);
	size_t bytes = sizeof(first_line) + name_bytes + filename_bytes;
	uint32_t number;
	int ret = 0;

	if (ARRAY_RESERVE(functions->key, functions->key_capacity, bytes))
		return NULL;
	memcpy(functions->key, &first_line, sizeof(first_line));
	memcpy(functions->key + sizeof(first_line), name, name_bytes);
	memcpy(functions->key + sizeof(first_line) + name_bytes, filename, filename_bytes);
	if (!intern__find(&functions->keys, functions->key, bytes, &number))
		ret = functions->bytes > PYTHON_FUNCTIONS_BYTES
			      ? -ENOSPC
			      : intern__add(&functions->keys, functions->key, bytes, &number);
	if (ret < 0)
		return NULL;
	if (ret == 1)
		use_bytes(functions, bytes);
	/* A key whose function could not be made is the last one: it is made now. */
	if (number == functions->n && add(functions, name, filename, first_line))
		return NULL;
	return number < functions->n ? functions->list[number] : NULL;
}

bool python_functions__turn(struct python_functions **functions)
{
	struct python_functions *next;

	if ((*functions)->bytes <= PYTHON_FUNCTIONS_BYTES / 2 || all_tables >= PYTHON_FUNCTIONS_TABLES ||
	    python_functions__new(&next))
		return false;
	python_functions__unref(*functions);
	*functions = next;
	return true;
}

uint64_t python_functions__all_bytes(void)
{
	return all_bytes;
}

struct python_functions *python_functions__ref(struct python_functions *functions)
{
	if (functions)
		functions->refs++;
	return functions;
}

void python_functions__unref(struct python_functions *functions)
{
	if (!functions || --functions->refs)
		return;
	all_bytes -= functions->bytes;
	all_tables--;
	for (size_t i = 0; i < functions->n; i++)
		free(functions->list[i]);
	free(functions->list);
	free(functions->key);
	intern__clear(&functions->keys);
	free(functions);
}
