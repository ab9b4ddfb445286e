// SPDX-License-Identifier: GPL-2.0-or-later
/* The schema that is built in has the API's routes, all of them and no others. */
#include "daemon/api/api.c" /* first: cmocka has a macro "fail" */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/api/api_schema.h"

static json_t *schema;

static int setup(void **state)
{
	schema = api_schema__json();
	return !schema;
}

static int teardown(void **state)
{
	json_decref(schema);
	return 0;
}

/* "GET /v1/targets/ID" of "get" and "/v1/targets/{id}". */
static void route_name(const char *method, const char *path, char *out, size_t size)
{
	size_t n = 0;

	for (; *method && n + 1 < size; method++)
		out[n++] = (char)toupper((unsigned char)*method);
	if (n + 1 < size)
		out[n++] = ' ';
	for (; *path && n + 3 < size; path++) {
		if (*path != '{') {
			out[n++] = *path;
			continue;
		}
		out[n++] = 'I';
		out[n++] = 'D';
		path = strchr(path, '}');
		assert_non_null(path);
	}
	out[n] = '\0';
}

static const json_t *find_operation(const char *wanted)
{
	const char *path, *method;
	json_t *item, *operation;
	char name[256];

	json_object_foreach (json_object_get(schema, "paths"), path, item) {
		json_object_foreach (item, method, operation) {
			route_name(method, path, name, sizeof(name));
			if (!strcmp(name, wanted))
				return operation;
		}
	}
	return NULL;
}

static bool is_route(const char *wanted)
{
	char name[256];

	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		route_name(routes[i].method, routes[i].path, name, sizeof(name));
		if (!strcmp(name, wanted))
			return true;
	}
	return false;
}

static void every_route_is_in_the_schema(void **state)
{
	char name[256];
	size_t i;

	for (i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		const json_t *operation;

		route_name(routes[i].method, routes[i].path, name, sizeof(name));
		operation = find_operation(name);
		if (!operation)
			fail_msg("daemon/api/api_schema.json has no %s", name);
		if (json_is_true(json_object_get(operation, "x-changes")) != routes[i].changes)
			fail_msg("%s: x-changes is not what daemon/api/api.c says", name);
	}
	assert_true(i >= 15);
}

static void the_schema_has_no_other(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	char name[256];

	json_object_foreach (json_object_get(schema, "paths"), path, item) {
		json_object_foreach (item, method, operation) {
			route_name(method, path, name, sizeof(name));
			if (!is_route(name))
				fail_msg("daemon/api/api.c has no %s", name);
		}
	}
}

static bool has_parameter(const json_t *operation, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach (json_object_get(operation, "parameters"), i, one)
		if (!strcmp(json_string_value(json_object_get(one, "name")), name))
			return true;
	return false;
}

/* Rights are one of four words; a right that one may lack has its answer 403; each {name} of a path is a parameter. */
static void check_operation(const char *name, const char *path, const json_t *operation)
{
	const char *rights = json_string_value(json_object_get(operation, "x-rights"));
	const char *begin = strchr(path, '{');
	const json_t *responses = json_object_get(operation, "responses");
	char variable[64];

	if (!rights || (strcmp(rights, "everyone") && strcmp(rights, "filtered") && strcmp(rights, "own") &&
			strcmp(rights, "hidden")))
		fail_msg("%s: x-rights must be everyone, filtered, own or hidden", name);
	if (!strcmp(rights, "own") && !json_object_get(responses, "403"))
		fail_msg("%s: no answer 403", name);
	if (!json_object_get(responses, "200") && !json_object_get(responses, "201"))
		fail_msg("%s: no answer 200 or 201", name);
	if (!begin)
		return;
	assert_int_equal(sscanf(begin, "{%63[^}]}", variable), 1);
	if (!has_parameter(operation, variable))
		fail_msg("%s: no parameter %s", name, variable);
}

static void operations_are_whole(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	char name[256];

	json_object_foreach (json_object_get(schema, "paths"), path, item) {
		json_object_foreach (item, method, operation) {
			route_name(method, path, name, sizeof(name));
			check_operation(name, path, operation);
		}
	}
}

static void check_references(const json_t *value)
{
	const json_t *schemas = json_object_get(json_object_get(schema, "components"), "schemas");
	static const char prefix[] = "#/components/schemas/";
	const char *key, *text;
	json_t *item;
	size_t i;

	json_object_foreach ((json_t *)value, key, item) {
		text = json_string_value(item);
		if (!strcmp(key, "$ref")) {
			assert_non_null(text);
			assert_int_equal(strncmp(text, prefix, sizeof(prefix) - 1), 0);
			if (!json_object_get(schemas, text + sizeof(prefix) - 1))
				fail_msg("%s is not there", text);
		}
		check_references(item);
	}
	json_array_foreach (value, i, item)
		check_references(item);
}

static void references_lead_somewhere(void **state)
{
	check_references(schema);
}

static void it_names_its_version(void **state)
{
	assert_string_equal(json_string_value(json_object_get(json_object_get(schema, "info"), "version")),
			    STAKEOUT_VERSION);
	assert_string_equal(json_string_value(json_object_get(schema, "openapi")), "3.0.3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_route_is_in_the_schema), cmocka_unit_test(the_schema_has_no_other),
		cmocka_unit_test(operations_are_whole),         cmocka_unit_test(references_lead_somewhere),
		cmocka_unit_test(it_names_its_version),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
