// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/handle_names.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/u64_table.h"
#include "stakeout/array.h"

#define PAIRS_MAX    16
#define LEAST_LENGTH 2

struct pair {
	uint64_t kernel; /* as the runtime was told */
	char *name;
	bool compared;
};

struct process {
	uint32_t tgid;
	char **texts;
	size_t n, capacity;
	struct u64_table by_handle; /* index of texts[] */
	struct pair pairs[PAIRS_MAX];
	unsigned n_pairs;
	unsigned right, wrong; /* of those that were compared */
	bool all_names;        /* something that is a name was behind each handle, and another one each time */
};

struct handle_names {
	struct process **processes;
	size_t n, capacity;
	uint64_t generation;
};

int handle_names__new(struct handle_names **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void process__free(struct process *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->texts[i]);
	for (unsigned i = 0; i < p->n_pairs; i++)
		free(p->pairs[i].name);
	free(p->texts);
	u64_table__release(&p->by_handle);
	free(p);
}

void handle_names__free(struct handle_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->n; i++)
		process__free(names->processes[i]);
	free(names->processes);
	free(names);
}

static struct process *find(const struct handle_names *names, uint32_t tgid)
{
	for (size_t i = 0; i < names->n; i++)
		if (names->processes[i]->tgid == tgid)
			return names->processes[i];
	return NULL;
}

static struct process *get(struct handle_names *names, uint32_t tgid)
{
	struct process *p = find(names, tgid);

	if (p || ARRAY_RESERVE(names->processes, names->capacity, names->n + 1))
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->tgid = tgid;
	p->all_names = true;
	names->processes[names->n++] = p;
	return p;
}

/* As C, C++ and what writes kernels by program name functions. */
static bool is_name(const char *text)
{
	size_t n = strlen(text);

	if (n < LEAST_LENGTH || isdigit((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_$.", text[i]))
			return false;
	return true;
}

static bool is_there(const struct process *p, const char *text)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->texts[i], text))
			return true;
	return false;
}

static int add_pair(struct process *p, uint64_t kernel, const char *text)
{
	char *name;

	for (unsigned i = 0; i < p->n_pairs; i++)
		if (p->pairs[i].kernel == kernel)
			return 0;
	if (p->n_pairs == PAIRS_MAX)
		return 0;
	name = strdup(text);
	if (!name)
		return -ENOMEM;
	p->pairs[p->n_pairs++] = (struct pair){ .kernel = kernel, .name = name };
	return 0;
}

/* A handle that is there already may be another kernel's by now. */
static int add_handle(struct process *p, uint64_t handle, char *name)
{
	bool another = is_name(name) && (p->n > HANDLE_NAMES_DISTINCT || !is_there(p, name));
	uint32_t at;

	if (u64_table__get(&p->by_handle, handle, &at)) {
		free(p->texts[at]);
		p->texts[at] = name;
		return 0;
	}
	if (p->n == HANDLE_NAMES_MAX) {
		free(name);
		return 0;
	}
	if (ARRAY_RESERVE(p->texts, p->capacity, p->n + 1) || u64_table__set(&p->by_handle, handle, (uint32_t)p->n)) {
		free(name);
		return -ENOMEM;
	}
	p->texts[p->n++] = name;
	p->all_names &= another;
	return 0;
}

static bool is_known(const struct process *p, uint64_t handle, const char *name)
{
	uint32_t at;

	return u64_table__get(&p->by_handle, handle, &at) && !strcmp(p->texts[at], name);
}

int handle_names__add(struct handle_names *names, const struct so_cuda_name *record)
{
	struct process *p = get(names, record->tgid);
	char *name;

	if (!p)
		return -ENOMEM;
	name = strndup(record->name, sizeof(record->name));
	if (!name)
		return -ENOMEM;
	if (record->namer == SO_CUDA_READ_PAIR) {
		int ret = add_pair(p, record->other, name);

		free(name);
		return ret;
	}
	if (is_known(p, record->handle, name)) {
		free(name);
		return 0;
	}
	names->generation++;
	return add_handle(p, record->handle, name);
}

void handle_names__forget(struct handle_names *names, uint32_t tgid)
{
	for (size_t i = 0; i < names->n; i++) {
		if (names->processes[i]->tgid != tgid)
			continue;
		process__free(names->processes[i]);
		names->processes[i] = names->processes[--names->n];
		names->generation++;
		return;
	}
}

static bool is_believed(const struct process *p)
{
	if (p->right || p->wrong)
		return p->right >= HANDLE_NAMES_PROOFS && p->right >= HANDLE_NAMES_SURE * p->wrong;
	return p->all_names && p->n >= HANDLE_NAMES_DISTINCT;
}

static void compare_pairs(struct process *p, handle_names_compare_fn *compare, void *context)
{
	for (unsigned i = 0; i < p->n_pairs; i++) {
		struct pair *pair = &p->pairs[i];
		int right = pair->compared ? -1 : compare(context, p->tgid, pair->kernel, pair->name);

		if (right < 0)
			continue;
		pair->compared = true;
		p->right += right > 0;
		p->wrong += right == 0;
	}
}

bool handle_names__compare(struct handle_names *names, handle_names_compare_fn *compare, void *context)
{
	bool changed = false;

	for (size_t i = 0; i < names->n; i++) {
		struct process *p = names->processes[i];
		bool before = is_believed(p);

		compare_pairs(p, compare, context);
		changed |= is_believed(p) != before;
	}
	names->generation += changed;
	return changed;
}

const char *handle_names__find(const struct handle_names *names, uint32_t tgid, uint64_t handle)
{
	const struct process *p = find(names, tgid);
	uint32_t at;

	if (!p || !is_believed(p) || !u64_table__get(&p->by_handle, handle, &at))
		return NULL;
	return is_name(p->texts[at]) ? p->texts[at] : NULL;
}

uint64_t handle_names__generation(const struct handle_names *names)
{
	return names->generation;
}
