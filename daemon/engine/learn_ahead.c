// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Code without rules seldom comes alone: where one function is met, those around it are learned ahead, so that they do
 * not each take a sample to be noticed. A region is looked at once.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/engine/learn.h"

#define AHEAD_SHIFT         20 /* log2 of a region's bytes */
#define AHEAD_MAX_FUNCTIONS 4096
#define AHEAD_BATCH         16 /* between two looks at what else the thread has to do */
#define AHEAD_MAX_JOBS      256
#define AHEAD_REST_NS \
	600000000000ull /* of a region that was looked at, even where there are more than have a place */

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
static bool drop_finished(struct engine *e)
{
	struct ahead_job **at = &e->ahead, *job;

	while (*at && (!(*at)->finished || clock__now_ns() - (*at)->finished_ns < AHEAD_REST_NS))
		at = &(*at)->next;
	job = *at;
	if (!job)
		return false;
	*at = job->next;
	free(job);
	return true;
}

void learn__plan_ahead(struct engine *e, pid_t tgid, uint32_t file, uint64_t vaddr)
{
	uint64_t region = vaddr >> AHEAD_SHIFT << AHEAD_SHIFT;
	struct ahead_job **at = &e->ahead, *job;
	unsigned n = 0;

	for (; *at; at = &(*at)->next, n++) {
		if ((*at)->file == file && (*at)->region == region)
			return;
	}
	if (n >= AHEAD_MAX_JOBS && !drop_finished(e))
		return;
	job = calloc(1, sizeof(*job));
	if (!job)
		return;
	job->tgid = tgid;
	job->file = file;
	job->region = region;
	job->met = vaddr;
	for (at = &e->ahead; *at; at = &(*at)->next)
		;
	*at = job;
	pthread_cond_signal(&e->scan_wanted);
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
static void list_functions(struct engine *e, struct ahead_job *job)
{
	job->functions = calloc(AHEAD_MAX_FUNCTIONS, sizeof(*job->functions));
	if (job->functions)
		job->n = file_registry__functions(e->files, job->file, job->region,
						  job->region + (1ull << AHEAD_SHIFT), job->functions,
						  AHEAD_MAX_FUNCTIONS);
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

/*
 * Those of the functions that nothing is known of, nearest first. The file's rows are walked once for all of them: samples
 * that wait to be unwound need the lock.
 */
static void sort_out_known(struct engine *e, struct ahead_job *job)
{
	struct sorting s = {
		.code = file_registry__learned(e->files, job->file),
		.functions = job->functions,
		.n = job->n,
	};

	job->n = 0;
	if (!s.code || !s.n)
		return;
	if (!file_registry__each_row(e->files, job->file, s.functions[0].start, s.functions[s.n - 1].start + 1,
				     on_row, &s))
		sort_out_up_to(&s, UINT64_MAX);
	job->n = s.kept;
	qsort_r(job->functions, job->n, sizeof(*job->functions), compare_nearness, &job->met);
	job->publish_at = AHEAD_BATCH;
}

/* Called without the lock. Functions that are not understood are left for a sample to meet. */
static void follow_functions(struct engine *e, const struct ahead_job *job, size_t n, struct effect_rows *rows)
{
	struct learn_reader r = { .files = e->files, .file = job->file };

	if (!e->effects_ahead && effect_reader__new(&e->effects_ahead))
		return;
	for (size_t i = 0; i < n; i++) {
		const struct elf_symbol *f = &job->functions[job->done + i];

		stack_effect__follow(e->effects_ahead, learn__read_code, &r, f->start, f->start,
				     f->start + f->size, &rows[i]);
	}
}

static void end_batch(struct engine *e, struct ahead_job *job, size_t n, struct effect_rows *rows)
{
	struct learned_code *code = file_registry__learned(e->files, job->file);

	for (size_t i = 0; i < n; i++) {
		learned_code__add(code, &rows[i]);
		effect_rows__release(&rows[i]);
	}
	job->done += n;
	if (job->done < job->publish_at && job->done < job->n)
		return;
	job->publish_at *= 4;
	learn__note(e, job->tgid, job->file, 0);
	engine_publish_learned(e);
}

bool engine_learn_ahead(struct engine *e)
{
	struct effect_rows rows[AHEAD_BATCH] = { 0 };
	struct ahead_job *job = e->ahead;
	size_t n;

	while (job && job->finished)
		job = job->next;
	if (!job)
		return false;
	e->scan_busy = true;
	if (!job->listed) {
		pthread_mutex_unlock(&e->lock);
		list_functions(e, job);
		pthread_mutex_lock(&e->lock);
		sort_out_known(e, job);
	}
	n = job->n - job->done < AHEAD_BATCH ? job->n - job->done : AHEAD_BATCH;
	if (n) {
		pthread_mutex_unlock(&e->lock);
		follow_functions(e, job, n, rows);
		pthread_mutex_lock(&e->lock);
		end_batch(e, job, n, rows);
	}
	if (job->done == job->n) {
		free(job->functions);
		job->functions = NULL;
		job->finished = true;
		job->finished_ns = clock__now_ns();
	}
	e->scan_busy = false;
	return true;
}

void engine_mark_ahead(const struct engine *e, struct file_set *set)
{
	for (const struct ahead_job *job = e->ahead; job; job = job->next) {
		if (!job->finished)
			file_set__add(set, job->file);
	}
}

void engine_tidy_ahead(struct engine *e)
{
	struct ahead_job **at = &e->ahead, *job;

	while ((job = *at)) {
		if (!job->finished || file_registry__get(e->files, job->file)) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		free(job);
	}
}

void engine_forget_ahead(struct engine *e)
{
	while (e->ahead) {
		struct ahead_job *job = e->ahead;

		e->ahead = job->next;
		free(job->functions);
		free(job);
	}
	effect_reader__free(e->effects_ahead);
	e->effects_ahead = NULL;
}
