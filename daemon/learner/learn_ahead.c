// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/learner/learn_ahead.h"

#include <stdlib.h>

#include "daemon/os/clock.h"

#define AHEAD_SHIFT         20 /* log2 of a region's bytes */
#define AHEAD_MAX_FUNCTIONS 4096
#define AHEAD_BATCH         16 /* between two looks at what else the thread has to do */
#define AHEAD_MAX_JOBS      256
/* Of a region that was looked at, even where there are more than have a place. */
#define AHEAD_REST_NS 600000000000ull

struct ahead_job {
	struct ahead_job *next;
	pid_t tgid; /* whose sample it was */
	uint32_t file;
	uint64_t region, met; /* table's addresses; met: the one that a sample stood at */
	struct elf_symbol *functions;
	size_t n, done;
	size_t publish_at; /* number done at which the kernel gets what is learned so far */
	bool listed, finished;
	uint64_t finished_ns;
};

/* The note that a region has been looked at: of the one that was planned first. False: none is done, or has rested. */
static bool drop_finished(struct learn_ahead *a)
{
	struct ahead_job **at = &a->jobs, *job;

	while (*at && (!(*at)->finished || clock__now_ns() - (*at)->finished_ns < AHEAD_REST_NS))
		at = &(*at)->next;
	job = *at;
	if (!job)
		return false;
	*at = job->next;
	free(job);
	return true;
}

void learn_ahead__plan(struct learn_ahead *a, pid_t tgid, uint32_t file, uint64_t vaddr)
{
	uint64_t region = vaddr >> AHEAD_SHIFT << AHEAD_SHIFT;
	struct ahead_job **at = &a->jobs, *job;
	unsigned n = 0;

	for (; *at; at = &(*at)->next, n++) {
		if ((*at)->file == file && (*at)->region == region)
			return;
	}
	if (n >= AHEAD_MAX_JOBS && !drop_finished(a))
		return;
	job = calloc(1, sizeof(*job));
	if (!job)
		return;
	job->tgid = tgid;
	job->file = file;
	job->region = region;
	job->met = vaddr;
	for (at = &a->jobs; *at; at = &(*at)->next)
		;
	*at = job;
	scan_queue__wake(a->scans);
}

static int compare_nearness(const void *a, const void *b, void *context)
{
	const struct elf_symbol *x = a, *y = b;
	uint64_t met = *(uint64_t *)context;
	uint64_t dx = x->start > met ? x->start - met : met - x->start;
	uint64_t dy = y->start > met ? y->start - met : met - y->start;

	return dx < dy ? -1 : dx > dy;
}

/* Called without the lock: symbols may have to be read first. */
static void list_functions(struct learn_ahead *a, struct ahead_job *job)
{
	job->functions = calloc(AHEAD_MAX_FUNCTIONS, sizeof(*job->functions));
	if (job->functions)
		job->n = file_registry__functions(a->files, job->file, job->region, job->region + (1ull << AHEAD_SHIFT),
						  job->functions, AHEAD_MAX_FUNCTIONS);
	job->listed = true;
}

/* Functions in order of address, met by the rows of their file in that order. */
struct sorting {
	const struct learned_code *code;
	struct elf_symbol *functions;
	size_t n, next, kept;
	bool none; /* the last row says that there is no rule */
};

static void sort_out_up_to(struct sorting *s, uint64_t address)
{
	for (; s->next < s->n && s->functions[s->next].start < address; s->next++) {
		if (s->none && !learned_code__find(s->code, s->functions[s->next].start))
			s->functions[s->kept++] = s->functions[s->next];
	}
}

static void on_row(void *context, uint64_t address, const struct so_unwind_rule *rule)
{
	struct sorting *s = context;

	sort_out_up_to(s, address);
	s->none = !rule;
}

/* Functions that nothing is known of, nearest first, in one walk of the file's rows: waiting samples need the lock. */
static void sort_out_known(struct learn_ahead *a, struct ahead_job *job)
{
	struct sorting s = {
		.code = file_registry__learned(a->files, job->file),
		.functions = job->functions,
		.n = job->n,
	};

	job->n = 0;
	if (!s.code || !s.n)
		return;
	if (!file_registry__each_row(a->files, job->file, s.functions[0].start, s.functions[s.n - 1].start + 1, on_row,
				     &s))
		sort_out_up_to(&s, UINT64_MAX);
	job->n = s.kept;
	qsort_r(job->functions, job->n, sizeof(*job->functions), compare_nearness, &job->met);
	job->publish_at = AHEAD_BATCH;
}

struct code_place {
	struct file_registry *files;
	uint32_t file;
};

/* An effect_read_fn. */
static size_t read_code(void *context, uint64_t address, void *buf, size_t size)
{
	const struct code_place *place = context;

	return file_registry__read_code(place->files, place->file, address, buf, size);
}

/* Called without the lock. Functions that are not understood are left for a sample to meet. */
static void follow_functions(struct learn_ahead *a, const struct ahead_job *job, size_t n, struct effect_rows *rows)
{
	struct code_place place = { a->files, job->file };

	if (!a->effects && effect_reader__new(&a->effects))
		return;
	for (size_t i = 0; i < n; i++) {
		const struct elf_symbol *f = &job->functions[job->done + i];

		stack_effect__follow(a->effects, read_code, &place, f->start, f->start, f->start + f->size, &rows[i]);
	}
}

static void end_batch(struct learn_ahead *a, struct ahead_job *job, size_t n, struct effect_rows *rows)
{
	struct learned_code *code = file_registry__learned(a->files, job->file);

	for (size_t i = 0; i < n; i++) {
		learned_code__add(code, &rows[i]);
		effect_rows__release(&rows[i]);
	}
	job->done += n;
	if (job->done < job->publish_at && job->done < job->n)
		return;
	job->publish_at *= 4;
	learn_notes__add(a->notes, job->tgid, job->file, 0);
	learn_notes__publish(a->notes);
}

bool learn_ahead__work(struct learn_ahead *a)
{
	struct effect_rows rows[AHEAD_BATCH] = { 0 };
	struct ahead_job *job = a->jobs;
	size_t n;

	while (job && job->finished)
		job = job->next;
	if (!job)
		return false;
	if (!job->listed) {
		pthread_mutex_unlock(a->lock);
		list_functions(a, job);
		pthread_mutex_lock(a->lock);
		sort_out_known(a, job);
	}
	n = job->n - job->done < AHEAD_BATCH ? job->n - job->done : AHEAD_BATCH;
	if (n) {
		pthread_mutex_unlock(a->lock);
		follow_functions(a, job, n, rows);
		pthread_mutex_lock(a->lock);
		end_batch(a, job, n, rows);
	}
	if (job->done == job->n) {
		free(job->functions);
		job->functions = NULL;
		job->finished = true;
		job->finished_ns = clock__now_ns();
	}
	return true;
}

void learn_ahead__mark(const struct learn_ahead *a, struct file_set *set)
{
	for (const struct ahead_job *job = a->jobs; job; job = job->next) {
		if (!job->finished)
			file_set__add(set, job->file);
	}
}

void learn_ahead__tidy(struct learn_ahead *a)
{
	struct ahead_job **at = &a->jobs, *job;

	while ((job = *at)) {
		if (!job->finished || file_registry__get(a->files, job->file)) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		free(job);
	}
}

void learn_ahead__forget(struct learn_ahead *a)
{
	while (a->jobs) {
		struct ahead_job *job = a->jobs;

		a->jobs = job->next;
		free(job->functions);
		free(job);
	}
	effect_reader__free(a->effects);
	a->effects = NULL;
}
