// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/engine/engine_files.h"

#include <errno.h>
#include <sys/resource.h>

#include "daemon/os/clock.h"
#include "daemon/os/limits.h"

#define MS 1000000ull

#define LOOK_NS (10000 * MS) /* between looks for idle files */
/* When there is little room: how often, and what counts as idle. */
#define HURRY_NS (1000 * MS)
/* Between two markings, and when there is no particular reason for one. */
#define MARK_NS       (60000 * MS)
#define MARK_AGAIN_NS (600000 * MS)
/* The lock is held for about so long at a time, and let go for so long in between. */
#define STEP_NS  (5 * MS)
#define PAUSE_NS (20 * MS)

/*
 * After the last process let a file go, a sample that had begun may still send a stack that names it, to be found in the ring
 * by the next draining; the one after it is the last that looks for the stack among those pending. One more is for a sample
 * that ended just after the first.
 */
#define DRAINS 3

enum files_state {
	FILES_REST,
	FILES_MARK, /* stacks are gone through, some targets at a time */
	FILES_WAIT, /* for calls that work without the lock and may have copied a stack before */
};

struct engine_files {
	uint64_t idle_ns, look_ns, mark_ns;
	uint64_t next_look_ns, next_step_ns;
	enum files_state state;
	struct file_set live;
	uint64_t moment;    /* files retired by then can be collected */
	unsigned next_slot; /* of the target to be gone through */
	uint64_t marked_ns; /* when the last marking began */
	unsigned left;      /* files that it found to be named */
	bool target_gone;   /* since */
	uint64_t refused_seen, files_hit_seen, tables_hit_seen, rules_hit_seen;
	struct dead_files *dead; /* to be closed */
};

int engine_files_new(struct engine *e, unsigned idle_ms)
{
	struct engine_files *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->idle_ns = (idle_ms ?: ENGINE_FILES_IDLE_MS) * MS;
	f->look_ns = f->idle_ns / 4 < LOOK_NS ? f->idle_ns / 4 : LOOK_NS;
	f->mark_ns = f->idle_ns < MARK_NS ? f->idle_ns : MARK_NS;
	e->file_life = f;
	return 0;
}

void engine_files_free(struct engine *e)
{
	if (!e->file_life)
		return;
	dead_files__free(e->file_life->dead);
	free(TAKE_PTR(e->file_life));
}

void engine_files_close(struct engine *e)
{
	dead_files__free(TAKE_PTR(e->file_life->dead));
}

static void mark_stack(struct file_set *live, const struct stack *stack)
{
	uint32_t last = 0;

	for (unsigned i = 0; i < stack->record.n_user; i++) {
		uint32_t number = SO_FRAME_FILE(stack->frames[i]);

		if (number != last)
			file_set__add(live, number);
		last = number;
	}
}

static void mark_stacks(struct file_set *live, const struct accumulator *acc)
{
	for (size_t i = 0; i < acc->n_stacks; i++)
		mark_stack(live, acc->stacks[i]);
}

/* All stacks that a target keeps, in one go: it may move them from one place to another in between. */
static void mark_target(struct file_set *live, const struct target *t)
{
	file_set__add(live, t->main_file);
	mark_stacks(live, &t->acc);
	mark_stacks(live, &t->older);
	for (unsigned i = 0; i < 2; i++) {
		const struct accumulator *carried = engine_window_carried(t, i);

		if (carried)
			mark_stacks(live, carried);
	}
	for (unsigned i = 0; i < 3; i++) {
		const struct accumulator *stacks = cuda_targets__stacks(t, i);

		if (stacks)
			mark_stacks(live, stacks);
	}
}

static void mark_process(void *context, struct process *p)
{
	struct engine_files *f = context;

	if (p->python_file)
		file_set__add(&f->live, p->python_file->number);
}

/* What is not a target's. */
static void mark_rest(struct engine *e)
{
	struct engine_files *f = e->file_life;

	for (unsigned i = 0; i < 2; i++) {
		for (size_t j = 0; j < e->pending[i].n; j++)
			mark_stack(&f->live, e->pending[i].stacks[j]);
	}
	for (unsigned i = 0; i < e->n_learned; i++)
		file_set__add(&f->live, e->learned[i].file);
	engine_mark_ahead(e, &f->live);
	process_table__each(e->processes, SO_MAX_SLOTS, mark_process, f);
}

static void begin_marking(struct engine *e, uint64_t now)
{
	struct engine_files *f = e->file_life;

	f->live = (struct file_set){ 0 };
	f->moment = e->drains - DRAINS;
	f->next_slot = 0;
	f->marked_ns = f->next_step_ns = now;
	f->target_gone = false;
	f->state = FILES_MARK;
}

/* Whoever works without the lock now may have copied a stack before it went. */
static void note_readers(struct engine *e)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i])
			e->targets[i]->reads_old = engine_readers(e->targets[i]) > 0;
	}
}

static bool is_quiet(struct engine *e)
{
	bool quiet = true;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = e->targets[i];

		if (t && t->reads_old && !engine_readers(t))
			t->reads_old = false;
		quiet &= !t || !t->reads_old;
	}
	return quiet;
}

static void collect(struct engine *e)
{
	struct engine_files *f = e->file_life;

	f->dead = file_registry__collect(e->files, &f->live, f->moment);
	f->left = file_registry__count_retired(e->files, f->moment);
	f->state = FILES_REST;
	if (!f->dead)
		return;
	/* What is known by device and inode, or by number, may be another file's from now on. */
	cuda_targets__forget_files(e->cuda);
	engine_tidy_ahead(e);
}

/* Returns when it wants to go on. */
static uint64_t step(struct engine *e, uint64_t now)
{
	struct engine_files *f = e->file_life;

	while (f->state == FILES_MARK && clock__now_ns() - now < STEP_NS) {
		if (f->next_slot < SO_MAX_SLOTS) {
			if (e->targets[f->next_slot])
				mark_target(&f->live, e->targets[f->next_slot]);
			f->next_slot++;
			continue;
		}
		mark_rest(e);
		note_readers(e);
		f->state = FILES_WAIT;
	}
	if (f->state == FILES_WAIT && is_quiet(e))
		collect(e);
	return now + (f->state == FILES_WAIT ? 10 * PAUSE_NS : PAUSE_NS);
}

void engine_files_changed(struct engine *e)
{
	/* What is marked stays marked: too much of it is no harm. */
	if (e->file_life->state == FILES_MARK)
		e->file_life->next_slot = 0;
	e->file_life->target_gone = true;
}

void engine_files_forgotten(struct engine *e)
{
	e->file_life->state = FILES_REST;
	e->file_life->left = 0;
	cuda_targets__forget_files(e->cuda);
}

/* Little room for tables, numbers or descriptors. Symbols of a file have up to two more: its own, and of a debug file. */
static bool is_in_hurry(const struct engine *e, const struct file_registry_stats *files)
{
	const uint64_t pool_bytes = (uint64_t)SO_MAX_SHARDS * SO_SHARD_WORDS * sizeof(uint32_t);
	struct rlimit limit;

	return table_pool__stats(e->pool).free_bytes < pool_bytes / 8 || files->places > SO_MAX_FILES / 8 * 7 ||
	       (!getrlimit(RLIMIT_NOFILE, &limit) && files->descriptors > limit.rlim_cur / 4);
}

static bool is_worth_marking(const struct engine *e, uint64_t now, bool hurry)
{
	const struct engine_files *f = e->file_life;
	uint64_t since = now - f->marked_ns;
	unsigned n = e->drains > DRAINS ? file_registry__count_retired(e->files, e->drains - DRAINS) : 0;

	if (!n)
		return false;
	if ((n > f->left || f->target_gone) && (hurry || since >= f->mark_ns))
		return true;
	return since >= MARK_AGAIN_NS;
}

static void rescan(void *context, struct process *p)
{
	engine_request_scan(context, p->tgid, 0);
}

/* Files for which there was no room, and is now. */
static void try_again(struct engine *e)
{
	struct file_registry_stats files = file_registry__stats(e->files);
	struct engine_files *f = e->file_life;
	bool again = files.full && file_registry__retire_full(e->files, e->drains);

	if (files.refused_files != f->refused_seen && files.places < SO_MAX_FILES) {
		f->refused_seen = files.refused_files;
		again = true;
	}
	if (again)
		process_table__each(e->processes, SO_MAX_SLOTS, rescan, e);
}

static uint64_t look(struct engine *e, uint64_t now)
{
	struct file_registry_stats files = file_registry__stats(e->files);
	struct engine_files *f = e->file_life;
	bool hurry = is_in_hurry(e, &files), all;

	all = file_registry__retire_idle(e->files, hurry && HURRY_NS < f->idle_ns ? HURRY_NS : f->idle_ns,
					 e->drains, now + STEP_NS);
	try_again(e);
	/* Nothing else does so while nothing is sampled. */
	if (now - e->last_drain_ns > HURRY_NS)
		engine_drain(e);
	if (f->state == FILES_REST && is_worth_marking(e, now, hurry))
		begin_marking(e, now);
	return now + (!all ? PAUSE_NS : hurry && HURRY_NS < f->look_ns ? HURRY_NS : f->look_ns);
}

uint64_t engine_files_tick(struct engine *e, uint64_t now)
{
	struct file_registry_stats files = file_registry__stats(e->files);
	struct engine_files *f = e->file_life;
	uint64_t next;

	if (!files.idle && !files.retired && !files.full && files.refused_files == f->refused_seen)
		return UINT64_MAX;
	if (now >= f->next_look_ns)
		f->next_look_ns = look(e, now);
	next = f->next_look_ns;
	if (f->state == FILES_REST)
		return next;
	if (now >= f->next_step_ns)
		f->next_step_ns = step(e, now);
	return f->state != FILES_REST && f->next_step_ns < next ? f->next_step_ns : next;
}

void engine_files_count(struct engine *e)
{
	struct file_registry_stats files = file_registry__stats(e->files);
	struct table_pool_stats pool = table_pool__stats(e->pool);
	struct engine_files *f = e->file_life;

	limits__set(LIMIT_FILES, files.places);
	limits__set(LIMIT_TABLE_BYTES, (pool.rows + pool.index_words) * sizeof(uint32_t));
	limits__hit(LIMIT_FILES, files.refused_files - f->files_hit_seen);
	limits__hit(LIMIT_TABLE_BYTES, files.refused_tables - f->tables_hit_seen);
	limits__set(LIMIT_UNWIND_RULES, pool.rules);
	limits__hit(LIMIT_UNWIND_RULES, pool.rules_refused - f->rules_hit_seen);
	f->rules_hit_seen = pool.rules_refused;
	f->files_hit_seen = files.refused_files;
	f->tables_hit_seen = files.refused_tables;
}
