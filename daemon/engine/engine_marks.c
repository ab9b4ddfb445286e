// SPDX-License-Identifier: GPL-2.0-or-later
/* What a profile that keeps times says of steps and counted functions: when each began (.design/profile-format.md). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/profile/profile_builder.h"

static int compare_moments(const void *a, const void *b)
{
	const struct counter *x = *(const struct counter *const *)a, *y = *(const struct counter *const *)b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->when_ns > y->when_ns) - (x->when_ns < y->when_ns);
}

/*
 * Of one thread, "PID/TID:" and when each of its steps began, in ns since the one before; the first since the profile's
 * begin. Of a counted function, "=" and its name behind them.
 */
static int add_thread(struct profile_builder *b, const struct engine_snapshot *s, const struct counter *const *moments,
		      size_t n)
{
	_cleanup_free_ char *text = NULL;
	unsigned mark = moments[0]->kind - SAMPLE_STEP;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	uint64_t before = s->begin_ns;

	if (!out)
		return -ENOMEM;
	fprintf(out, "%u/%u:", moments[0]->tgid, moments[0]->tid);
	for (size_t i = 0; i < n; i++) {
		uint64_t when = moments[i]->when_ns > before ? moments[i]->when_ns : before;

		fprintf(out, i ? ",%" PRIu64 : "%" PRIu64, when - before);
		before = when;
	}
	if (mark)
		fprintf(out, "=%s", s->counted[mark]);
	return fclose(out) ? -ENOMEM : profile_builder__comment(b, mark ? "entries" : "steps", text);
}

/* A counted function is named, whether it was entered or not; and how many calls were not told. */
static int add_names(struct profile_builder *b, const struct engine_snapshot *s)
{
	bool any = false;
	int ret = 0;

	for (unsigned i = 1; !ret && i < SO_MARKS; i++) {
		any |= s->counted[i][0];
		if (s->counted[i][0])
			ret = profile_builder__comment(b, "counted", s->counted[i]);
	}
	if (!ret && any && s->slot.entries_lost)
		ret = profile_builder__number(b, "entries_lost", NULL, s->slot.entries_lost);
	return ret;
}

int engine_add_marks(struct profile_builder *b, const struct engine_snapshot *s)
{
	_cleanup_free_ const struct counter **moments = calloc(s->acc.n_counters + 1, sizeof(*moments));
	uint32_t unused;
	size_t n = 0;
	int ret = 0;

	if (!moments)
		return -ENOMEM;
	for (size_t i = 0; s->info.timed && i < s->acc.n_counters; i++) {
		const struct counter *c = &s->acc.counters[i];

		if (c->kind >= SAMPLE_STEP && !u64_table__get(&s->hidden, c->tgid, &unused) &&
		    (c->kind == SAMPLE_STEP || s->counted[c->kind - SAMPLE_STEP][0]))
			moments[n++] = c;
	}
	if (n)
		qsort(moments, n, sizeof(*moments), compare_moments);
	if (s->info.timed && s->slot.steps_lost)
		ret = profile_builder__number(b, "steps_lost", NULL, s->slot.steps_lost);
	if (!ret && s->info.timed && s->unwatched)
		ret = profile_builder__number(b, "steps_unwatched", NULL, 1);
	ret = ret ?: add_names(b, s);
	for (size_t i = 0, end; !ret && i < n; i = end) {
		for (end = i + 1;
		     end < n && moments[end]->tid == moments[i]->tid && moments[end]->kind == moments[i]->kind;)
			end++;
		ret = add_thread(b, s, moments + i, end - i);
	}
	return ret;
}
