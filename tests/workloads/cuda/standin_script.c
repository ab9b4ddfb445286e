/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin_state.h"

#define MAX_STEPS 65536

static const char *const api_names[] = {
#define X(name, library, kind, args) #name,
	SO_CUDA_APIS(X)
#undef X
};

const char *script__api_name(unsigned api)
{
	return api_names[api];
}

static _Noreturn void refuse(const char *rule, const char *why)
{
	fprintf(stderr, "STANDIN_CUDA: %s: %s\n", rule, why);
	_exit(2);
}

/* A number from *p on, which it moves behind it; -1: none. */
static int64_t number(const char **p)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = isdigit((unsigned char)**p) ? strtoull(*p, &end, 10) : 0;
	if (!isdigit((unsigned char)**p) || errno || n > INT64_MAX)
		return -1;
	*p = end;
	return (int64_t)n;
}

static uint64_t unit(const char **p)
{
	static const struct {
		const char *word;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strncmp(*p, units[i].word, strlen(units[i].word)) == 0) {
			*p += strlen(units[i].word);
			return units[i].ns;
		}
	return 1;
}

/* The values of TIME[/TIME…], each as often as it is to come in turn. */
static uint64_t *times(const char *rule, const char *p, unsigned *count)
{
	uint64_t *values = malloc(MAX_STEPS * sizeof(*values));
	unsigned n = 0;

	if (!values)
		refuse(rule, "no memory");
	for (;; p++) {
		int64_t value = number(&p), repeat = 1;
		uint64_t scale = unit(&p);

		if (value < 0 || (uint64_t)value > UINT64_C(3600000000000) / scale)
			refuse(rule, "a time is a number up to an hour");
		if (*p == '*') {
			p++;
			repeat = number(&p);
		}
		if (repeat < 1 || repeat > MAX_STEPS - n)
			refuse(rule, "1 to 65536 times can be given");
		while (repeat--)
			values[n++] = (uint64_t)value * scale;
		if (!*p)
			break;
		if (*p != '/')
			refuse(rule, "not understood behind a time");
	}
	*count = n;
	return values;
}

static void failure(const char *rule, const char *p, struct standin_rule *out)
{
	int64_t code = number(&p), every = 1;

	if (code < 1 || code > INT32_MAX)
		refuse(rule, "a code is a number above 0");
	if (*p == '@') {
		p++;
		every = number(&p);
	}
	if (every < 1 || every > INT32_MAX || *p)
		refuse(rule, "not understood behind a code");
	out->code = (int)code;
	out->every = (unsigned)every;
}

static bool matches(const char *pattern, size_t length, const char *name)
{
	if (length && pattern[length - 1] == '*')
		return strncmp(pattern, name, length - 1) == 0;
	return strlen(name) == length && memcmp(pattern, name, length) == 0;
}

static void read_rule(struct standin_script *script, const char *rule)
{
	size_t length = strcspn(rule, "=!");
	struct standin_rule one = { 0 };
	bool found = false;

	if (rule[length] == '=')
		one.wait_ns = times(rule, rule + length + 1, &one.steps);
	else if (rule[length] == '!')
		failure(rule, rule + length + 1, &one);
	else
		refuse(rule, "no = or ! in it");
	for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++) {
		struct standin_rule *to = &script->rules[i];

		if (!matches(rule, length, api_names[i]))
			continue;
		found = to->active = true;
		if (one.wait_ns) {
			to->wait_ns = one.wait_ns; /* shared, and never released */
			to->steps = one.steps;
			to->measured = true;
		} else {
			to->code = one.code;
			to->every = one.every;
		}
	}
	if (!found)
		refuse(rule, "no such API");
}

void script__read(struct standin_script *script, const char *text)
{
	char *copy = text ? strdup(text) : NULL, *rest = copy, *rule;

	while ((rule = strsep(&rest, ","))) {
		if (!*rule)
			continue;
		if (strcmp(rule, "spin") == 0) {
			script->spin = true;
		} else if (strcmp(rule, "measure") == 0) {
			for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++)
				script->rules[i].active = script->rules[i].measured = true;
		} else {
			read_rule(script, rule);
		}
	}
	free(copy);
}
