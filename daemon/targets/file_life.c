// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/file_life.h"

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
 * After the last process let a file go, a sample that had begun may still send a stack that names it, to be found in
 * the ring by the next draining; the one after it is the last that looks for the stack among those pending. One more is
 * for a sample that ended just after the first.
 */
#define DRAINS 3

void file_life__begin(struct file_life *f, unsigned idle_ms)
{
	f->idle_ns = (idle_ms ?: FILE_LIFE_IDLE_MS) * MS;
	f->look_ns = f->idle_ns / 4 < LOOK_NS ? f->idle_ns / 4 : LOOK_NS;
	f->mark_ns = f->idle_ns < MARK_NS ? f->idle_ns : MARK_NS;
}

void file_life__close(struct file_life *f)
{
	dead_files__free(TAKE_PTR(f->dead));
}

static void mark_stack(void *context, const struct stack *stack)
{
	struct file_set *live = context;
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
	for (size_t i = 0; acc && i < acc->n_stacks; i++)
		mark_stack(live, acc->stacks[i]);
}

/* All stacks that a target keeps, in one go: it may move them from one place to another in between. */
static void mark_target(struct file_set *live, const struct target *t)
{
	file_set__add(live, t->main_file);
	for (unsigned i = 0; i < SAMPLES_PARTS; i++)
		mark_stacks(live, samples__part(&t->samples, i));
	for (unsigned i = 0; i < TARGET_CUDA_STACKS; i++)
		mark_stacks(live, cuda_targets__stacks(t, i));
	for (size_t i = 0; i < t->memory.pages.n_stacks; i++)
		mark_stack(live, t->memory.pages.stacks[i]);
	mark_stacks(live, &t->gpu_memory.stacks);
	mark_stacks(live, &t->allocations.stacks);
}

static void mark_process(void *context, struct process *p)
{
	struct file_life *f = context;

	if (p->python_file)
		file_set__add(&f->live, p->python_file->number);
}

/* What is not a target's. */
static void mark_rest(struct file_life *f)
{

	pending_stacks__each(f->pending, mark_stack, &f->live);
	learn_notes__mark(f->notes, &f->live);
	learn_ahead__mark(f->ahead, &f->live);
	process_table__each(f->processes, SO_MAX_SLOTS, mark_process, f);
}

static void begin_marking(struct file_life *f, uint64_t now)
{

	f->live = (struct file_set){ 0 };
	f->moment = f->collector->drains - DRAINS;
	f->next_slot = 0;
	f->marked_ns = f->next_step_ns = now;
	f->marked_moves = f->seen_moves = targets__moves(f->targets);
	f->state = FILES_MARK;
}

/* Whoever works without the lock now may have copied a stack before it went. */
static void note_readers(struct file_life *f)
{
	struct target *t;

	TARGETS_EACH(t, f->targets)
	t->reads_old = target__readers(t) > 0;
}

static bool is_quiet(struct file_life *f)
{
	bool quiet = true;
	struct target *t;

	TARGETS_EACH(t, f->targets)
	{
		t->reads_old &= target__readers(t) > 0;
		quiet &= !t->reads_old;
	}
	return quiet;
}

static void collect(struct file_life *f)
{

	f->dead = file_registry__collect(f->files, &f->live, f->moment);
	f->left = file_registry__count_retired(f->files, f->moment);
	f->state = FILES_REST;
	if (!f->dead)
		return;
	/* What is known by device and inode, or by number, may be another file's from now on. */
	cuda_targets__forget_files(f->cuda);
	learn_ahead__tidy(f->ahead);
}

/* Returns when it wants to go on. */
static uint64_t step(struct file_life *f, uint64_t now)
{

	/* What is marked stays marked: too much of it is no harm. */
	if (f->state == FILES_MARK && f->seen_moves != targets__moves(f->targets)) {
		f->seen_moves = targets__moves(f->targets);
		f->next_slot = 0;
	}
	while (f->state == FILES_MARK && clock__now_ns() - now < STEP_NS) {
		if (f->next_slot < SO_MAX_SLOTS) {
			const struct target *t = targets__of_slot(f->targets, f->next_slot++);

			if (t)
				mark_target(&f->live, t);
			continue;
		}
		mark_rest(f);
		note_readers(f);
		f->state = FILES_WAIT;
	}
	if (f->state == FILES_WAIT && is_quiet(f))
		collect(f);
	return now + (f->state == FILES_WAIT ? 10 * PAUSE_NS : PAUSE_NS);
}

void file_life__forgotten(struct file_life *f)
{
	f->state = FILES_REST;
	f->left = 0;
	cuda_targets__forget_files(f->cuda);
}

/* Little room for tables, numbers or descriptors. A file's symbols have up to two more: its own and a debug file's. */
static bool is_in_hurry(const struct file_life *f, const struct file_registry_stats *files)
{
	const uint64_t pool_bytes = (uint64_t)SO_MAX_SHARDS * SO_SHARD_WORDS * sizeof(uint32_t);
	struct rlimit limit;

	return table_pool__stats(f->pool).free_bytes < pool_bytes / 8 || files->places > SO_MAX_FILES / 8 * 7 ||
	       (!getrlimit(RLIMIT_NOFILE, &limit) && files->descriptors > limit.rlim_cur / 4);
}

static bool is_worth_marking(const struct file_life *f, uint64_t now, bool hurry)
{
	uint64_t since = now - f->marked_ns;
	unsigned n = f->collector->drains > DRAINS
			     ? file_registry__count_retired(f->files, f->collector->drains - DRAINS)
			     : 0;

	if (!n)
		return false;
	if ((n > f->left || f->marked_moves != targets__moves(f->targets)) && (hurry || since >= f->mark_ns))
		return true;
	return since >= MARK_AGAIN_NS;
}

static void rescan(void *context, struct process *p)
{
	const struct file_life *f = context;

	scan_queue__request(f->scans, p->tgid);
}

static void rescan_refused(void *context, struct process *p)
{
	const struct file_life *f = context;

	if (file_registry__has_place_again(f->files, p->uid))
		rescan(context, p);
}

/* Users who had no room for a file, and have now: a place of theirs was given back. */
static void try_users_again(struct file_life *f)
{
	if (!file_registry__has_refused(f->files))
		return;
	process_table__each(f->processes, SO_MAX_SLOTS, rescan_refused, f);
	file_registry__forget_refused(f->files);
}

/* Files for which there was no room, and is now. */
static void try_again(struct file_life *f)
{
	struct file_registry_stats files = file_registry__stats(f->files);
	bool again = files.full && file_registry__retire_full(f->files, f->collector->drains);

	if (files.refused_files != f->refused_seen && files.places < SO_MAX_FILES) {
		f->refused_seen = files.refused_files;
		again = true;
	}
	if (again)
		process_table__each(f->processes, SO_MAX_SLOTS, rescan, f);
	try_users_again(f);
}

static uint64_t look(struct file_life *f, uint64_t now)
{
	struct file_registry_stats files = file_registry__stats(f->files);
	bool hurry = is_in_hurry(f, &files), all;

	all = file_registry__retire_idle(f->files, hurry && HURRY_NS < f->idle_ns ? HURRY_NS : f->idle_ns,
					 f->collector->drains, now + STEP_NS);
	try_again(f);
	/* Nothing else does so while nothing is sampled. */
	if (now - f->collector->last_drain_ns > HURRY_NS)
		collector__drain(f->collector);
	if (f->state == FILES_REST && is_worth_marking(f, now, hurry))
		begin_marking(f, now);
	return now + (!all ? PAUSE_NS : hurry && HURRY_NS < f->look_ns ? HURRY_NS : f->look_ns);
}

uint64_t file_life__tick(struct file_life *f, uint64_t now)
{
	struct file_registry_stats files = file_registry__stats(f->files);
	uint64_t next;

	if (!files.idle && !files.retired && !files.full && files.refused_files == f->refused_seen &&
	    !file_registry__has_refused(f->files))
		return UINT64_MAX;
	if (now >= f->next_look_ns)
		f->next_look_ns = look(f, now);
	next = f->next_look_ns;
	if (f->state == FILES_REST)
		return next;
	if (now >= f->next_step_ns)
		f->next_step_ns = step(f, now);
	return f->state != FILES_REST && f->next_step_ns < next ? f->next_step_ns : next;
}

void file_life__count(struct file_life *f)
{
	struct file_registry_stats files = file_registry__stats(f->files);
	struct table_pool_stats pool = table_pool__stats(f->pool);

	limits__set(LIMIT_FILES, files.places);
	limits__set(LIMIT_TABLE_BYTES, (pool.rows + pool.index_words) * sizeof(uint32_t));
	limits__hit(LIMIT_FILES, files.refused_files - f->files_hit_seen);
	limits__hit(LIMIT_FILES, files.refused_shares - f->shares_hit_seen);
	limits__hit(LIMIT_TABLE_BYTES, files.refused_tables - f->tables_hit_seen);
	limits__set(LIMIT_UNWIND_RULES, pool.rules);
	limits__hit(LIMIT_UNWIND_RULES, pool.rules_refused - f->rules_hit_seen);
	f->rules_hit_seen = pool.rules_refused;
	f->files_hit_seen = files.refused_files;
	f->shares_hit_seen = files.refused_shares;
	f->tables_hit_seen = files.refused_tables;
}
