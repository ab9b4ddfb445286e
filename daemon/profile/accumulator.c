// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/accumulator.h"

#include <string.h>

#define FIRST_CAPACITY 256 /* of an array */

struct stack *stack__new(const struct so_stack_record *record, const uint64_t *frames,
			 struct python_functions *functions)
{
	size_t n = (size_t)record->n_user + record->n_kernel + (size_t)record->n_python * SO_PYTHON_WORDS;
	struct stack *stack = malloc(sizeof(*stack) + n * sizeof(*frames));

	if (!stack)
		return NULL;
	stack->refs = 1;
	stack->functions = record->n_python ? python_functions__ref(functions) : NULL;
	stack->record = *record;
	if (n)
		memcpy(stack->frames, frames, n * sizeof(*frames));
	return stack;
}

struct stack *stack__ref(const struct stack *stack)
{
	struct stack *same = (struct stack *)stack;

	same->refs++;
	return same;
}

void stack__unref(struct stack *stack)
{
	if (!stack || --stack->refs)
		return;
	python_functions__unref(stack->functions);
	free(stack);
}

bool accumulator__has_stack(const struct accumulator *acc, uint64_t hash)
{
	uint32_t at;

	return u64_table__get(&acc->stack_by_hash, hash, &at);
}

/* Grows an array to hold one more; the element size is that of **array. */
static int reserve(void **array, size_t *capacity, size_t n, size_t element, size_t *bytes)
{
	size_t more = *capacity ? *capacity * 2 : FIRST_CAPACITY;
	void *p;

	if (n < *capacity)
		return 0;
	p = reallocarray(*array, more, element);
	if (!p)
		return -ENOMEM;
	*bytes += (more - *capacity) * element;
	*array = p;
	*capacity = more;
	return 0;
}

static size_t stack_bytes(const struct stack *stack)
{
	return sizeof(*stack) + stack__words(stack) * sizeof(stack->frames[0]);
}

int accumulator__add_stack(struct accumulator *acc, const struct stack *stack)
{
	size_t bytes = stack_bytes(stack);

	if (accumulator__has_stack(acc, stack->record.hash))
		return 0;
	if (acc->max_bytes && acc->bytes + bytes > acc->max_bytes)
		return -ENOSPC;
	if (reserve((void **)&acc->stacks, &acc->cap_stacks, acc->n_stacks, sizeof(*acc->stacks), &acc->bytes))
		return -ENOMEM;
	if (u64_table__set(&acc->stack_by_hash, stack->record.hash, acc->n_stacks))
		return -ENOMEM;
	acc->stacks[acc->n_stacks++] = stack__ref(stack);
	acc->bytes += bytes + 2 * sizeof(struct u64_entry);
	return 0;
}

static uint64_t counter_hash(uint32_t tgid, uint32_t tid, uint32_t stack, const char comm[16])
{
	uint64_t words[2], h;

	memcpy(words, comm, sizeof(words));
	h = ((uint64_t)tgid << 32 | tid) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 32 ^ words[0]) * 0xc2b2ae3d27d4eb4full;
	h = (h ^ h >> 29 ^ words[1]) * 0x9e3779b97f4a7c15ull;
	return (h ^ h >> 32 ^ stack) * 0xff51afd7ed558ccdull;
}

static struct counter *find_counter(struct accumulator *acc, const struct stack_sample *s, uint32_t stack,
				    uint64_t *hash)
{
	uint32_t at;

	/* Counters whose hashes are equal by chance sit under the next hash values. */
	for (*hash = (counter_hash(s->tgid, s->tid, stack, s->comm) ^ s->when_ns * 0x9e3779b97f4a7c15ull) + s->kind;
	     u64_table__get(&acc->counter_by_hash, *hash, &at); ++*hash) {
		struct counter *c = &acc->counters[at];

		if (c->kind == s->kind && c->when_ns == s->when_ns && c->tgid == s->tgid && c->tid == s->tid &&
		    c->stack == stack && !memcmp(c->comm, s->comm, sizeof(c->comm)))
			return c;
	}
	return NULL;
}

static int new_counter(struct accumulator *acc, uint64_t hash, struct counter **out)
{
	if (acc->max_bytes && acc->bytes + sizeof(struct counter) > acc->max_bytes)
		return -ENOSPC;
	if (reserve((void **)&acc->counters, &acc->cap_counters, acc->n_counters, sizeof(*acc->counters),
		    &acc->bytes) ||
	    u64_table__set(&acc->counter_by_hash, hash, acc->n_counters))
		return -ENOMEM;
	acc->bytes += 2 * sizeof(struct u64_entry);
	*out = &acc->counters[acc->n_counters++];
	return 0;
}

/* What profiles say of their samples. */
static void count_figures(struct accumulator *acc, const struct so_stack_record *record, uint64_t count)
{
	acc->samples += count;
	acc->truncated[record->cause < SO_TRUNC_COUNT ? record->cause : SO_TRUNC_TABLE_LOOKUP] += count;
	if (record->flags & SO_STACK_FRAME_POINTER)
		acc->frame_pointer += count;
	if (record->python < SO_PYTHON_STATE_COUNT)
		acc->python[record->python] += count;
	if (record->python == SO_PYTHON_STATE_COMPLETE && !(record->flags & SO_STACK_PYTHON_UNREAD))
		acc->python_named += count;
	if (record->flags & SO_STACK_GIL)
		acc->gil += count;
	if (record->flags & SO_STACK_NO_GIL)
		acc->no_gil += count;
}

int accumulator__add(struct accumulator *acc, const struct stack_sample *sample)
{
	uint64_t counter_key;
	struct counter *c;
	uint32_t stack;
	int ret;

	if (!u64_table__get(&acc->stack_by_hash, sample->stack, &stack))
		return -ENOENT;
	c = find_counter(acc, sample, stack, &counter_key);
	if (!c) {
		ret = new_counter(acc, counter_key, &c);
		if (ret)
			return ret;
		*c = (struct counter){ .kind = sample->kind,
				       .tgid = sample->tgid,
				       .tid = sample->tid,
				       .stack = stack,
				       .when_ns = sample->when_ns };
		memcpy(c->comm, sample->comm, sizeof(c->comm));
	}
	if (c->window != acc->window)
		c->latest = 0;
	c->window = acc->window;
	c->latest += sample->value;
	c->count += sample->value;
	if (sample->kind == SAMPLE_CPU)
		count_figures(acc, &acc->stacks[stack]->record, sample->value);
	return 0;
}

/* Whether a new stack fits with a counter: one that comes without takes the room of others for nothing. */
static bool has_room(const struct accumulator *acc, const struct stack *stack)
{
	size_t bytes = acc->bytes + stack_bytes(stack) + 2 * sizeof(struct u64_entry) + sizeof(struct counter);

	if (acc->n_stacks == acc->cap_stacks)
		bytes += (acc->cap_stacks ? acc->cap_stacks : FIRST_CAPACITY) * sizeof(*acc->stacks);
	return !acc->max_bytes || bytes <= acc->max_bytes;
}

static int merge_counter(struct accumulator *to, const struct counter *c, const struct stack *stack)
{
	int ret;

	if (!accumulator__has_stack(to, stack->record.hash)) {
		ret = has_room(to, stack) ? accumulator__add_stack(to, stack) : -ENOSPC;
		if (ret)
			return ret;
	}
	return accumulator__add(to, &(struct stack_sample){ c->kind, c->tgid, c->tid, c->comm, stack->record.hash,
							    c->count, c->when_ns });
}

int accumulator__merge(struct accumulator *to, const struct accumulator *from)
{
	int first = 0;

	for (size_t i = 0; i < from->n_counters; i++) {
		int ret = merge_counter(to, &from->counters[i], from->stacks[from->counters[i].stack]);

		first = first ?: ret;
	}
	return first;
}

void accumulator__add_figures(struct accumulator *to, const struct accumulator *from)
{
	to->samples += from->samples;
	for (unsigned i = 0; i < SO_TRUNC_COUNT; i++)
		to->truncated[i] += from->truncated[i];
	to->frame_pointer += from->frame_pointer;
	for (unsigned i = 0; i < SO_PYTHON_STATE_COUNT; i++)
		to->python[i] += from->python[i];
	to->python_named += from->python_named;
	to->gil += from->gil;
	to->no_gil += from->no_gil;
}

/* *to is NULL where there are none. */
static int copy_array(const void *from, size_t n, size_t element, void **to)
{
	*to = n ? malloc(n * element) : NULL;
	if (*to)
		memcpy(*to, from, n * element);
	return n && !*to ? -ENOMEM : 0;
}

int accumulator__copy(const struct accumulator *from, struct accumulator *to)
{
	struct accumulator copy = *from;

	copy.max_bytes = 0;
	copy.stack_by_hash = copy.counter_by_hash = (struct u64_table){ 0 };
	copy.cap_stacks = copy.n_stacks;
	copy.cap_counters = copy.n_counters;
	copy.stacks = NULL;
	copy.counters = NULL;
	if (copy_array(from->stacks, from->n_stacks, sizeof(*from->stacks), (void **)&copy.stacks) ||
	    copy_array(from->counters, from->n_counters, sizeof(*from->counters), (void **)&copy.counters) ||
	    u64_table__copy(&from->stack_by_hash, &copy.stack_by_hash) ||
	    u64_table__copy(&from->counter_by_hash, &copy.counter_by_hash)) {
		copy.n_stacks = 0;
		accumulator__release(&copy);
		return -ENOMEM;
	}
	for (size_t i = 0; i < copy.n_stacks; i++)
		stack__ref(copy.stacks[i]);
	*to = copy;
	return 0;
}

void accumulator__release(struct accumulator *acc)
{
	for (size_t i = 0; i < acc->n_stacks; i++)
		stack__unref(acc->stacks[i]);
	free(acc->stacks);
	free(acc->counters);
	u64_table__release(&acc->stack_by_hash);
	u64_table__release(&acc->counter_by_hash);
	*acc = (struct accumulator){ 0 };
}
