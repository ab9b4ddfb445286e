// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/steps.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/log.h"
#include "daemon/os/uprobe_links.h"
#include "daemon/os/watchpoint.h"
#include "stakeout/array.h"

#define MAX_INSTRUCTIONS 65536 /* of a code object, that are looked through for a line */

bool steps__is_fetch(const struct target *t, unsigned mark, const struct process *p, uint32_t at)
{
	const struct python_image *image = p && p->python_file ? p->python_file->python : NULL;

	if (!t->marks[mark].python.place.file[0] || !image || !python_image__has_whole_loop(image))
		return true;
	return python_image__is_loop(image, p->python_bias, at);
}

void steps__add(struct target *t, unsigned mark, const struct stack_sample *sample)
{
	static const uint64_t no_frames = 0;
	const struct so_stack_record none = { .type = SO_RECORD_STACK, .hash = so_mix(0, 2) };
	struct stack_sample step = *sample;
	struct stack *stack = NULL;

	step.kind = SAMPLE_STEP + mark;
	step.stack = none.hash;
	if (!samples__stack(&t->samples, none.hash))
		stack = stack__new(&none, &no_frames, NULL);
	samples__add(&t->samples, &step, stack);
	stack__unref(stack);
	if (!mark && (steps__waits_for_slow(t) || t->span.count) &&
	    !ARRAY_RESERVE(t->slow.pending, t->slow.capacity, t->slow.n_pending + 1))
		t->slow.pending[t->slow.n_pending++] = (struct step_moment){ sample->tid, sample->when_ns };
}

uint64_t steps__since(const struct target *t, uint64_t since_ns, uint64_t *span_ns)
{
	uint64_t n = 0, first = UINT64_MAX, last = 0;

	for (unsigned part = 0; t->info.timed && part < SAMPLES_PARTS; part++) {
		const struct accumulator *acc = samples__part(&t->samples, part);

		for (size_t i = 0; acc && i < acc->n_counters; i++) {
			const struct counter *c = &acc->counters[i];

			if (c->kind != SAMPLE_STEP || c->when_ns < since_ns)
				continue;
			n += c->count;
			first = c->when_ns < first ? c->when_ns : first;
			last = c->when_ns > last ? c->when_ns : last;
		}
	}
	*span_ns = n ? last - first : 0;
	return n;
}

static int compare_moments(const void *a, const void *b)
{
	const struct step_moment *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->when_ns > y->when_ns) - (x->when_ns < y->when_ns);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t usual_ns(const struct slow_watch *w)
{
	uint64_t sorted[SLOW_WATCH_STEPS];

	memcpy(sorted, w->ns, w->n * sizeof(*sorted));
	qsort(sorted, w->n, sizeof(*sorted), compare_ns);
	return sorted[w->n * 95 / 100];
}

/* The thread's entry before that one, in whose place it is put; 0: there is none. */
static uint64_t replace_last(struct slow_watch *w, const struct step_moment *moment)
{
	uint64_t before;

	for (unsigned i = 0; i < w->n_last; i++) {
		if (w->last[i].tid != moment->tid)
			continue;
		before = w->last[i].when_ns;
		w->last[i] = *moment;
		return before;
	}
	if (w->n_last < SLOW_WATCH_THREADS)
		w->last[w->n_last++] = *moment;
	return 0;
}

static bool is_slow(const struct slow_watch *w, uint64_t ns, uint64_t usual)
{
	return (w->factor > 0 && usual && (double)ns > w->factor * (double)usual) || (w->limit_ns && ns > w->limit_ns);
}

static void take_step(struct slow_watch *w, uint64_t begin_ns, uint64_t ns, uint64_t usual)
{
	if (begin_ns >= w->forgiven_ns && is_slow(w, ns, usual) && (ns > w->slow_ns || w->under_way)) {
		w->slow_begin_ns = begin_ns;
		w->slow_ns = ns;
		w->usual_ns = usual;
		w->under_way = false;
	}
	w->ns[w->next] = ns;
	w->next = (w->next + 1) % SLOW_WATCH_STEPS;
	w->n += w->n < SLOW_WATCH_STEPS;
}

/* One that is under way for that long is slow already, and may never end. */
static void look_at_current(struct slow_watch *w, uint64_t usual, uint64_t now_ns)
{
	uint64_t latest = 0;

	for (unsigned i = 0; i < w->n_last; i++)
		latest = w->last[i].when_ns > latest ? w->last[i].when_ns : latest;
	if (latest && latest >= w->forgiven_ns && (!w->slow_ns || w->under_way) && now_ns > latest &&
	    is_slow(w, now_ns - latest, usual)) {
		w->slow_begin_ns = latest;
		w->slow_ns = now_ns - latest;
		w->usual_ns = usual;
		w->under_way = true;
	}
}

/* How many the thread has begun, this one included. */
static uint64_t count_begun(struct step_span *s, uint32_t tid)
{
	for (unsigned i = 0; i < s->n_threads; i++)
		if (s->threads[i].tid == tid)
			return ++s->threads[i].begun;
	if (s->n_threads == SLOW_WATCH_THREADS)
		return 0;
	s->threads[s->n_threads].tid = tid;
	return s->threads[s->n_threads++].begun = 1;
}

/* In order of time within each thread; known: its first one was known before these. */
static void take_begin(struct step_span *s, const struct step_moment *m, bool known)
{
	uint64_t begun = count_begun(s, m->tid);

	if (begun == s->skip + 1 && !known && (!s->from_ns || m->when_ns < s->from_ns)) {
		s->tid = m->tid;
		s->from_ns = m->when_ns;
		s->to_ns = 0;
	}
	if (m->tid == s->tid && begun == s->skip + s->count + 1)
		s->to_ns = m->when_ns;
}

static void look_for_slow(struct target *t, uint64_t now_ns)
{
	struct slow_watch *w = &t->slow;
	uint64_t usual = w->n >= STEPS_TO_KNOW ? usual_ns(w) : 0;

	for (size_t i = 0; i < w->n_pending; i++) {
		uint64_t before = replace_last(w, &w->pending[i]);

		if (before && w->pending[i].when_ns > before)
			take_step(w, before, w->pending[i].when_ns - before, usual);
	}
	look_at_current(w, usual, now_ns);
	t->info.slow_step_ns = w->slow_ns;
	t->info.usual_step_ns = w->usual_ns;
}

void steps__look(struct target *t, uint64_t now_ns)
{
	struct slow_watch *w = &t->slow;
	bool known = t->span.from_ns != 0;

	if (w->n_pending)
		qsort(w->pending, w->n_pending, sizeof(*w->pending), compare_moments);
	for (size_t i = 0; t->span.count && i < w->n_pending; i++)
		take_begin(&t->span, &w->pending[i], known);
	if (steps__waits_for_slow(t))
		look_for_slow(t, now_ns);
	w->n_pending = 0;
}

void steps__forgive_slow(struct target *t)
{
	struct slow_watch *w = &t->slow;

	for (unsigned i = 0; i < w->n_last; i++)
		w->forgiven_ns = w->last[i].when_ns >= w->forgiven_ns ? w->last[i].when_ns + 1 : w->forgiven_ns;
	w->slow_ns = w->usual_ns = 0;
	w->under_way = false;
	t->info.slow_step_ns = t->info.usual_step_ns = 0;
}

/* Of the code object's instructions the first one that the line has; false: it has none. */
static bool find_line(const struct python_code *code, uint16_t version, int line, uint32_t *instruction)
{
	for (uint32_t i = 0; i < MAX_INSTRUCTIONS; i++) {
		if (python_code__line(code, version, i) == line) {
			*instruction = i;
			return true;
		}
	}
	return false;
}

static uint64_t *place_of(struct python_mark *mark, pid_t tgid)
{
	for (unsigned i = 0; i < mark->n_places; i++)
		if (mark->places[i].tgid == tgid)
			return &mark->places[i].address;
	return NULL;
}

static void seen_code(struct python_mark *mark, pid_t tgid, uint16_t version, const struct python_code *code)
{
	uint32_t instruction = 0;

	if (!mark->place.file[0] || mark->n_places == PYTHON_STEP_PLACES || !code->instructions ||
	    !python_place__is_file(&mark->place, code->filename) || place_of(mark, tgid))
		return;
	if (mark->place.line ? !find_line(code, version, mark->place.line, &instruction)
			     : !python_place__is_function(&mark->place, code->name))
		return;
	mark->places[mark->n_places].tgid = tgid;
	mark->places[mark->n_places++].address = code->instructions + 2ull * instruction;
	/* The name as it is, for the stacks that show it. */
	snprintf(mark->place.function, sizeof(mark->place.function), "%s", code->name);
}

void steps__seen_code(struct target *t, pid_t tgid, uint16_t version, const struct python_code *code)
{
	for (unsigned i = 0; i < SO_MARKS; i++)
		seen_code(&t->marks[i].python, tgid, version, code);
}

static bool is_in_function(const struct python_mark *mark, const struct stack *stack)
{
	const struct python_frame *frames = stack__python((struct stack *)stack);

	for (unsigned i = 0; i < stack->record.n_python; i++) {
		const struct python_function *f = frames[i].function;

		if (f && !strcmp(f->name, mark->place.function) && python_place__is_file(&mark->place, f->filename))
			return true;
	}
	return false;
}

static bool is_watched(const struct python_mark *mark, pid_t tid)
{
	for (unsigned i = 0; i < mark->n_threads; i++)
		if (mark->threads[i].tid == tid)
			return true;
	return false;
}

/* A thread of a process that forked in the function is in it as well, and may never enter it: it costs nothing. */
static void seen_stack(struct target *t, unsigned number, struct sampler *sampler, pid_t tgid, pid_t tid,
		       const struct stack *stack)
{
	struct python_mark *mark = &t->marks[number].python;
	const uint64_t *address = mark->n_places ? place_of(mark, tgid) : NULL;
	int ret;

	if (!address || is_watched(mark, tid) || !is_in_function(mark, stack))
		return;
	if (mark->n_threads == PYTHON_STEP_PLACES) {
		mark->unwatched = true;
		return;
	}
	mark->threads[mark->n_threads].tid = tid;
	ret = sampler__watch_mark(sampler, number, tid, *address, &mark->threads[mark->n_threads].probe);
	mark->n_threads++;
	if (ret) {
		mark->unwatched = true;
		log__error("no watchpoint in thread %d: %s", tid,
			   ret == -ENOSPC ? "its debug registers are taken" : strerror(-ret));
	}
}

void steps__seen_stack(struct target *t, struct sampler *sampler, pid_t tgid, pid_t tid, const struct stack *stack)
{
	for (unsigned i = 0; stack && i < SO_MARKS; i++)
		seen_stack(t, i, sampler, tgid, tid, stack);
}

static int begin_python(struct mark *mark, const struct python_place *place, struct so_error *err)
{
	if (!watchpoint__works())
		return so_err(
			err, -ENOTSUP,
			"this machine's hardware watchpoints do not fire, as on some virtual machines: steps and calls "
			"of Python cannot be counted; name a native function, such as "
			"torch::autograd::Engine::execute");
	mark->python = (struct python_mark){ .place = *place };
	return 0;
}

static int begin_native(struct target *t, unsigned number, struct sampler *sampler, const struct step_place *place,
			struct so_error *err)
{
	char path[64];
	int ret;

	/* Through the descriptor: another mount namespace may hide the path. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), place->fd);
	ret = sampler__probe_mark(sampler, number, t->info.pid, path, place->offset, &t->marks[number].probe);
	return ret ? so_err(err, ret, "the kernel refused the probe on %s: %s", place->name, uprobe_links__error(ret))
		   : 0;
}

/* Which mark is to have it: of a counted function that which has it already, else a free one. SO_MARKS: none is left. */
static unsigned choose_mark(const struct target *proper, bool step, const char *name)
{
	unsigned free = SO_MARKS;

	if (step)
		return 0;
	for (unsigned i = SO_MARKS - 1; i > 0; i--) {
		if (!proper->marks[i].users)
			free = i;
		else if (!strcmp(proper->marks[i].shared, name))
			return i;
	}
	return free;
}

int steps__begin(struct target *t, bool step, struct sampler *sampler, const struct step_place *place,
		 struct so_error *err)
{
	struct target *proper = t->of ?: t;
	unsigned mark = choose_mark(proper, step, place->name);
	struct mark *shared = &proper->marks[mark < SO_MARKS ? mark : 0];
	int ret = 0;

	if (mark == SO_MARKS)
		return so_err(err, -EEXIST, "%d functions of process %d are counted already, which is the most",
			      SO_MARKS - 1, t->info.pid);
	if (shared->users && strcmp(shared->shared, place->name) != 0)
		return so_err(err, -EEXIST, "steps of process %d are counted already, by '%s'", t->info.pid,
			      shared->shared);
	if (!shared->users)
		ret = place->python.file[0] ? begin_python(shared, &place->python, err)
					    : begin_native(proper, mark, sampler, place, err);
	if (ret)
		return ret;
	shared->users++;
	snprintf(shared->shared, sizeof(shared->shared), "%s", place->name);
	snprintf(t->marks[mark].name, sizeof(t->marks[mark].name), "%s", place->name);
	t->marks[mark].used = true;
	return 0;
}

static void end_mark(struct mark *mark)
{
	for (unsigned i = 0; i < mark->python.n_threads; i++)
		sampler__end_probe(mark->python.threads[i].probe);
	mark->python = (struct python_mark){ .n_places = 0 };
	sampler__end_probe(mark->probe);
	mark->probe = NULL;
}

void steps__end(struct target *t)
{
	struct target *proper = t->of ?: t;

	for (unsigned i = 0; i < SO_MARKS; i++) {
		if (!t->marks[i].used)
			continue;
		t->marks[i].used = false;
		if (!--proper->marks[i].users)
			end_mark(&proper->marks[i]);
	}
}
