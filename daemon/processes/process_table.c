// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/process_table.h"

#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/processes/mapping_runs.h"
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
	p->kernel.reported_pages = 0;
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
	drop_run(t, p);
	forget_python(p);
	p->labelled = false;
	p->forgotten = 0;
	p->copy_of = 0;
	p->execs++;
	p->kernel.exec_pages = 0;
	publish(t, p);
}

void process_table__remove(struct process_table *t, struct process *p)
{
	struct process **at = place(t, p->tgid);

	sampler__delete_process(t->sampler, p->tgid);
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

int process_table__begin_scan(struct process_table *t, struct process_scan *scan)
{
	scan->missing = calloc(scan->maps.n + 1, sizeof(*scan->missing));
	if (!scan->missing)
		return -ENOMEM;
	for (size_t i = 0; i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];
		bool known, seen = false;

		if (file_registry__find(t->registry, map, &known) || known)
			continue;
		/* A file with several executable mappings is read once. */
		for (size_t j = 0; j < scan->n_missing && !seen; j++)
			seen = scan->missing[j]->inode == map->inode && scan->missing[j]->dev_major == map->dev_major &&
			       scan->missing[j]->dev_minor == map->dev_minor;
		if (!seen)
			scan->missing[scan->n_missing++] = map;
	}
	return 0;
}

/* The part of a mapping that one piece of its file's table serves. */
static void fill_piece(struct so_mapping *m, const struct table_piece *piece)
{
	m->state = SO_MAPPING_TABLE;
	m->shard = piece->shard;
	m->index = piece->index;
	m->first_block = piece->first_block;
	m->n_blocks = piece->n_blocks;
}

struct mapping_list {
	struct so_mapping *list;
	size_t n, capacity;
	struct file_use *uses;
	size_t n_uses, uses_capacity;
};

static int append(struct mapping_list *l, const struct so_mapping *m)
{
	struct so_mapping *more;

	if (l->n == SO_MAX_PROCESS_MAPPINGS)
		return -ENOSPC;
	if (l->n == l->capacity) {
		l->capacity = l->capacity ? l->capacity * 2 : 128;
		more = reallocarray(l->list, l->capacity, sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->list = more;
	}
	l->list[l->n++] = *m;
	return 0;
}

/* Takes the use, also on failure. */
static int append_use(struct process_table *t, struct mapping_list *l, struct file_use use)
{
	if (!use.place && !use.learned)
		return 0;
	if (ARRAY_RESERVE(l->uses, l->uses_capacity, l->n_uses + 1)) {
		file_registry__unuse(t->registry, use);
		return -ENOMEM;
	}
	l->uses[l->n_uses++] = use;
	return 0;
}

/* A mapping is cut where one piece of the table ends and the next begins. */
static int append_pieces(struct mapping_list *l, struct so_mapping m, const struct table_pieces *table)
{
	uint64_t end = m.end;
	int ret;

	for (size_t i = 0; i < table->n; i++) {
		const struct table_piece *piece = &table->pieces[i];
		uint64_t piece_end = ((piece->first_block + piece->n_blocks) << SO_BLOCK_SHIFT) + m.bias;
		bool last = i + 1 == table->n;

		if (!last && piece_end <= m.start)
			continue;
		fill_piece(&m, piece);
		m.end = last || piece_end > end ? end : piece_end;
		ret = append(l, &m);
		if (ret)
			return ret;
		m.start = m.end;
		if (m.start >= end)
			break;
	}
	return 0;
}

/* Code in no file: what was learned of it, if anything. */
static int append_fileless(struct process_table *t, struct mapping_list *l, const struct process *p,
			   struct so_mapping m)
{
	const struct learned_mapping *learned;

	if (p->forgotten >= PROCESS_MAX_FORGOTTEN)
		m.flags &= ~(uint32_t)SO_MAPPING_LEARN;
	for (learned = p->learned; learned; learned = learned->next) {
		struct learned_table *table = learned->code.table;
		int ret;

		if (learned->start != m.start || !table || !(m.flags & SO_MAPPING_LEARN))
			continue;
		table->refs++;
		ret = append_use(t, l, (struct file_use){ .learned = table });
		return ret ?: append_pieces(l, m, &table->pieces);
	}
	return append(l, &m);
}

static bool was_missing(const struct process_scan *scan, const struct proc_map *map)
{
	for (size_t i = 0; i < scan->n_missing; i++) {
		if (scan->missing[i]->inode == map->inode && scan->missing[i]->dev_major == map->dev_major &&
		    scan->missing[i]->dev_minor == map->dev_minor)
			return true;
	}
	return false;
}

/* Addresses in these pages stand for others, which the unwinder replaces (bpf/probed.h, uw_leave_trampoline()). */
static bool is_probe_page(const struct proc_map *map)
{
	return !map->inode && (!strcmp(map->path, "[uprobes]") || !strcmp(map->path, "[uprobes-trampoline]"));
}

static int append_map(struct process_table *t, struct mapping_list *l, const struct process *p,
		      struct process_scan *scan, const struct proc_map *map)
{
	struct so_mapping m = {
		.start = map->start,
		.end = map->end,
		.bias = map->start,
		.state = SO_MAPPING_NO_TABLE,
		.flags = SO_MAPPING_LEARN | (map->writable ? SO_MAPPING_WRITABLE : 0),
	};
	const struct file_entry *file;
	uint64_t bias;
	bool known;
	int ret = append_use(t, l, file_registry__use(t->registry, map));

	if (ret)
		return ret;
	file = file_registry__find(t->registry, map, &known);
	if (!file) {
		if (!known)
			m.state = SO_MAPPING_BROKEN;
		/* It was known when the scan began, and nobody used it. */
		scan->again |= !known && !was_missing(scan, map);
		return append_fileless(t, l, p, m);
	}
	m.state = file->state;
	if (elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &bias)) {
		/* Code mapped from where the file has no segment: its addresses mean nothing in the file. */
		m.state = SO_MAPPING_NO_TABLE;
		return append_fileless(t, l, p, m);
	}
	m.bias = bias;
	m.file = file->number;
	return file->state != SO_MAPPING_TABLE ? append(l, &m) : append_pieces(l, m, &file->table);
}

static bool same_run(const struct so_mapping *all, const struct mapping_run *run, const struct mapping_list *l)
{
	return run && run->n == l->n && !memcmp(&all[run->first], l->list, l->n * sizeof(*l->list));
}

/* Where these pages differ from the kernel's report though nothing changed, its figure is the one to compare with. */
static uint64_t expected_pages(const struct process_scan *scan, bool unchanged)
{
	return unchanged && scan->reported_pages ? scan->reported_pages : scan->maps.exec_pages;
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

int process_table__end_scan(struct process_table *t, struct process_scan *scan)
{
	struct process *p = process_table__find(t, scan->tgid);
	struct mapping_list l = { 0 };
	bool unchanged;
	int ret = 0;

	for (size_t i = 0; i < scan->n_missing; i++) {
		if (scan->prepared && scan->prepared[i])
			file_registry__add(t->registry, TAKE_PTR(scan->prepared[i]));
	}
	if (!p || p->gone)
		return -ENOENT;
	p->uid = scan->uid;
	check_learned(t, p, scan);
	for (size_t i = 0; !ret && i < scan->maps.n; i++)
		ret = is_probe_page(&scan->maps.maps[i]) ? 0 : append_map(t, &l, p, scan, &scan->maps.maps[i]);
	/* With more mappings than fit, the lowest ones are served, and what lies above is cut as without mapping. */
	if (ret == -ENOSPC)
		ret = 0;
	unchanged = same_run(sampler__mappings(t->sampler), p->run, &l);
	if (!ret && !unchanged)
		ret = replace_run(t, p, &l);
	if (!ret)
		replace_uses(t, p->run, &l);
	release_uses(t, l.uses, l.n_uses);
	free(l.list);
	if (ret)
		return ret;
	p->scans++;
	p->last_scan_ns = clock__now_ns();
	p->kernel.exec_pages = expected_pages(scan, unchanged);
	p->kernel.flags |= SO_PROCESS_KNOWN;
	return publish(t, p);
}
