// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/unit/fake_sampler.h"

#include <errno.h>
#include <stdlib.h>

struct entry {
	pid_t tgid;
	struct so_process process;
};

struct sampler {
	struct so_mapping *mappings;
	struct so_python pythons[SO_MAX_PYTHONS];
	struct so_unwind_rule *rules;
	uint32_t *shards[SO_MAX_SHARDS];
	unsigned max_shards;
	int shard_error;
	struct entry *processes;
	size_t n_processes;
	unsigned updates;
	int process_error;
};

static int open_shards;

struct sampler *fake_sampler__new(void)
{
	_cleanup_(sampler) struct sampler *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	fake_sampler__limit_shards(s, SO_MAX_SHARDS, -ENOSPC);
	s->mappings = calloc(SO_MAX_MAPPINGS, sizeof(*s->mappings));
	s->rules = calloc(SO_MAX_RULES, sizeof(*s->rules));
	s->processes = calloc(SO_MAX_PROCESSES, sizeof(*s->processes));
	return s->mappings && s->rules && s->processes ? TAKE_PTR(s) : NULL;
}

void sampler__free(struct sampler *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < SO_MAX_SHARDS; i++)
		free(s->shards[i]);
	free(s->mappings);
	free(s->rules);
	free(s->processes);
	free(s);
}

void fake_sampler__limit_shards(struct sampler *s, unsigned n, int error)
{
	s->max_shards = n;
	s->shard_error = error;
}

void fake_sampler__fail_processes(struct sampler *s, int error)
{
	s->process_error = error;
}

const uint32_t *fake_sampler__shard(const struct sampler *s, unsigned i)
{
	return i < SO_MAX_SHARDS ? s->shards[i] : NULL;
}

int fake_sampler__open_shards(void)
{
	return open_shards;
}

size_t fake_sampler__processes(const struct sampler *s)
{
	return s->n_processes;
}

unsigned fake_sampler__updates(const struct sampler *s)
{
	return s->updates;
}

struct so_python *sampler__pythons(struct sampler *s)
{
	return s->pythons;
}

struct so_mapping *sampler__mappings(struct sampler *s)
{
	return s->mappings;
}

struct so_unwind_rule *sampler__rules(struct sampler *s)
{
	return s->rules;
}

int sampler__shard_open(struct sampler *s, unsigned i, uint32_t **words)
{
	if (i >= s->max_shards)
		return s->shard_error;
	if (!s->shards[i])
		s->shards[i] = calloc(SO_SHARD_WORDS, sizeof(**words));
	if (!s->shards[i])
		return -ENOMEM;
	open_shards++;
	*words = s->shards[i];
	return 0;
}

void sampler__shard_close(uint32_t *words)
{
	open_shards -= words != NULL;
}

int sampler__words_open(struct sampler *s, unsigned i, uint32_t first, uint32_t n, struct sampler_words *out)
{
	uint32_t *words = NULL;
	int ret = sampler__shard_open(s, i, &words);

	if (!ret)
		*out = (struct sampler_words){ &words[first], words, n * sizeof(*words) };
	return ret;
}

void sampler__words_close(struct sampler_words *words)
{
	sampler__shard_close(words->map);
}

static struct entry *find(struct sampler *s, pid_t tgid)
{
	for (size_t i = 0; i < s->n_processes; i++) {
		if (s->processes[i].tgid == tgid)
			return &s->processes[i];
	}
	return NULL;
}

int sampler__set_process(struct sampler *s, pid_t tgid, const struct so_process *process)
{
	struct entry *e = find(s, tgid);

	if (s->process_error)
		return s->process_error;
	if (!e && s->n_processes == SO_MAX_PROCESSES)
		return -E2BIG;
	if (!e)
		e = &s->processes[s->n_processes++];
	*e = (struct entry){ tgid, *process };
	s->updates++;
	return 0;
}

int sampler__get_process(struct sampler *s, pid_t tgid, struct so_process *process)
{
	const struct entry *e = find(s, tgid);

	if (!e)
		return -ENOENT;
	*process = e->process;
	return 0;
}

int sampler__delete_process(struct sampler *s, pid_t tgid)
{
	struct entry *e = find(s, tgid);

	if (!e)
		return -ENOENT;
	*e = s->processes[--s->n_processes];
	return 0;
}
