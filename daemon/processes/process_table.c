// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/process_table.h"

#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/processes/mapping_runs.h"
#include "daemon/processes/past_mappings.h"
#include "daemon/os/memory_lock.h"
#include "daemon/os/process_access.h"
#include "stakeout/array.h"

#define BUCKETS 4096

struct process_table {
	struct sampler *sampler;
	struct table_pool *pool;
	struct file_registry *registry;
	struct mapping_runs *runs;
	struct process *buckets[BUCKETS];
	size_t n;
};

int process_table__new(struct sampler *sampler, struct file_registry *registry, struct table_pool *pool,
		       struct process_table **out)
{
	_cleanup_(process_table) struct process_table *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	t->sampler = sampler;
	t->registry = registry;
	t->pool = pool;
	ret = mapping_runs__new(SO_MAX_MAPPINGS, &t->runs);
	if (!ret)
		*out = TAKE_PTR(t);
	return ret;
}

static struct process **place(struct process_table *t, pid_t tgid)
{
	struct process **at = &t->buckets[(uint32_t)tgid % BUCKETS];

	while (*at && (*at)->tgid != tgid)
		at = &(*at)->next;
	return at;
}

struct process *process_table__find(struct process_table *t, pid_t tgid)
{
	return *place(t, tgid);
}

static int insert(struct process_table *t, pid_t tgid, const struct so_process *kernel, struct process **out)
{
	struct process **at = place(t, tgid), *p;

	if (*at)
		return -EEXIST;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->tgid = tgid;
	p->kernel = *kernel;
	*at = p;
	t->n++;
	*out = p;
	return 0;
}

int process_table__add(struct process_table *t, pid_t tgid, const struct so_process *kernel, struct process **out)
{
	struct process *p;
	int ret = insert(t, tgid, kernel, &p);

	if (ret)
		return ret;
	ret = sampler__set_process(t->sampler, tgid, kernel);
	if (ret) {
		process_table__remove(t, p);
		return ret;
	}
	*out = p;
	return 0;
}

bool process__is_readable(const struct process *p)
{
	struct caller owner = { p->kernel.uid, p->kernel.gid };

	return !p->gone && (!(p->kernel.flags & SO_PROCESS_OWNED) || process_access__holds(p->tgid, owner));
}

/* A forked child's interpreter is its parent's, until it makes another one or replaces itself. */
static int copy_python(struct process *p, const struct process *parent)
{
	p->python_file = parent->python_file;
	p->python_bias = parent->python_bias;
	p->asyncio_table = parent->asyncio_table;
	p->python_refused = parent->python_refused;
	if (!parent->python)
		return 0;
	p->python = malloc(sizeof(*p->python));
	if (!p->python)
		return -ENOMEM;
	*p->python = *parent->python;
	return 0;
}

static void forget_python(struct process *p)
{
	free(TAKE_PTR(p->python));
	p->python_file = NULL;
	p->asyncio_table = 0;
	p->python_asked_ns = 0;
	p->python_refused = false;
	p->kernel.python = (struct so_python_place){ 0 };
}

int process_table__add_child(struct process_table *t, pid_t tgid, const struct process *parent, struct process **out)
{
	struct process *p;
	int ret = insert(t, tgid, &parent->kernel, &p);

	if (ret)
		return ret;
	p->kernel.past = 0;
	p->kernel.generation = 0;
	p->labelled = parent->labelled;
	p->copy_of = parent->copy_of ?: parent->tgid;
	p->run = parent->run;
	if (p->run)
		p->run->refs++;
	ret = copy_python(p, parent);
	if (ret) {
		process_table__remove(t, p);
		return ret;
	}
	ret = sampler__set_process(t->sampler, tgid, &p->kernel);
	if (ret) {
		process_table__remove(t, p);
		return ret;
	}
	*out = p;
	return 0;
}

static int publish(struct process_table *t, struct process *p)
{
	p->kernel.mappings = p->run ? (uint64_t)p->run->first << 32 | p->run->n : 0;
	p->kernel.run = p->run ? p->run->number : 0;
	p->kernel.past = p->past_run ? (uint64_t)p->past_run->first << 32 | p->past_run->n : 0;
	p->kernel.reported = 0;
	return p->gone ? 0 : sampler__set_process(t->sampler, p->tgid, &p->kernel);
}

int process_table__set_flags(struct process_table *t, struct process *p, uint32_t flags)
{
	p->kernel.flags = flags;
	return publish(t, p);
}

int process_table__set_python(struct process_table *t, struct process *p, uint32_t build)
{
	p->kernel.python = p->python->place;
	p->kernel.python.build = build;
	return publish(t, p);
}

static void release_uses(struct process_table *t, struct file_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		file_registry__unuse(t->registry, uses[i]);
	free(uses);
}

/* What a run uses goes with its last reference; the run's entries rest longer. */
static void drop_run(struct process_table *t, struct process *p)
{
	struct mapping_run *run = TAKE_PTR(p->run);

	if (run && run->refs == 1)
		release_uses(t, TAKE_PTR(run->uses), run->n_uses);
	mapping_runs__unref(t->runs, run);
}

static void forget_past(struct process_table *t, struct process *p)
{
	past_mappings__forget(t->registry, p, UINT64_MAX);
	free(TAKE_PTR(p->past));
	p->past_capacity = 0;
	mapping_runs__unref(t->runs, TAKE_PTR(p->past_run));
	mapping_changes__free(TAKE_PTR(p->changes), p->n_changes);
	p->n_changes = p->changes_capacity = 0;
}

static void free_learned(struct process_table *t, struct learned_mapping *m)
{
	learned_code__release(&m->code, t->pool);
	free(m);
}

static void forget_all_learned(struct process_table *t, struct process *p)
{
	while (p->learned) {
		struct learned_mapping *m = p->learned;

		p->learned = m->next;
		free_learned(t, m);
	}
}

struct learned_mapping *process__learned(struct process *p, uint64_t start, uint64_t end)
{
	struct learned_mapping *m;

	for (m = p->learned; m; m = m->next) {
		if (m->start == start)
			return m;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->start = start;
	m->end = end;
	m->code.owner = p->uid;
	m->next = p->learned;
	p->learned = m;
	return m;
}

/* Code as it is read piece by piece, from lower addresses to higher ones. */
struct code_view {
	pid_t tgid;
	uint64_t start; /* of the mapping */
	uint64_t from;
	size_t n;
	uint8_t buf[4096];
};

/* No checksum: those are odd, and 0 is none yet. */
#define CODE_UNREADABLE 2

/* Over the code that the row's rule was learned from: code that changed there has another rule. */
static uint32_t code_checksum(struct code_view *v, const struct effect_row *row)
{
	uint64_t begin = v->start + row->address, sum = 0xcbf29ce484222325ull;

	for (uint64_t at = begin; at < begin + row->length; at++) {
		if (at - v->from >= v->n) {
			v->from = at;
			v->n = memory_lock__read(v->tgid, at, v->buf, sizeof(v->buf));
		}
		if (!v->n)
			return CODE_UNREADABLE;
		sum = (sum ^ v->buf[at - v->from]) * 0x100000001b3ull;
	}
	return (uint32_t)(sum >> 32 ^ sum) | 1;
}

int process_table__publish_learned(struct process_table *t, struct process *p, struct learned_mapping *m)
{
	struct code_view view = { .tgid = p->tgid, .start = m->start };
	struct table_pieces none = { 0 };

	if (m->code.n == m->code.published)
		return 0;
	for (size_t i = 0; i < m->code.n; i++) {
		if (!m->code.rows[i].checksum)
			m->code.rows[i].checksum = code_checksum(&view, &m->code.rows[i]);
	}
	return learned_code__publish(&m->code, t->pool, &none);
}

/* Rows that are not published yet were learned a moment ago. */
static bool row_changed(void *context, const struct effect_row *row)
{
	return row->checksum && (row->checksum == CODE_UNREADABLE || code_checksum(context, row) != row->checksum);
}

enum learned_state { LEARNED_SAME, LEARNED_LESS, LEARNED_GONE };

/* Compilers patch calls in their code: what was learned of the rest stays, unless half of it or more is another. */
static enum learned_state check_code(struct process_table *t, const struct process *p, struct learned_mapping *m)
{
	struct code_view view = { .tgid = p->tgid, .start = m->start };
	struct table_pieces none = { 0 };
	size_t before = m->code.n, after = learned_code__forget(&m->code, row_changed, &view);

	if (before && after == before)
		return LEARNED_SAME;
	return after <= before / 2 || learned_code__publish(&m->code, t->pool, &none) ? LEARNED_GONE : LEARNED_LESS;
}

/* A mapping that has grown is the same one. */
static bool still_mapped(const struct process_scan *scan, struct learned_mapping *m)
{
	const struct proc_map *map = proc_maps__find(&scan->maps, m->start);

	if (!map || map->start != m->start)
		return false;
	m->end = map->end;
	return true;
}

/* Forgets rules of mappings gone (scan NULL: not looked at) or replaced; only the latter count against the process. */
static bool check_learned(struct process_table *t, struct process *p, const struct process_scan *scan)
{
	struct learned_mapping **at = &p->learned;
	bool changed = false;

	while (*at) {
		struct learned_mapping *m = *at;
		bool mapped = !scan || still_mapped(scan, m), learned = m->code.n;
		enum learned_state state = mapped ? check_code(t, p, m) : LEARNED_GONE;

		changed |= state != LEARNED_SAME;
		if (state != LEARNED_GONE) {
			at = &m->next;
			continue;
		}
		if (learned && mapped) {
			p->forgotten++;
			p->forgotten_ns = clock__now_ns();
		}
		*at = m->next;
		free_learned(t, m);
	}
	return changed;
}

bool process__learns_again(struct process *p)
{
	if (p->forgotten < PROCESS_MAX_FORGOTTEN || clock__now_ns() - p->forgotten_ns < PROCESS_FORGOTTEN_NS)
		return false;
	p->forgotten = 0;
	return true;
}

bool process_table__code_changed(struct process_table *t, struct process *p)
{
	/* Code that cannot be read for now is not another. */
	return !memory_lock__check_now(p->tgid) && check_learned(t, p, NULL);
}

void process_table__exec(struct process_table *t, struct process *p)
{
	forget_all_learned(t, p);
	forget_past(t, p);
	drop_run(t, p);
	forget_python(p);
	p->labelled = false;
	p->forgotten = 0;
	p->copy_of = 0;
	p->execs++;
	p->kernel.generation = 0;
	publish(t, p);
}

void process_table__remove(struct process_table *t, struct process *p)
{
	struct process **at = place(t, p->tgid);

	sampler__delete_process(t->sampler, p->tgid);
	forget_past(t, p);
	drop_run(t, p);
	forget_all_learned(t, p);
	forget_python(p);
	*at = p->next;
	t->n--;
	free(p);
}

void process_table__each(struct process_table *t, uint32_t slot, void (*visit)(void *, struct process *), void *context)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct process *p = t->buckets[i], *next; p; p = next) {
			next = p->next;
			if (slot == SO_MAX_SLOTS || p->kernel.slot == slot)
				visit(context, p);
		}
	}
}

size_t process_table__count(const struct process_table *t)
{
	return t->n;
}

void process_table__free(struct process_table *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (t->buckets[i])
			process_table__remove(t, t->buckets[i]);
	}
	mapping_runs__free(t->runs);
	free(t);
}

static bool same_file(const struct proc_map *a, const struct proc_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* A file with several executable mappings is read once. */
static void add_missing(struct process_table *t, struct process_scan *scan, const struct proc_map *map)
{
	bool known;

	if (file_registry__find(t->registry, map, &known) || known)
		return;
	for (size_t i = 0; i < scan->n_missing; i++) {
		if (same_file(scan->missing[i], map))
			return;
	}
	scan->missing[scan->n_missing++] = map;
}

int process_table__begin_scan(struct process_table *t, struct process_scan *scan)
{
	struct process *p = process_table__find(t, scan->tgid);

	if (p && mapping_changes__take(p, scan))
		return -ENOMEM;
	scan->missing = calloc(scan->maps.n + scan->n_changes + 1, sizeof(*scan->missing));
	if (!scan->missing)
		return -ENOMEM;
	for (size_t i = 0; i < scan->maps.n; i++)
		add_missing(t, scan, &scan->maps.maps[i]);
	for (size_t i = 0; i < scan->n_changes; i++)
		add_missing(t, scan, &scan->changes[i].map);
	return 0;
}

static int replace_run(struct process_table *t, struct process *p, const struct mapping_list *l)
{
	struct so_mapping *all = sampler__mappings(t->sampler);
	struct mapping_run *run;
	int ret = mapping_runs__alloc(t->runs, p->uid, l->n, p->run, &run);

	if (ret)
		return ret;
	memcpy(&all[run->first], l->list, l->n * sizeof(*l->list));
	drop_run(t, p);
	p->run = run;
	return 0;
}

/* Those of before may be of mappings that are gone, without a trace in the run: they were of files without code. */
static void replace_uses(struct process_table *t, struct mapping_run *run, struct mapping_list *l)
{
	release_uses(t, run->uses, run->n_uses);
	run->uses = TAKE_PTR(l->uses);
	run->n_uses = l->n_uses;
	l->n_uses = 0;
}

/* Without room for them the kernel side does without. */
static void publish_past(struct process_table *t, struct process *p)
{
	struct so_mapping *all = sampler__mappings(t->sampler);
	struct mapping_run *run = NULL;
	struct mapping_list l = { 0 };

	if (p->n_past && past_mappings__list(p, &l))
		return;
	if (!mapping_list__is_run(&l, all, p->past_run)) {
		if (l.n && !mapping_runs__alloc(t->runs, p->uid, (uint32_t)l.n, p->past_run, &run))
			memcpy(&all[run->first], l.list, l.n * sizeof(*l.list));
		mapping_runs__unref(t->runs, p->past_run);
		p->past_run = run;
	}
	free(l.list);
}

void process_table__forget_past(struct process_table *t, struct process *p)
{
	if (!p->n_past || !past_mappings__forget(t->registry, p, clock__now_ns() - PAST_MAPPINGS_NS))
		return;
	publish_past(t, p);
	publish(t, p);
}

size_t process_table__mappings_at(struct process_table *t, struct process *p, uint64_t when_ns, struct so_mapping **out)
{
	if (p->gone && p->n_changes)
		past_mappings__settle(t->registry, sampler__mappings(t->sampler), p);
	return past_mappings__at(sampler__mappings(t->sampler), p, when_ns, out);
}

static int take_scan(struct process_table *t, struct process *p, struct process_scan *scan)
{
	struct mapping_list l = { 0 };
	bool cut;
	int ret = 0;

	p->uid = scan->uid;
	check_learned(t, p, scan);
	for (size_t i = 0; !ret && i < scan->maps.n; i++)
		ret = mapping_list__add(&l, t->registry, p, scan, &scan->maps.maps[i]);
	/* With more mappings than fit, the lowest ones are served, and what lies above is cut as without mapping. */
	cut = ret == -ENOSPC;
	if (cut)
		ret = 0;
	if (!ret) {
		past_mappings__update(t->registry, sampler__mappings(t->sampler), p, scan, &l);
		publish_past(t, p);
	}
	if (!ret && !mapping_list__is_run(&l, sampler__mappings(t->sampler), p->run))
		ret = replace_run(t, p, &l);
	if (!ret)
		replace_uses(t, p->run, &l);
	mapping_list__release(&l, t->registry);
	if (ret)
		return ret;
	p->scans++;
	p->last_scan_ns = clock__now_ns();
	/* What the process mapped after the report may be missing, but then it is in another generation. */
	if (scan->generation)
		p->kernel.generation = scan->generation;
	p->kernel.flags |= SO_PROCESS_KNOWN;
	if (cut)
		p->kernel.flags |= SO_PROCESS_CUT;
	else
		p->kernel.flags &= ~(uint32_t)SO_PROCESS_CUT;
	return publish(t, p);
}

int process_table__end_scan(struct process_table *t, struct process_scan *scan)
{
	struct process *p = process_table__find(t, scan->tgid);
	int ret;

	for (size_t i = 0; i < scan->n_missing; i++) {
		if (scan->prepared && scan->prepared[i])
			file_registry__add(t->registry, TAKE_PTR(scan->prepared[i]));
	}
	ret = p && !p->gone ? take_scan(t, p, scan) : -ENOENT;
	if (ret && p)
		mapping_changes__give_back(p, scan);
	return ret;
}
