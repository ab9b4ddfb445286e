// SPDX-License-Identifier: GPL-2.0-or-later
/* A target's samples as a profile, and what it says in its comments. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/nvml/nvml.h"
#include "daemon/engine/words.h"
#include "daemon/profile/profile_wall.h"
#include "stakeout/cuda_names.h"

static int add_comment(struct profile_builder *b, const char *key, const char *word, uint64_t value)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), word ? "%s.%s" : "%s", key, word);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, name, text);
}

void engine_python_version(uint16_t version, char text[16])
{
	snprintf(text, 16, "%u.%u", version >> 8, version & 0xff);
}

int engine_add_python_comments(const struct python_facts *python, struct profile_builder *b)
{
	char version[16];
	int ret = 0;

	for (unsigned i = 0; !ret && i < TARGET_MAX_PYTHONS && python->versions[i]; i++) {
		engine_python_version(python->versions[i], version);
		ret = profile_builder__comment(b, "python.version", version);
	}
	if (!ret && python->problem[0])
		ret = profile_builder__comment(b, "python.problem", python->problem);
	return ret;
}

static int add_python_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret;

	if (!python_facts__any(&s->python))
		return 0;
	ret = engine_add_python_comments(&s->python, b);
	ret = ret ?: add_comment(b, "python.samples", NULL, accumulator__python_samples(&s->acc));
	ret = ret ?: add_comment(b, "python.complete", NULL, s->acc.python_named);
	ret = ret ?: add_comment(b, "python.gil", NULL, s->acc.gil);
	ret = ret ?: add_comment(b, "python.stale", NULL, s->python.names.stale);
	ret = ret ?: add_comment(b, "python.unreadable", NULL, s->python.names.unreadable);
	for (unsigned i = SO_PYTHON_STATE_COMPLETE + 1; !ret && i < SO_PYTHON_STATE_COUNT; i++) {
		if (s->acc.python[i])
			ret = add_comment(b, "python.truncated", python_words[i], s->acc.python[i]);
	}
	return ret;
}

static int add_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret = add_comment(b, "pid", NULL, s->info.pid);

	ret = ret ?: add_comment(b, "sample_hz", NULL, s->info.rate_hz);
	ret = ret ?: add_comment(b, "cost-ns", NULL, engine_cost_ns(s));
	ret = ret ?: add_comment(b, "complete", NULL, s->acc.truncated[SO_TRUNC_NONE]);
	for (unsigned i = SO_TRUNC_NONE + 1; !ret && i < SO_TRUNC_COUNT; i++) {
		if (s->acc.truncated[i])
			ret = add_comment(b, "truncated", truncation_words[i], s->acc.truncated[i]);
	}
	for (unsigned i = 0; !ret && i < SO_LOSS_COUNT; i++) {
		if (s->slot.lost[i])
			ret = add_comment(b, "lost", loss_words[i], s->slot.lost[i]);
	}
	if (!ret && s->forgotten)
		ret = add_comment(b, "forgotten", NULL, s->forgotten);
	return ret ?: add_python_comments(b, s);
}

static int compare_steps(const void *a, const void *b)
{
	const struct counter *x = *(const struct counter *const *)a, *y = *(const struct counter *const *)b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->when_ns > y->when_ns) - (x->when_ns < y->when_ns);
}

/* "PID/TID:" and when each of the thread's steps began, in ns since the one before; the first since begin_ns. */
static int add_steps_of_thread(struct profile_builder *b, const struct counter *const *steps, size_t n,
			       uint64_t begin_ns)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	uint64_t before = begin_ns;

	if (!out)
		return -ENOMEM;
	fprintf(out, "%u/%u:", steps[0]->tgid, steps[0]->tid);
	for (size_t i = 0; i < n; i++) {
		uint64_t when = steps[i]->when_ns > before ? steps[i]->when_ns : before;

		fprintf(out, i ? ",%" PRIu64 : "%" PRIu64, when - before);
		before = when;
	}
	return fclose(out) ? -ENOMEM : profile_builder__comment(b, "steps", text);
}

static int add_steps(struct profile_builder *b, const struct engine_snapshot *s)
{
	_cleanup_free_ const struct counter **steps = calloc(s->acc.n_counters + 1, sizeof(*steps));
	uint32_t unused;
	size_t n = 0;
	int ret = 0;

	if (!steps)
		return -ENOMEM;
	for (size_t i = 0; s->info.timed && i < s->acc.n_counters; i++) {
		const struct counter *c = &s->acc.counters[i];

		if (c->kind == SAMPLE_STEP && !u64_table__get(&s->hidden, c->tgid, &unused))
			steps[n++] = c;
	}
	if (n)
		qsort(steps, n, sizeof(*steps), compare_steps);
	if (s->info.timed && s->slot.steps_lost)
		ret = add_comment(b, "steps_lost", NULL, s->slot.steps_lost);
	for (size_t i = 0, end; !ret && i < n; i = end) {
		for (end = i + 1; end < n && steps[end]->tid == steps[i]->tid;)
			end++;
		ret = add_steps_of_thread(b, steps + i, end - i, s->begin_ns);
	}
	return ret;
}

static int compare_calls(const void *a, const void *b)
{
	const struct call_time *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->api != y->api)
		return x->api < y->api ? -1 : 1;
	return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* "PID/TID/NAME:" and of each call: when it began, in ns since the one before; "+" how long it took; "x" its bytes. */
static int add_calls_of_api(struct profile_builder *b, const struct call_time *calls, size_t n, uint64_t begin_ns)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	uint64_t before = begin_ns;

	if (!out)
		return -ENOMEM;
	fprintf(out, "%u/%u/%s:", calls[0].tgid, calls[0].tid, cuda_names__api(calls[0].api));
	for (size_t i = 0; i < n; i++) {
		uint64_t end = calls[i].begin_ns + calls[i].ns;
		uint64_t begin = calls[i].begin_ns > before ? calls[i].begin_ns : before;

		fprintf(out, "%s%" PRIu64 "+%" PRIu64, i ? "," : "", begin - before, end - begin);
		if (calls[i].bytes)
			fprintf(out, "x%" PRIu64, calls[i].bytes);
		before = begin;
	}
	return fclose(out) ? -ENOMEM : profile_builder__comment(b, "calls", text);
}

/* What a time line lacks is said as well: calls that were not timed, that were too many, and the oldest. */
static int add_calls(struct profile_builder *b, const struct engine_snapshot *s)
{
	const struct call_times *all = &s->calls;
	_cleanup_free_ struct call_time *calls = calloc(all->n + 1, sizeof(*calls));
	uint64_t missed = 0;
	uint32_t unused;
	size_t n = 0;
	int ret = 0;

	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; i < all->n; i++) {
		const struct call_time *call = &all->ring[i];

		if (call->begin_ns + call->ns <= s->begin_ns || call->begin_ns >= s->begin_ns + s->duration_ns ||
		    u64_table__get(&s->hidden, call->tgid, &unused))
			continue;
		missed += call->missed;
		calls[n++] = *call;
	}
	qsort(calls, n, sizeof(*calls), compare_calls);
	if (missed)
		ret = add_comment(b, "calls_missed", NULL, missed);
	if (!ret && all->gone_ns > s->begin_ns)
		ret = add_comment(b, "calls_since_ns", NULL, all->gone_ns - s->begin_ns);
	if (!ret && all->partial_ns > s->begin_ns)
		ret = add_comment(b, "calls_partial", NULL, 1);
	for (size_t i = 0, end; !ret && i < n; i = end) {
		for (end = i + 1; end < n && calls[end].tid == calls[i].tid && calls[end].api == calls[i].api;)
			end++;
		ret = add_calls_of_api(b, calls + i, end - i, s->begin_ns);
	}
	return ret;
}

/* How busy the GPUs were meanwhile. */
static int add_gpus(struct engine *e, struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret = 0;

	for (unsigned i = 0; !ret && s->cuda && i < NVML_MAX_DEVICES; i++) {
		_cleanup_free_ char *text = NULL;

		ret = cuda_targets__gpu_series(e->cuda, i, s->begin_ns, s->begin_ns + s->duration_ns, &text);
		if (!ret && text)
			ret = profile_builder__comment(b, "gpu", text);
	}
	return ret;
}

int engine_build_profile(struct engine *e, const struct engine_snapshot *s, bool hasty, uint8_t **out, size_t *length)
{
	bool wall = s->info.wall;
	_cleanup_(profile_builder) struct profile_builder *b =
		wall ? profile_builder__new_wall(s->begin_wall_ns, s->duration_ns, s->period_ns)
		     : profile_builder__new(s->begin_wall_ns, s->duration_ns, s->period_ns);
	struct profile_source source = { .acc = &s->acc,
					 .files = e->files,
					 .main_file = s->main_file,
					 .kernel = s->info.kernel ? e->kernel_symbols : NULL,
					 .since_ns = s->begin_ns,
					 .own_namespaces = s->own_namespaces,
					 .uid = s->info.uid,
					 .labels = &s->labels,
					 .thread_names = &s->thread_names,
					 .hidden = &s->hidden,
					 .waited = e->waited_files,
					 .timed = s->info.timed,
					 .hasty = hasty };
	int ret;

	if (!b)
		return -ENOMEM;
	ret = wall ? profile_wall__samples(&source, s->period_ns, s->wall_hz, b) : profile_export__samples(&source, b);
	if (!ret && wall)
		ret = add_comment(b, "wall_hz", NULL, s->wall_hz);
	if (!ret && wall && s->wall_lost_ns)
		ret = add_comment(b, "wall.lost_ns", NULL, s->wall_lost_ns);
	ret = ret ?: add_comments(b, s);
	ret = ret ?: add_steps(b, s);
	ret = ret || !s->info.timed ? ret : add_calls(b, s) ?: add_gpus(e, b, s);
	return ret ?: profile_builder__finish(b, out, length);
}

static int build_and_say(struct engine *e, const struct engine_snapshot *s, uint8_t **out, size_t *length,
			 struct so_error *err)
{
	int ret = engine_build_profile(e, s, false, out, length);

	return ret ? so_err(err, ret, "cannot build the profile: %s", strerror(-ret)) : 0;
}

/* What of the counter lies between two moments; of those of a moment, steps alone are counted at the end as well. */
static uint64_t count_between(const struct counter *c, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t begin_ns = c->when_ns > from_ns ? c->when_ns : from_ns, end_ns = c->when_ns + c->count;

	if (c->kind == SAMPLE_CPU || c->kind == SAMPLE_STEP || c->kind == SAMPLE_ALLOC)
		return c->when_ns >= from_ns && (c->when_ns < to_ns || (c->kind == SAMPLE_STEP && c->when_ns == to_ns))
			       ? c->count
			       : 0;
	end_ns = end_ns < to_ns ? end_ns : to_ns;
	return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/* Leaves what was before and after out. to_ns: no later than the snapshot's end. */
static int keep_between(struct engine_snapshot *s, uint64_t from_ns, uint64_t to_ns)
{
	struct accumulator acc = { 0 };
	int ret = 0;

	from_ns = from_ns > s->begin_ns ? from_ns : s->begin_ns;
	for (size_t i = 0; !ret && i < s->acc.n_counters; i++) {
		const struct counter *c = &s->acc.counters[i];
		const struct stack *stack = s->acc.stacks[c->stack];
		uint64_t count = count_between(c, from_ns, to_ns);

		if (!count)
			continue;
		ret = accumulator__add_stack(&acc, stack);
		ret = ret
			      ?: accumulator__add(&acc, &(struct stack_sample){
								c->kind, c->tgid, c->tid, c->comm, stack->record.hash,
								count, c->when_ns < from_ns ? from_ns : c->when_ns });
	}
	accumulator__release(&s->acc);
	s->acc = acc;
	s->begin_wall_ns += from_ns - s->begin_ns;
	s->duration_ns = to_ns > from_ns ? to_ns - from_ns : 0;
	s->begin_ns = from_ns;
	return ret;
}

static int leave_out_older(struct engine_snapshot *s, double last_s, struct so_error *err)
{
	uint64_t end_ns = s->begin_ns + s->duration_ns, last_ns = (uint64_t)(last_s * 1e9);

	if (!(last_s > 0))
		return 0;
	if (!s->info.timed)
		return so_err(err, -EINVAL,
			      "target %u keeps no times, so its latest seconds are not known by themselves "
			      "(attach it with --timeline)",
			      s->info.id);
	if (last_ns >= s->duration_ns)
		return 0;
	return keep_between(s, end_ns - last_ns, end_ns) ? so_err(err, -ENOMEM, "out of memory") : 0;
}

/* Of a target that is of some steps; those that there were, where it was ended before. */
static int leave_out_other_steps(struct engine_snapshot *s, struct so_error *err)
{
	uint64_t end_ns = s->begin_ns + s->duration_ns;

	if (!s->of_steps)
		return 0;
	if (!s->steps_ns)
		return so_err(err, -ENODATA, "the steps that are wanted of process %d have not begun", s->info.pid);
	if (s->steps_end_ns && s->steps_end_ns < end_ns)
		end_ns = s->steps_end_ns;
	return keep_between(s, s->steps_ns, end_ns) ? so_err(err, -ENOMEM, "out of memory") : 0;
}

int engine__profile(struct engine *e, uint32_t id, struct caller caller, double last_s, uint8_t **out, size_t *length,
		    struct so_error *err)
{
	struct engine_snapshot s = { 0 };
	int ret = engine_take_snapshot(e, id, caller, &s, err);

	ret = ret ?: leave_out_other_steps(&s, err);
	ret = ret ?: leave_out_older(&s, last_s, err);
	ret = ret ?: build_and_say(e, &s, out, length, err);
	engine_release_snapshot(e, &s);
	return ret;
}
