// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_merge.h"

/* Python frames leaf first, a call of the loop at a time. */
struct cursor {
	const struct merge_input *in;
	struct merged_frame *out;
	size_t n_out, next;
};

static void add(struct cursor *c, enum merged_kind kind, size_t index)
{
	c->out[c->n_out++] = (struct merged_frame){ .index = (uint32_t)index, .kind = kind };
}

/* The frames of the next call of the loop. False when there are none left. */
static bool add_call(struct cursor *c)
{
	if (c->next == c->in->n_python)
		return false;
	do
		add(c, MERGED_PYTHON, c->next);
	while (!c->in->entries[c->next++] && c->next < c->in->n_python);
	return true;
}

static size_t count_loops(const struct merge_input *in)
{
	size_t n = 0;

	for (size_t i = 0; i < in->n_native; i++)
		n += in->loops[i];
	return n;
}

/* The last call's frames count although their first one is missing. */
static size_t count_calls(const struct merge_input *in)
{
	size_t n = 0;

	for (size_t i = 0; i < in->n_python; i++)
		n += in->entries[i] || i + 1 == in->n_python;
	return n;
}

static bool knows_innermost(const struct merge_input *in)
{
	return in->call_at && in->call_at <= in->n_native && in->loops[in->call_at - 1];
}

/* Calls of the loop before the innermost one that has frames. */
static size_t count_inner(const struct merge_input *in)
{
	size_t n = 0;

	for (size_t i = 0; knows_innermost(in) && i + 1 < in->call_at; i++)
		n += in->loops[i];
	return n;
}

/* The innermost call alone may be about to get its frame, or has just given it back. */
static size_t count_edges(const struct merge_input *in)
{
	bool edge = in->has_lock && (knows_innermost(in) ? count_inner(in) > 0 : !in->within);

	return in->empty_calls + edge;
}

size_t python_merge__missing(const struct merge_input *in)
{
	size_t loops = count_loops(in), calls = count_calls(in) + count_edges(in);

	return in->native_cut || in->python_cut || loops <= calls ? 0 : loops - calls;
}

size_t python_merge(const struct merge_input *in, struct merged_frame *out)
{
	struct cursor c = { .in = in, .out = out };
	size_t loops = count_loops(in), calls = count_calls(in);
	/* Calls of the loop, from the leaf, that have no frames; and calls whose native frame is missing there. */
	size_t bare = 0, orphans = 0;
	bool edge;

	if (in->native_cut || in->python_cut) {
		bare = orphans = 0;
	} else if (in->innermost_known && python_merge__missing(in)) {
		bare = count_inner(in);
	} else {
		bare = loops > calls ? loops - calls : 0;
		orphans = calls > loops ? calls - loops : 0;
	}
	/* What such a call does is its caller's. */
	edge = in->n_python && bare <= count_edges(in);
	for (size_t i = 0; i < in->n_native; i++) {
		if (!loops && i == in->interpreter && !(in->native_cut && in->loop_known))
			while (add_call(&c))
				;
		if (!in->loops[i]) {
			add(&c, MERGED_NATIVE, i);
			continue;
		}
		/* Orphans belong in front of the innermost call that has a native frame. */
		for (; loops && orphans; orphans--)
			add_call(&c);
		if (bare) {
			if (!edge)
				add(&c, MERGED_NATIVE, i);
			bare--;
		} else if (!add_call(&c)) {
			add(&c, MERGED_NATIVE, i);
		}
	}
	if (in->native_cut)
		add(&c, MERGED_CUT, 0);
	while (add_call(&c))
		;
	return c.n_out;
}
