// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/memory_profile.h"

#include <errno.h>
#include <string.h>

const struct profile_value_type memory_value_types[MEMORY_VALUES] = {
	[MEMORY_ALLOCATED] = { "alloc_space", "bytes" },
	[MEMORY_IN_USE] = { "inuse_space", "bytes" },
};

/* Pages of one thread, stack and span. */
struct group {
	const struct live_page *page; /* one of them */
	int64_t time_ns;              /* where the span begins, for struct profile_labels */
	double bytes;
};

static int compare_places(const void *a, const void *b)
{
	const struct live_page *x = a, *y = b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return (x->page > y->page) - (x->page < y->page);
}

void memory_profile__sort(struct live_pages *pages)
{
	if (pages->n)
		qsort(pages->pages, pages->n, sizeof(*pages->pages), compare_places);
}

static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->page->stack != y->page->stack)
		return x->page->stack < y->page->stack ? -1 : 1;
	if (x->page->tgid != y->page->tgid)
		return x->page->tgid < y->page->tgid ? -1 : 1;
	if (x->page->tid != y->page->tid)
		return x->page->tid < y->page->tid ? -1 : 1;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static bool is_hidden(const struct profile_source *source, uint32_t tgid)
{
	uint32_t unused;

	return source->hidden && u64_table__get(source->hidden, tgid, &unused);
}

static int64_t time_of(const struct memory_profile *memory, const struct live_page *page)
{
	uint64_t span_ns = (memory->end_ns - memory->since_ns) / MEMORY_PROFILE_SPANS;
	uint64_t since_ns = page->when_ns - memory->since_ns;

	/* 0 is no label. */
	return span_ns ? (int64_t)(since_ns / span_ns * span_ns) ?: 1 : 1;
}

static int add(struct profile_export *export, const struct profile_source *source, struct profile_builder *builder,
	       struct stack *stack, const uint64_t *values, const char *comm, struct profile_labels *labels)
{
	char name[17];
	const uint64_t *locations;
	size_t n;
	int ret = profile_export__locations(export, stack, &locations, &n);

	if (ret)
		return ret;
	snprintf(name, sizeof(name), "%.16s", comm);
	labels->comm = name;
	labels->thread = thread_names__get(source->thread_names, labels->pid, (uint32_t)labels->tid);
	labels->process = profile_export__process(export, labels->pid);
	return profile_builder__sample_values(builder, locations, n, values, labels);
}

static int add_allocated(struct profile_export *export, const struct profile_source *source,
			 struct profile_builder *builder)
{
	const struct accumulator *acc = source->acc;
	int ret = 0;

	for (size_t i = 0; !ret && i < acc->n_counters; i++) {
		const struct counter *c = &acc->counters[i];
		struct profile_labels labels = { .pid = (pid_t)c->tgid, .tid = (pid_t)c->tid };

		if (c->kind == SAMPLE_ALLOC && !is_hidden(source, c->tgid))
			ret = add(export, source, builder, acc->stacks[c->stack],
				  (uint64_t[MEMORY_VALUES]){ [MEMORY_ALLOCATED] = c->count }, c->comm, &labels);
	}
	return ret;
}

static struct group *groups_of(const struct profile_source *source, const struct memory_profile *memory, size_t *n)
{
	struct group *groups = calloc(memory->pages->n + 1, sizeof(*groups));
	size_t found = 0, kept = 0;

	if (!groups)
		return NULL;
	for (size_t i = 0; i < memory->pages->n; i++) {
		const struct live_page *page = &memory->pages->pages[i];

		if (memory->in_use[i] && page->when_ns >= memory->since_ns && !is_hidden(source, page->tgid))
			groups[found++] =
				(struct group){ page, time_of(memory, page), live_pages__weight(page->below) };
	}
	qsort(groups, found, sizeof(*groups), compare_groups);
	for (size_t i = 0; i < found; i++) {
		if (kept && !compare_groups(&groups[kept - 1], &groups[i]))
			groups[kept - 1].bytes += groups[i].bytes;
		else
			groups[kept++] = groups[i];
	}
	*n = kept;
	return groups;
}

static int add_in_use(struct profile_export *export, const struct profile_source *source,
		      const struct memory_profile *memory, struct profile_builder *builder)
{
	size_t n;
	struct group *groups = groups_of(source, memory, &n);
	int ret = groups ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++) {
		const struct live_page *page = groups[i].page;
		struct profile_labels labels = { .pid = (pid_t)page->tgid,
						 .tid = (pid_t)page->tid,
						 .time_ns = groups[i].time_ns };

		ret = add(export, source, builder, memory->pages->stacks[page->stack],
			  (uint64_t[MEMORY_VALUES]){ [MEMORY_IN_USE] = (uint64_t)groups[i].bytes }, page->comm,
			  &labels);
	}
	free(groups);
	return ret;
}

int memory_profile__samples(const struct profile_source *source, const struct memory_profile *memory,
			    struct profile_builder *builder)
{
	struct profile_export *export = profile_export__new(source, builder);
	int ret = export ? add_allocated(export, source, builder) : -ENOMEM;

	ret = ret ?: add_in_use(export, source, memory, builder);
	ret = ret ?: profile_export__comment(export);
	profile_export__free(export);
	return ret;
}
