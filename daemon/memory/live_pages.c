// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/live_pages.h"

#include <string.h>

#include "stakeout/array.h"

static uint64_t page_key(uint32_t tgid, uint64_t page)
{
	return page ^ (uint64_t)tgid << 36;
}

static size_t bytes_of(const struct stack *stack)
{
	return sizeof(*stack) + stack__words(stack) * sizeof(stack->frames[0]);
}

/* Index of the stack, which is held from then on. */
static int add_stack(struct live_pages *l, const struct stack *stack, uint32_t *index)
{
	if (u64_table__get(&l->stack_by_hash, stack->record.hash, index))
		return 0;
	if (ARRAY_RESERVE(l->stacks, l->stacks_capacity, l->n_stacks + 1) ||
	    u64_table__set(&l->stack_by_hash, stack->record.hash, (uint32_t)l->n_stacks))
		return -ENOMEM;
	*index = (uint32_t)l->n_stacks;
	l->stacks[l->n_stacks++] = stack__ref(stack);
	l->stack_bytes += bytes_of(stack);
	return 0;
}

static int put(struct live_pages *l, const struct live_page *page)
{
	uint64_t key = page_key(page->tgid, page->page);
	uint32_t at;

	if (u64_table__get(&l->by_page, key, &at)) {
		l->pages[at] = *page;
		return 0;
	}
	if (ARRAY_RESERVE(l->pages, l->capacity, l->n + 1) || u64_table__set(&l->by_page, key, (uint32_t)l->n))
		return -ENOMEM;
	l->pages[l->n++] = *page;
	return 0;
}

void live_pages__touch(struct live_pages *l, uint64_t salt, uint32_t follow, const struct so_page_record *record,
		       const struct stack *stack)
{
	struct live_page page = { .when_ns = record->when_ns,
				  .tgid = record->tgid,
				  .tid = record->tid,
				  .below = follow < record->threshold ? follow : record->threshold };

	if (record->order > SO_PAGE_ORDER_MAX)
		return;
	memcpy(page.comm, record->comm, sizeof(page.comm));
	for (uint64_t i = 0; i < 1u << record->order; i++) {
		page.page = (record->address >> SO_PAGE_SHIFT) + i;
		page.hash = so_page_hash(salt, record->tgid, page.page);
		if (page.hash < page.below && !add_stack(l, stack, &page.stack))
			put(l, &page);
	}
}

/* Takes the place of what it was made from. */
static int replace(struct live_pages *l, struct live_pages *by, int ret)
{
	live_pages__release(l);
	if (ret)
		live_pages__release(by);
	*l = *by;
	return ret;
}

int live_pages__lower(struct live_pages *l, uint32_t threshold)
{
	struct live_pages less = { .n = 0 };
	int ret = 0;

	for (size_t i = 0; !ret && i < l->n; i++) {
		struct live_page page = l->pages[i];

		if (page.hash >= threshold)
			continue;
		page.below = page.below < threshold ? page.below : threshold;
		ret = add_stack(&less, l->stacks[page.stack], &page.stack) ?: put(&less, &page);
	}
	return replace(l, &less, ret);
}

int live_pages__keep(struct live_pages *l, bool (*lives)(void *context, uint32_t tgid), void *context)
{
	struct live_pages less = { .n = 0 };
	size_t alive = 0;
	int ret = 0;

	while (alive < l->n && lives(context, l->pages[alive].tgid))
		alive++;
	if (alive == l->n)
		return 0;
	for (size_t i = 0; !ret && i < l->n; i++) {
		struct live_page page = l->pages[i];

		if (lives(context, page.tgid))
			ret = add_stack(&less, l->stacks[page.stack], &page.stack) ?: put(&less, &page);
	}
	return replace(l, &less, ret);
}

bool live_pages__is_full(const struct live_pages *l)
{
	return l->n > LIVE_PAGES_MAX || l->stack_bytes > LIVE_PAGES_STACK_BYTES;
}

size_t live_pages__bytes(const struct live_pages *l)
{
	return l->capacity * sizeof(*l->pages) + l->stack_bytes + l->stacks_capacity * sizeof(*l->stacks) +
	       (l->by_page.capacity + l->stack_by_hash.capacity) * sizeof(struct u64_entry);
}

int live_pages__copy(const struct live_pages *from, struct live_pages *to)
{
	struct live_pages copy = { .n = 0 };

	if (ARRAY_RESERVE(copy.pages, copy.capacity, from->n + 1) ||
	    ARRAY_RESERVE(copy.stacks, copy.stacks_capacity, from->n_stacks + 1)) {
		live_pages__release(&copy);
		return -ENOMEM;
	}
	if (from->n)
		memcpy(copy.pages, from->pages, from->n * sizeof(*copy.pages));
	copy.n = from->n;
	for (; copy.n_stacks < from->n_stacks; copy.n_stacks++)
		copy.stacks[copy.n_stacks] = stack__ref(from->stacks[copy.n_stacks]);
	copy.stack_bytes = from->stack_bytes;
	*to = copy;
	return 0;
}

void live_pages__release(struct live_pages *l)
{
	for (size_t i = 0; i < l->n_stacks; i++)
		stack__unref(l->stacks[i]);
	free(l->stacks);
	free(l->pages);
	u64_table__release(&l->by_page);
	u64_table__release(&l->stack_by_hash);
	*l = (struct live_pages){ 0 };
}
