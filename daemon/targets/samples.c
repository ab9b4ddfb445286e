// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/samples.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/os/limits.h"

void samples__begin(struct samples *s, struct sampler *sampler, uint32_t slot)
{
	s->sampler = sampler;
	s->slot = slot;
	s->acc.max_bytes = SAMPLES_BYTES;
}

void samples__end(struct samples *s)
{
	sampler__read_slot(s->sampler, s->slot, &s->kernel);
	s->ended = true;
}

void samples__release(struct samples *s)
{
	accumulator__release(&s->acc);
	accumulator__release(&s->older);
	free(s->base.counts);
}

void samples__lose(struct samples *s, unsigned cause, uint64_t n)
{
	s->lost[cause] += n;
}

void samples__add(struct samples *s, const struct stack_sample *sample, const struct stack *stack)
{
	int ret = 0;

	if (!accumulator__has_stack(&s->acc, sample->stack)) {
		if (!stack) {
			samples__lose(s, SO_LOSS_STACK_MISSING, sample->value);
			return;
		}
		ret = accumulator__add_stack(&s->acc, stack);
	}
	ret = ret ?: accumulator__add(&s->acc, sample);
	if (ret && sample->kind == SAMPLE_ALLOC) {
		s->alloc_lost_bytes += sample->value;
		limits__hit(LIMIT_SAMPLE_BYTES, 1);
	} else if (ret && sample->kind != SAMPLE_CPU) {
		s->wall_lost_ns += sample->value;
		limits__hit(LIMIT_SAMPLE_BYTES, 1);
	} else if (ret) {
		samples__lose(s, SO_LOSS_MEMORY, sample->value);
		limits__hit(LIMIT_SAMPLE_BYTES, sample->value);
	}
}

uint64_t samples__wall_lost_ns(const struct samples *s)
{
	return s->wall_lost_ns + (s->of ? s->of->wall_lost_ns - s->base_wall_lost_ns : 0);
}

struct stack *samples__stack(const struct samples *s, uint64_t hash)
{
	uint32_t at;

	return u64_table__get(&s->acc.stack_by_hash, hash, &at) ? s->acc.stacks[at] : NULL;
}

uint64_t samples__lost(const struct samples *s, struct so_slot *out)
{
	struct so_slot slot = s->kernel;
	uint64_t sum = 0;

	if (s->of) {
		samples__lost(s->of, &slot);
		slot.taken -= s->base_slot.taken;
		slot.run_ns -= s->base_slot.run_ns;
		slot.steps_lost -= s->base_slot.steps_lost;
		slot.entries_lost -= s->base_slot.entries_lost;
		for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
			slot.lost[i] -= s->base_slot.lost[i];
	} else if (!s->ended) {
		sampler__read_slot(s->sampler, s->slot, &slot);
	}
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++) {
		slot.lost[i] += s->lost[i];
		sum += slot.lost[i];
	}
	if (out)
		*out = slot;
	return sum;
}

static uint64_t count_since(const struct accumulator *acc, const struct samples_base *base, size_t i)
{
	return acc->counters[i].count - (i < base->n ? base->counts[i] : 0);
}

uint64_t samples__count(const struct samples *s)
{
	uint64_t sum = s->acc.samples;

	if (!s->of)
		return sum + s->older.samples + s->forgotten.samples;
	for (size_t i = 0; i < s->of->acc.n_counters; i++)
		sum += s->of->acc.counters[i].kind == SAMPLE_CPU ? count_since(&s->of->acc, &s->base, i) : 0;
	return sum;
}

uint64_t samples__forgotten(const struct samples *s)
{
	return s->forgotten.samples;
}

void samples__next_drain(struct samples *s)
{
	s->acc.window++;
}

int samples_base__take(struct samples_base *base, const struct accumulator *acc)
{
	uint64_t *counts = calloc(acc->n_counters + 1, sizeof(*counts));

	if (!counts)
		return -ENOMEM;
	for (size_t i = 0; i < acc->n_counters; i++)
		counts[i] = acc->counters[i].count;
	*base = (struct samples_base){ counts, acc->n_counters };
	return 0;
}

int samples__since(const struct accumulator *carried, const struct accumulator *from, const struct samples_base *base,
		   struct accumulator *out)
{
	struct accumulator acc = { 0 };
	int ret = carried ? accumulator__copy(carried, &acc) : 0;

	if (ret)
		return ret;
	for (size_t i = 0; !ret && i < from->n_counters; i++) {
		const struct counter *c = &from->counters[i];
		const struct stack *stack = from->stacks[c->stack];
		uint64_t count = count_since(from, base, i);

		if (!count)
			continue;
		ret = accumulator__add_stack(&acc, stack);
		ret = ret
			      ?: accumulator__add(&acc,
						  &(struct stack_sample){ c->kind, c->tgid, c->tid, c->comm,
									  stack->record.hash, count, c->when_ns });
	}
	if (ret)
		accumulator__release(&acc);
	else
		*out = acc;
	return ret;
}

int samples__copy(const struct samples *s, struct accumulator *out)
{
	struct accumulator acc;
	int ret;

	if (s->of)
		return samples__since(&s->acc, &s->of->acc, &s->base, out);
	ret = accumulator__copy(&s->older, &acc);
	if (ret)
		return ret;
	ret = accumulator__merge(&acc, &s->acc);
	if (ret)
		accumulator__release(&acc);
	else
		*out = acc;
	return ret;
}

int samples__figures(const struct samples *s, struct accumulator *out)
{
	if (s->of)
		return samples__copy(s, out);
	*out = s->forgotten;
	accumulator__add_figures(out, &s->older);
	accumulator__add_figures(out, &s->acc);
	return 0;
}

static struct stack *latest_stack(const struct accumulator *acc, uint32_t tid)
{
	const struct counter *best = NULL;

	for (size_t i = 0; i < acc->n_counters; i++) {
		const struct counter *c = &acc->counters[i];

		if (c->tid != tid || c->kind != SAMPLE_CPU)
			continue;
		if (!best || c->window > best->window || (c->window == best->window && c->latest >= best->latest))
			best = c;
	}
	return best ? stack__ref(acc->stacks[best->stack]) : NULL;
}

struct stack *samples__latest_stack(const struct samples *s, uint32_t tid)
{
	return latest_stack(&s->acc, tid) ?: latest_stack(&s->older, tid);
}

const struct accumulator *samples__part(const struct samples *s, unsigned i)
{
	const struct accumulator *parts[SAMPLES_PARTS] = { &s->acc, &s->older, s->window ? &s->window->carried : NULL,
							   s->next_window ? &s->next_window->carried : NULL };

	return parts[i];
}

size_t samples__bytes(const struct samples *s)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < SAMPLES_PARTS; i++)
		bytes += samples__part(s, i) ? samples__part(s, i)->bytes : 0;
	return bytes;
}

void samples__allow(struct samples *s, size_t more_bytes)
{
	size_t most = s->acc.bytes + more_bytes;

	most = most < SAMPLES_BYTES ? most : SAMPLES_BYTES;
	s->acc.max_bytes = most ?: 1; /* 0 would be no bound */
}
