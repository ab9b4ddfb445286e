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

void engine_python_version(uint16_t version, char text[16])
{
	snprintf(text, 16, "%u.%u%s", version >> 8 & 0x7f, version & 0xff,
		 version & TARGET_PYTHON_FREE_THREADED ? "t" : "");
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
	ret = ret ?: profile_builder__number(b, "python.samples", NULL, accumulator__python_samples(&s->acc));
	ret = ret ?: profile_builder__number(b, "python.complete", NULL, s->acc.python_named);
	ret = ret ?: profile_builder__number(b, "python.gil", NULL, s->acc.gil);
	if (!ret && s->acc.no_gil)
		ret = profile_builder__number(b, "python.no_gil", NULL, s->acc.no_gil);
	ret = ret ?: profile_builder__number(b, "python.stale", NULL, s->python.names.stale);
	ret = ret ?: profile_builder__number(b, "python.unreadable", NULL, s->python.names.unreadable);
	for (unsigned i = SO_PYTHON_STATE_COMPLETE + 1; !ret && i < SO_PYTHON_STATE_COUNT; i++) {
		if (s->acc.python[i])
			ret = profile_builder__number(b, "python.truncated", python_words[i], s->acc.python[i]);
	}
	return ret;
}

static int add_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret = profile_builder__number(b, "pid", NULL, s->info.pid);

	ret = ret ?: profile_builder__number(b, "sample_hz", NULL, s->info.rate_hz);
	ret = ret ?: profile_builder__number(b, "cost-ns", NULL, engine_cost_ns(s));
	ret = ret ?: profile_builder__number(b, "complete", NULL, s->acc.truncated[SO_TRUNC_NONE]);
	for (unsigned i = SO_TRUNC_NONE + 1; !ret && i < SO_TRUNC_COUNT; i++) {
		if (s->acc.truncated[i])
			ret = profile_builder__number(b, "truncated", truncation_words[i], s->acc.truncated[i]);
	}
	for (unsigned i = 0; !ret && i < SO_LOSS_COUNT; i++) {
		if (s->slot.lost[i])
			ret = profile_builder__number(b, "lost", loss_words[i], s->slot.lost[i]);
	}
	if (!ret && s->forgotten)
		ret = profile_builder__number(b, "forgotten", NULL, s->forgotten);
	return ret ?: add_python_comments(b, s);
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

struct profile_source engine_source(const struct engine *e, const struct engine_snapshot *s)
{
	return (struct profile_source){ .acc = &s->acc,
					.files = e->files,
					.jits = e->jits,
					.main_file = s->main_file,
					.since_ns = s->begin_ns,
					.own_namespaces = s->own_namespaces,
					.uid = s->info.uid,
					.labels = &s->labels,
					.thread_names = &s->thread_names,
					.hidden = &s->hidden };
}

int engine_build_profile(struct engine *e, const struct engine_snapshot *s, bool hasty, uint8_t **out, size_t *length)
{
	bool wall = s->info.wall;
	_cleanup_(profile_builder) struct profile_builder *b =
		wall ? profile_builder__new_wall(s->begin_wall_ns, s->duration_ns, s->period_ns)
		     : profile_builder__new(s->begin_wall_ns, s->duration_ns, s->period_ns);
	struct profile_source source = engine_source(e, s);
	int ret;

	if (!b)
		return -ENOMEM;
	source.kernel = s->info.kernel || wall ? e->kernel_symbols : NULL;
	source.no_kernel = !s->info.kernel;
	source.waited = e->waited_files;
	source.timed = s->info.timed;
	source.hasty = hasty;
	ret = wall ? profile_wall__samples(&source, s->period_ns, s->wall_hz, b) : profile_export__samples(&source, b);
	if (!ret && wall)
		ret = profile_builder__number(b, "wall_hz", NULL, s->wall_hz);
	if (!ret && wall && s->wall_lost_ns)
		ret = profile_builder__number(b, "wall.lost_ns", NULL, s->wall_lost_ns);
	ret = ret ?: add_comments(b, s);
	ret = ret ?: engine_add_marks(b, s);
	ret = ret || !s->info.timed ? ret : engine_add_calls(e, b, s) ?: add_gpus(e, b, s);
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

	if (c->kind == SAMPLE_CPU || c->kind == SAMPLE_ALLOC || c->kind >= SAMPLE_STEP)
		return c->when_ns >= from_ns && (c->when_ns < to_ns || (c->kind >= SAMPLE_STEP && c->when_ns == to_ns))
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
