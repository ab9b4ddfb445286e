// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/elf/elf_file.h"
#include "daemon/os/bounded_call.h"
#include "daemon/os/log.h"
#include "daemon/os/watchpoint.h"
#include "daemon/os/proc_maps.h"
#include "daemon/symbols/demangle.h"
#include "daemon/symbols/elf_symbols.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define PATIENCE_MS 30000
#define MAX_NAME    4096
#define CHUNK       1024 /* functions at a time */

#define MAX_INSTRUCTIONS 65536 /* of a code object, that are looked through for a line */

void steps__add(struct target *t, const struct stack_sample *sample)
{
	static const uint64_t no_frames = 0;
	const struct so_stack_record none = { .type = SO_RECORD_STACK, .hash = so_mix(0, 2) };
	struct stack_sample step = *sample;
	struct stack *stack = NULL;

	step.kind = SAMPLE_STEP;
	step.stack = none.hash;
	if (!samples__stack(&t->samples, none.hash))
		stack = stack__new(&none, &no_frames, NULL);
	samples__add(&t->samples, &step, stack);
	stack__unref(stack);
	if ((steps__waits_for_slow(t) || t->span.count) &&
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

/* What a bounded call works on. */
struct search {
	pid_t pid;
	char name[256];
	struct step_place place;
	unsigned found;
	int ret;
};

/* "Engine::execute" and "execute(int)" both have to hold "execute". */
static const char *last_part(const char *name)
{
	const char *part = name;

	for (const char *c = name; *c && *c != '<' && *c != '('; c++)
		if (!strncmp(c, "::", 2))
			part = c + 2;
	return part;
}

static bool is_it(const struct search *s, const char *raw)
{
	_cleanup_free_ char *readable = NULL;

	if (!strcmp(raw, s->name))
		return true;
	if (strncmp(raw, "_Z", 2) || !strstr(raw, last_part(s->name)))
		return false;
	readable = demangle(raw);
	return readable && !strcmp(readable, s->name);
}

static void take(struct search *s, int fd, const struct proc_map *map, const struct elf_file *elf, uint64_t start)
{
	uint64_t offset;

	if (elf_file__offset(elf, start, &offset) || s->found++)
		return;
	s->place.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	s->place.offset = offset;
	snprintf(s->place.file, sizeof(s->place.file), "%s", short_path(map->path));
}

static void search_symbols(struct search *s, int fd, const struct proc_map *map)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	_cleanup_free_ struct elf_symbol *functions = calloc(CHUNK, sizeof(*functions));
	struct elf_file elf;
	uint64_t low = 0;
	size_t n;

	if (!functions || elf_file__read(fd, &elf, NULL) || elf_symbols__open(fd, map->path, NULL, &symbols, NULL))
		return;
	while ((n = elf_symbols__functions(symbols, low, UINT64_MAX, functions, CHUNK))) {
		for (size_t i = 0; i < n; i++) {
			struct elf_symbol symbol;
			char raw[MAX_NAME];

			if (!elf_symbols__lookup(symbols, functions[i].start, &symbol, raw, sizeof(raw)) &&
			    is_it(s, raw))
				take(s, fd, map, &elf, functions[i].start);
		}
		low = functions[n - 1].start + 1;
	}
}

static bool is_first_of_file(const struct proc_maps *maps, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (maps->maps[i].inode == maps->maps[at].inode &&
		    maps->maps[i].dev_major == maps->maps[at].dev_major &&
		    maps->maps[i].dev_minor == maps->maps[at].dev_minor)
			return false;
	return true;
}

static void run_search(void *context)
{
	struct search *s = context;
	struct proc_maps maps = { 0 };

	s->ret = proc_maps__read(s->pid, true, &maps, NULL);
	for (size_t i = 0; !s->ret && i < maps.n; i++) {
		int fd = maps.maps[i].inode && is_first_of_file(&maps, i) ? proc_maps__open_file(s->pid, &maps.maps[i])
									  : -1;

		if (fd < 0)
			continue;
		search_symbols(s, fd, &maps.maps[i]);
		close(fd);
	}
	proc_maps__release(&maps);
}

static void forget_search(void *context)
{
	struct search *s = context;

	if (s->place.fd >= 0)
		close(s->place.fd);
	free(s);
}

static int judge(const struct search *s, struct so_error *err)
{
	if (s->ret)
		return so_err(err, s->ret, "cannot read the mappings of process %d: %s", s->pid, strerror(-s->ret));
	if (!s->found)
		return so_err(err, -ENOENT,
			      "no file that process %d maps has a function '%s': give its name as stakeout shows it, "
			      "without parameters",
			      s->pid, s->name);
	if (s->found > 1)
		return so_err(err, -EEXIST, "there are %u functions called '%s' in process %d: one must begin a step",
			      s->found, s->name, s->pid);
	return s->place.fd < 0 ? so_err(err, -EMFILE, "cannot keep the file open") : 0;
}

int steps__find(pid_t pid, const char *name, struct step_place *place, struct so_error *err)
{
	struct search *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return so_err(err, -ENOMEM, "out of memory");
	s->pid = pid;
	s->place.fd = -1;
	snprintf(s->name, sizeof(s->name), "%s", name);
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_FILES,
							 .pid = pid,
							 .patience_ms = PATIENCE_MS,
							 .run = run_search,
							 .forget = forget_search,
							 .context = s });
	if (ret)
		return so_err(err, ret, "the files of process %d take too long to read", pid);
	ret = judge(s, err);
	if (!ret) {
		*place = s->place;
		s->place.fd = -1;
		snprintf(place->name, sizeof(place->name), "%s", name);
	}
	forget_search(s);
	return ret;
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

static uint64_t *place_of(struct python_step *step, pid_t tgid)
{
	for (unsigned i = 0; i < step->n_places; i++)
		if (step->places[i].tgid == tgid)
			return &step->places[i].address;
	return NULL;
}

void steps__seen_code(struct target *t, pid_t tgid, uint16_t version, const struct python_code *code)
{
	struct python_step *step = &t->python_step;
	uint32_t instruction = 0;

	if (!step->place.file[0] || step->n_places == PYTHON_STEP_PLACES || !code->instructions ||
	    !python_place__is_file(&step->place, code->filename) || place_of(step, tgid))
		return;
	if (step->place.line ? !find_line(code, version, step->place.line, &instruction)
			     : !python_place__is_function(&step->place, code->name))
		return;
	step->places[step->n_places].tgid = tgid;
	step->places[step->n_places++].address = code->instructions + 2ull * instruction;
	/* The name as it is, for the stacks that show it. */
	snprintf(step->place.function, sizeof(step->place.function), "%s", code->name);
}

static bool is_in_function(const struct python_step *step, const struct stack *stack)
{
	const struct python_frame *frames = stack__python((struct stack *)stack);

	for (unsigned i = 0; i < stack->record.n_python; i++) {
		const struct python_function *f = frames[i].function;

		if (f && !strcmp(f->name, step->place.function) && python_place__is_file(&step->place, f->filename))
			return true;
	}
	return false;
}

/* A thread of a process that forked in the function is in it as well, and may never begin a step: it costs nothing. */
void steps__seen_stack(struct target *t, struct sampler *sampler, pid_t tgid, pid_t tid, const struct stack *stack)
{
	struct python_step *step = &t->python_step;
	const uint64_t *address = step->n_places ? place_of(step, tgid) : NULL;

	if (!address || !stack || step->n_threads == PYTHON_STEP_PLACES)
		return;
	for (unsigned i = 0; i < step->n_threads; i++)
		if (step->threads[i].tid == tid)
			return;
	if (!is_in_function(step, stack))
		return;
	step->threads[step->n_threads].tid = tid;
	if (sampler__watch_step(sampler, tid, *address, &step->threads[step->n_threads].probe))
		log__error("no watchpoint in thread %d: its debug registers are taken", tid);
	step->n_threads++;
}

int steps__begin_python(struct target *view, const struct python_place *place, struct so_error *err)
{
	struct target *t = view->of ?: view;

	if (!watchpoint__works())
		return so_err(
			err, -ENOTSUP,
			"this machine's hardware watchpoints do not fire, as on some virtual machines: steps of Python "
			"cannot be told; name a native function, such as torch::autograd::Engine::execute");
	if (t->python_step.place.file[0])
		return so_err(err, -EBUSY, "steps of process %d are told already, by %s", t->info.pid,
			      t->python_step.place.file);
	t->python_step = (struct python_step){ .place = *place };
	view->tells_python_steps = true;
	return 0;
}

int steps__begin(struct target *t, struct sampler *sampler, const struct step_place *place, struct so_error *err)
{
	char path[64];
	int ret;

	/* Through the descriptor: another mount namespace may hide the path. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), place->fd);
	ret = sampler__probe_step(sampler, t->info.pid, path, place->offset, &t->step_probe);
	return ret ? so_err(err, ret, "the kernel refused the probe on %s: %s", place->name, strerror(-ret)) : 0;
}

void steps__end(struct target *t)
{
	struct target *proper = t->of ?: t;

	if (t->tells_python_steps) {
		for (unsigned i = 0; i < proper->python_step.n_threads; i++)
			sampler__end_probe(proper->python_step.threads[i].probe);
		proper->python_step = (struct python_step){ .n_places = 0 };
		t->tells_python_steps = false;
	}
	sampler__end_probe(t->step_probe);
	t->step_probe = NULL;
}
